//! Each rule is tried on a history that breaks it: a checker that has never fired proves nothing.

mod transactions;

use std::collections::{BTreeMap, HashSet};

use anyhow::{Result, ensure};

use crate::check::{RULES, check};
use crate::event::{Bad, BadKind, Event, Fate, Isolation, Key, Outcome, Process, Role, Run, Value, What};

type Mutate = fn(&mut [Event]) -> Option<()>;

/// The rule that must fire, what is done to the history, and how.
const MUTANTS: [(&str, &str, Mutate); 26] = [
    ("A1", "one reader sees another value at an offset", other_value),
    ("A2", "a value is read again behind the end", second_place),
    ("A3", "a read value's send is said to be refused", refused),
    ("A3", "a transaction that was read is said to be aborted", transactions::aborted),
    ("A4", "an acknowledged value is in no poll", lost),
    ("A5", "the last acknowledged value is in no poll", lost_at_the_end),
    ("A6", "one poll of a reader is gone", poll_gone),
    ("A7", "a reader's poll gives what the one before gave", poll_twice),
    ("A8", "a run comes twice in one poll", run_twice),
    ("A8", "a run is missing inside one poll", run_gone),
    ("A9", "two values of a writer change places", swapped),
    ("A10", "two values of a transaction change places", transactions::swapped_inside),
    ("A11", "a transaction reads its own value", transactions::own_read),
    ("A12", "two transactions read from each other", transactions::circle),
    ("A12", "a transaction reads from a later one", transactions::from_the_future),
    ("A13", "one scan lacks a value of a transaction", transactions::torn),
    ("A14", "a record's checksum is wrong", bad_record),
    ("A14", "a value is read that was never sent", never_sent),
    ("A15", "an input value's copy is in no poll", transactions::copy_gone),
    ("A15", "an input value has two copies", transactions::copied_twice),
    ("D1", "a broker's end lies before an acknowledged offset", stale_end),
    ("D1", "a reader's position is out of range", out_of_range),
    ("D2", "one zone's scan lacks a record", scans_differ),
    ("D3", "an end steps back", end_steps_back),
    ("D3", "a stable offset lies behind the end", transactions::stable_behind_the_end),
    ("D5", "there are more offsets than records", hole),
];

/// Prints the table; an error when a rule stays silent on its mutant or fires on the history itself.
pub fn self_test(clean: &[Event]) -> Result<()> {
    let report = check(clean);
    println!("{:<5} {:<52} violations", "rule", "what is done to the history");
    println!("{:<5} {:<52} {}", "-", "nothing", report.violations());
    ensure!(report.violations() == 0, "a rule fires on the history itself");
    for (rule, what, mutate) in MUTANTS {
        let mut events = clean.to_vec();
        ensure!(mutate(&mut events).is_some(), "{rule}: the history has no place where {what}");
        let report = check(&events);
        let all = RULES.iter().map(|rule| (rule, report.of(rule).0)).filter(|(_, count)| *count > 0);
        let all: Vec<String> = all.map(|(rule, count)| format!("{rule} {count}")).collect();
        println!("{rule:<5} {what:<52} {}", all.join(", "));
        ensure!(report.of(rule).0 > 0, "{rule} stays silent where {what}");
    }
    for rule in RULES {
        ensure!(MUTANTS.iter().any(|(tried, ..)| *tried == rule), "{rule} has no mutant");
    }
    Ok(())
}

fn other_value(events: &mut [Event]) -> Option<()> {
    let (key, run) = middle_run(events)?;
    let other = runs(events).find(|(of, other)| *of == key && other.value != run.value)?.1.value;
    let at = first_poll_of(events, key, &run)?;
    polled(&mut events[at])?.iter_mut().find(|(of, read)| *of == key && *read == run)?.1.value = other;
    Some(())
}

fn second_place(events: &mut [Event]) -> Option<()> {
    let (key, run) = middle_run(events)?;
    let end = ends(events)[&key];
    let at = events.iter().rposition(|event| matches!(&event.what, What::Polled { runs, .. } if !runs.is_empty()))?;
    polled(&mut events[at])?.push((key, Run { offset: end, ..run }));
    Some(())
}

