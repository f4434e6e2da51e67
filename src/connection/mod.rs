//! The first room: sockets of Kafka clients.
//!
//! In: TCP connections. Out: a [`Request`] for the [`Router`], and the bytes of its answer back.
//!
//! Promises: requests of one connection are started in the order they came and may overlap; their
//! answers leave in that order. A frame is charged against the shared memory budget before its body is
//! read, and until its answer is made: no budget, no reading. What decoding may take beyond is charged only while it
//! decodes, to a budget of its own: a frame that is announced and does not come takes none of it. Answers have a
//! budget of their own, of which slow readers get a part and no more ([`Answers`](crate::types::Answers)). What one
//! client sends can close its own connection and nothing else.
//!
//! Never: what a request means. Only ApiVersions is answered here, since it describes this room.
//!
//! Limits: [`Limits`]; frames other than Produce are at most [`CONTROL_FRAME_BYTES_MAX`].
//!
//! ```text
//! socket → frames → intake → Router::start → pending … → outbox → socket
//!            (size, api)  (budget, pipeline)  (in order)
//! ```
//!
//! # Decisions
//! **Slow readers share a part of their own.** An answer asks for memory before its bytes are gathered, and one that
//! is not taken within a second moves to the slow readers' part, which is given at once or not at all (then the
//! connection is closed, unless it takes 64 KiB/s). So what ordinary readers wait for comes back within about a
//! second. Closing at a deadline alone would let a thousand readers hold the budget for the whole of it. A slow
//! reader's answer is copied out of the cached objects: a slice of 1 MB would keep 8 MB alive that nobody counts;
//! fast readers never pay that copy.

mod frames;
pub(crate) mod intake;
mod metrics;
mod outbox;
mod server;
mod session;

#[cfg(test)]
mod server_test;

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{fmt, io};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;

pub use metrics::Metrics;
pub use server::Server;

use crate::batch::Segments;
use crate::protocol::{self, ApiKey, Features, StrBytes};
use crate::types::{AnswerMemory, Memory};

/// Largest frame of any API but Produce.
pub const CONTROL_FRAME_BYTES_MAX: usize = 4 * 1024 * 1024;

/// One request, its header taken off.
#[derive(Clone)]
pub struct Request {
    pub api: ApiKey,
    /// A version that the table of APIs serves.
    pub version: i16,
    pub correlation_id: i32,
    pub client_id: Option<StrBytes>,
    /// Shares the frame.
    pub body: Bytes,
    /// What the frame is charged. Held until there is an answer, and by whoever keeps bytes of it longer.
    pub memory: Memory,
    /// For rooms whose answers are large: asked for before the bytes are gathered.
    pub answer: AnswerMemory,
}

/// The other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Unique within this process.
    pub id: u64,
    pub address: SocketAddr,
    /// The name of the listener that accepted it.
    pub listener: Arc<str>,
    /// What the client is, and of which version, once it has said so (KIP-511).
    pub software: OnceLock<Arc<(String, String)>>,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{} ({})", self.listener, self.id, self.address)
    }
}

/// How a request ends.
#[derive(Debug)]
pub enum Outcome {
    /// The body of the answer; the connection puts the header of the right version before it.
    Reply(Segments),
    /// The client expects nothing (acks = 0).
    NoReply,
    /// As one of the above; then nothing is read from the connection for so long (KIP-219).
    Throttled(Option<Segments>, Duration),
    /// The connection is closed once the answers before this one are written.
    Close(Cow<'static, str>),
}

/// The rest of a request: polled together with the other requests of its connection.
pub type Pending = BoxFuture<'static, Outcome>;

/// Where requests go.
#[async_trait]
pub trait Router: Send + Sync + 'static {
    /// Awaited in request order, before the next request of the connection is read: it decodes,
    /// validates and enqueues, and waiting here is how a room pushes back. The answer may take longer:
    /// it is what the returned future yields. Dropped unfinished when the connection ends.
    async fn start(&self, peer: &Arc<Peer>, request: Request) -> Pending;

    /// # Errors
    /// Connections come too fast from this address: this one is to be closed after a while.
    fn connect(&self, _address: IpAddr) -> Result<(), Duration> {
        Ok(())
    }

    /// The connection is closed, whatever ended it.
    fn ended(&self, _peer: &Peer) {}

    /// What ApiVersions tells beside the table of APIs.
    fn features(&self) -> Features {
        Features::default()
    }
}

/// What clients may take from us.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Largest Produce frame.
    pub request_bytes_max: usize,
    /// Budget of all frames in progress on all connections. Decoding has up to 768 MiB, and no more than this, beside it.
    pub memory_bytes_max: usize,
    /// Budget of all answers being gathered or written; slow readers have half as much beside it.
    pub answer_bytes_max: usize,
    pub connections_max: usize,
    /// A connection with no request in progress is closed after this.
    pub idle_max: Duration,
    /// Requests of one connection in progress. librdkafka sends one for each partition and linger: with fewer, an object
    /// that takes a second to come together waits for requests that lie in sockets. A request other than Produce
    /// and Fetch counts as an eighth of it: see `intake.rs`.
    pub pipeline_max: usize,
    /// A peer that takes longer for one answer is slow: see [`Answers`](crate::types::Answers).
    pub slow_after: Duration,
    /// A peer that takes no byte of an answer for this long, or next to none for longer, is closed.
    pub write_stall_max: Duration,
    /// How long answers may still be written after the last request was read.
    pub drain_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            request_bytes_max: 100 * 1024 * 1024,
            memory_bytes_max: 1024 * 1024 * 1024,
            answer_bytes_max: 256 * 1024 * 1024,
            connections_max: 20_000,
            idle_max: Duration::from_secs(600),
            pipeline_max: 512,
            slow_after: Duration::from_secs(1),
            write_stall_max: Duration::from_secs(30),
            drain_max: Duration::from_secs(10),
        }
    }
}

/// Why a connection was closed by us. Nobody can act on it: it is logged and counted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("socket: {0}")]
    Io(#[from] io::Error),
    #[error("frame length {0} is not one of a request")]
    FrameLength(i32),
    #[error("{api:?} frame of {bytes} bytes exceeds the limit of {max}")]
    FrameTooLarge { api: ApiKey, bytes: usize, max: usize },
    #[error("connection ends within a frame")]
    CutFrame,
    #[error("frame of {bytes} bytes takes too long to arrive")]
    SlowFrame { bytes: usize },
    #[error("API {key} version {version} is not served")]
    Unsupported { key: i16, version: i16 },
    #[error(transparent)]
    Protocol(#[from] protocol::Error),
    #[error("peer does not take its answers")]
    SlowReader,
    #[error("answers are not ready in time")]
    DrainTimeout,
    #[error("{0}")]
    Closed(Cow<'static, str>),
}
