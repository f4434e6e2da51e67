//! What the coordinator of transactions makes of what producers ask: a pure state machine.
//!
//! - **In**: [`Ask`]s, the passing of time, the end of what was proposed to the log, the end of writing markers; and for
//!   each of them the applied state of the id that it is about.
//! - **Out**: [`Command`]s: answers, changes that the log shall decide, transactions whose markers are to be written.
//! - **Promises**: errors and transitions are Kafka's (`TransactionCoordinator`, `TransactionMetadata`; KIP-98, KIP-360,
//!   KIP-890). One change of an id is on its way at a time, and every answer comes from applied state: nothing that is not
//!   in the log is told to anybody.
//! - **Never does**: wait, read a clock, issue a producer id, encode.
//! - **Limits**: [`Settings`]: asks that wait for one id, transactions whose markers are written at a time.
//!
//! Where Kafka answers CONCURRENT_TRANSACTIONS at once, an ask waits here for a moment first: until the change before it
//! is applied, or the markers are written. A client that is told to come again pays 20 to 100 ms each time.
//!
//! Two protocols share the states. Version 1: an epoch lives as long as its producer. Version 2 (KIP-890; EndTxn since 5,
//! Produce since 12): every end of a transaction raises the epoch, so that what comes late is of another epoch.

mod ask;
mod coordinator;
mod rules;

#[cfg(test)]
mod test;

pub use ask::{Add, Ask, End, Init, Reply, Waiter};
pub use coordinator::{Applied, Command, Coordinator, Ending, Moment, Settings};
