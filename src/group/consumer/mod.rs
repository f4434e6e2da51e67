//! What a coordinator knows of groups of the consumer protocol (KIP-848), and what it makes of what members say: a pure
//! state machine.
//!
//! - **In**: heartbeats and what tools ask, topics, the passing of time, and the end of what was proposed to the log.
//! - **Out**: [`Command`]s: answers, and changes that the log shall decide.
//! - **Promises**: epochs, errors and transitions are Kafka's (`GroupMetadataManager`, `CurrentAssignmentBuilder`). A
//!   partition has one owner: it is given to a member only when the one that had it has said that it let go of it, left,
//!   or was silent. Nothing is told to anybody before the log has it.
//! - **Never does**: wait, read a clock, draw a random number, encode.
//! - **Limits**: [`Settings`]: members per group, groups with members.
//!
//! ```text
//! a group:   members, subscriptions or topics change ─▶ epoch + 1 ─▶ targets of that epoch (assignor)
//! a member:  Stable ─▶ Unrevoked, until it has let go of what is not its target ─▶ its epoch is the group's:
//!              ▲          └──────────────────────────────────────────────────────▶ Unreleased, while others still own
//!              └──────────────── all of its target is its own ◀──────────────────────┘        some of its target
//! ```
//!
//! A group's changes are one entry at a time: what comes while one is on its way makes the next, together. When one
//! fails, those who wait are told so, and the group is again what the log has.
//!
//! # Decisions
//! **A group of the consumer protocol has one entry on its way at a time.** What comes meanwhile makes the next,
//! together, and answers wait for the entry that has what they tell: a group of any size costs an entry per round
//! trip, not one per heartbeat, and a failed one is undone by taking the group anew from applied state. Each names
//! the revision it makes, so one given up that came after all mixes with nothing. One member's step: < 100 B
//! (`a_step_of_one_member_costs_…`). Going back to the classic protocol needs none: the log keeps the former group
//! until the classic one has synced.
//!
//! **Assignors know nothing of racks** (nor do Kafka's newer ones): every zone reads every partition from its own
//! brokers, so balance alone counts. `uniform` is ours: it keeps what is even and moves the fewest; where
//! subscriptions differ, nobody has two more than somebody who could take one.
//!
//! **Patterns are matched by all places where a match can end**, on the parsed expression (`regex-syntax`, there
//! anyway, behind a translation of RE2's syntax): at most 250, as long as names are. Where repetitions are in
//! repetitions, what one round makes of a place is found once, else nesting would cost 2^depth. Automata would do as
//! well, but have a state for each count: `((x{100}){100}){100}`, which RE2/J takes, would be a million. Members learn
//! of their topics at once; Kafka resolves in the background.

mod ask;
mod assignor;
mod beat;
mod classics;
mod coordinator;
mod embedded;
mod live;
mod migrate;
mod offsets;
mod pattern;
mod reconcile;
mod saving;
mod target;

#[cfg(test)]
pub(super) mod test;

pub use ask::{Ask, Beat, Beaten, Described, MemberDescribed, Reply};
pub use assignor::Assignor;
pub use coordinator::{Command, Coordinator, Settings, Then};
pub use pattern::Pattern;
pub(super) use reconcile::each;

/// The epoch of a heartbeat that is the last one.
pub const LEAVES: i32 = -1;
/// Of a static member that will come back.
pub const LEAVES_FOR_NOW: i32 = -2;
