use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use crate::shard::share::{Progress, Run};
use crate::share::delivery::{Delivery, NotHeld};
use crate::share::wire::{Ack, AckKind, Range};
use crate::types::Offset;

const LOCK: Duration = Duration::from_secs(30);
const COUNT_MAX: u16 = 3;

fn ack(first: Offset, last: Offset, kind: AckKind) -> Ack {
    Ack { first, last, kinds: vec![kind] }
}

fn range(first: Offset, last: Offset, count: u16) -> Range {
    Range { first, last, count }
}

fn run(first: Offset, last: Offset, count: u16, done: bool) -> Run {
    Run { first, last, count, done }
}

fn acquire(delivery: &mut Delivery, member: &str, now: Instant, limit: Offset, records: u64) -> Vec<Range> {
    let offered = delivery.offer(limit, records, 1000, u16::MAX);
    delivery.acquire(&member.into(), now + LOCK, &offered)
}

/// Says it and has it in the log.
fn settle(delivery: &mut Delivery, member: &str, acks: &[Ack]) -> Result<Vec<Run>, NotHeld> {
    let Some((decision, runs)) = delivery.acknowledge(member, acks, COUNT_MAX, Instant::now())? else {
        return Ok(Vec::new());
    };
    delivery.decided(decision, true);
    Ok(runs)
}

#[test]
fn each_record_goes_to_one_member() {
    let (mut delivery, now) = (Delivery::default(), Instant::now());
    assert_eq!(acquire(&mut delivery, "a", now, 10, 4), [range(0, 3, 1)]);
    assert_eq!(acquire(&mut delivery, "b", now, 10, 100), [range(4, 9, 1)]);
    assert_eq!(acquire(&mut delivery, "a", now, 10, 100), []);
    assert_eq!(settle(&mut delivery, "a", &[ack(4, 9, AckKind::Accept)]), Err(NotHeld), "they are b's");
    assert_eq!(settle(&mut delivery, "a", &[ack(2, 4, AckKind::Accept)]), Err(NotHeld), "all or nothing");
    assert_eq!(settle(&mut delivery, "b", &[ack(4, 9, AckKind::Accept)]), Ok(vec![run(4, 9, 1, true)]));
    assert_eq!(delivery.start(), 0);
    let each = Ack { first: 0, last: 3, kinds: vec![AckKind::Accept, AckKind::Reject, AckKind::Release, AckKind::Gap] };
    let said = settle(&mut delivery, "a", &[each]);
    assert_eq!(said, Ok(vec![run(0, 1, 1, true), run(2, 2, 1, false), run(3, 3, 1, true)]));
    assert_eq!(delivery.start(), 2);
    assert_eq!(acquire(&mut delivery, "b", now, 12, 100), [range(2, 2, 2), range(10, 11, 1)]);
    assert_eq!(settle(&mut delivery, "a", &[ack(0, 1, AckKind::Accept)]), Ok(vec![]), "what is over is passed over");
}

#[test]
fn what_the_log_does_not_have_is_held_as_before() {
    let (mut delivery, now) = (Delivery::default(), Instant::now());
    acquire(&mut delivery, "a", now, 4, 4);
    let (decision, _) =
        delivery.acknowledge("a", &[ack(0, 3, AckKind::Accept)], COUNT_MAX, Instant::now()).unwrap().unwrap();
    assert_eq!(delivery.acknowledge("a", &[ack(0, 3, AckKind::Accept)], COUNT_MAX, Instant::now()), Err(NotHeld));
    assert_eq!((delivery.deadline(), delivery.is_idle()), (None, false), "no lock runs out meanwhile");
    delivery.decided(decision, false);
    assert_eq!(delivery.deadline(), Some(now + LOCK));
    assert_eq!(settle(&mut delivery, "a", &[ack(0, 3, AckKind::Accept)]), Ok(vec![run(0, 3, 1, true)]));
    assert_eq!((delivery.start(), delivery.is_idle()), (4, true));
}

