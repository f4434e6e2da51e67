//! Transactions in a partition, decided by what is applied and by nothing else.

use super::*;
use crate::types::{ObjectId, Producer, StorageClass, TopicId};

/// Slot 0 has records, slot 1 too, slot 2 is one that holds groups.
struct Log {
    state: State,
    /// Restored from a snapshot before every entry.
    restored: State,
    sequence: u64,
}

impl Log {
    fn new() -> Log {
        let mut log = Log { state: State::default(), restored: State::default(), sequence: 0 };
        let (topic, partitions, fences) = (TopicId::ZERO, vec![0, 1, 2], vec![]);
        let (epoch_base, append_time) = (0, false);
        log.apply(Entry::Create(Create { topic, partitions, epoch_base, append_time, fences }));
        log
    }

    fn apply(&mut self, entry: Entry) -> Effect {
        let before = self.state.slot(0).cloned();
        let effect = self.state.apply(1, &entry.encode()).unwrap();
        self.restored = State::from_snapshot(&self.restored.to_snapshot()).unwrap();
        assert_eq!(self.restored.apply(1, &entry.encode()).unwrap(), effect);
        assert_eq!(self.restored.digest(), self.state.digest());
        assert!(invariants::hold(&self.state));
        if let Some(before) = before {
            assert!(invariants::watermarks_only_grow(&before, self.state.slot(0).unwrap()));
        }
        effect
    }

    /// Byte-adjacent batches of slot 0, in one object.
    fn effect(&mut self, batches: &[Batch]) -> Effect {
        self.sequence += 1;
        let object =
            ObjectId { broker: 0, epoch: 1, sequence: self.sequence, attempt: 1, class: StorageClass::Regional };
        let parts = vec![Part { slot: 0, start: 0, batches: batches.to_vec() }];
        let append = Append { object, previous: self.sequence - 1, parts };
        self.apply(Entry::Append { append_time: 1000, append })
    }

    fn append(&mut self, batches: &[Batch]) -> Vec<Verdict> {
        match self.effect(batches).outcome {
            Some(Outcome::Taken(verdicts)) => verdicts,
            other => panic!("{other:?}"),
        }
    }

    fn one(&mut self, batch: Batch) -> Verdict {
        self.append(&[batch])[0]
    }

    fn mark(&mut self, markers: Markers) -> Vec<Result<(), Refusal>> {
        match self.apply(Entry::Markers(markers)).outcome {
            Some(Outcome::Marked(results)) => results,
            other => panic!("{other:?}"),
        }
    }

    fn ended(&mut self, markers: Markers) {
        assert_eq!(self.mark(markers), [Ok(())]);
    }

    fn partition(&self) -> &PartitionState {
        self.state.slot(0).unwrap()
    }

    /// (last stable offset, high watermark)
    fn offsets(&self) -> (i64, i64) {
        (self.partition().last_stable_offset(), self.partition().high_watermark)
    }

    /// What a reader of everything is told to pass over: (producer, first offset).
    fn aborted(&self) -> Vec<(i64, i64)> {
        let all = self.partition().transactions.aborted_between(0, i64::MAX);
        all.iter().map(|aborted| (aborted.producer_id, aborted.first)).collect()
    }
}

fn batch(id: i64, epoch: i16, base: i32, transaction: Option<u64>) -> Batch {
    let sequence = Some(Sequence { producer: Producer { id, epoch }, base, transaction });
    Batch { len: 100, span: 1, max_timestamp: 5, sequence }
}

/// A batch of producer 7 in its epoch 0.
fn in_txn(txn_no: u64, base: i32) -> Batch {
    batch(7, 0, base, Some(txn_no))
}

fn marker(id: i64, epoch: i16, txn_no: u64, commit: bool) -> Markers {
    let producer = Producer { id, epoch };
    let targets = vec![Target { slot: 0, groups: false }];
    Markers { append_time: 2000, producer, txn_no, commit, coordinator_epoch: 3, targets }
}

fn commit(txn_no: u64) -> Markers {
    marker(7, 0, txn_no, true)
}

