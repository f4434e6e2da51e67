use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::protocol::ApiKey;

/// One more than the largest API key.
const API_KEYS: usize = 93;

/// What this room counts. Written by connections, read by whoever reports.
#[derive(Debug)]
pub struct Metrics {
    pub connections_open: AtomicU64,
    pub connections_accepted: AtomicU64,
    /// Turned away because too many were open.
    pub connections_refused: AtomicU64,
    /// Frames that closed their connection.
    pub frames_refused: AtomicU64,
    /// Frames that had to wait for the memory budget.
    pub memory_waits: AtomicU64,
    /// Connections closed because they did not take their answers.
    pub readers_dropped: AtomicU64,
    pub bytes_in: AtomicU64,
    pub bytes_out: AtomicU64,
    requests: [AtomicU64; API_KEYS],
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            connections_open: AtomicU64::new(0),
            connections_accepted: AtomicU64::new(0),
            connections_refused: AtomicU64::new(0),
            frames_refused: AtomicU64::new(0),
            memory_waits: AtomicU64::new(0),
            readers_dropped: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            requests: [const { AtomicU64::new(0) }; API_KEYS],
        }
    }
}

impl Metrics {
    /// Requests of `api` so far.
    pub fn requests(&self, api: ApiKey) -> u64 {
        self.requests.get(api as usize).map_or(0, |count| count.load(Relaxed))
    }

    pub(super) fn count_request(&self, api: ApiKey) {
        if let Some(count) = self.requests.get(api as usize) {
            count.fetch_add(1, Relaxed);
        }
    }
}
