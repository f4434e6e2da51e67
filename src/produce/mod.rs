//! Produce (API 0) and WriteTxnMarkers (27): any broker takes batches for any partition.
//!
//! - **In**: a Produce request of versions 3 to 13.
//! - **Out**: valid batches to ingest, one verdict per partition back to the client.
//! - **Promises**: every batch is validated before it counts (a [`ValidBatch`](crate::batch::ValidBatch) is asked for);
//!   `acks=1` means the same as `acks=all`: durable in the store and applied by the shard. Success is answered only for
//!   what is applied.
//!   A transactional batch is taken in once its transaction is known ([`Verify`]).
//! - **Never does**: decode records, unless a rule demands it; wait for a leader before taking the bytes.
//! - **Limits**: topics and partitions per request ([`protocol::produce::Limits`](crate::protocol::produce::Limits)).

mod error;
mod failure;
mod recompress;
mod respond;
mod settings;
mod take;
mod verify;
mod write_txn_markers;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;

use crate::admin::Defaults;
use crate::batch::Segments;
use crate::cluster::Cluster;
use crate::commit::{Endings, Lanes, Slots, Underway};
use crate::index::Shards;
use crate::ingest::Ingest;
use crate::protocol::{self, ErrorCode, produce};
use crate::types::Memory;
use crate::upload::Poison;

pub use recompress::Recompressor;
pub use verify::Verify;

/// Longer waits are cut: a client that is gone must not hold memory.
const TIMEOUT_MAX: Duration = Duration::from_secs(120);

pub struct Produce {
    pub cluster: Cluster,
    pub slots: Arc<Slots>,
    pub ingest: Ingest,
    pub poison: Arc<Poison>,
    pub lanes: Arc<Lanes>,
    /// What was taken and has no verdict yet.
    pub underway: Arc<Underway>,
    /// What topics inherit that do not say.
    pub defaults: Defaults,
    pub recompressor: Recompressor,
    pub shards: Arc<Shards>,
    pub verify: Arc<dyn Verify>,
    pub endings: Endings,
}

/// How a Produce ends.
pub enum Answer {
    Reply(Segments),
    /// acks = 0 and all is well.
    Nothing,
    /// acks = 0 and something is not: Kafka closes the connection, since there is no other way to say so.
    Close(ErrorCode),
}

impl Produce {
    /// Takes the request's batches in; the future that comes back waits for the verdicts.
    ///
    /// # Errors
    /// The request cannot be decoded: close the connection.
    pub async fn start(
        self: &Arc<Self>,
        version: i16,
        body: Bytes,
        memory: Memory,
    ) -> Result<BoxFuture<'static, Result<Answer, protocol::Error>>, protocol::Error> {
        let request = produce::decode(version, body, &produce::Limits::default())?;
        let acks = request.acks;
        let timeout = Duration::from_millis(request.timeout_ms.max(0) as u64).min(TIMEOUT_MAX);
        let taken = self.take(version, request, memory).await;
        let this = self.clone();
        Ok(Box::pin(async move {
            let topics = this.verdicts(taken, timeout).await;
            match acks {
                0 => Ok(match respond::first_error(&topics) {
                    None => Answer::Nothing,
                    Some(error) => Answer::Close(error),
                }),
                _ => respond::encode(version, topics).map(Answer::Reply),
            }
        }))
    }
}
