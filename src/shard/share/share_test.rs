use proptest::prelude::*;

use crate::shard::share::{Change, Progress, Run, ShareEntry, ShareUpdate};
use crate::shard::{Append, Batch, Create, Entry, Outcome, Part, Refusal, State, invariants};
use crate::types::{ObjectId, Offset, StorageClass, TopicId};

/// Slot 0 with a hundred records, in term 5.
fn log() -> State {
    let mut state = State::default();
    let (topic, partitions, fences) = (TopicId::ZERO, vec![0], vec![]);
    let create = Create { topic, partitions, epoch_base: 0, append_time: false, fences };
    state.apply(5, &Entry::Create(create).encode()).unwrap();
    let object = ObjectId { broker: 0, epoch: 1, sequence: 1, attempt: 1, class: StorageClass::Regional };
    let batch = Batch { len: 1000, span: 100, max_timestamp: 0, sequence: None };
    let append = Append { object, previous: 0, parts: vec![Part { slot: 0, start: 0, batches: vec![batch] }] };
    state.apply(5, &Entry::Append { append_time: 0, append }.encode()).unwrap();
    state
}

fn run(first: Offset, last: Offset, count: u16, done: bool) -> Run {
    Run { first, last, count, done }
}

fn apply(state: &mut State, term: u64, change: Change) -> Option<Outcome> {
    let updates = vec![ShareUpdate { slot: 0, group: "g".into(), change }];
    let entry = Entry::Share(ShareEntry { term, updates });
    assert_eq!(Entry::decode(&entry.encode()), Ok(entry.clone()));
    let outcome = state.apply(5, &entry.encode()).unwrap().outcome;
    assert!(invariants::hold(state));
    outcome
}

fn taken() -> Option<Outcome> {
    Some(Outcome::Marked(vec![Ok(())]))
}

fn begin(epoch: u64, start: Offset) -> Change {
    Change::Begin { epoch, start }
}

fn moved(start: Offset, runs: &[Run]) -> Change {
    Change::Move { epoch: 1, start, runs: runs.to_vec() }
}

fn seen(state: &State) -> (Offset, Vec<Run>) {
    let progress = state.shares().get(0, "g").unwrap();
    (progress.start, progress.runs.clone())
}

#[test]
fn the_start_moves_past_what_is_done_and_never_back() {
    let mut state = log();
    assert_eq!(apply(&mut state, 5, begin(1, 10)), taken());
    assert_eq!(apply(&mut state, 5, moved(10, &[run(20, 29, 1, true)])), taken());
    assert_eq!(seen(&state), (10, vec![run(20, 29, 1, true)]));
    apply(&mut state, 5, moved(10, &[run(10, 14, 1, true), run(15, 17, 1, false)]));
    assert_eq!(seen(&state), (15, vec![run(15, 17, 1, false), run(20, 29, 1, true)]));
    apply(&mut state, 5, moved(3, &[run(15, 17, 2, true), run(18, 19, 1, true)]));
    assert_eq!(seen(&state), (30, vec![]));
}

#[test]
fn a_decision_of_another_term_or_epoch_changes_nothing() {
    let mut state = log();
    apply(&mut state, 5, begin(1, 10));
    apply(&mut state, 5, begin(2, 0));
    let before = state.clone();
    assert_eq!(apply(&mut state, 4, Change::Forget), Some(Outcome::Fenced));
    let stale = Some(Outcome::Marked(vec![Err(Refusal::StaleCoordinator)]));
    assert_eq!(apply(&mut state, 5, moved(50, &[])), stale);
    assert_eq!(apply(&mut state, 5, begin(2, 40)), stale);
    assert_eq!(state, before);
    let updates = vec![ShareUpdate { slot: 9, group: "g".into(), change: begin(1, 0) }];
    let unknown = Entry::Share(ShareEntry { term: 5, updates }).encode();
    let refused = Some(Outcome::Marked(vec![Err(Refusal::UnknownPartition)]));
    assert_eq!(state.apply(5, &unknown).unwrap().outcome, refused);
    assert_eq!(apply(&mut state, 5, Change::Forget), taken());
    assert_eq!(state.shares(), log().shares(), "nothing is left of a group that is forgotten");
}

