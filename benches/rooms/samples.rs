//! What the benches work on.

use bytes::{BufMut, Bytes, BytesMut};
use milepost::batch::build::{self, NewRecord, Spec};
use milepost::batch::{Codec, NO_SEQUENCE, Segments, patch};
use milepost::object::layout::Contents;
use milepost::protocol::fetch::{FetchPartition, FetchResponse, FetchTopic};
use milepost::protocol::{ErrorCode, StrBytes, TopicRef};
use milepost::shard::entry::append_entry;
use milepost::shard::{Append, Batch, Create, Entry, Part, Sequence, State};
use milepost::types::{ObjectId, Partition, Producer, StorageClass, TopicId};

use crate::NOW;

const TOPIC: TopicId = TopicId::ZERO;

pub fn batch(value_bytes: usize, records: usize, producer: Producer, codec: Codec) -> Bytes {
    let value: Vec<u8> = (0..value_bytes).map(|i| ((i * 31) >> 2) as u8).collect();
    let records = vec![NewRecord::value(&value, NOW); records];
    let base_sequence = if producer.id >= 0 { 0 } else { NO_SEQUENCE };
    build::batch(&records, &Spec { producer, base_sequence, codec, ..Spec::default() })
}

/// The body of a Produce of version 9, one topic.
pub fn produce_body(partitions: usize, records_bytes: usize) -> Bytes {
    let records = vec![7u8; records_bytes];
    let mut out = BytesMut::new();
    out.put_u8(0);
    out.put_i16(-1);
    out.put_i32(30_000);
    out.put_slice(&[2, 2, b't']);
    put_length(&mut out, partitions);
    for index in 0..partitions as i32 {
        out.put_i32(index);
        put_length(&mut out, records.len());
        out.put_slice(&records);
        out.put_u8(0);
    }
    out.put_slice(&[0, 0]);
    out.freeze()
}

fn put_length(out: &mut BytesMut, length: usize) {
    let mut value = length + 1;
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

pub fn fetch_response(partitions: i32, batch: &Bytes) -> FetchResponse {
    let partition = |index| {
        let mut records = Segments::new();
        patch::for_reader(batch, 5, 1, None, &mut records).expect("it is a batch");
        FetchPartition { records, ..FetchPartition::failed(index, ErrorCode::None) }
    };
    let topic = FetchTopic {
        topic: TopicRef::Name(StrBytes::from_static_str("t")),
        partitions: (0..partitions).map(partition).collect(),
    };
    let topics = vec![topic];
    FetchResponse { throttle_time_ms: 0, error: ErrorCode::None, session_id: 0, topics, node_endpoints: Vec::new() }
}

/// `parts` partitions with so many batches of ten records each, from the first partition on.
pub fn append(broker: i32, sequence: u64, parts: u32, batches: usize, producer: Producer, base: i32) -> Append {
    const RECORDS: u32 = 10;
    const BYTES: u32 = 10_300;
    let batch = |n: usize| Batch {
        len: BYTES,
        span: RECORDS,
        max_timestamp: NOW + n as i64,
        sequence: Some(Sequence {
            producer,
            base: (base * batches as i32 + n as i32) * RECORDS as i32,
            transaction: None,
        }),
    };
    let part = |slot: u32| Part {
        slot,
        start: u64::from(slot) * u64::from(BYTES) * batches as u64,
        batches: (0..batches).map(batch).collect(),
    };
    let object = ObjectId { broker, epoch: 1, sequence, attempt: 1, class: StorageClass::Regional };
    Append { object, previous: sequence - 1, parts: (0..parts).map(part).collect() }
}

pub fn state(partitions: i32) -> State {
    let create = Create {
        topic: TOPIC,
        partitions: (0..partitions).collect(),
        epoch_base: 0,
        append_time: false,
        fences: Vec::new(),
    };
    let mut state = State::default();
    state.apply(1, &Entry::Create(create).encode()).expect("it is an entry");
    state
}

/// Every partition has been written to `appends` times by one producer.
pub fn filled_state(partitions: u32, appends: u64) -> State {
    let mut state = self::state(partitions as i32);
    for sequence in 1..=appends {
        let append = append(2, sequence, partitions, 1, Producer { id: 4000, epoch: 0 }, sequence as i32 - 1);
        state.apply(1, &append_entry(NOW, &append.encode())).expect("it is an entry");
    }
    state
}

pub fn contents(partitions: i32, bytes: usize) -> Vec<Contents> {
    let section = Bytes::from(vec![3u8; bytes]);
    let contents = |index| Contents {
        shard: 1,
        partition: Partition { topic: TOPIC, index },
        slices: vec![section.clone()],
        batch_count: 1,
        record_count: 10,
        min_timestamp: NOW,
        max_timestamp: NOW,
    };
    (0..partitions).map(contents).collect()
}
