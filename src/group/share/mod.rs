//! What a coordinator knows of share groups (KIP-932), and what it makes of what members say: a pure state machine.
//!
//! - **In**: heartbeats and what is asked of groups, topics, the passing of time, and the end of what was proposed to
//!   the log.
//! - **Out**: [`Command`]s: answers, and changes that the log shall decide.
//! - **Promises**: epochs and errors are Kafka's (`GroupMetadataManager.shareGroupHeartbeat`). Every partition that somebody
//!   is subscribed to is some member's; several may have it, and nobody has to let go first. Nothing is told to anybody
//!   before the log has it. A group without members stays until it is deleted, and stays a share group.
//! - **Never does**: wait, read a clock, draw a random number, encode; know which records a member has.
//! - **Limits**: [`Settings`]: members per group, groups with members.
//!
//! ```text
//! a group:   members, subscriptions or topics change ─▶ epoch + 1 ─▶ partitions are dealt out for that epoch
//! a member:  its next heartbeat brings its epoch to the group's, and the partitions it has now
//! ```
//!
//! Changes go into the log as those of the consumer protocol do: one entry of a group at a time (`group/saving.rs`).
//!
//! # Decisions
//! **A member has one assignment, not a present and a coming one.** Kafka keeps both, and a member that has not sent a
//! heartbeat yet is described with its former partitions. Nothing waits for a member to let go, so here it is described
//! with what it will be told. It is told whenever its epoch moves or it says all there is to say; Kafka leaves it out
//! when the partitions are the same.
//!
//! **Partitions are initialised where they are read**, by the first member that asks for records; Kafka's coordinator
//! does it when somebody subscribes, and assigns a partition only then. So `share.auto.offset.reset` counts from the
//! first fetch on, which follows the assignment at once.

mod ask;
mod assignor;
mod beat;
mod classics;
mod coordinator;
mod live;

#[cfg(test)]
mod test;

pub use ask::{Ask, Beat, Described, MemberDescribed, Reply};
pub use coordinator::{Command, Coordinator, Settings, Then};

/// The epoch of a heartbeat that is the last one.
pub const LEAVES: i32 = -1;
/// Kafka's name of how partitions are given to members (`SimpleAssignor`).
pub const ASSIGNOR: &str = "simple";