fn abort(txn_no: u64) -> Markers {
    marker(7, 0, txn_no, false)
}

fn appended(base: i64) -> Verdict {
    Verdict::Appended { base, append_time: None }
}

const LATE: Verdict = Verdict::Refused(Refusal::WrongTransaction);

#[test]
fn markers_read_back_as_written() {
    let targets = vec![Target { slot: 0, groups: false }, Target { slot: u32::MAX, groups: true }];
    let markers = Markers { targets, ..marker(i64::MAX, i16::MAX, u64::MAX, true) };
    let entry = Entry::Markers(Markers { append_time: -1, coordinator_epoch: -1, ..markers });
    let bytes = entry.encode();
    assert_eq!(Entry::decode(&bytes), Ok(entry));
    for cut in 0..bytes.len() {
        assert!(Entry::decode(&bytes[..cut]).is_err(), "cut at {cut}");
    }
}

#[test]
fn a_run_of_batches_names_its_transaction_once() {
    let object = ObjectId { broker: 0, epoch: 1, sequence: 1, attempt: 1, class: StorageClass::Regional };
    let append = |batches: Vec<Batch>| Append { object, previous: 0, parts: vec![Part { slot: 0, start: 0, batches }] };
    let len = |transaction| append((0..50).map(|base| batch(7, 0, base, transaction)).collect()).encode().len();
    assert_eq!(len(Some(1 << 40)), len(None) + 6, "the number takes six bytes");
    let mixed =
        vec![in_txn(1, 0), in_txn(1, 9), in_txn(2, 10), batch(7, 0, 11, None), in_txn(2, 12), batch(8, 0, 0, None)];
    let mixed = append(mixed);
    assert_eq!(Append::decode(&mixed.encode()), Ok(mixed));
}

#[test]
fn what_is_undecided_holds_up_the_last_stable_offset() {
    let mut log = Log::new();
    assert_eq!(
        log.append(&[batch(9, 0, 0, None), in_txn(1, 0), in_txn(1, 1)]),
        [appended(0), appended(1), appended(2)]
    );
    assert_eq!(log.offsets(), (1, 3));
    log.ended(commit(1));
    assert_eq!((log.offsets(), log.aborted()), ((4, 4), vec![]));
    let end = *log.partition().pointers.iter().next_back().unwrap();
    assert_eq!((end.base, end.last, end.max_timestamp), (3, 3, 2000));
    let control = Control { producer_id: 7, producer_epoch: 0, commit: true, coordinator_epoch: 3 };
    assert_eq!(end.control, Some(control));
}

#[test]
fn a_transaction_begins_with_a_pointer_of_its_own() {
    let mut log = Log::new();
    log.append(&[batch(9, 0, 0, None), in_txn(1, 0), batch(9, 0, 1, None), in_txn(1, 1), batch(8, 0, 0, Some(5))]);
    let bases: Vec<i64> = log.partition().pointers.iter().map(|pointer| pointer.base).collect();
    assert_eq!(bases, [0, 1, 4], "the last stable offset is one of these");
}

#[test]
fn of_two_interleaved_transactions_the_earlier_decides_what_is_stable() {
    let mut log = Log::new();
    log.append(&[in_txn(1, 0), batch(8, 0, 0, Some(4)), in_txn(1, 1)]);
    log.ended(marker(8, 0, 4, false));
    assert_eq!(log.offsets(), (0, 4), "what came later is decided, what came first is not");
    log.append(&[batch(8, 0, 1, Some(5))]);
    log.ended(abort(1));
    assert_eq!(log.offsets(), (4, 6));
    log.ended(marker(8, 0, 5, true));
    assert_eq!((log.offsets(), log.aborted()), ((7, 7), vec![(7, 0), (8, 1)]));
    let between = |from, end| log.partition().transactions.aborted_between(from, end);
    let producers = |from, end| between(from, end).iter().map(|aborted| aborted.producer_id).collect::<Vec<_>>();
    assert_eq!(producers(0, 1), [7]);
    assert_eq!(producers(3, 4), [7, 8], "up to and with their markers");
    assert_eq!(producers(4, 9), [7]);
    assert!(producers(6, 9).is_empty());
}

