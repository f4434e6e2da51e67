//! What a coordinator knows of its classic groups, and what it makes of what members ask: a pure state machine.
//!
//! - **In**: [`Ask`]s of members and tools, the passing of time, and the end of what was proposed to the log.
//! - **Out**: [`Command`]s: answers, and changes that the log shall decide.
//! - **Promises**: errors, timers and transitions are Kafka's (`GroupMetadataManager`, `ClassicGroup`,
//!   `OffsetMetadataManager`). An assignment is told to nobody before the log has it; a generation once told only grows.
//! - **Never does**: wait, read a clock, draw a random number, encode.
//! - **Limits**: [`Settings`]: members and waiting joins per group, bytes of their metadata, groups with members.
//!
//! ```text
//!            first join                  all joined, or late              leader's sync is in the log
//!   Empty ──────────────▶ PreparingRebalance ───────────▶ CompletingRebalance ───────────▶ Stable
//!     ▲                      │      ▲   ▲                          │                         │
//!     └── nobody is left ────┘      │   └── join, leave, silence ──┘                         │
//!                                   └────────── join, leave, silence ────────────────────────┘
//! ```
//!
//! A group that is empty and waits for nothing is not kept in memory: all of it is in the shard's state.

mod ask;
mod coordinator;
mod join;
mod live;
mod migrate;
mod offsets;
mod rebalance;
mod subscription;
mod sync;

#[cfg(test)]
mod test;

pub use ask::{
    Ask, Caller, Commit, Described, InTransaction, Join, JoinAnswer, Leaver, Listed, MemberDescribed, Reply, Sync,
    Waiter,
};
pub use coordinator::{Command, Coordinator, Settings, Then};
pub use live::GroupState;
