//! Groups as a shard keeps them: what was decided about members, and committed offsets.
//!
//! - **In**: [`GroupEntry`], decided by the coordinator (the shard's leader) and fenced by its term.
//! - **Out**: [`Groups`], the same on every replica; a new coordinator starts from it.
//! - **Promises**: an entry of another term changes nothing; a topic's deletion takes its committed offsets along;
//!   nothing is forgotten by a clock of this machine, only by entries.
//! - **Never knows**: sessions, timers, who waits for whom: that is the coordinator's memory (`src/group`).
//!
//! A group lives in the slot of its partition of `__consumer_offsets`; that partition has no records, only groups. Each
//! kind of group has a variant of [`Kind`] and entries of its own; all kinds share the committed offsets. Offsets committed
//! within a transaction wait for its marker beside the groups, by producer.

mod consumer;
mod consumer_entry;
mod entry;
mod modern;
mod pending;
mod share;
mod state;

#[cfg(test)]
mod group_test;

pub use consumer::{ClassicMember, Consumer, ConsumerChange, ConsumerMember, Current, MemberChange, MemberState, Who};
pub(super) use entry::{COMMIT, COMMITS, CONSUMER, DELETE_IF_UNUSED, SHARE, TRANSACTIONAL_COMMIT};
pub use entry::{Change, GroupCommit, GroupCommits, GroupEntry};
pub use modern::{Assignment, Modern, ModernChange};
pub use share::{Epochs, Share, ShareChange, ShareMember, ShareMemberChange, ShareWho};
pub use state::{Classic, Committed, Group, Groups, Kind, Member};
