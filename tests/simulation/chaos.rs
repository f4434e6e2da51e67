//! What goes wrong, and when: drawn from the seed, counted by kind.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use turmoil::Sim;

use crate::cluster::{BROKERS, Run, client_host, host};
use crate::store::Fault;

/// What the driver begins, by weight: processes and the network. The faults of the store are its own.
const BEGUN: [(&str, u32); 11] = [
    ("broker crashes", 4),
    ("broker crashes unheard", 4),
    ("broker restarts in order", 3),
    ("directory emptied", 3),
    ("pair of brokers cut", 2),
    ("pair cut one way", 2),
    ("broker cut from its peers", 2),
    ("broker cut from clients", 2),
    ("messages held and released", 2),
    ("latency jitters", 2),
    ("messages lost", 2),
];

/// What follows from others.
const FOLLOWING: [&str; 2] = ["crash tears unsynced bytes", "broker ends by itself"];

/// Every kind, for the report.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    BEGUN.iter().map(|(kind, _)| *kind).chain(FOLLOWING)
}

const LATENCY_MAX: Duration = Duration::from_millis(4);
/// Of the calls to the store, while one of its faults is on.
const STORE_FAULT_RATE: f64 = 0.25;

/// How a fault ends.
enum End {
    Start(i32),
    /// Both ways between two hosts.
    Heal(String, String),
    Release(String, String),
    Calm(String, String),
    Store(Fault),
}

pub struct Chaos {
    run: Rc<Run>,
    rng: StdRng,
    next: Duration,
    /// When and what; few at a time.
    ends: Vec<(Duration, End)>,
    down: Vec<i32>,
    may_empty: bool,
    counts: BTreeMap<&'static str, u64>,
}

impl Chaos {
    pub fn new(run: Rc<Run>, seed: u64) -> Chaos {
        let mut rng = StdRng::seed_from_u64(seed);
        let may_empty = rng.random_bool(0.6);
        Chaos {
            run,
            rng,
            next: Duration::from_secs(2),
            ends: Vec::new(),
            down: Vec::new(),
            may_empty,
            counts: BTreeMap::new(),
        }
    }

