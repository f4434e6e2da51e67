//! What the harness asks of a system under test. Another system is another file that implements this.

use std::collections::BTreeMap;

use anyhow::Result;
use async_trait::async_trait;

use crate::ground::{Ground, Zone};
use crate::store::Requests;

/// Bytes that left their zone for another, by what they were for. A system's own names.
pub type BytesByKind = BTreeMap<String, u64>;

/// Which clients ask: a system may give each their own listener, to count them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Producer,
    Consumer,
}

/// One broker in each zone unless it says otherwise; replication factor 3, two acknowledgements of three.
#[async_trait(?Send)]
pub trait System {
    fn name(&self) -> String;

    /// Starts everything inside `ground` and returns when every broker knows every broker. What was started ends with
    /// the value.
    async fn start(&mut self, ground: &Ground) -> Result<()>;

    /// Where clients of a zone begin.
    fn bootstrap(&self, zone: Zone, role: Role) -> String;

    /// Of the brokers that run.
    fn pids(&self) -> Vec<u32>;

    /// Bytes across zones up to now by kind, as far as the system tells; payload of TCP.
    fn bytes_by_kind(&self, ground: &Ground) -> Result<BytesByKind>;

    /// What each zone asked of an object store; nothing where there is none.
    fn store_requests(&self, ground: &Ground) -> Result<Vec<Requests>>;

    /// Batches of records in stored objects so far, where the system tells: how much its clients send at once decides how
    /// much it has to say about an object.
    fn batches(&self, _ground: &Ground) -> Result<Option<u64>> {
        Ok(None)
    }

    /// GETs so far that were sent beside one that took long, where the system tells.
    fn get_hedges(&self, _ground: &Ground) -> Result<u64> {
        Ok(0)
    }

    /// Ends the broker of `zone` for good, with its disk, and starts an empty one in its place.
    async fn replace_broker(&mut self, ground: &Ground, zone: Zone) -> Result<()>;
}
