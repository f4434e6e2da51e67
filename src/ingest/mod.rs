//! Collects validated batches of all connections and decides when they become an object: one of one storage class.
//!
//! - **In**: [`Pending`](crate::upload::Pending) batches; only validated ones can be named.
//! - **Out**: sealed buffers to the uploader, in order.
//! - **Promises**: batches of one call stay together and in order; a buffer is sealed at once while the budget of
//!   requests allows it, else when it does, or at `object_bytes`. The number of partitions never seals.
//! - **Never does**: copy record bytes; look at a partition's state.
//! - **Limits**: what waits here is bounded by the connections' memory permits.
//!
//! Latency = PUT + commit while requests fit the budget; beyond it at most 1/budget more. The default of 10 requests a
//! second costs about $131 a month per broker when fully used (S3 Standard, $0.005 per 1,000).

mod budget;
mod buffer;

pub use buffer::{Closed, Ingest, Settings};
