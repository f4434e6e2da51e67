use proptest::prelude::*;

use super::*;
use crate::types::{ObjectId, Partition, Producer, StorageClass, TopicId};

const TOPIC: TopicId = TopicId::ZERO;

fn create(partitions: &[i32]) -> Entry {
    Entry::Create(Create {
        topic: TOPIC,
        partitions: partitions.to_vec(),
        epoch_base: 0,
        append_time: false,
        fences: vec![],
    })
}

fn object(broker: i32, sequence: u64) -> ObjectId {
    ObjectId { broker, epoch: 1, sequence, attempt: 1, class: StorageClass::Regional }
}

fn batch(span: u32) -> Batch {
    Batch { len: 100, span, max_timestamp: 5, sequence: None }
}

fn claimed(producer: i64, base: i32, span: u32) -> Batch {
    let producer = Producer { id: producer, epoch: 0 };
    Batch { sequence: Some(Sequence { producer, base, transaction: None }), ..batch(span) }
}

fn append(object: ObjectId, previous: u64, batches: Vec<Batch>) -> Append {
    Append { object, previous, parts: vec![Part { slot: 0, start: 0, batches }] }
}

struct Log {
    state: State,
    term: u64,
}

impl Log {
    fn new() -> Self {
        let mut log = Log { state: State::default(), term: 1 };
        log.apply(create(&[0, 1]));
        log
    }

    fn apply(&mut self, entry: Entry) -> Effect {
        let effect = self.state.apply(self.term, &entry.encode()).unwrap();
        assert!(invariants::hold(&self.state));
        effect
    }

    fn append(&mut self, append: Append) -> Outcome {
        self.effect(append).outcome.unwrap()
    }

    fn effect(&mut self, append: Append) -> Effect {
        self.apply(Entry::Append { append_time: 1000, append })
    }

    fn high_watermark(&self) -> i64 {
        self.state.slot(0).unwrap().high_watermark
    }
}

fn appended(base: i64) -> Verdict {
    Verdict::Appended { base, append_time: None }
}

fn taken(base: &[i64]) -> Outcome {
    Outcome::Taken(base.iter().map(|base| appended(*base)).collect())
}

#[test]
fn gives_dense_offsets_and_merges_adjacent_batches() {
    let mut log = Log::new();
    assert_eq!(log.append(append(object(0, 1), 0, vec![batch(3), batch(4)])), taken(&[0, 3]));
    assert_eq!(log.append(append(object(0, 2), 1, vec![batch(1)])), taken(&[7]));
    let pointers: Vec<_> = log.state.slot(0).unwrap().pointers.iter().collect();
    assert_eq!(pointers.len(), 2);
    assert_eq!((pointers[0].base, pointers[0].last, pointers[0].len), (0, 6, 200));
    assert_eq!(log.high_watermark(), 8);
}

#[test]
fn refuses_an_object_out_of_turn_and_takes_it_in_turn() {
    let mut log = Log::new();
    assert_eq!(log.append(append(object(0, 1), 0, vec![batch(1)])), taken(&[0]));
    assert_eq!(log.append(append(object(0, 3), 2, vec![batch(1)])), Outcome::OutOfTurn { last: 1 });
    assert_eq!(log.append(append(object(0, 2), 1, vec![batch(1)])), taken(&[1]));
    assert_eq!(log.append(append(object(0, 3), 2, vec![batch(1)])), taken(&[2]));
}

#[test]
fn a_skipped_sequence_does_not_break_the_chain() {
    let mut log = Log::new();
    log.append(append(object(0, 1), 0, vec![batch(1)]));
    assert_eq!(log.append(append(object(0, 5), 1, vec![batch(1)])), taken(&[1]));
}

