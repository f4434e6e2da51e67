//! What is exchanged with whom. Every byte between zones is billed, so every byte is counted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::NodeId;

/// What was exchanged with one peer for one kind of request and its answers, frame heads included. Kind 254 is
/// handshakes, 255 keep-alives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerTraffic {
    /// 0 sums up callers that are not members.
    pub peer: NodeId,
    pub kind: u8,
    pub frames_sent: u64,
    pub bytes_sent: u64,
    pub frames_received: u64,
    pub bytes_received: u64,
}

#[derive(Default)]
struct KindCounters {
    frames_sent: AtomicU64,
    bytes_sent: AtomicU64,
    frames_received: AtomicU64,
    bytes_received: AtomicU64,
}

/// Callers name themselves: beyond this many names, they are counted together.
const PEERS_MAX: usize = 1_024;

/// Counters of one peer, a cheap clone.
#[derive(Clone)]
pub(crate) struct PeerCounters(Arc<[KindCounters]>);

impl PeerCounters {
    pub(super) fn new() -> Self {
        PeerCounters((0..=u8::MAX).map(|_| KindCounters::default()).collect())
    }

    pub(super) fn sent(&self, kind: u8, bytes: usize) {
        let counters = &self.0[usize::from(kind)];
        counters.frames_sent.fetch_add(1, Ordering::Relaxed);
        counters.bytes_sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn received(&self, kind: u8, bytes: usize) {
        let counters = &self.0[usize::from(kind)];
        counters.frames_received.fetch_add(1, Ordering::Relaxed);
        counters.bytes_received.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Counters of all peers.
#[derive(Clone, Default)]
pub(crate) struct Traffic(Arc<Mutex<BTreeMap<NodeId, PeerCounters>>>);

impl Traffic {
    pub(super) fn of(&self, peer: NodeId) -> PeerCounters {
        let mut peers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = peers.len() < PEERS_MAX || peers.contains_key(&peer);
        let peer = if known { peer } else { 0 };
        peers.entry(peer).or_insert_with(PeerCounters::new).clone()
    }

    pub(crate) fn report(&self) -> Vec<PeerTraffic> {
        let peers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut report = Vec::new();
        for (peer, counters) in peers.iter() {
            for (kind, counters) in (0..=u8::MAX).zip(counters.0.iter()) {
                let line = PeerTraffic {
                    peer: *peer,
                    kind,
                    frames_sent: counters.frames_sent.load(Ordering::Relaxed),
                    bytes_sent: counters.bytes_sent.load(Ordering::Relaxed),
                    frames_received: counters.frames_received.load(Ordering::Relaxed),
                    bytes_received: counters.bytes_received.load(Ordering::Relaxed),
                };
                if line.frames_sent + line.frames_received > 0 {
                    report.push(line);
                }
            }
        }
        report
    }
}
