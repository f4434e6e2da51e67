//! What a shard keeps for share groups (KIP-932): of each group and partition, how far delivery has come.
//!
//! - **In**: [`ShareEntry`], decided by the leader of the shard in one term, refused in any other.
//! - **Out**: [`Shares`], the same on every replica; a new leader delivers on from it.
//! - **Promises**: the start never goes back but by a new epoch; a change that was decided in an earlier epoch changes
//!   nothing; what is below the partition's log start is over.
//! - **Never knows**: who holds a record and until when. That is the leader's memory (`src/share`), and goes with it, so
//!   records that were held are delivered again, as in Kafka.
//! - **Limits**: the leader's window (`group.share.partition.max.record.locks`) bounds the runs of a partition.
//!
//! ```text
//!  done, forgotten │ done │ to be delivered (again) │ done │ never delivered
//! ─────────────────┼──────┴─────────────────────────┴──────┼────────────────▶ offsets
//!                start                                     end of the runs
//! ```

mod entry;
mod state;

#[cfg(test)]
mod share_test;

pub(super) use entry::SHARE;
pub use entry::{Change, ShareEntry, ShareUpdate};
pub use state::{Progress, Run, Shares};
