use crate::shard::transaction::{Change, Phase, Transaction, TransactionEntry};
use crate::shard::{Create, Entry, Outcome, State};
use crate::types::{Partition, Producer, TopicId};

const TERM: u64 = 3;

fn at(topic: u8, index: i32) -> Partition {
    Partition { topic: TopicId::from_bytes([topic; 16]), index }
}

/// A shard with one partition of `__transaction_state`, which has slot 0.
fn shard() -> State {
    let mut state = State::default();
    let create =
        Create { topic: TopicId::ZERO, partitions: vec![7], epoch_base: 0, append_time: false, fences: Vec::new() };
    state.apply(TERM, &Entry::Create(create).encode()).unwrap();
    state
}

fn entry(term: u64, clock_ms: u64, revision: u64, change: Change) -> Entry {
    Entry::Transaction(TransactionEntry { slot: 0, term, clock_ms, id: "t".into(), revision, change })
}

fn init(id: i64, epoch: i16) -> Change {
    Change::Init { producer: Producer { id, epoch }, last_epoch: -1, timeout_ms: 60_000 }
}

fn add(index: i32) -> Change {
    Change::Add { partitions: vec![(at(1, index), 4)], started_at: 1_700_000_000_000 }
}

fn prepare(commit: bool, epoch: i16) -> Change {
    Change::Prepare { commit, epoch, last_epoch: epoch - 1, next_id: None, at: 1_700_000_000_001 }
}

fn apply(state: &mut State, entry: Entry) -> Option<Outcome> {
    state.apply(TERM, &entry.encode()).unwrap().outcome
}

/// Each change in its turn.
fn after(changes: impl IntoIterator<Item = Change>) -> State {
    let mut state = shard();
    for (revision, change) in changes.into_iter().enumerate() {
        assert_eq!(apply(&mut state, entry(TERM, 10 * (revision as u64 + 1), revision as u64, change)), None);
    }
    state
}

fn held(state: &State) -> Option<Transaction> {
    state.transactions().get(0, "t").map(|one| Transaction::clone(one))
}

#[test]
fn entries_read_back_as_written() {
    let next = Change::Prepare { commit: true, epoch: i16::MAX, last_epoch: i16::MAX - 1, next_id: Some(9), at: 5 };
    let many = Change::Add { partitions: vec![(at(1, 0), 1), (at(1, 5), 300), (at(2, 0), 1)], started_at: 7 };
    let none = Change::Add { partitions: Vec::new(), started_at: -1 };
    for change in [init(1 << 40, 4), add(3), many, none, prepare(false, 3), next, Change::Complete, Change::Remove] {
        let entry = entry(9, 12, 6, change);
        let bytes = entry.encode();
        assert_eq!(Entry::decode(&bytes), Ok(entry));
        for cut in 0..bytes.len() {
            assert!(Entry::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }
}

#[test]
fn a_transaction_of_one_partition_costs_less_than_a_hundred_and_twenty_bytes() {
    let clock_ms = 1 << 32;
    let all = [add(3), prepare(true, 900), Change::Complete];
    let bytes: usize = all.into_iter().map(|change| entry(5, clock_ms, 1 << 20, change).encode().len()).sum();
    assert!(bytes < 120, "{bytes}");
}

#[test]
fn transactions_are_counted_from_begin_to_end() {
    let state = after([init(5, 0), add(0), add(1), prepare(true, 1), Change::Complete, add(0)]);
    let one = held(&state).unwrap();
    assert_eq!((one.txn_no, one.phase, one.revision, one.started_ms), (2, Phase::Ongoing, 6, 60));
    assert_eq!(one.partitions.into_iter().collect::<Vec<_>>(), [(at(1, 0), 4)]);
    let prepared = held(&after([init(5, 0), add(0), add(1), prepare(true, 1)])).unwrap();
    assert_eq!((prepared.phase, prepared.partitions.len(), prepared.started_ms), (Phase::PrepareCommit, 2, 20));
    assert_eq!((prepared.epoch, prepared.last_epoch), (1, 0));
}

#[test]
fn a_transaction_without_partitions_is_counted_too() {
    let one = held(&after([init(5, 0), prepare(false, 1), Change::Complete])).unwrap();
    assert_eq!((one.txn_no, one.phase), (1, Phase::CompleteAbort));
}

#[test]
fn a_producer_goes_on_with_its_next_id_when_the_transaction_is_complete() {
    let (epoch, last_epoch) = (i16::MAX, i16::MAX - 1);
    let last = Change::Prepare { commit: true, epoch, last_epoch, next_id: Some(6), at: 0 };
    let prepared = held(&after([init(5, last_epoch), add(0), last.clone()])).unwrap();
    assert_eq!(prepared.producer(), Producer { id: 5, epoch });
    let complete = held(&after([init(5, last_epoch), add(0), last.clone(), Change::Complete])).unwrap();
    assert_eq!(complete.producer(), Producer { id: 6, epoch: 0 });
    assert_eq!((complete.previous_id, complete.last_epoch, complete.next_id), (5, last_epoch, None));
    let next = held(&after([init(5, last_epoch), add(0), last, Change::Complete, add(0)])).unwrap();
    assert_eq!((next.previous_id, next.txn_no), (6, 2));
}

#[test]
fn what_was_decided_on_another_revision_or_term_or_slot_changes_nothing() {
    let mut state = after([init(5, 0), add(0)]);
    let before = held(&state);
    for revision in [0, 1, 3] {
        let late = entry(TERM, 1, revision, prepare(true, 1));
        assert_eq!(apply(&mut state, late), Some(Outcome::Fenced));
    }
    for term in [TERM - 1, TERM + 1] {
        assert_eq!(apply(&mut state, entry(term, 1, 2, prepare(true, 1))), Some(Outcome::Fenced));
    }
    let Entry::Transaction(elsewhere) = entry(TERM, 1, 2, Change::Remove) else { unreachable!() };
    assert_eq!(apply(&mut state, Entry::Transaction(TransactionEntry { slot: 1, ..elsewhere })), Some(Outcome::Fenced));
    assert_eq!(held(&state), before);
}

#[test]
fn an_id_begins_with_a_producer_and_ends_when_it_is_removed() {
    let mut state = shard();
    assert_eq!(apply(&mut state, entry(TERM, 1, 0, add(0))), Some(Outcome::Fenced));
    assert_eq!(apply(&mut state, entry(TERM, 1, 0, Change::Remove)), Some(Outcome::Fenced));
    let mut state = after([init(5, 0), Change::Remove]);
    assert!(state.transactions().is_empty());
    assert_eq!(apply(&mut state, entry(TERM, 90, 0, init(6, 0))), None);
    assert_eq!(held(&state).unwrap().producer_id, 6);
    state.apply(TERM, &Entry::Delete { topic: TopicId::ZERO }.encode()).unwrap();
    assert!(state.transactions().is_empty());
}

#[test]
fn ids_are_part_of_the_snapshot_and_of_its_digest() {
    let state = after([init(5, 0), add(0)]);
    let restored = State::from_snapshot(&state.to_snapshot()).unwrap();
    assert_eq!(restored, state);
    assert_ne!(state.digest(), after([init(5, 0), add(1)]).digest());
}
