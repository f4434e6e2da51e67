//! One window of a run: everything that grows is read before and after.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::ground::{Ground, Link};
use crate::load::{Clients, Seen};
use crate::process::{self, MachineTime};
use crate::store::Requests;
use crate::system::{BytesByKind, System};

/// Of TCP, IP and Ethernet with time stamps, for each packet.
const HEADER_BYTES: u64 = 66;
/// What no kind accounts for.
pub const OTHER: &str = "other";

/// What everything stood at, at one time.
pub struct Snapshot {
    at: Instant,
    links: Vec<Link>,
    kinds: BytesByKind,
    cpu: Duration,
    machine: MachineTime,
    requests: Vec<Requests>,
    batches: Option<u64>,
    seen: Vec<Seen>,
}

/// What happened between two snapshots.
#[derive(Default)]
pub struct Window {
    pub time: Duration,
    pub cross_bytes: u64,
    pub kinds: BytesByKind,
    pub cpu: Duration,
    /// The share of the machine's processor time that was used, by whomever.
    pub machine_busy: Option<f64>,
    /// By zone.
    pub requests: Vec<Requests>,
    pub batches: Option<u64>,
    /// By zone, from when the load began, before the window did.
    pub requests_since_begin: Vec<Requests>,
    /// Of those GETs, how many were hedges.
    pub get_hedges_since_begin: u64,
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
        let (kinds, batches) = (system.bytes_by_kind(ground)?, system.batches(ground)?);
        Ok(Snapshot { at, links, kinds, cpu, machine: MachineTime::now()?, requests, batches, seen })
    }

    /// From `before` to this one, taken of the same brokers and clients.
    pub fn since(self, before: Snapshot) -> Window {
        let mut window = Window::of_links(&before.links, &self.links, self.at - before.at);
        for (kind, now) in self.kinds {
            let then = before.kinds.get(&kind).copied().unwrap_or(0);
            // A connection that ended between the two is not counted any more.
            let bytes = now.saturating_sub(then).min(window.kinds[OTHER]);
            *window.kinds.entry(kind).or_default() += bytes;
            *window.kinds.entry(OTHER.to_owned()).or_default() -= bytes;
        }
        window.kinds.retain(|_, bytes| *bytes > 0);
        window.machine_busy = Some(self.machine.busy_since(before.machine));
        window.cpu = self.cpu.saturating_sub(before.cpu);
        window.requests = self.requests.into_iter().zip(before.requests).map(|(now, then)| now.since(then)).collect();
        window.batches = self.batches.zip(before.batches).map(|(now, then)| now.saturating_sub(then));
        window.seen = self.seen.into_iter().zip(&before.seen).map(|(now, then)| now.since(then)).collect();
        window
    }
}

impl Window {
    /// What crossed, as far as the links tell: headers and the rest.
    pub fn of_links(before: &[Link], after: &[Link], time: Duration) -> Window {
        let sum = |of: fn(&Link) -> u64| after.iter().map(of).sum::<u64>() - before.iter().map(of).sum::<u64>();
        let (cross_bytes, packets) = (sum(|link| link.sent_bytes), sum(|link| link.sent_packets));
        let headers = (packets * HEADER_BYTES).min(cross_bytes);
        let kinds = [("headers", headers), (OTHER, cross_bytes - headers)];
        let kinds = kinds.map(|(kind, bytes)| (kind.to_owned(), bytes)).into();
        Window { time, cross_bytes, kinds, ..Window::default() }
    }

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
