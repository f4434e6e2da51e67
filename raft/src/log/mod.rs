//! The log all groups of a node share.
//!
//! **In:** appends, votes, truncations and purges of many groups ([`GroupLog`], one per group, is openraft's log
//! storage). **Out:** what was stored, from memory; and on start what a directory holds ([`recover()`]).
//!
//! One thread writes. It takes everything that is queued, writes it at once, syncs once, then tells everybody
//! ([`writer`]). Files are segments that are only ever appended to ([`record`] is the format); a segment goes when
//! nothing in it is alive, and what quiet groups keep alive in the oldest one is copied forward when the dead bytes
//! outweigh the living ([`segments`]).
//!
//! **Promises:** a vote or an append is reported only after its sync; after a failed write or sync nothing is reported
//! as done ever again; recovery cuts only what a crash can have torn from the end of the last segment, and refuses
//! everything else.
//!
//! **Never:** reads a segment while running except to copy it forward, or allocates file space ahead: sizes then grow
//! only with data that has arrived, so a complete record with a wrong checksum is damage and not a torn write.

mod copy_forward;
pub(crate) mod disk;
mod group_log;
pub(crate) mod record;
mod recover;
mod segments;
mod writer;

#[cfg(test)]
mod crash_test;
#[cfg(any(test, feature = "simulation"))]
pub(crate) mod disk_memory;
#[cfg(test)]
mod suite_test;

pub(crate) use group_log::GroupLog;
pub(crate) use recover::{GroupState, list, recover};
pub(crate) use segments::file_name;
pub(crate) use writer::{Log, LogConfig};