    pub fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }

    /// Called after every step. `more`: new faults may begin.
    pub fn step(&mut self, sim: &mut Sim<'_>, now: Duration, more: bool) {
        for (broker, in_order) in self.run.ended.take() {
            if !self.down.contains(&broker) {
                if !in_order {
                    *self.counts.entry("broker ends by itself").or_default() += 1;
                }
                self.stop(sim, broker);
                self.ends.push((now + Duration::from_secs(1), End::Start(broker)));
            }
        }
        let due: Vec<_> = self.ends.extract_if(.., |(at, _)| *at <= now).collect();
        due.into_iter().for_each(|(_, end)| self.end(sim, end));
        if more && now >= self.next {
            self.begin(sim, now);
            let pause_ms = self.rng.random_range(50..1_800);
            self.next = now + Duration::from_millis(pause_ms);
        }
    }

    /// Everything is made whole.
    pub fn heal(&mut self, sim: &mut Sim<'_>) {
        let hosts: Vec<String> = (1..=BROKERS).flat_map(|n| [host(n), client_host(n)]).collect();
        for (nth, a) in hosts.iter().enumerate() {
            for b in &hosts[nth + 1..] {
                sim.set_link_fail_rate(&**a, &**b, 0.0);
                sim.set_link_max_message_latency(&**a, &**b, LATENCY_MAX);
                sim.release(&**a, &**b);
                sim.repair(&**a, &**b);
            }
        }
        self.run.bucket.heal();
        self.ends.retain(|(_, end)| matches!(end, End::Start(_)));
    }

    /// All brokers, one after the other without a word, so that nothing is cached any more.
    pub fn restart_all(&mut self, sim: &mut Sim<'_>) {
        for broker in 1..=BROKERS {
            if !self.down.contains(&broker) {
                self.stop(sim, broker);
                sim.bounce(host(broker));
            }
        }
        self.down.retain(|broker| !(1..=BROKERS).contains(broker));
    }

    fn begin(&mut self, sim: &mut Sim<'_>, now: Duration) {
        let until = |rng: &mut StdRng, ms_max| now + Duration::from_millis(rng.random_range(100..ms_max));
        if self.rng.random_bool(0.35) {
            let fault = *Fault::ALL.choose(&mut self.rng).expect("there are some");
            tracing::warn!(fault = fault.name(), "begins");
            self.run.bucket.set_rate(fault, STORE_FAULT_RATE);
            let end = until(&mut self.rng, 8_000);
            return self.ends.push((end, End::Store(fault)));
        }
        let kind = BEGUN.choose_weighted(&mut self.rng, |(_, weight)| *weight).expect("there are some").0;
        let broker = self.rng.random_range(1..=BROKERS);
        let other = (broker + self.rng.random_range(0..BROKERS - 1)) % BROKERS + 1;
        let (a, b) = (host(broker), host(other));
        match kind {
            "broker crashes" | "broker crashes unheard" | "broker restarts in order" | "directory emptied" => {
                return self.stop_somehow(sim, now, kind, broker);
            }
            "pair of brokers cut" => {
                sim.partition(&*a, &*b);
                let end = until(&mut self.rng, 8_000);
                self.ends.push((end, End::Heal(a, b)));
            }
            "pair cut one way" => {
                sim.partition_oneway(&*a, &*b);
                let end = until(&mut self.rng, 8_000);
                self.ends.push((end, End::Heal(a, b)));
            }
            "broker cut from its peers" => {
                let end = until(&mut self.rng, 8_000);
                for peer in (1..=BROKERS).filter(|peer| *peer != broker) {
                    sim.partition(&*a, host(peer));
                    self.ends.push((end, End::Heal(a.clone(), host(peer))));
                }
            }
            "broker cut from clients" => {
                let end = until(&mut self.rng, 8_000);
                let clients = client_host(other);
                sim.partition(&*a, &*clients);
                self.ends.push((end, End::Heal(a, clients)));
            }
            "messages held and released" => {
                sim.hold(&*a, &*b);
                let end = until(&mut self.rng, 5_000);
                self.ends.push((end, End::Release(a, b)));
            }
            "latency jitters" => {
                let most_ms = self.rng.random_range(20..600);
                sim.set_link_max_message_latency(&*a, &*b, Duration::from_millis(most_ms));
                let end = until(&mut self.rng, 8_000);
                self.ends.push((end, End::Calm(a, b)));
            }
            _ => {
                sim.set_link_fail_rate(&*a, &*b, 0.01);
                let end = until(&mut self.rng, 8_000);
                self.ends.push((end, End::Calm(a, b)));
            }
        }
        tracing::warn!(kind, broker, other, "begins");
        *self.counts.entry(kind).or_default() += 1;
    }

    fn stop_somehow(&mut self, sim: &mut Sim<'_>, now: Duration, kind: &'static str, broker: i32) {
        let running = self.run.brokers.borrow().contains_key(&broker);
        // A second one down stops writing, which is allowed, but not all of the time.
        let crowded = !self.down.is_empty() && self.rng.random_bool(0.8);
        if self.down.contains(&broker) || crowded {
            return;
        }
        match kind {
            "broker restarts in order" => {
                if !running {
                    return;
                }
                self.run.terminate(broker);
            }
            // What one directory alone has acknowledged is gone with it: never two in one run.
            "directory emptied" => {
                let whole = running && self.run.is_whole();
                if !whole || !std::mem::take(&mut self.may_empty) {
                    return;
                }
                self.stop(sim, broker);
                let dir = self.run.data_dir(broker);
                milepost_raft::simulation::empty(&dir);
                std::fs::remove_dir_all(&dir).expect("the directory of a broker that ran");
            }
            _ => {
                if kind == "broker crashes unheard" {
                    let peers = (1..=BROKERS).flat_map(|n| [host(n), client_host(n)]);
                    for peer in peers.filter(|peer| *peer != host(broker)) {
                        sim.partition(host(broker), &*peer);
                        let soon = now + Duration::from_millis(self.rng.random_range(1..3_000));
                        self.ends.push((soon, End::Heal(host(broker), peer)));
                    }
                }
                self.stop(sim, broker);
            }
        }
        tracing::warn!(kind, broker, "begins");
        *self.counts.entry(kind).or_default() += 1;
        if self.down.contains(&broker) {
            let down_ms = self.rng.random_range(1..8_000);
            self.ends.push((now + Duration::from_millis(down_ms), End::Start(broker)));
        }
    }

    /// The process is gone, and with it what it had not synced.
    fn stop(&mut self, sim: &mut Sim<'_>, broker: i32) {
        self.run.brokers.borrow_mut().remove(&broker);
        sim.crash(host(broker));
        let mut torn = false;
        let rng = &mut self.rng;
        milepost_raft::simulation::cut_power(&self.run.data_dir(broker), |unsynced| {
            torn |= unsynced > 0;
            rng.random_range(0..=unsynced)
        });
        if torn {
            *self.counts.entry("crash tears unsynced bytes").or_default() += 1;
        }
        self.down.push(broker);
    }

    fn end(&mut self, sim: &mut Sim<'_>, end: End) {
        match end {
            End::Start(broker) => {
                tracing::warn!(broker, "starts");
                self.down.retain(|down| *down != broker);
                sim.bounce(host(broker));
            }
            End::Heal(a, b) => sim.repair(a, b),
            End::Release(a, b) => sim.release(a, b),
            End::Calm(a, b) => {
                sim.set_link_fail_rate(&*a, &*b, 0.0);
                sim.set_link_max_message_latency(&*a, &*b, LATENCY_MAX);
                sim.repair(a, b);
            }
            End::Store(fault) => self.run.bucket.set_rate(fault, 0.0),
        }
    }
}