#[test]
fn asking_again_finds_the_first_verdicts() {
    let mut log = Log::new();
    log.append(append(object(1, 1), 0, vec![claimed(7, 0, 2)]));
    let mixed = append(object(0, 1), 0, vec![batch(1), claimed(7, 0, 2), batch(2), claimed(8, 4, 1)]);
    let first = log.append(mixed.clone());
    assert_eq!(
        first,
        Outcome::Taken(vec![
            appended(2),
            Verdict::Duplicate { base: 0, append_time: None },
            appended(3),
            Verdict::Held,
        ])
    );
    log.append(append(object(0, 2), 1, vec![batch(9)]));
    assert_eq!(log.append(mixed.clone()), first);
    log.apply(Entry::Release(Release { slot: 0, producer_id: 8, settled: false }));
    let Outcome::Taken(verdicts) = log.append(mixed) else { panic!("taken before") };
    assert_eq!(verdicts[3], Verdict::Refused(Refusal::SequenceGap));
    assert_eq!(verdicts[2], appended(3));
}

#[test]
fn the_same_batch_through_two_brokers_gets_one_offset() {
    let mut log = Log::new();
    assert_eq!(log.append(append(object(0, 1), 0, vec![claimed(7, 0, 5)])), taken(&[0]));
    let through_other = log.append(append(object(1, 1), 0, vec![claimed(7, 0, 5)]));
    assert_eq!(through_other, Outcome::Taken(vec![Verdict::Duplicate { base: 0, append_time: None }]));
    assert_eq!(log.high_watermark(), 5);
}

#[test]
fn holds_batches_ahead_and_appends_them_in_order_when_the_filler_comes() {
    let mut log = Log::new();
    let held = log.append(append(object(1, 1), 0, vec![claimed(7, 4, 2), claimed(7, 2, 2)]));
    assert_eq!(held, Outcome::Taken(vec![Verdict::Held, Verdict::Held]));
    assert_eq!(log.high_watermark(), 0);
    let effect = log.effect(append(object(0, 1), 0, vec![claimed(7, 0, 2)]));
    assert_eq!(effect.outcome, Some(taken(&[0])));
    let released: Vec<_> = effect.released.iter().map(|r| (r.batch_index, r.verdict)).collect();
    assert_eq!(released, vec![(1, appended(2)), (0, appended(4))]);
    assert_eq!(log.high_watermark(), 6);
    let again = log.append(append(object(1, 1), 0, vec![claimed(7, 4, 2), claimed(7, 2, 2)]));
    assert_eq!(again, taken(&[4, 2]));
}

#[test]
fn holds_no_more_than_five_and_refuses_the_rest_retriably() {
    let mut log = Log::new();
    let batches = (1..=6).map(|i| claimed(7, i * 10, 10)).collect();
    let Outcome::Taken(verdicts) = log.append(append(object(0, 1), 0, batches)) else { panic!() };
    assert_eq!(verdicts[4], Verdict::Held);
    assert_eq!(verdicts[5], Verdict::Refused(Refusal::SequenceGap));
}

#[test]
fn opens_an_unknown_producer_only_when_told_so() {
    let mut log = Log::new();
    log.append(append(object(0, 1), 0, vec![claimed(7, 40, 2), claimed(7, 42, 2)]));
    let effect = log.apply(Entry::Release(Release { slot: 0, producer_id: 7, settled: true }));
    assert_eq!(effect.released.len(), 2);
    assert_eq!(log.high_watermark(), 4);
    log.append(append(object(0, 2), 1, vec![claimed(200, 40, 2)]));
    let effect = log.apply(Entry::Release(Release { slot: 0, producer_id: 200, settled: false }));
    assert_eq!(effect.released[0].verdict, Verdict::Refused(Refusal::SequenceGap));
}

#[test]
fn a_gap_is_fatal_only_when_nothing_can_fill_it_any_more() {
    let mut log = Log::new();
    log.append(append(object(0, 1), 0, vec![claimed(7, 0, 2), claimed(7, 4, 2)]));
    let mut release = |settled| {
        let effect = log.apply(Entry::Release(Release { slot: 0, producer_id: 7, settled }));
        log.append(append(object(0, 2 + u64::from(settled)), 1 + u64::from(settled), vec![claimed(7, 4, 2)]));
        effect.released[0].verdict
    };
    assert_eq!(release(false), Verdict::Refused(Refusal::SequenceGap));
    assert_eq!(release(true), Verdict::Refused(Refusal::OutOfOrderSequence));
    // Its place is not taken: should it come after all, both go in.
    let effect = log.effect(append(object(1, 1), 0, vec![claimed(7, 2, 2)]));
    assert_eq!((effect.outcome, effect.released[0].verdict), (Some(taken(&[2])), appended(4)));
}