#[test]
fn a_batch_that_comes_after_the_marker_is_refused() {
    let mut log = Log::new();
    log.append(&[in_txn(1, 0)]);
    log.ended(commit(1));
    assert_eq!(log.one(in_txn(1, 1)), LATE);
    assert_eq!(log.one(in_txn(1, 0)), Verdict::Duplicate { base: 0, append_time: None }, "a retry gets its offset");
    assert_eq!(log.offsets(), (2, 2));
    assert_eq!(log.one(in_txn(2, 1)), appended(2));
}

#[test]
fn a_late_batch_cannot_open_a_transaction_whose_marker_was_the_first_here() {
    let mut log = Log::new();
    log.ended(abort(3));
    assert_eq!(log.offsets(), (1, 1), "as in Kafka the marker is appended all the same");
    assert_eq!([log.one(in_txn(3, 0)), log.one(in_txn(2, 0))], [LATE, LATE]);
    assert_eq!(log.one(in_txn(4, 0)), appended(1));
    assert!(log.aborted().is_empty());
}

#[test]
fn a_marker_that_comes_again_appends_nothing_also_in_the_middle_of_the_next_transaction() {
    let mut log = Log::new();
    log.append(&[in_txn(1, 0)]);
    log.ended(abort(1));
    let end = log.offsets().1;
    log.ended(abort(1));
    assert_eq!(log.offsets(), (end, end));
    log.append(&[in_txn(2, 1)]);
    log.ended(abort(1));
    assert_eq!(log.offsets(), (end, end + 1), "the next one is still open");
    log.ended(commit(2));
    assert_eq!(log.aborted(), [(7, 0)]);
    assert_eq!(log.offsets(), (end + 2, end + 2));
}

#[test]
fn a_marker_delayed_past_the_begin_of_the_next_transaction_is_known_as_late() {
    let mut log = Log::new();
    // The first transaction had nothing here, and its marker is late: the second is open already.
    log.append(&[in_txn(2, 0)]);
    log.ended(abort(1));
    assert_eq!(log.offsets(), (0, 1));
    assert_eq!(log.one(in_txn(1, 1)), LATE);
    log.ended(commit(2));
    assert!(log.aborted().is_empty());
}

#[test]
fn held_batches_that_a_marker_passes_are_refused_and_so_is_their_filler() {
    let mut log = Log::new();
    log.append(&[in_txn(1, 0)]);
    assert_eq!(log.append(&[in_txn(1, 2), in_txn(1, 3)]), [Verdict::Held, Verdict::Held]);
    let effect = log.apply(Entry::Markers(abort(1)));
    let released: Vec<_> = effect.released.iter().map(|r| (r.batch_index, r.verdict)).collect();
    assert_eq!(released, [(0, LATE), (1, LATE)]);
    assert_eq!(log.one(in_txn(1, 1)), LATE);
    assert_eq!(log.offsets(), (2, 2));
}

#[test]
fn a_held_batch_of_the_next_transaction_outlives_the_marker() {
    let mut log = Log::new();
    log.append(&[in_txn(1, 0)]);
    log.ended(commit(1));
    assert_eq!(log.one(in_txn(2, 2)), Verdict::Held);
    log.ended(commit(1));
    let effect = log.effect(&[in_txn(2, 1)]);
    assert_eq!(effect.outcome, Some(Outcome::Taken(vec![appended(2)])));
    assert_eq!(effect.released[0].verdict, appended(3));
    assert_eq!(log.offsets(), (2, 4));
}

