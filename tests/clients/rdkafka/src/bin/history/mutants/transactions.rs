//! Histories that break the rules of transactions.

use std::collections::{HashMap, HashSet};

use crate::event::{End, Event, Fate, Isolation, Key, Outcome, Process, Role, Run, Value, What};
use crate::mutants::edit::{changed, drop_value, polled, runs, swap};

/// Values that were sent in a transaction and are known to be at an offset.
#[derive(Clone, Copy)]
struct Placed {
    txn: u64,
    key: Key,
    run: Run,
    is_copy: bool,
}

pub fn aborted(events: &mut [Event]) -> Option<()> {
    let shown =
        placed(events).into_iter().find(|placed| is_committed(events, placed.txn) && is_read(events, placed))?;
    *end_of(events, shown.txn)? = End::Aborted;
    Some(())
}

/// The second of a transaction's polls does not go on where the first stood.
pub fn passed_over_inside(events: &mut [Event]) -> Option<()> {
    let (mut polls, mut read) = (HashMap::new(), HashMap::new());
    for event in events {
        match &mut event.what {
            What::Poll { txn: Some(txn) } => {
                polls.insert(event.op, *txn);
            }
            What::Polled { runs, .. } => {
                let Some(txn) = polls.get(&event.op) else { continue };
                let keys: &mut HashSet<Key> = read.entry(*txn).or_default();
                let passed = runs.iter().position(|(key, _)| keys.contains(key)).filter(|at| {
                    let of = runs[*at].0;
                    runs[at + 1..].iter().any(|(key, _)| *key == of)
                });
                if let Some(passed) = passed {
                    runs.remove(passed);
                    return Some(());
                }
                keys.extend(runs.iter().map(|(key, _)| *key));
            }
            _ => {}
        }
    }
    None
}

pub fn swapped_inside(events: &mut [Event]) -> Option<()> {
    let placed = placed(events).into_iter().find(|placed| placed.run.count >= 2)?;
    swap(events, placed.key, placed.run.value);
    Some(())
}

pub fn own_read(events: &mut [Event]) -> Option<()> {
    let own = |placed: &Placed| Some((first_poll(events, placed.txn)?, *placed));
    let (at, own) = placed(events).iter().find_map(own)?;
    polled(&mut events[at])?.push((own.key, own.run));
    Some(())
}

/// Of two that polled, each reads a value of the other.
pub fn circle(events: &mut [Event]) -> Option<()> {
    let committed: Vec<(usize, Placed)> = placed(events)
        .into_iter()
        .filter(|placed| is_committed(events, placed.txn))
        .filter_map(|placed| Some((first_poll(events, placed.txn)?, placed)))
        .collect();
    let (first, one) = *committed.first()?;
    let (second, other) = *committed.iter().find(|(_, placed)| placed.txn != one.txn)?;
    polled(&mut events[first])?.push((other.key, other.run));
    polled(&mut events[second])?.push((one.key, one.run));
    Some(())
}

/// A transaction reads from one that began when it had ended.
pub fn from_the_future(events: &mut [Event]) -> Option<()> {
    let all = placed(events);
    let txns: Vec<u64> = all.iter().map(|placed| placed.txn).filter(|txn| is_committed(events, *txn)).collect();
    let (at, early) = txns.iter().find_map(|txn| Some((first_poll(events, *txn)?, *txn)))?;
    let ended = events.iter().position(|event| event.op == early && matches!(event.what, What::Ended { .. }))?;
    let began = |txn: u64| events.iter().position(|event| event.op == txn);
    let late =
        all.iter().find(|placed| txns.contains(&placed.txn) && began(placed.txn).is_some_and(|began| began > ended))?;
    let late = *late;
    polled(&mut events[at])?.push((late.key, late.run));
    Some(())
}

pub fn torn(events: &mut [Event]) -> Option<()> {
    let all = placed(events);
    let partner = |one: &&Placed| all.iter().any(|other| other.txn == one.txn && other.run.value != one.run.value);
    let torn = *all.iter().filter(partner).find(|placed| is_committed(events, placed.txn))?;
    let scan = committed_scan(events)?;
    for runs in events.iter_mut().filter(|event| event.process == scan).filter_map(polled) {
        let without = |value: Value| (value != torn.run.value).then_some(value);
        *runs = runs.iter().flat_map(|(key, run)| changed(*key == torn.key, *key, run, without)).collect();
    }
    Some(())
}

