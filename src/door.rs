//! The one door to the outside, the same as the Raft crate's.

pub use milepost_raft::door::*;
