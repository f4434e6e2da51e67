//! Wiring only: builds the rooms, hands them to each other, and takes them down in reverse.

mod router;
mod run;
mod service;
mod snapshots;
#[cfg(test)]
mod served_test;
#[cfg(test)]
pub mod testing;

pub use run::{Error, Node};