pub fn copy_gone(events: &mut [Event]) -> Option<()> {
    let copy = placed(events).into_iter().find(|placed| placed.is_copy && is_committed(events, placed.txn))?;
    drop_value(events, copy.key, copy.run.value)
}

pub fn copied_twice(events: &mut [Event]) -> Option<()> {
    let copies: Vec<Placed> = placed(events).into_iter().filter(|placed| placed.is_copy).collect();
    let mut committed = copies.iter().filter(|placed| is_committed(events, placed.txn));
    let (one, other) = (*committed.next()?, *committed.next()?);
    let again = *copy_of(events, one)?;
    *copy_of(events, other)? = again;
    Some(())
}

/// The stable offset is said to lie behind the end.
pub fn stable_behind_the_end(events: &mut [Event]) -> Option<()> {
    let lister = opened_with(events, Role::Lister, Isolation::Committed)?;
    let answers = events.iter_mut().filter(|event| event.process == lister);
    let latest = answers.filter_map(|event| match &mut event.what {
        What::Listed { latest, .. } => Some(latest),
        _ => None,
    });
    *latest.last()? += 1_000_000;
    Some(())
}

fn placed(events: &[Event]) -> Vec<Placed> {
    let mut sends = HashMap::new();
    let mut placed = Vec::new();
    for event in events {
        match &event.what {
            What::Send { txn: Some(txn), copy_of, .. } => {
                sends.insert(event.op, (*txn, copy_of.is_some()));
            }
            What::Sent { key, outcomes } => {
                if let (Some((txn, is_copy)), [Outcome { value, count, fate: Fate::At(offset), .. }]) =
                    (sends.get(&event.op), outcomes.as_slice())
                {
                    let run = Run { offset: *offset, value: *value, count: *count };
                    placed.push(Placed { txn: *txn, key: *key, run, is_copy: *is_copy });
                }
            }
            _ => {}
        }
    }
    placed
}

fn is_committed(events: &[Event], txn: u64) -> bool {
    let ended = |event: &Event| event.op == txn && matches!(event.what, What::Ended { end: End::Committed, .. });
    events.iter().any(ended)
}

fn is_read(events: &[Event], placed: &Placed) -> bool {
    let Some(scan) = committed_scan(events) else { return false };
    let of_scan: Vec<Event> = events.iter().filter(|event| event.process == scan).cloned().collect();
    runs(&of_scan).any(|(key, run)| {
        key == placed.key && run.value <= placed.run.value && placed.run.value < run.value + run.count
    })
}

fn end_of(events: &mut [Event], txn: u64) -> Option<&mut End> {
    events.iter_mut().find_map(|event| match &mut event.what {
        What::Ended { end, .. } if event.op == txn => Some(end),
        _ => None,
    })
}

fn copy_of(events: &mut [Event], copy: Placed) -> Option<&mut (Key, Value)> {
    events.iter_mut().find_map(|event| match &mut event.what {
        What::Send { key, value, copy_of: Some(of), .. } if *key == copy.key && *value == copy.run.value => Some(of),
        _ => None,
    })
}

/// Where the first poll of the transaction is answered.
fn first_poll(events: &[Event], txn: u64) -> Option<usize> {
    let poll = events.iter().find(|event| matches!(event.what, What::Poll { txn: Some(of) } if of == txn))?;
    events.iter().position(|event| event.op == poll.op && matches!(event.what, What::Polled { .. }))
}

fn committed_scan(events: &[Event]) -> Option<Process> {
    opened_with(events, Role::Scan, Isolation::Committed)
}

fn opened_with(events: &[Event], wanted: Role, level: Isolation) -> Option<Process> {
    let is_wanted = |event: &&Event| matches!(event.what, What::Open { role, isolation, .. } if role == wanted && isolation == level);
    events.iter().find(is_wanted).map(|event| event.process)
}
