//! What is committed, readable here: this broker's replicas of shards, and those of other brokers, which are asked.
//!
//! - **In**: applied entries, from Raft; questions about partitions, from readers here and from other brokers.
//! - **Out**: [`Shards::get`] → [`Replica`]: a partition's state and pointers, a wake-up when a partition has news, word
//!   of bytes that waiting readers will want ([`Incoming`]), as soon as a pointer to them comes into the log;
//!   [`Replicas`]: the same for every shard of the cluster, by a small request where there is no replica here;
//!   [`Reigns`]: tasks for what a shard's leader keeps in memory, as long as this broker leads it.
//! - **Promises**: what a reader sees is applied, so it is committed; watermarks never step back, also when one replica
//!   answers after another; a linearizable answer has seen all that was committed when it was asked for.
//! - **Never does**: read record bytes, or wait under its lock.
//! - **Limits**: waiting readers are bounded by the connections that wait, and those that wait elsewhere in number.
//!
//! ```text
//!                            ┌─ a replica here that serves ─▶ local ─▶ question (pure)
//! Replicas::ask, ::news ─────┤
//!                            └─ none ─▶ wire ─▶ a replica elsewhere, the nearest first ─▶ its local
//! ```

mod local;
mod pointers;
mod question;
mod read_index;
mod reigns;
mod replica;
mod replicas;
mod shards;
mod wire;
#[cfg(test)]
mod wire_test;

pub use question::{AbortedFrom, Error, Found, ProducerSeen, Query, Question, Replies, Reply, bytes_of};
pub use read_index::{answer_read_index, read_index};
pub use reigns::{Office, Reigns, Term};
pub use replica::{Incoming, Replica};
pub use replicas::{Replicas, answer_questions};
pub use shards::{OpenShard, Shards};
