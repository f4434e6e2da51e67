//! Frames between nodes.
//!
//! **In:** requests of openraft and of the application to a node id. **Out:** their answers; requests of others, handed
//! to [`crate::serve`].
//!
//! A node dials each peer at most once per [`Lane`] and sends its requests there; answers come back on the same
//! connection. A handshake names cluster and nodes before anything else passes. What is queued for a peer leaves in one
//! write; beats and their answers may wait a little for company.
//!
//! **Promises:** requests of one task to one lane arrive in order while the connection lives; an error says whether the
//! request may have been delivered; a connection that makes no progress is reset.
//!
//! **Never:** retries a request, or trusts a length.
//!
//! **Limits:** frame length, bytes queued per connection, connections, requests in work per connection: see
//! [`crate::Config`].

mod connection;
mod frame;
mod handshake;
mod listener;
mod peers;
mod sender;
mod traffic;

#[cfg(test)]
mod transport_test;

pub(crate) use connection::Request;
pub(crate) use listener::{Reply, listen};
pub(crate) use peers::Peers;
pub use peers::call_address;
pub use traffic::PeerTraffic;
pub(crate) use traffic::Traffic;

/// Kinds from here on are Raft's own.
pub(crate) const FIRST_RAFT_KIND: u8 = 128;

pub(crate) mod kind {
    pub(crate) const APPEND: u8 = 128;
    pub(crate) const BEAT: u8 = 129;
    /// A beat that somebody waits for.
    pub(crate) const URGENT_BEAT: u8 = 130;
    pub(crate) const VOTE: u8 = 131;
    pub(crate) const PRE_VOTE: u8 = 132;
    pub(crate) const SNAPSHOT: u8 = 133;
    pub(crate) const TRANSFER: u8 = 134;
    pub(crate) const HANDSHAKE: u8 = 254;
    pub(crate) const PING: u8 = 255;
}

/// Name of one of Raft's own kinds, for metrics; `None` for the application's.
pub fn raft_kind_name(kind: u8) -> Option<&'static str> {
    Some(match kind {
        kind::APPEND => "append",
        kind::BEAT => "beat",
        kind::URGENT_BEAT => "urgent_beat",
        kind::VOTE => "vote",
        kind::PRE_VOTE => "pre_vote",
        kind::SNAPSHOT => "snapshot",
        kind::TRANSFER => "transfer",
        kind::HANDSHAKE => "handshake",
        kind::PING => "ping",
        _ => return None,
    })
}

/// Connections to a peer, by priority: large frames delay neither the application's small ones nor Raft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Raft = 0,
    Application = 1,
    Bulk = 2,
}

pub(crate) const LANES: usize = 3;

/// The bounds a connection works under.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) frame_bytes_max: usize,
    pub(crate) queue_bytes_max: usize,
    pub(crate) requests_max: usize,
    pub(crate) connections_max: usize,
    pub(crate) connect_timeout: std::time::Duration,
    pub(crate) progress_timeout: std::time::Duration,
    pub(crate) beat_hold: std::time::Duration,
    /// When the ticks of held beats are counted from: those of a node coincide, so that the beats of many groups to a
    /// peer leave together.
    pub(crate) ticks_from: tokio::time::Instant,
}

impl Limits {
    pub(crate) fn of(config: &crate::Config) -> Self {
        Limits {
            // A Raft message adds a few hundred bytes to the largest payload.
            frame_bytes_max: config.body_bytes_max + (64 << 10),
            queue_bytes_max: config.peer_queue_bytes_max,
            requests_max: config.inbound_requests_max,
            connections_max: config.connections_max,
            connect_timeout: config.connect_timeout,
            progress_timeout: config.progress_timeout,
            beat_hold: config.beat_hold,
            ticks_from: tokio::time::Instant::now(),
        }
    }
}