#[test]
fn a_lock_that_runs_out_makes_records_available_until_they_are_given_up() {
    let (mut delivery, mut now) = (Delivery::default(), Instant::now());
    for count in 1..=COUNT_MAX {
        assert_eq!(acquire(&mut delivery, "a", now, 2, 10), [range(0, 1, count)]);
        assert_eq!(delivery.expire(now, COUNT_MAX), []);
        now += LOCK;
        assert_eq!(delivery.expire(now, COUNT_MAX), [run(0, 1, count, count == COUNT_MAX)]);
    }
    assert_eq!(acquire(&mut delivery, "a", now, 2, 10), []);
    assert_eq!(delivery.start(), 2);
}

#[test]
fn a_lock_that_is_renewed_begins_anew_and_costs_no_entry() {
    let (mut delivery, mut now) = (Delivery::default(), Instant::now());
    acquire(&mut delivery, "a", now, 4, 4);
    now += LOCK / 2;
    assert_eq!(delivery.acknowledge("b", &[ack(0, 1, AckKind::Renew)], COUNT_MAX, now + LOCK), Err(NotHeld));
    assert_eq!(delivery.acknowledge("a", &[ack(0, 1, AckKind::Renew)], COUNT_MAX, now + LOCK), Ok(None));
    // With others settled by the same request.
    let both = [ack(2, 2, AckKind::Accept), ack(3, 3, AckKind::Renew)];
    let (decision, runs) = delivery.acknowledge("a", &both, COUNT_MAX, now + LOCK).unwrap().unwrap();
    delivery.decided(decision, true);
    assert_eq!((runs, delivery.deadline()), (vec![run(2, 2, 1, true)], Some(now + LOCK)));
    assert_eq!(delivery.expire(now + LOCK / 2, COUNT_MAX), []);
    assert_eq!(delivery.expire(now + LOCK, COUNT_MAX), [run(0, 1, 1, false), run(3, 3, 1, false)]);
}

#[test]
fn what_never_reached_its_member_was_not_delivered() {
    let (mut delivery, now) = (Delivery::default(), Instant::now());
    acquire(&mut delivery, "a", now, 10, 10);
    assert_eq!(settle(&mut delivery, "a", &[ack(6, 9, AckKind::GiveBack)]), Ok(vec![]));
    assert_eq!(delivery.release("a", COUNT_MAX), [run(0, 5, 1, false)]);
    assert_eq!(acquire(&mut delivery, "b", now, 10, 10), [range(0, 5, 2), range(6, 9, 1)]);
}

#[test]
fn a_record_that_nobody_settles_stops_the_others_in_time() {
    let mut delivery = Delivery::default();
    let until = Instant::now() + LOCK;
    assert_eq!(delivery.offer(10_000, 1, 100, COUNT_MAX), [(0, 0)]);
    delivery.acquire(&"slow".into(), until, &[(0, 0)]);
    let offered = delivery.offer(10_000, 10_000, 100, COUNT_MAX);
    assert_eq!(offered, [(1, 99)]);
    delivery.acquire(&"fast".into(), until, &offered);
    settle(&mut delivery, "fast", &[ack(1, 99, AckKind::Accept)]).unwrap();
    assert_eq!(delivery.offer(10_000, 10_000, 100, COUNT_MAX), []);
    settle(&mut delivery, "slow", &[ack(0, 0, AckKind::Accept)]).unwrap();
    assert_eq!(delivery.offer(10_000, 5, 100, COUNT_MAX), [(100, 104)]);
}

#[test]
fn records_that_fail_again_and_again_come_by_themselves_in_ever_smaller_parts() {
    const MAX: u16 = 5;
    let mut delivery = Delivery::default();
    let mut fail = |limit| {
        let offered = delivery.offer(limit, 100, 1000, MAX);
        let got = delivery.acquire(&"a".into(), Instant::now() + LOCK, &offered);
        delivery.release("a", MAX);
        got
    };
    // As Kafka 4.4 delivers them.
    for (count, limit) in [(1, 8), (2, 8)] {
        assert_eq!(fail(limit), [range(0, 7, count)]);
    }
    assert_eq!(fail(10), [range(0, 7, 3), range(8, 9, 1)]);
    assert_eq!(fail(10), [range(0, 3, 4)], "half of what they came with");
    (0..4).for_each(|one| assert_eq!(fail(10), [range(one, one, MAX)], "alone"));
    assert_eq!(fail(10), [range(4, 7, 4)]);
    (4..8).for_each(|one| assert_eq!(fail(10), [range(one, one, MAX)], "alone"));
    assert_eq!(fail(12), [range(8, 9, 2), range(10, 11, 1)], "others come together again");
}

