//! Many Raft groups on one node.
//!
//! **What comes in:** opaque payloads to replicate ([`Group::propose`]), a deterministic [`StateMachine`] per group,
//! a place for snapshots ([`SnapshotStore`]), an address book ([`Node::set_address`]) and the application's own
//! requests ([`Service`]).
//!
//! **What goes out:** applied entries in one order on every replica, [`Leadership`] changes, answers to requests.
//!
//! **What it promises**
//! * An entry that [`Proposal`] answered is durable on a majority and applied here.
//! * Proposals of one task enter the log in the order of the calls, and only in the term they were meant for.
//! * [`ProposeError::NotLeader`] means "certainly not in the log"; [`ProposeError::Unknown`] means what it says.
//! * A vote is on disk before it is given; a write or sync that failed is never retried: the log is poisoned and every
//!   group on it becomes stopped, with the reason.
//! * A damaged log is refused with the file and the byte, never skipped; only the torn end that a crash leaves is cut.
//!
//! **What it never does:** look into a payload, know of objects, Kafka or zones, issue node ids, or read a clock for
//! anything but timers.
//!
//! **Limits:** frames and queues are bounded in bytes (see [`Config`]); a full queue is an error to the caller. Groups
//! cost a handful of tasks each: hundreds on a node, not thousands.

mod apply;
mod beats;
mod codec;
mod config;
mod data_dir;
pub mod door;
mod error;
mod group;
pub mod inspect;
mod log;
mod machine;
mod messages;
mod network;
mod node;
mod offers;
mod replica;
mod serve;
mod service;
#[cfg(feature = "simulation")]
pub mod simulation;
mod snapshot;
mod succession;
mod transport;
mod types;

#[cfg(test)]
mod cluster_test;
#[cfg(test)]
mod decoders_test;
#[cfg(test)]
mod quiet_test;
#[cfg(test)]
mod testing;

pub use config::{Config, Identity};
pub use error::{CallError, Corrupt, Error, ProposeError, ReadError, WaitError};
pub use group::{Group, Leadership, MemberProgress, Progress, Proposal};
pub use machine::{SnapshotStore, StateMachine};
pub use node::{LogSyncs, Node};
pub use service::Service;
pub use transport::{PeerTraffic, call_address, raft_kind_name};

/// A member of a cluster. Issued by the application, one per data directory, never used again after the directory is
/// lost; 0 stands for "not a member yet".
pub type NodeId = u64;

/// One Raft group.
pub type GroupId = u32;

/// A place in the log of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition {
    pub index: u64,
    pub term: u64,
}
