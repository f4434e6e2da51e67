//! Puts the pointers of durable objects into the logs of their shards, in order, and brings back the verdicts.
//!
//! - **In**: [`Submission`]: what one durable object holds for one shard, with somebody waiting for each batch.
//! - **Out**: a [`Verdict`](crate::shard::Verdict) per batch, from applied state only. Ends of transactions go the same way
//!   ([`Endings`]), but need no lane: their numbers make their order.
//! - **Promises**: objects of this broker reach a shard in the order of their sequences; a request that was lost, or
//!   answered by nobody, is asked again under the same object and finds its first verdict; *unknown* is never reported
//!   as failed.
//! - **Never does**: see record bytes; decide an offset (apply does).
//! - **Limits**: [`IN_FLIGHT_MAX`] requests per shard on their way; a submission is given up (outcome unknown) after
//!   its deadline.
//!
//! ```text
//! upload ─▶ Lane (one per shard, on every broker) ══RPC══▶ Sequencer (one per shard, on its leader) ─▶ Raft ─▶ apply
//! ```

mod expiry;
mod held;
mod lane;
mod markers;

mod run;
mod sequencer;
mod slots;
mod trim;
mod underway;
mod waits;
mod wire;

pub use expiry::forget_idle_producers;
pub use lane::{Error, Lanes, Submission};
#[cfg(test)]
pub(crate) use markers::decode as decode_ending;
pub use markers::{Ending, Endings};
pub use sequencer::{Sequencer, Sequencers};
#[cfg(test)]
pub(crate) use slots::decode as decode_slots;
pub use slots::{SlotError, Slots, answer_slots};
pub use trim::{Trimmed, trim};
#[cfg(test)]
pub(crate) use trim::{decode_trimmed, decode_wanted};
pub use underway::{Reply, Ticket, Underway, Waiting};
pub use waits::PREDECESSORS_MAX;
pub(crate) use wire::decode_outcome;
#[cfg(test)]
pub(crate) use wire::encode_outcome;
pub use wire::{IN_FLIGHT_MAX, split_shard, with_shard};
