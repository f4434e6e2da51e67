//! What is committed, readable here: this broker's replicas of shards.
//!
//! - **In**: applied entries, from Raft.
//! - **Out**: [`Shards::get`] → [`Replica`]: a partition's state and pointers; a wake-up when a partition has news; word
//!   of bytes that waiting readers will want ([`Incoming`]), as soon as a pointer to them comes into the log.
//! - **Promises**: what a reader sees is applied, so it is committed; watermarks never step back.
//! - **Never does**: I/O, or waiting under its lock.
//! - **Limits**: waiting readers are bounded by the connections that wait.

mod read_index;
mod replica;
mod shards;

pub use read_index::{answer_read_index, read_index};
pub use replica::{Incoming, Replica, Waiter};
pub use shards::{OpenShard, Shards};
