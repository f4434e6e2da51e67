//! Fetch (API 1) and what else Kafka asks of a partition's leader: every broker answers, from the applied state of a
//! replica here or elsewhere, with bytes from its own cache.
//!
//! - **In**: Fetch 4–18, ListOffsets 1–10, OffsetForLeaderEpoch 2–4, DescribeProducers 0.
//! - **Out**: record batches as Kafka clients expect them: base offset, leader epoch and append time patched into
//!   headers, bodies shared with the cache.
//! - **Promises**: only applied spans are shown; an offset that is not applied *yet* is waited for, never out of range;
//!   a reader of committed records gets those before the last stable offset, and which of them were aborted, from one
//!   applied state;
//!   ListOffsets(latest) is linearizable at every broker; the batch that contains the asked offset comes whole.
//! - **Never does**: decode records, except to find a timestamp; keep fetch sessions (each answer says "none", which
//!   clients take as: ask in full).
//! - **Limits**: the request's own byte limits, at most [`RESPONSE_BYTES_MAX`], and what
//!   [`AnswerMemory`](crate::types::AnswerMemory) gives before the bytes are gathered.
//!
//! ```text
//! locate (topic → shard) ─▶ news (pointers, from replicas) ─▶ read (cache) ─▶ assemble (patch)
//! ```

mod asked;
mod assemble;
mod describe_producers;
mod epoch_end;
mod handler;
mod list_offsets;
mod locate;
mod news;
mod prefetch;
mod read;
mod request;

pub(crate) use assemble::batches;
pub use handler::Fetch;
pub use prefetch::prefetch;
pub(crate) use read::{Missing, load_alone};

use crate::protocol::ErrorCode;
use crate::protocol::fetch::FetchResponse;

/// More is never gathered for one answer, whatever the client allows (Kafka: `fetch.max.bytes` of the broker).
pub const RESPONSE_BYTES_MAX: usize = 55 * 1024 * 1024;

/// An answer for whoever has to wait before he gets anything.
pub fn nothing() -> FetchResponse {
    let topics = Vec::new();
    FetchResponse { throttle_time_ms: 0, error: ErrorCode::None, session_id: 0, topics, node_endpoints: Vec::new() }
}
