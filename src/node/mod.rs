//! Wiring only: builds the rooms, hands them to each other, and takes them down in reverse.

mod router;
mod run;
mod service;
mod snapshots;

pub use run::{Error, Node};
