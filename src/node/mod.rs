//! Wiring only: builds the rooms, hands them to each other, and takes them down in reverse.

#[cfg(test)]
mod classes_test;
#[cfg(test)]
mod cluster_test;
#[cfg(test)]
mod elsewhere_test;
#[cfg(test)]
mod fanout_test;
mod listeners;
#[cfg(test)]
mod moves_test;
mod router;
mod run;
#[cfg(test)]
mod served_test;
mod service;
mod snapshots;
#[cfg(test)]
pub mod testing;
mod throttling;
#[cfg(test)]
mod transactions_test;

pub use run::{Error, Node};
