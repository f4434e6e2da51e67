use proptest::prelude::*;

use crate::index::question::{AbortedFrom, Error, Found, ProducerSeen, Query, Question, Replies, Reply, share};
use crate::index::wire::*;
use crate::shard::{BatchPointer, Control};
use crate::types::varint::Reader;
use crate::types::{ObjectId, Partition, Producer, StorageClass, TopicId};

fn query(topic: u8, index: i32, question: Question) -> Query {
    Query {
        partition: Partition { topic: TopicId::from_bytes([topic; 16]), index },
        client_epoch: 4,
        committed: index == 9,
        question,
    }
}

fn queries() -> Vec<Query> {
    vec![
        query(1, 0, Question::Look { offset: 7, bytes_max: 1 << 20 }),
        query(1, 9, Question::Latest),
        query(2, 0, Question::Earliest),
        query(2, 1, Question::FromTime(-1)),
        query(1, 0, Question::MaxTime),
        query(1, i32::MAX, Question::EpochEnd(-1)),
        query(1, -1, Question::Look { offset: i64::MIN, bytes_max: usize::MAX }),
        query(3, 9, Question::Look { offset: 20, bytes_max: 1 }),
        query(3, 0, Question::Producers),
    ]
}

fn pointer(base: i64, sequence: u64) -> BatchPointer {
    BatchPointer {
        base,
        last: base + 9,
        leader_epoch: 3,
        object: ObjectId { broker: 2, epoch: 11, sequence, attempt: 0, class: StorageClass::Zonal },
        start: 100,
        len: 1_000,
        max_timestamp: 1_700_000_000_000 + base,
        max_timestamp_so_far: 1_700_000_000_000 + base,
        append_time: None,
        control: None,
    }
}

fn found(pointers: Vec<BatchPointer>, offset: i64) -> Found {
    let bytes = pointers.iter().map(|p| share(p, offset)).sum();
    Found { high_watermark: 500, last_stable_offset: 400, log_start_offset: 3, pointers, bytes, ..Found::default() }
}

#[test]
fn queries_read_back_as_written() {
    for how in [How::Linearizable, How::News { floor: 1 << 40, bytes_min: 1, wait_ms: 500 }] {
        let bytes = encode_queries(300, how, &queries());
        let mut r = Reader::new(&bytes);
        assert_eq!(r.u64(), Ok(300));
        assert_eq!(decode_queries(r.take(r.remaining()).unwrap()), Ok((how, queries())));
    }
}

#[test]
fn replies_read_back_as_written() {
    let last = i64::MAX;
    let stamped = BatchPointer { base: last, last, append_time: Some(i64::MIN), max_timestamp: last, ..pointer(0, 0) };
    let aborted = [(7, 3), (i64::MAX, 4)].map(|(producer_id, first)| AbortedFrom { producer_id, first }).into_iter();
    let control = Control { producer_id: 7, producer_epoch: 3, commit: true, coordinator_epoch: 12 };
    let no_object = ObjectId::unpacked((0, 0, 0, 0));
    let end = BatchPointer { base: 30, last: 30, object: no_object, start: 0, len: 78, ..pointer(30, 0) };
    let end = BatchPointer { control: Some(control), ..end };
    let producer = Producer { id: 7, epoch: 3 };
    let seen = ProducerSeen { producer, last_sequence: 9, last_time: 5, coordinator_epoch: 12, open_since: Some(0) };
    let replies: Replies = vec![
        Ok(Reply::Found(Found { more: true, ahead: true, ..found(vec![pointer(0, 1), pointer(10, 2), stamped], 7) })),
        Ok(Reply::At { epoch: 5, offset: 1 << 50 }),
        Err(Error::OutOfRange),
        Ok(Reply::Pointers { start: 41, pointers: vec![pointer(40, 7), pointer(20, 3)] }),
        Ok(Reply::Pointers { start: 0, pointers: Vec::new() }),
        Ok(Reply::At { epoch: -1, offset: -1 }),
        Err(Error::NewerEpoch),
        Ok(Reply::Found(Found { aborted: aborted.collect(), ..found(vec![pointer(20, 1), end, pointer(31, 2)], 20) })),
        Ok(Reply::Producers(vec![seen, ProducerSeen { open_since: None, last_sequence: -1, ..seen }])),
    ];
    let bytes = encode_replies(77, &replies);
    assert_eq!(decode_replies(&queries(), &bytes), Ok((77, replies)));
}

#[test]
fn a_reply_to_another_question_is_refused() {
    let bytes = encode_replies(1, &vec![Ok(Reply::At { epoch: 1, offset: 1 })]);
    assert!(decode_replies(&queries()[..1], &bytes).is_err());
    assert!(decode_replies(&queries()[1..3], &bytes).is_err(), "and so are too few");
    assert!(decode_replies(&[], &bytes).is_err(), "and too many");
}

#[test]
fn a_pointer_in_a_run_costs_less_than_twenty_bytes() {
    let run: Vec<BatchPointer> = (0..100).map(|i| pointer(10 * i, 2 * i as u64)).collect();
    let bytes = encode_replies(1, &vec![Ok(Reply::Found(found(run, 0)))]).len();
    assert!(bytes < 100 * 20, "{bytes}");
}

#[test]
fn an_idle_reader_costs_a_few_dozen_bytes() {
    let one = [query(1, 0, Question::Look { offset: 1 << 30, bytes_max: 1 << 20 })];
    let asked = encode_queries(3, How::News { floor: 1 << 20, bytes_min: 1, wait_ms: 500 }, &one).len();
    let told = encode_replies(1 << 20, &vec![Ok(Reply::Found(found(Vec::new(), 0)))]).len();
    assert!(asked + told < 60, "{asked} + {told}");
}

#[test]
fn one_frame_holds_a_bounded_number_of_pointers_and_says_that_there_is_more() {
    let many = || Ok(Reply::Found(found((0..6_000).map(|i| pointer(10 * i, i as u64)).collect(), 0)));
    let queries = [query(1, 0, Question::Look { offset: 0, bytes_max: 1 }); 2];
    let (_, told) = decode_replies(&queries, &encode_replies(1, &vec![many(), many()])).unwrap();
    let counts = told.iter().flatten().map(|reply| match reply {
        Reply::Found(found) => (found.pointers.len(), found.more),
        _ => unreachable!("both were looks"),
    });
    assert_eq!(counts.collect::<Vec<_>>(), [(6_000, false), (2_192, true)]);
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = decode_queries(&bytes);
        let _ = decode_replies(&queries(), &bytes);
    }
}
