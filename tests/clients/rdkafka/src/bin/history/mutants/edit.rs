//! Finds places in a history, and changes what it says there.

use std::collections::BTreeMap;

use crate::event::{Event, Fate, Key, Outcome, Process, Role, Run, Value, What};

pub fn polled(event: &mut Event) -> Option<&mut Vec<(Key, Run)>> {
    match &mut event.what {
        What::Polled { runs, .. } => Some(runs),
        _ => None,
    }
}

pub fn runs(events: &[Event]) -> impl Iterator<Item = (Key, Run)> {
    events
        .iter()
        .flat_map(|event| match &event.what {
            What::Polled { runs, .. } => runs.as_slice(),
            _ => &[],
        })
        .copied()
}

pub fn opened(events: &[Event], wanted: Role) -> impl Iterator<Item = Process> {
    events
        .iter()
        .filter(move |event| matches!(event.what, What::Open { role, .. } if role == wanted))
        .map(|e| e.process)
}

/// Some run that is neither the first nor the last of its key.
pub fn middle_run(events: &[Event]) -> Option<(Key, Run)> {
    let ends = ends(events);
    runs(events).find(|(key, run)| run.offset > 0 && run.offset + (run.count as i64) < ends[key])
}

/// Behind the last record that was read of each key.
pub fn ends(events: &[Event]) -> BTreeMap<Key, i64> {
    let mut ends = BTreeMap::new();
    for (key, run) in runs(events) {
        let end = ends.entry(key).or_insert(0);
        *end = run.offset.saturating_add(run.count as i64).max(*end);
    }
    ends
}

pub fn first_poll_of(events: &[Event], key: Key, run: &Run) -> Option<usize> {
    let has = |event: &Event| matches!(&event.what, What::Polled { runs, .. } if runs.contains(&(key, *run)));
    events.iter().position(has)
}

/// Two polls of one reader that both begin with the same key and follow each other without an assignment.
pub fn two_polls(events: &[Event]) -> Option<(usize, usize)> {
    let readers: Vec<Process> = opened(events, Role::Reader).collect();
    readers.iter().find_map(|reader| {
        let own = |event: &&Event| event.process == *reader;
        let mut last: Option<(usize, Key)> = None;
        for (at, event) in events.iter().enumerate().filter(|(_, event)| own(event)) {
            match &event.what {
                What::Assign { .. } => last = None,
                What::Polled { runs, .. } if !runs.is_empty() => {
                    if let Some((before, key)) = last
                        && runs.iter().any(|(of, _)| *of == key)
                    {
                        return Some((before, at));
                    }
                    last = Some((at, runs[0].0));
                }
                _ => {}
            }
        }
        None
    })
}

/// The latest acknowledged record of a known offset that some poll saw and that is `wanted`.
pub fn acked(events: &[Event], wanted: impl Fn(&(Key, Value, i64)) -> bool) -> Option<(Key, Value, i64)> {
    let seen: Vec<(Key, Run)> = runs(events).collect();
    let is_seen = |(key, value, _): &(Key, Value, i64)| {
        seen.iter().any(|(of, run)| of == key && run.value <= *value && *value < run.value + run.count)
    };
    let answers = events.iter().rev().filter_map(|event| match &event.what {
        What::Sent { key, outcomes } => Some((*key, outcomes)),
        _ => None,
    });
    let mut last = answers.flat_map(|(key, outcomes)| outcomes.iter().rev().map(move |outcome| (key, outcome)));
    last.find_map(|(key, outcome)| match outcome.fate {
        Fate::At(first) => {
            let last = outcome.count - 1;
            Some((key, outcome.value + last, first + last as i64)).filter(&wanted).filter(is_seen)
        }
        _ => None,
    })
}

pub fn outcome_of(events: &mut [Event], key: Key, value: Value) -> Option<&mut Outcome> {
    let outcomes = events.iter_mut().filter_map(|event| match &mut event.what {
        What::Sent { key: of, outcomes } if *of == key => Some(outcomes),
        _ => None,
    });
    outcomes.flatten().find(|outcome| outcome.value <= value && value < outcome.value + outcome.count)
}

pub fn drop_value(events: &mut [Event], key: Key, value: Value) -> Option<()> {
    let mut dropped = None;
    for runs in events.iter_mut().filter_map(polled) {
        let change = |other: Value| if other == value { None } else { Some(other) };
        let new: Vec<(Key, Run)> = runs.iter().flat_map(|(of, run)| changed(*of == key, *of, run, change)).collect();
        if new != *runs {
            (*runs, dropped) = (new, Some(()));
        }
    }
    dropped
}

/// Changes values of a key in reads and in answers to sends, as a log would that had them so.
pub fn rewrite(events: &mut [Event], key: Key, change: impl Fn(Value) -> Option<Value>) {
    for event in events {
        match &mut event.what {
            What::Polled { runs, .. } => {
                *runs = runs.iter().flat_map(|(of, run)| changed(*of == key, *of, run, &change)).collect();
            }
            What::Sent { key: of, outcomes } if *of == key => {
                *outcomes = outcomes.iter().flat_map(|outcome| changed_outcome(outcome, &change)).collect();
            }
            _ => {}
        }
    }
}

pub fn changed(wanted: bool, key: Key, run: &Run, change: impl Fn(Value) -> Option<Value>) -> Vec<(Key, Run)> {
    if !wanted {
        return vec![(key, *run)];
    }
    let mut new: Vec<(Key, Run)> = Vec::new();
    for step in 0..run.count {
        let Some(value) = change(run.value + step) else {
            continue;
        };
        let offset = run.offset + step as i64;
        match new.last_mut() {
            Some((_, last)) if last.value + last.count == value && last.offset + last.count as i64 == offset => {
                last.count += 1;
            }
            _ => new.push((key, Run { offset, value, count: 1 })),
        }
    }
    new
}

fn changed_outcome(outcome: &Outcome, change: impl Fn(Value) -> Option<Value>) -> Vec<Outcome> {
    let Fate::At(offset) = outcome.fate else {
        return vec![outcome.clone()];
    };
    let run = Run { offset, value: outcome.value, count: outcome.count };
    let runs = changed(true, 0, &run, change).into_iter();
    runs.map(|(_, run)| Outcome { value: run.value, count: run.count, fate: Fate::At(run.offset), error: None })
        .collect()
}

/// This value and the next change places.
pub fn swap(events: &mut [Event], key: Key, low: Value) {
    rewrite(events, key, |value| match value {
        value if value == low => Some(low + 1),
        value if value == low + 1 => Some(low),
        value => Some(value),
    });
}
