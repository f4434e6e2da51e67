//! Histories that break the rules of any log.

use std::collections::HashSet;

use crate::event::{Bad, BadKind, Event, Fate, Isolation, Key, Process, Role, Run, Value, What};
use crate::mutants::edit::{
    acked, drop_value, ends, first_poll_of, middle_run, opened, outcome_of, polled, runs, swap, two_polls,
};

pub fn other_value(events: &mut [Event]) -> Option<()> {
    let (key, run) = middle_run(events)?;
    let other = runs(events).find(|(of, other)| *of == key && other.value != run.value)?.1.value;
    let at = first_poll_of(events, key, &run)?;
    polled(&mut events[at])?.iter_mut().find(|(of, read)| *of == key && *read == run)?.1.value = other;
    Some(())
}

pub fn second_place(events: &mut [Event]) -> Option<()> {
    let (key, run) = middle_run(events)?;
    let end = ends(events)[&key];
    let at = events.iter().rposition(|event| matches!(&event.what, What::Polled { runs, .. } if !runs.is_empty()))?;
    polled(&mut events[at])?.push((key, Run { offset: end, ..run }));
    Some(())
}

pub fn refused(events: &mut [Event]) -> Option<()> {
    let (key, run) = middle_run(events)?;
    outcome_of(events, key, run.value)?.fate = Fate::Refused;
    Some(())
}

pub fn lost(events: &mut [Event]) -> Option<()> {
    let ends = ends(events);
    let (key, value, _) = acked(events, |(key, _, offset)| offset + 1 < ends[key])?;
    drop_value(events, key, value)
}

pub fn lost_at_the_end(events: &mut [Event]) -> Option<()> {
    let ends = ends(events);
    let (key, value, _) = acked(events, |(key, _, offset)| offset + 1 == ends[key])?;
    drop_value(events, key, value)
}

pub fn poll_gone(events: &mut [Event]) -> Option<()> {
    let at = two_polls(events)?.0;
    polled(&mut events[at])?.clear();
    Some(())
}

pub fn poll_twice(events: &mut [Event]) -> Option<()> {
    let (before, after) = two_polls(events)?;
    let again = polled(&mut events[before])?.clone();
    polled(&mut events[after])?.splice(0..0, again);
    Some(())
}

pub fn run_twice(events: &mut [Event]) -> Option<()> {
    let at = two_polls(events)?.0;
    let runs = polled(&mut events[at])?;
    runs.insert(0, runs[0]);
    Some(())
}

pub fn run_gone(events: &mut [Event]) -> Option<()> {
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

pub fn swapped(events: &mut [Event]) -> Option<()> {
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

pub fn bad_record(events: &mut [Event]) -> Option<()> {
    add_bad(events, BadKind::Record)
}

pub fn out_of_range(events: &mut [Event]) -> Option<()> {
    add_bad(events, BadKind::Position)
}

pub fn never_sent(events: &mut [Event]) -> Option<()> {
    let at = events.iter().rposition(|event| matches!(&event.what, What::Polled { runs, .. } if !runs.is_empty()))?;
    let runs = polled(&mut events[at])?;
    let (key, last) = *runs.last()?;
    runs.push((key, Run { offset: last.offset + last.count as i64, value: last.value + (1 << 30), count: 1 }));
    Some(())
}

pub fn stale_end(events: &mut [Event]) -> Option<()> {
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

pub fn scans_differ(events: &mut [Event]) -> Option<()> {
    let scan = opened(events, Role::Scan).next()?;
    let polls = events.iter_mut().filter(|event| event.process == scan);
    let run = polls.filter_map(polled).flatten().map(|(_, run)| run).find(|run| run.count > 1)?;
    run.count -= 1;
    Some(())
}

pub fn end_steps_back(events: &mut [Event]) -> Option<()> {
    let lister = opened(events, Role::Lister).next()?;
    let asks = |event: &&mut Event| event.process == lister;
    let answers = events.iter_mut().filter(asks).filter_map(|event| match &mut event.what {
        What::Listed { latest, .. } => Some(latest),
        _ => None,
    });
    *answers.into_iter().next()? = i64::MAX;
    Some(())
}

pub fn hole(events: &mut [Event]) -> Option<()> {
    let scans: Vec<Process> = opened(events, Role::Scan).collect();
    for event in events.iter_mut().filter(|event| scans.contains(&event.process)) {
        if let What::Listed { latest, .. } = &mut event.what {
            *latest += 1;
        }
    }
    (!scans.is_empty()).then_some(())
}

fn add_bad(events: &mut [Event], kind: BadKind) -> Option<()> {
    let added = events.iter_mut().find_map(|event| match &mut event.what {
        What::Polled { bad, .. } => Some(bad),
        _ => None,
    })?;
    added.push(Bad { key: 0, offset: 0, kind, why: "as if".into() });
    Some(())
}