fn refused(events: &mut [Event]) -> Option<()> {
    let (key, run) = middle_run(events)?;
    outcome_of(events, key, run.value)?.fate = Fate::Refused;
    Some(())
}

fn lost(events: &mut [Event]) -> Option<()> {
    let ends = ends(events);
    let (key, value, _) = acked(events, |(key, _, offset)| offset + 1 < ends[key])?;
    drop_value(events, key, value)
}

fn lost_at_the_end(events: &mut [Event]) -> Option<()> {
    let ends = ends(events);
    let (key, value, _) = acked(events, |(key, _, offset)| offset + 1 == ends[key])?;
    drop_value(events, key, value)
}

fn poll_gone(events: &mut [Event]) -> Option<()> {
    let at = two_polls(events)?.0;
    polled(&mut events[at])?.clear();
    Some(())
}

fn poll_twice(events: &mut [Event]) -> Option<()> {
    let (before, after) = two_polls(events)?;
    let again = polled(&mut events[before])?.clone();
    polled(&mut events[after])?.splice(0..0, again);
    Some(())
}

fn run_twice(events: &mut [Event]) -> Option<()> {
    let at = two_polls(events)?.0;
    let runs = polled(&mut events[at])?;
    runs.insert(0, runs[0]);
    Some(())
}

fn run_gone(events: &mut [Event]) -> Option<()> {
    let gone =
        |runs: &Vec<(Key, Run)>| runs.windows(3).position(|three| three.iter().all(|(key, _)| *key == three[0].0));
    for event in events {
        if let What::Polled { runs, .. } = &mut event.what
            && let Some(at) = gone(runs)
        {
            runs.remove(at + 1);
            return Some(());
        }
    }
    None
}

fn swapped(events: &mut [Event]) -> Option<()> {
    let in_transactions: HashSet<(Key, Value)> = events
        .iter()
        .filter_map(|event| match event.what {
            What::Send { key, value, count, txn: Some(_), .. } => {
                Some((value..value + count).map(move |value| (key, value)))
            }
            _ => None,
        })
        .flatten()
        .collect();
    let is_plain = |(key, run): &(Key, Run)| run.count >= 2 && !in_transactions.contains(&(*key, run.value));
    let (key, run) = runs(events).find(is_plain)?;
    swap(events, key, run.value);
    Some(())
}

/// This value and the next change places.
fn swap(events: &mut [Event], key: Key, low: Value) {
    rewrite(events, key, |value| match value {
        value if value == low => Some(low + 1),
        value if value == low + 1 => Some(low),
        value => Some(value),
    });
}

fn bad_record(events: &mut [Event]) -> Option<()> {
    add_bad(events, BadKind::Record)
}

fn out_of_range(events: &mut [Event]) -> Option<()> {
    add_bad(events, BadKind::Position)
}

fn never_sent(events: &mut [Event]) -> Option<()> {
    let at = events.iter().rposition(|event| matches!(&event.what, What::Polled { runs, .. } if !runs.is_empty()))?;
    let runs = polled(&mut events[at])?;
    let (key, last) = *runs.last()?;
    runs.push((key, Run { offset: last.offset + last.count as i64, value: last.value + (1 << 30), count: 1 }));
    Some(())
}

fn stale_end(events: &mut [Event]) -> Option<()> {
    let (key, _, offset) = acked(events, |_| true)?;
    let acknowledged = |event: &Event| {
        matches!(&event.what, What::Sent { key: of, outcomes } if *of == key
        && outcomes.iter().any(|o| matches!(o.fate, Fate::At(at) if at <= offset && offset < at + o.count as i64)))
    };
    let from = events.iter().position(acknowledged)?;
    let all: HashSet<Process> = events
        .iter()
        .filter(|event| matches!(event.what, What::Open { isolation: Isolation::Uncommitted, .. }))
        .map(|event| event.process)
        .collect();
    let asked =
        |event: &Event| matches!(event.what, What::List { key: of } if of == key) && all.contains(&event.process);
    let op = events[from..].iter().find(|event| asked(event))?.op;
    let answer = events.iter_mut().find(|event| event.op == op && matches!(event.what, What::Listed { .. }))?;
    answer.what = What::Listed { key, earliest: 0, latest: offset };
    Some(())
}