#[test]
fn a_batch_before_the_opening_is_refused_never_called_a_duplicate() {
    let mut log = Log::new();
    log.append(append(object(0, 1), 0, vec![claimed(7, 2, 2)]));
    log.apply(Entry::Release(Release { slot: 0, producer_id: 7, settled: true }));
    assert_eq!(log.high_watermark(), 2);
    let late = log.append(append(object(1, 1), 0, vec![claimed(7, 0, 2)]));
    assert_eq!(late, Outcome::Taken(vec![Verdict::Refused(Refusal::OutOfOrderSequence)]));
}

#[test]
fn a_fence_does_not_hide_the_verdicts_of_what_was_taken() {
    let mut log = Log::new();
    let first = append(object(0, 1), 0, vec![batch(1)]);
    assert_eq!(log.append(first.clone()), taken(&[0]));
    log.apply(Entry::Fence(Fence { broker: 0, epoch: 1, sequence: 9 }));
    assert_eq!(log.append(first), taken(&[0]));
}

#[test]
fn fences_stale_epochs_and_sequences() {
    let mut log = Log::new();
    log.append(append(object(0, 1), 0, vec![batch(1)]));
    let newer = ObjectId { epoch: 2, ..object(0, 1) };
    assert_eq!(log.append(append(newer, 0, vec![batch(1)])), taken(&[1]));
    assert_eq!(log.append(append(object(0, 2), 1, vec![batch(1)])), Outcome::Fenced);
    log.apply(Entry::Fence(Fence { broker: 0, epoch: 2, sequence: 9 }));
    let below = ObjectId { epoch: 2, ..object(0, 8) };
    assert_eq!(log.append(append(below, 1, vec![batch(1)])), Outcome::Fenced);
    let above = ObjectId { epoch: 2, ..object(0, 9) };
    assert_eq!(log.append(append(above, 1, vec![batch(1)])), taken(&[2]));
}

#[test]
fn a_deleted_partition_refuses_and_a_recreated_one_starts_empty() {
    let mut log = Log::new();
    log.append(append(object(0, 1), 0, vec![batch(1)]));
    log.apply(Entry::Delete { topic: TOPIC });
    let refused = log.append(append(object(0, 2), 1, vec![batch(1)]));
    assert_eq!(refused, Outcome::Taken(vec![Verdict::Refused(Refusal::UnknownPartition)]));
    log.apply(create(&[0]));
    let id = Partition { topic: TOPIC, index: 0 };
    let partition = log.state.partition(&id).unwrap();
    assert_eq!((partition.slot, partition.high_watermark), (2, 0));
}

#[test]
fn leader_epochs_follow_the_term_and_answer_where_they_end() {
    let mut log = Log::new();
    log.append(append(object(0, 1), 0, vec![batch(3)]));
    log.term = 4;
    log.append(append(object(0, 2), 1, vec![batch(2)]));
    let partition = log.state.slot(0).unwrap();
    assert_eq!(partition.epochs, vec![(1, 0), (4, 3)]);
    assert_eq!(partition.epoch_end(1, 4), Some((1, 3)));
    assert_eq!(partition.epoch_end(3, 4), Some((1, 3)));
    assert_eq!(partition.epoch_end(4, 4), Some((4, 5)));
    // Below all that were seen: it ended where the first begins.
    assert_eq!(partition.epoch_end(0, 4), Some((0, 0)));
    assert_eq!(partition.epoch_end(5, 4), None);
    assert_eq!(partition.epoch_end(-1, 4), None);
    // A term in which nothing was appended yet ends nothing and has seen the whole log.
    assert_eq!(partition.epoch_end(4, 6), Some((4, 5)));
    assert_eq!(partition.epoch_end(6, 6), Some((6, 5)));
    // An empty partition: every past epoch ended at its end.
    assert_eq!(log.state.slot(1).unwrap().epoch_end(2, 4), Some((2, 0)));
}

