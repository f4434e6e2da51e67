//! The cases. A name is a claim about the broker.

mod groups;
mod offsets;
mod produce;
mod topics;
mod transactions;
mod write;

use crate::suite::Run;

pub fn all() -> impl Iterator<Item = (&'static str, Run)> {
    topics::CASES
        .iter()
        .chain(produce::CASES)
        .chain(offsets::CASES)
        .chain(groups::CASES)
        .chain(transactions::CASES)
        .copied()
}
