//! Transactional ids as a shard keeps them: which producer holds an id, and what its transaction has reached.
//!
//! - **In**: [`TransactionEntry`], decided by the coordinator (the shard's leader) and fenced by its term.
//! - **Out**: [`Transactions`], the same on every replica; a new coordinator starts from it and ends what was prepared.
//! - **Promises**: an entry of another term, or one that was decided on an earlier revision of its id, changes nothing;
//!   the transactions of an id are counted without a gap ([`Transaction::txn_no`]).
//! - **Never knows**: who waits for whom, which markers are on their way: that is the coordinator's memory
//!   (`src/transaction`).
//!
//! An id lives in the slot of its partition of `__transaction_state`; that partition has no records. Times count on the
//! shard's clock ([`Groups::clock_ms`](super::group::Groups::clock_ms)).
//!
//! ```text
//!            Init                    Add                     Prepare                  Complete
//!   (none) ───────▶ Empty ───────────────────▶ Ongoing ──────────────────▶ Prepare* ───────────▶ Complete* ──▶ (Remove)
//!                     ▲                           ▲                                                 │  │
//!                     │                           └───────────────────── Add ───────────────────────┘  │
//!                     └──────────────────────────────────────── Init ──────────────────────────────────┘
//! ```

mod entry;
mod state;

#[cfg(test)]
mod transaction_test;

pub use entry::{Change, TransactionEntry};
pub(super) use entry::{INIT, REMOVE};
pub(crate) use entry::{put_partitions, read_partitions};
pub use state::{Phase, Transaction, Transactions};