#[test]
fn the_start_follows_the_logs() {
    let mut state = log();
    apply(&mut state, 5, begin(1, 0));
    apply(&mut state, 5, moved(0, &[run(5, 9, 1, false), run(12, 14, 1, true)]));
    state.apply(5, &Entry::Trim { starts: vec![(0, 7)] }.encode()).unwrap();
    assert_eq!(seen(&state), (7, vec![run(7, 9, 1, false), run(12, 14, 1, true)]));
    state.apply(5, &Entry::Trim { starts: vec![(0, 12)] }.encode()).unwrap();
    assert_eq!(seen(&state), (15, vec![]));
    apply(&mut state, 5, begin(2, 0));
    assert_eq!(seen(&state).0, 12, "nothing is delivered from below the log's start");
}

#[test]
fn a_snapshot_keeps_it_and_a_deleted_topic_takes_it_along() {
    let mut state = log();
    apply(&mut state, 5, begin(1, 0));
    apply(&mut state, 5, moved(3, &[run(5, 9, 7, false)]));
    let restored = State::from_snapshot(&state.to_snapshot()).unwrap();
    assert_eq!((restored.digest(), seen(&restored)), (state.digest(), seen(&state)));
    state.apply(5, &Entry::Delete { topic: TopicId::ZERO }.encode()).unwrap();
    assert!(state.shares().get(0, "g").is_none());
}

#[test]
fn a_group_begins_at_the_beginning_of_partitions_that_come_to_its_topic() {
    let mut state = log();
    apply(&mut state, 5, begin(1, 60));
    let create = |topic, partitions: Vec<i32>| {
        Entry::Create(Create { topic, partitions, epoch_base: 0, append_time: false, fences: vec![] }).encode()
    };
    state.apply(5, &create(TopicId::ZERO, vec![0, 1])).unwrap();
    state.apply(5, &create(TopicId::from_bytes([7; 16]), vec![0])).unwrap();
    assert!(invariants::hold(&state));
    let at = |state: &State, slot| state.shares().get(slot, "g").map(|progress| (progress.epoch, progress.start));
    assert_eq!((at(&state, 0), at(&state, 1)), (Some((1, 60)), Some((1, 0))));
    assert_eq!(at(&state, 2), None, "the group does not read the other topic");
    apply(&mut state, 5, Change::Forget);
    assert_eq!(at(&state, 1), Some((1, 0)));
}

#[test]
fn an_acknowledgement_costs_less_than_thirty_bytes() {
    let change =
        Change::Move { epoch: 1, start: 1_000_000_000, runs: vec![run(1_000_000_200, 1_000_000_499, 1, true)] };
    let updates = vec![ShareUpdate { slot: 70, group: "orders".into(), change }];
    assert!(Entry::Share(ShareEntry { term: 12, updates }).encode().len() < 30);
}

proptest! {
    /// Whatever is written over what: each record has its last fate, and those below the start are over.
    #[test]
    fn every_record_has_its_last_fate(moves in prop::collection::vec((0i64..40, 0i64..12, 0u16..3, any::<bool>()), 1..40)) {
        let mut state = log();
        apply(&mut state, 5, begin(1, 0));
        let mut fates: Vec<Option<(u16, bool)>> = vec![None; 60];
        for (first, len, count, done) in moves {
            // The leader never decides again about what is done.
            let run = run(first, first + len, count, done);
            if fates[first as usize..=(first + len) as usize].iter().any(|fate| fate.is_some_and(|(_, done)| done)) {
                continue;
            }
            fates[first as usize..=(first + len) as usize].fill(Some((count, done)));
            apply(&mut state, 5, moved(0, &[run]));
            prop_assert!(invariants::hold(&state));
            let Progress { start, runs, .. } = state.shares().get(0, "g").unwrap().clone();
            prop_assert!(runs.is_sorted_by(|a, b| a.last < b.first));
            for (offset, fate) in (0i64..).zip(&fates) {
                let known = runs.iter().find(|r| r.first <= offset && offset <= r.last).map(|r| (r.count, r.done));
                match offset < start {
                    true => prop_assert!(fate.is_some_and(|(_, done)| done)),
                    false => prop_assert_eq!(known, *fate),
                }
            }
        }
    }
}