fn scans_differ(events: &mut [Event]) -> Option<()> {
    let scan = opened(events, Role::Scan).next()?;
    let polls = events.iter_mut().filter(|event| event.process == scan);
    let run = polls.filter_map(polled).flatten().map(|(_, run)| run).find(|run| run.count > 1)?;
    run.count -= 1;
    Some(())
}

fn end_steps_back(events: &mut [Event]) -> Option<()> {
    let lister = opened(events, Role::Lister).next()?;
    let asks = |event: &&mut Event| event.process == lister;
    let answers = events.iter_mut().filter(asks).filter_map(|event| match &mut event.what {
        What::Listed { latest, .. } => Some(latest),
        _ => None,
    });
    *answers.into_iter().next()? = i64::MAX;
    Some(())
}

fn hole(events: &mut [Event]) -> Option<()> {
    let scans: Vec<Process> = opened(events, Role::Scan).collect();
    for event in events.iter_mut().filter(|event| scans.contains(&event.process)) {
        if let What::Listed { latest, .. } = &mut event.what {
            *latest += 1;
        }
    }
    (!scans.is_empty()).then_some(())
}

fn polled(event: &mut Event) -> Option<&mut Vec<(Key, Run)>> {
    match &mut event.what {
        What::Polled { runs, .. } => Some(runs),
        _ => None,
    }
}

fn runs(events: &[Event]) -> impl Iterator<Item = (Key, Run)> {
    events
        .iter()
        .flat_map(|event| match &event.what {
            What::Polled { runs, .. } => runs.as_slice(),
            _ => &[],
        })
        .copied()
}

fn opened(events: &[Event], wanted: Role) -> impl Iterator<Item = Process> {
    events
        .iter()
        .filter(move |event| matches!(event.what, What::Open { role, .. } if role == wanted))
        .map(|e| e.process)
}

/// Some run that is neither the first nor the last of its key.
fn middle_run(events: &[Event]) -> Option<(Key, Run)> {
    let ends = ends(events);
    runs(events).find(|(key, run)| run.offset > 0 && run.offset + (run.count as i64) < ends[key])
}

/// Behind the last record that was read of each key.
fn ends(events: &[Event]) -> BTreeMap<Key, i64> {
    let mut ends = BTreeMap::new();
    for (key, run) in runs(events) {
        let end = ends.entry(key).or_insert(0);
        *end = run.offset.saturating_add(run.count as i64).max(*end);
    }
    ends
}

fn first_poll_of(events: &[Event], key: Key, run: &Run) -> Option<usize> {
    let has = |event: &Event| matches!(&event.what, What::Polled { runs, .. } if runs.contains(&(key, *run)));
    events.iter().position(has)
}

/// Two polls of one reader that both begin with the same key and follow each other without an assignment.
fn two_polls(events: &[Event]) -> Option<(usize, usize)> {
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
fn acked(events: &[Event], wanted: impl Fn(&(Key, Value, i64)) -> bool) -> Option<(Key, Value, i64)> {
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

fn outcome_of(events: &mut [Event], key: Key, value: Value) -> Option<&mut Outcome> {
    let outcomes = events.iter_mut().filter_map(|event| match &mut event.what {
        What::Sent { key: of, outcomes } if *of == key => Some(outcomes),
        _ => None,
    });
    outcomes.flatten().find(|outcome| outcome.value <= value && value < outcome.value + outcome.count)
}

fn drop_value(events: &mut [Event], key: Key, value: Value) -> Option<()> {
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
fn rewrite(events: &mut [Event], key: Key, change: impl Fn(Value) -> Option<Value>) {
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

fn changed(wanted: bool, key: Key, run: &Run, change: impl Fn(Value) -> Option<Value>) -> Vec<(Key, Run)> {
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

fn add_bad(events: &mut [Event], kind: BadKind) -> Option<()> {
    let added = events.iter_mut().find_map(|event| match &mut event.what {
        What::Polled { bad, .. } => Some(bad),
        _ => None,
    })?;
    added.push(Bad { key: 0, offset: 0, kind, why: "as if".into() });
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clean;

    #[test]
    fn every_rule_fires_on_its_mutant_and_none_on_the_clean_history() {
        for seed in 1..4 {
            self_test(&clean::history(seed)).unwrap();
        }
    }
}