#[test]
fn a_marker_of_the_next_epoch_begins_the_sequences_anew_and_fences() {
    let mut log = Log::new();
    log.append(&[in_txn(1, 0), in_txn(1, 1)]);
    log.ended(marker(7, 1, 1, true));
    assert_eq!(log.one(in_txn(1, 1)), Verdict::Refused(Refusal::StaleProducerEpoch), "also of a retry");
    assert_eq!(log.one(in_txn(2, 2)), Verdict::Refused(Refusal::StaleProducerEpoch));
    assert_eq!(log.one(batch(7, 1, 2, Some(2))), Verdict::Held, "0 comes first");
    let effect = log.apply(Entry::Release(Release { slot: 0, producer_id: 7, settled: true }));
    assert_eq!(effect.released[0].verdict, Verdict::Refused(Refusal::OutOfOrderSequence));
    assert_eq!(log.append(&[batch(7, 1, 0, Some(2)), batch(7, 1, 1, Some(2))]), [appended(3), appended(4)]);
    log.ended(marker(7, 1, 1, true));
    assert_eq!(log.offsets(), (3, 5), "the first marker, come again in the epoch of the second transaction");
    log.ended(marker(7, 2, 2, false));
    assert_eq!((log.offsets(), log.aborted()), ((6, 6), vec![(7, 3)]));
}

#[test]
fn a_zombie_and_its_coordinator_end_nothing() {
    let mut log = Log::new();
    log.append(&[batch(7, 2, 0, Some(5))]);
    assert_eq!(log.mark(marker(7, 1, 6, true)), [Err(Refusal::StaleProducerEpoch)]);
    log.ended(marker(7, 2, 5, true));
    let older = Markers { coordinator_epoch: 2, ..marker(7, 2, 6, false) };
    assert_eq!(log.mark(older), [Err(Refusal::StaleCoordinator)]);
    assert_eq!(log.offsets(), (2, 2));
    let newer = Markers { coordinator_epoch: 4, ..marker(7, 2, 6, false) };
    log.ended(newer);
}

#[test]
fn batches_outside_of_the_open_transaction_are_refused() {
    let mut log = Log::new();
    log.append(&[batch(7, 0, 0, None), in_txn(3, 1)]);
    assert_eq!(log.one(batch(7, 0, 2, None)), LATE);
    assert_eq!(log.one(in_txn(4, 2)), LATE);
    assert_eq!(log.one(batch(7, 1, 0, Some(4))), LATE, "nor does a new epoch");
    assert_eq!(log.one(in_txn(0, 2)), LATE, "there is no transaction 0");
    log.ended(commit(3));
    assert_eq!(log.one(batch(7, 0, 2, None)), appended(3));
}

#[test]
fn an_administrator_ends_whichever_is_open() {
    let mut log = Log::new();
    log.append(&[in_txn(8, 0)]);
    log.ended(abort(ANY_TRANSACTION));
    assert_eq!((log.offsets(), log.aborted()), ((2, 2), vec![(7, 0)]));
    assert_eq!(log.one(in_txn(8, 1)), LATE, "it is over");
    log.ended(abort(8));
    assert_eq!(log.offsets(), (2, 2));
}

#[test]
fn one_entry_ends_a_transaction_in_many_partitions_and_says_where_it_could_not() {
    let mut log = Log::new();
    let target = |slot, groups| Target { slot, groups };
    let targets = vec![target(1, false), target(9, false), target(2, true), target(0, false)];
    let effect = log.apply(Entry::Markers(Markers { targets, ..commit(1) }));
    let unknown = Err(Refusal::UnknownPartition);
    assert_eq!(effect.outcome, Some(Outcome::Marked(vec![Ok(()), unknown, Ok(()), Ok(())])));
    assert_eq!(effect.changed, [1, 0], "readers of groups wait for nothing");
    assert_eq!(log.state.slot(2).unwrap().high_watermark, 0);
}

#[test]
fn a_producer_with_an_open_transaction_is_not_forgotten() {
    let mut log = Log::new();
    log.append(&[in_txn(1, 0), batch(8, 0, 0, Some(1))]);
    log.ended(commit(1));
    log.apply(Entry::ExpireProducers { before: 5000 });
    assert_eq!(log.partition().producers().map(|(id, _)| *id).collect::<Vec<_>>(), [8]);
    log.ended(marker(8, 0, 1, false));
    assert_eq!((log.offsets(), log.aborted()), ((4, 4), vec![(8, 1)]));
}