#[test]
fn finds_pointers_by_offset_and_by_time() {
    let mut log = Log::new();
    for (sequence, max_timestamp) in [(1, 10), (2, 30), (3, 20), (4, 40)] {
        log.append(append(object(0, sequence), sequence - 1, vec![Batch { max_timestamp, ..batch(2) }]));
    }
    let pointers = &log.state.slot(0).unwrap().pointers;
    assert_eq!(pointers.from_offset(3).next().unwrap().base, 2);
    assert!(pointers.from_offset(8).next().is_none());
    assert_eq!(pointers.from_timestamp(15).next().unwrap().base, 2);
    assert_eq!(pointers.from_timestamp(31).next().unwrap().base, 6);
    assert!(pointers.from_timestamp(41).next().is_none());
    assert_eq!(pointers.max_timestamp().unwrap().base, 6);
}

#[test]
fn snapshot_holds_the_whole_state() {
    let mut log = Log::new();
    log.append(append(object(0, 1), 0, vec![claimed(7, 0, 2), claimed(8, 5, 1), batch(1)]));
    log.apply(Entry::Fence(Fence { broker: 3, epoch: 1, sequence: 1 }));
    let restored = State::from_snapshot(&log.state.to_snapshot()).unwrap();
    assert_eq!(restored, log.state);
    assert_eq!(restored.digest(), log.state.digest());
    assert!(State::from_snapshot(&[9, 1]).is_err());
}

#[test]
fn an_unknown_kind_or_version_is_an_error() {
    let mut state = State::default();
    assert_eq!(state.apply(1, &[77, 1]), Err(DecodeError::Unknown { kind: 77, version: 1 }));
    assert_eq!(state.apply(1, &[2, 9]), Err(DecodeError::Unknown { kind: 2, version: 9 }));
}

#[test]
fn a_pointer_costs_less_than_twenty_bytes() {
    for transaction in [None, Some(1_000_000)] {
        let parts = (0..100u32).map(|slot| {
            let producer = Producer { id: 4000, epoch: 0 };
            let sequence = Some(Sequence { producer, base: 1_000_000, transaction });
            let max_timestamp = 1_790_000_000_000 + i64::from(slot % 7);
            let batches = vec![Batch { len: 65_000, span: 64, max_timestamp, sequence }];
            Part { slot, start: u64::from(slot) * 65_000, batches }
        });
        let append = Append { object: object(2, 123_456), previous: 123_455, parts: parts.collect() };
        let per_pointer = append.encode().len() as f64 / 100.0;
        assert!(per_pointer < 20.0, "{per_pointer} bytes");
    }
}

fn any_batch() -> impl Strategy<Value = Batch> {
    let transaction = proptest::option::of(0u64..4);
    let sequence = proptest::option::of((0i64..4, 0i16..2, 0i32..40, transaction));
    (1u32..2000, 1u32..6, any::<i64>(), sequence).prop_map(|(len, span, max_timestamp, sequence)| Batch {
        len,
        span,
        max_timestamp,
        sequence: sequence.map(|(id, epoch, base, transaction)| Sequence {
            producer: Producer { id, epoch },
            base,
            transaction,
        }),
    })
}

fn any_markers() -> impl Strategy<Value = Entry> {
    let targets = proptest::collection::vec((0u32..3, any::<bool>()), 0..3);
    (0i64..4, 0i16..2, 0u64..4, any::<bool>(), 0i32..3, targets).prop_map(
        |(id, epoch, txn_no, commit, coordinator_epoch, targets)| {
            let targets = targets.into_iter().map(|(slot, groups)| Target { slot, groups }).collect();
            let producer = Producer { id, epoch };
            Entry::Markers(Markers { append_time: 7, producer, txn_no, commit, coordinator_epoch, targets })
        },
    )
}

