//! What Raft carries, and what it means: pointer records and the pure state machine over them.
//!
//! - **In**: log entries ([`Entry`]), packed by the broker that took the bytes and stamped by the leader.
//! - **Out**: [`Effect`]: verdicts for those who sent batches, partitions with something new to read.
//! - **Promises**: the same log gives the same state on every replica. *Apply decides everything* (offsets, duplicates,
//!   order, fences) from applied state alone; a leader holds no state whose loss could change a verdict.
//!   Refusals are results, never errors.
//! - **Never knows**: async, clocks, wire formats of Kafka, the object store, record bytes.
//!   Groups and their committed offsets ([`group`]) are part of the same state, and so are transactional ids
//!   ([`transaction`]) and how far share groups have come ([`share`]).
//! - **Limits**: five batches remembered and five held per producer and partition; verdicts of the last 128 objects per broker.

mod chain;
pub mod entry;
pub mod group;
pub mod invariants;
mod marker;
mod partition;
mod pointer;
mod producer;
pub mod share;
mod snapshot;
mod stable;
mod state;
pub mod transaction;
mod trim;
mod verdict;

#[cfg(test)]
mod state_test;
#[cfg(test)]
mod transactions_test;

pub use chain::OBJECTS_REMEMBERED_MAX;
pub use entry::{Append, Batch, Create, DecodeError, Entry, Fence, Part, Release, Sequence, Slot};
pub use marker::{ANY_TRANSACTION, Markers, Target};
pub use partition::PartitionState;
pub use pointer::{BatchPointer, CONTROL_BATCH_BYTES, Control, PointerLog};
pub use producer::{OpenTransaction, ProducerState};
pub use snapshot::SnapshotError;
pub use stable::Aborted;
pub use state::{Effect, State};
pub use verdict::{Outcome, Refusal, Released, Verdict};
