//! How long after a broker's death writes were accepted again, from the history and the times of the deaths.
//!
//! ```text
//! a line of the faults:  wall-clock nanoseconds, kind, broker number
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::event::{Event, Fate, Key, Process, Role, What};

/// Sends invoked so long after a death still belong to it.
const WINDOW_NS: u64 = 30_000_000_000;

struct Recovered {
    kind: String,
    broker: u32,
    /// The last key to take a write again, and how long it took.
    last_key: Option<(Key, Duration)>,
    /// Until the clients of the dead broker's own zone had a write taken, through another broker.
    own_zone: Option<Duration>,
}

pub struct Recovery {
    deaths: Vec<Recovered>,
    /// The longest time that each zone's writer was without an acknowledgement.
    pauses: BTreeMap<String, Duration>,
}

impl Recovery {
    pub fn new(events: &[Event], faults: &str) -> Result<Recovery> {
        let Some(What::Began { wall_ns, .. }) = events.first().map(|event| &event.what) else {
            bail!("the history does not say when it began");
        };
        let zones = writers(events);
        let acks = acks(events);
        let text = std::fs::read_to_string(faults).with_context(|| faults.to_owned())?;
        let deaths = text.lines().map(|line| {
            let mut words = line.split_whitespace();
            let mut word = || words.next().with_context(|| format!("not a fault: {line}"));
            let (at, kind, broker): (u64, _, u32) = (word()?.parse()?, word()?.to_owned(), word()?.parse()?);
            Ok(recovered(at.saturating_sub(*wall_ns), kind, broker, &acks, &zones))
        });
        Ok(Recovery { deaths: deaths.collect::<Result<_>>()?, pauses: pauses(&acks, &zones) })
    }

    pub fn print(&self) {
        for death in &self.deaths {
            let key = death.last_key.map_or("never".into(), |(key, time)| format!("{} (key {key})", ms(time)));
            let own = death.own_zone.map_or("never".into(), ms);
            println!(
                "{} of broker {}: the last key took writes after {key}, its own zone's clients wrote after {own}",
                death.kind, death.broker
            );
        }
        for (zone, pause) in &self.pauses {
            println!("longest time without an acknowledgement in zone {zone:?}: {}", ms(*pause));
        }
        for (kinds, what) in [(&["kill", "empty"][..], "deaths"), (&["freeze"], "freezes"), (&["stop"], "stops")] {
            let of_kind = || self.deaths.iter().filter(|death| kinds.contains(&death.kind.as_str()));
            let keys = of_kind().filter_map(|death| Some(death.last_key?.1));
            summary(&format!("{what}: until every key took writes again"), keys);
            summary(
                &format!("{what}: until the zone's own clients wrote"),
                of_kind().filter_map(|death| death.own_zone),
            );
        }
    }
}

fn summary(what: &str, times: impl Iterator<Item = Duration>) {
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    if let (Some(median), Some(worst)) = (times.get(times.len() / 2), times.last()) {
        println!("{what}: median {}, worst {} of {}", ms(*median), ms(*worst), times.len());
    }
}

fn ms(time: Duration) -> String {
    format!("{} ms", time.as_millis())
}

/// One send that was acknowledged.
struct Ack {
    process: Process,
    key: Key,
    invoked: u64,
    answered: u64,
}

fn acks(events: &[Event]) -> Vec<Ack> {
    let mut invoked = BTreeMap::new();
    let mut acks = Vec::new();
    for event in events {
        match &event.what {
            // Those in transactions wait for more than the key.
            What::Send { txn: None, .. } => drop(invoked.insert(event.op, event.t)),
            What::Sent { key, outcomes } => {
                let was_taken = outcomes.iter().any(|outcome| matches!(outcome.fate, Fate::At(_) | Fate::Somewhere));
                if let (Some(invoked), true) = (invoked.remove(&event.op), was_taken) {
                    acks.push(Ack { process: event.process, key: *key, invoked, answered: event.t });
                }
            }
            _ => {}
        }
    }
    acks.sort_unstable_by_key(|ack| ack.invoked);
    acks
}

fn pauses(acks: &[Ack], zones: &BTreeMap<Process, String>) -> BTreeMap<String, Duration> {
    let mut answered: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for ack in acks {
        if let Some(zone) = zones.get(&ack.process) {
            answered.entry(zone).or_default().push(ack.answered);
        }
    }
    let longest = |mut times: Vec<u64>| {
        times.sort_unstable();
        times.windows(2).map(|pair| pair[1] - pair[0]).max().map_or(Duration::ZERO, Duration::from_nanos)
    };
    answered.into_iter().map(|(zone, times)| (zone.to_owned(), longest(times))).collect()
}

fn writers(events: &[Event]) -> BTreeMap<Process, String> {
    let zone = |event: &Event| match &event.what {
        What::Open { role: Role::Writer, zone, .. } => Some((event.process, zone.clone())),
        _ => None,
    };
    events.iter().filter_map(zone).collect()
}

fn recovered(at: u64, kind: String, broker: u32, acks: &[Ack], zones: &BTreeMap<Process, String>) -> Recovered {
    let from = acks.partition_point(|ack| ack.invoked < at);
    let after = acks[from..].iter().take_while(|ack| ack.invoked < at + WINDOW_NS);
    let own = format!("az{broker}");
    let (mut by_key, mut own_zone): (BTreeMap<Key, u64>, Option<u64>) = (BTreeMap::new(), None);
    // Only keys that were written just before: fresh topics have no leader that could have died.
    let before: BTreeSet<Key> = acks[..from].iter().rev().take(2000).map(|ack| ack.key).collect();
    for ack in after {
        let took = ack.answered - at;
        if before.contains(&ack.key) {
            by_key.entry(ack.key).and_modify(|best| *best = took.min(*best)).or_insert(took);
        }
        if zones.get(&ack.process) == Some(&own) {
            own_zone = Some(own_zone.map_or(took, |best| best.min(took)));
        }
    }
    let last = by_key.into_iter().max_by_key(|(_, took)| *took);
    Recovered {
        kind,
        broker,
        last_key: last.map(|(key, took)| (key, Duration::from_nanos(took))),
        own_zone: own_zone.map(Duration::from_nanos),
    }
}