fn any_entry() -> impl Strategy<Value = Entry> {
    let release = (0u32..2, 0i64..4, any::<bool>());
    prop_oneof![
        6 => any_append().prop_map(|append| Entry::Append { append_time: 1, append }),
        3 => any_markers(),
        1 => release.prop_map(|(slot, producer_id, settled)| {
            Entry::Release(Release { slot, producer_id, settled })
        }),
    ]
}

fn any_append() -> impl Strategy<Value = Append> {
    let parts = proptest::collection::vec((0u32..3, proptest::collection::vec(any_batch(), 1..4)), 0..4);
    (0i32..2, 1u64..12, parts).prop_map(|(broker, sequence, parts)| {
        let mut start = 0;
        let parts = parts.into_iter().map(|(slot, batches)| {
            let part = Part { slot, start, batches };
            start += part.batches.iter().map(|b| u64::from(b.len)).sum::<u64>();
            part
        });
        Append { object: object(broker, sequence), previous: sequence - 1, parts: parts.collect() }
    })
}

proptest! {
    #[test]
    fn append_reads_back_as_written(append in any_append()) {
        prop_assert_eq!(Append::decode(&append.encode()).unwrap(), append);
    }

    #[test]
    fn decoding_survives_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Entry::decode(&bytes);
    }

    #[test]
    fn decoding_survives_mutated_entries(append in any_append(), at in any::<usize>(), to in any::<u8>()) {
        let mut bytes = Entry::Append { append_time: 1, append }.encode().to_vec();
        let at = at % bytes.len();
        bytes[at] = to;
        let _ = Entry::decode(&bytes);
    }

    /// Any mix of objects and markers keeps the invariants, and two replicas (one restored half-way) agree.
    #[test]
    fn replicas_agree_whatever_comes(entries in proptest::collection::vec(any_entry(), 1..60)) {
        let mut log = Log::new();
        let mut other = State::from_snapshot(&log.state.to_snapshot()).unwrap();
        for (i, entry) in entries.into_iter().enumerate() {
            let payload = entry.encode();
            let before: Vec<_> = log.state.partitions().cloned().collect();
            let effect = log.state.apply(1 + i as u64 / 8, &payload).unwrap();
            prop_assert_eq!(other.apply(1 + i as u64 / 8, &payload).unwrap(), effect);
            if i == 7 {
                other = State::from_snapshot(&other.to_snapshot()).unwrap();
            }
            prop_assert!(invariants::hold(&log.state));
            for (before, after) in before.iter().zip(log.state.partitions()) {
                prop_assert!(invariants::watermarks_only_grow(before, after));
            }
        }
        prop_assert_eq!(log.state.digest(), other.digest());
    }
}

#[test]
fn a_late_change_of_stamping_changes_nothing() {
    let mut log = Log::new();
    let stamping = |stamped, change| Entry::Stamping { topic: TOPIC, stamped, change };
    let appended = |log: &mut Log, sequence: u64| {
        let Outcome::Taken(verdicts) = log.append(append(object(1, sequence), sequence - 1, vec![batch(1)])) else {
            panic!("in turn")
        };
        let Verdict::Appended { append_time, .. } = verdicts[0] else { panic!("nothing refuses it") };
        append_time
    };
    assert_eq!(appended(&mut log, 1), None);
    log.apply(stamping(true, 1));
    assert_eq!(appended(&mut log, 2), Some(1000));
    log.apply(stamping(true, 3));
    log.apply(stamping(false, 2));
    assert_eq!(appended(&mut log, 3), Some(1000));
    log.apply(stamping(false, 4));
    assert_eq!(appended(&mut log, 4), None);
    // A pointer says for itself whether its records are stamped.
    let stamps = log.state.slot(0).unwrap().pointers.iter().map(|p| p.append_time).collect::<Vec<_>>();
    assert_eq!(stamps, [None, Some(1000), Some(1000), None]);
}
