//! Makes objects of sealed buffers, puts them into the store, and hands them on in order.
//!
//! - **In**: [`Sealed`] buffers, in order.
//! - **Out**: one durable object each, its bytes in the cache, its pointers on their way to the shards.
//! - **Promises**: pointers leave only after the store acknowledged the object (a [`Durable`] is asked for); uploads
//!   overlap, but objects are handed on in the order of their sequences; a sequence is never used for two contents; a
//!   PUT that takes longer than most is sent again as another attempt, so that one that hangs does not hold up the rest.
//! - **Never does**: delete; name an object whose upload failed (it stays an orphan for the sweep).
//! - **Limits**: [`UPLOADS_MAX`] at once, [`OBJECTS_IN_FLIGHT_MAX`] between upload and verdict.
//!
//! ```text
//! seal ─▶ assemble (the one copy) ─▶ PUT ─▶ cache ─▶ commit (per shard) ─▶ verdict per batch
//! ```

mod assemble;
mod poison;
mod uploader;

pub use poison::Poison;
pub use uploader::{Counters, Sealed, Settings, Uploader};

use crate::batch::{Header, ValidBatch};
use crate::commit::Reply;
use crate::shard::{Sequence, Slot};
use crate::types::{Memory, Partition, ShardId};

/// Uploads at once.
pub const UPLOADS_MAX: usize = 16;

/// Objects between the start of their upload and their last verdict: fewer than a shard remembers.
pub const OBJECTS_IN_FLIGHT_MAX: usize = 64;

/// One batch on its way, with somebody waiting for its verdict.
pub struct Pending {
    pub shard: ShardId,
    pub slot: Slot,
    pub partition: Partition,
    pub batch: ValidBatch,
    /// The number of the transaction that it is part of.
    pub transaction: Option<u64>,
    pub reply: Reply,
    /// The request's share of the memory budget: held until the bytes are in the store, whoever still waits.
    pub memory: Memory,
}

impl Pending {
    /// What its producer claims of it, and which transaction it is part of.
    pub fn claim(&self) -> Option<Sequence> {
        Some(Sequence { transaction: self.transaction, ..claim_of(&self.batch)? })
    }
}

/// The idempotent producer's claim, if the batch has one.
pub fn claim_of(batch: &ValidBatch) -> Option<Sequence> {
    let Header { producer, base_sequence, .. } = *batch.header();
    (producer.id >= 0).then_some(Sequence { producer, base: base_sequence, transaction: None })
}