#[test]
fn suspects_come_alone_whatever_is_available_beside_them() {
    let mut delivery =
        Delivery::load(&Progress { epoch: 1, start: 0, runs: vec![run(0, 1, 1, false), run(2, 9, 6, false)] });
    assert_eq!(delivery.offer(20, 100, 1000, 10), [(0, 1)]);
    let held = delivery.acquire(&"a".into(), Instant::now() + LOCK, &[(0, 1)]);
    assert_eq!(held, [range(0, 1, 2)]);
    assert_eq!(delivery.offer(20, 100, 1000, 10), [(2, 3)], "a quarter");
    assert_eq!(delivery.offer(20, 1, 1000, 10), [(2, 2)], "or less, where less is asked for");
}

#[test]
fn a_new_leader_delivers_again_what_was_held_and_never_what_is_done() {
    let runs = vec![run(12, 14, 2, false), run(20, 24, 1, true)];
    let mut delivery = Delivery::load(&Progress { epoch: 3, start: 10, runs });
    let acquired = acquire(&mut delivery, "a", Instant::now(), 30, 100);
    assert_eq!(acquired, [range(10, 11, 1), range(12, 14, 3), range(15, 19, 1), range(25, 29, 1)]);
}

#[test]
fn the_log_takes_its_records_back_from_whoever_holds_them() {
    let (mut delivery, now) = (Delivery::default(), Instant::now());
    acquire(&mut delivery, "a", now, 10, 10);
    let (decision, _) =
        delivery.acknowledge("a", &[ack(3, 6, AckKind::Release)], COUNT_MAX, Instant::now()).unwrap().unwrap();
    delivery.follow(5);
    delivery.decided(decision, true);
    assert_eq!(acquire(&mut delivery, "b", now, 10, 10), [range(5, 6, 2)]);
    assert_eq!(settle(&mut delivery, "a", &[ack(0, 4, AckKind::Accept), ack(7, 9, AckKind::Accept)]).unwrap().len(), 1);
    delivery.follow(40);
    assert_eq!(acquire(&mut delivery, "b", now, 41, 10), [range(40, 40, 1)]);
}

#[derive(Debug, Clone)]
enum Step {
    Acquire {
        member: u8,
        records: u64,
    },
    Ack {
        member: u8,
        first: Offset,
        len: Offset,
        kind: AckKind,
        taken: bool,
    },
    Pass(u64),
    Leave(u8),
    Trim(Offset),
    /// A new leader begins from what is applied.
    Succeed,
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop::sample::select(vec![
        AckKind::Accept,
        AckKind::Release,
        AckKind::Reject,
        AckKind::Gap,
        AckKind::GiveBack,
        AckKind::Renew,
    ]);
    prop_oneof![
        4 => (0u8..3, 1u64..20).prop_map(|(member, records)| Step::Acquire { member, records }),
        4 => (0u8..3, 0i64..100, 0i64..10, kind, prop::bool::weighted(0.9))
            .prop_map(|(member, first, len, kind, taken)| Step::Ack { member, first, len, kind, taken }),
        1 => (1u64..40).prop_map(Step::Pass),
        1 => (0u8..3).prop_map(Step::Leave),
        1 => (0i64..30).prop_map(Step::Trim),
        1 => Just(Step::Succeed),
    ]
}

