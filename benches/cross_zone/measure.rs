//! One window of a run: everything that grows is read before and after.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::ground::{Ground, Link};
use crate::load::{Clients, Seen};
use crate::process;
use crate::store::Requests;
use crate::system::{BytesByKind, System};

/// Of TCP, IP and Ethernet with time stamps, for each packet.
pub const HEADER_BYTES: u64 = 66;

/// What everything stood at, at one time.
pub struct Snapshot {
    at: Instant,
    links: Vec<Link>,
    kinds: BytesByKind,
    cpu: Duration,
    requests: Vec<Requests>,
    seen: Vec<Seen>,
}

/// What happened between two snapshots.
#[derive(Default)]
pub struct Window {
    pub time: Duration,
    pub cross_bytes: u64,
    pub cross_packets: u64,
    pub kinds: BytesByKind,
    pub cpu: Duration,
    /// By zone.
    pub requests: Vec<Requests>,
    /// By zone.
    pub seen: Vec<Seen>,
}

impl Snapshot {
    pub async fn take(ground: &Ground, system: &dyn System, clients: &mut [Clients]) -> Result<Snapshot> {
        let (at, links) = (Instant::now(), ground.links()?);
        let mut seen = Vec::with_capacity(clients.len());
        for zone in clients {
            seen.push(zone.mark().await?);
        }
        let (cpu, requests) = (process::cpu(&system.pids())?, system.store_requests(ground)?);
        Ok(Snapshot { at, links, kinds: system.bytes_by_kind(ground)?, cpu, requests, seen })
    }

    /// From `before` to this one, taken of the same brokers and clients.
    pub fn since(self, before: Snapshot) -> Window {
        let sum = |links: &[Link], of: fn(&Link) -> u64| links.iter().map(of).sum::<u64>();
        let (bytes, packets) = (|link: &Link| link.sent_bytes, |link: &Link| link.sent_packets);
        let cross_bytes = sum(&self.links, bytes) - sum(&before.links, bytes);
        let cross_packets = sum(&self.links, packets) - sum(&before.links, packets);
        let mut kinds: BytesByKind = BTreeMap::new();
        for (kind, now) in self.kinds {
            let then = before.kinds.get(&kind).copied().unwrap_or(0);
            // A connection that ended between the two is not counted any more.
            kinds.insert(kind, now.saturating_sub(then));
        }
        let told: u64 = kinds.values().sum();
        let headers = (cross_packets * HEADER_BYTES).min(cross_bytes);
        kinds.insert("headers".to_owned(), headers);
        kinds.insert("other".to_owned(), cross_bytes.saturating_sub(told + headers));
        kinds.retain(|_, bytes| *bytes > 0);
        Window {
            time: self.at - before.at,
            cross_bytes,
            cross_packets,
            kinds,
            cpu: self.cpu.saturating_sub(before.cpu),
            requests: self.requests.into_iter().zip(before.requests).map(|(now, then)| now.since(then)).collect(),
            seen: self.seen.into_iter().zip(&before.seen).map(|(now, then)| now.since(then)).collect(),
        }
    }
}

impl Window {
    /// Of all zones' clients together.
    pub fn all_seen(&self) -> Seen {
        let mut all = Seen::default();
        self.seen.iter().for_each(|seen| all.add(seen));
        all
    }

    pub fn bytes_per_second(&self) -> f64 {
        self.cross_bytes as f64 / self.time.as_secs_f64()
    }
}