proptest! {
    /// No record is held by two; what is below the start is done; a leader delivers none more often than allowed; what
    /// the log has as done is never delivered again, whoever leads.
    #[test]
    fn records_are_delivered_as_promised(steps in prop::collection::vec(step(), 1..120)) {
        const LIMIT: Offset = 60;
        const WINDOW: u64 = 25;
        let mut now = Instant::now();
        let mut delivery = Delivery::default();
        let mut held: BTreeMap<Offset, u8> = BTreeMap::new();
        let (mut done, mut trimmed) = (BTreeSet::new(), 0);
        let mut counts: BTreeMap<Offset, u16> = BTreeMap::new();
        let mut log = Log::default();
        for step in steps {
            match step {
                Step::Acquire { member, records } => {
                    let offered = delivery.offer(LIMIT, records, WINDOW, COUNT_MAX);
                    let total: Offset = offered.iter().map(|(first, last)| last - first + 1).sum();
                    prop_assert!(total as u64 <= records);
                    let got = delivery.acquire(&member.to_string().into(), now + LOCK, &offered);
                    for range in got {
                        for offset in range.first..=range.last {
                            prop_assert!(held.insert(offset, member).is_none(), "{offset} is held already");
                            prop_assert!(!done.contains(&offset), "{offset} is done");
                            prop_assert!(offset >= delivery.start() && offset < LIMIT);
                            let count = counts.entry(offset).or_default();
                            *count += 1;
                            prop_assert_eq!(*count, range.count);
                            prop_assert!(range.count <= COUNT_MAX);
                        }
                    }
                }
                Step::Ack { member, first, len, kind, taken } => {
                    let (acks, last) = ([ack(first, first + len, kind)], first + len);
                    let from = first.max(delivery.start());
                    let owns = (from..=last).all(|offset| held.get(&offset) == Some(&member));
                    let said = delivery.acknowledge(&member.to_string(), &acks, COUNT_MAX, now + LOCK);
                    prop_assert_eq!(said.is_ok(), owns);
                    let Ok(said) = said else { continue };
                    if kind == AckKind::GiveBack {
                        for offset in from..=last {
                            held.remove(&offset);
                            *counts.get_mut(&offset).unwrap() -= 1;
                        }
                    }
                    if let Some((decision, runs)) = said {
                        delivery.decided(decision, taken);
                        if taken {
                            log.take(delivery.start(), &runs);
                            runs.iter().for_each(|run| forget(run, &mut held, &mut done));
                        }
                    }
                }
                Step::Pass(seconds) => {
                    now += Duration::from_secs(seconds);
                    let gone = delivery.expire(now, COUNT_MAX);
                    log.take(delivery.start(), &gone);
                    gone.iter().for_each(|run| forget(run, &mut held, &mut done));
                }
                Step::Leave(member) => {
                    let gone = delivery.release(&member.to_string(), COUNT_MAX);
                    log.take(delivery.start(), &gone);
                    gone.iter().for_each(|run| forget(run, &mut held, &mut done));
                    prop_assert!(held.values().all(|of| *of != member));
                }
                Step::Trim(start) => {
                    trimmed = trimmed.max(start);
                    delivery.follow(start);
                    held.retain(|offset, _| *offset >= start);
                }
                Step::Succeed => {
                    delivery = Delivery::load(&log.progress);
                    delivery.follow(trimmed);
                    held.clear();
                    counts = counts.keys().map(|offset| (*offset, log.count(*offset))).collect();
                }
            }
            for offset in 0..delivery.start() {
                prop_assert!(done.contains(&offset) || offset < trimmed);
            }
        }
    }
}

fn forget(run: &Run, held: &mut BTreeMap<Offset, u8>, done: &mut BTreeSet<Offset>) {
    for offset in run.first..=run.last {
        held.remove(&offset);
        if run.done {
            done.insert(offset);
        }
    }
}

/// What is applied, one run for each record.
#[derive(Default)]
struct Log {
    progress: Progress,
}

impl Log {
    fn take(&mut self, start: Offset, runs: &[Run]) {
        let mut all: BTreeMap<Offset, Run> = self.progress.runs.iter().map(|run| (run.first, *run)).collect();
        for run in runs {
            all.extend((run.first..=run.last).map(|at| (at, Run { first: at, last: at, ..*run })));
        }
        all.retain(|offset, _| *offset >= start);
        self.progress = Progress { epoch: 1, start, runs: all.into_values().collect() };
    }

    fn count(&self, offset: Offset) -> u16 {
        self.progress.runs.iter().find(|run| run.first == offset).map_or(0, |run| run.count)
    }
}
