//! A Produce request, laid out once: sending it again means patching a few numbers in place.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::{BufMut, BytesMut};
use milepost::batch::HEADER_BYTES;
use milepost::batch::build::{self, NewRecord, Spec};
use milepost::types::Producer;

use crate::producer::Plan;

const PRODUCE: i16 = 0;
pub const VERSION: i16 = 12;
/// Where the producer's id, its epoch and the base sequence stand in a batch.
const PRODUCER_AT: usize = 43;
const SEQUENCE_AT: usize = 53;
const CORRELATION_AT: usize = 8;
const STAMP_BYTES: usize = 8;
/// Stands where the time of sending will be, so that its place can be found.
const STAMP: [u8; STAMP_BYTES] = *b"\xf1\xf2stamp\xf3";

/// Records of one size, in batches of one size.
#[derive(Clone, Copy)]
pub struct Shape {
    pub value_bytes: usize,
    pub batch_records: usize,
}

impl Shape {
    /// 1 KB records in batches that fill the usual 64 KB.
    pub const USUAL: Shape = Shape { value_bytes: 1024, batch_records: 63 };

    pub fn batch(&self, producer: Producer) -> Vec<u8> {
        self.batch_of(producer, false)
    }

    fn batch_of(&self, producer: Producer, transactional: bool) -> Vec<u8> {
        let mut value: Vec<u8> = (0..self.value_bytes).map(|i| ((i * 131) >> 3) as u8).collect();
        value[..STAMP_BYTES].copy_from_slice(&STAMP);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64);
        let records = vec![NewRecord::value(&value, now); self.batch_records];
        let base_sequence = if producer.id >= 0 { 0 } else { -1 };
        build::batch(&records, &Spec { producer, base_sequence, transactional, ..Spec::default() }).to_vec()
    }
}

/// Where the time of sending stands in every batch of this shape.
pub fn stamp_at(batch: &[u8]) -> usize {
    let found = batch[HEADER_BYTES..].windows(STAMP_BYTES).position(|bytes| bytes == STAMP);
    HEADER_BYTES + found.expect("every batch carries a stamp")
}

/// The time of sending that a batch carries, as nanoseconds of the sender's clock.
pub fn read_stamp(batch: &[u8], stamp_at: usize) -> u64 {
    let bytes = batch[stamp_at..stamp_at + STAMP_BYTES].try_into().expect("eight bytes");
    u64::from_be_bytes(bytes)
}

pub struct Frame {
    bytes: BytesMut,
    batches: Vec<std::ops::Range<usize>>,
    stamp_at: usize,
}

impl Frame {
    /// One batch for each of the plan's partitions, acks=all.
    pub fn new(plan: &Plan, producer: Producer) -> Frame {
        let Plan { client_id, topic, partitions, .. } = plan;
        let batch = plan.shape.batch_of(producer, plan.transactions.is_some());
        let mut bytes = BytesMut::new();
        let mut batches = Vec::with_capacity(partitions.len());
        bytes.put_i32(0);
        bytes.put_i16(PRODUCE);
        bytes.put_i16(VERSION);
        bytes.put_i32(0);
        bytes.put_i16(client_id.len() as i16);
        bytes.put_slice(client_id.as_bytes());
        bytes.put_u8(0);
        match &plan.transactions {
            Some((id, _)) => {
                put_length(&mut bytes, id.len());
                bytes.put_slice(id.as_bytes());
            }
            None => bytes.put_u8(0),
        }
        bytes.put_i16(-1);
        bytes.put_i32(30_000);
        put_length(&mut bytes, 1);
        put_length(&mut bytes, topic.len());
        bytes.put_slice(topic.as_bytes());
        put_length(&mut bytes, partitions.len());
        for partition in partitions {
            bytes.put_i32(*partition);
            put_length(&mut bytes, batch.len());
            batches.push(bytes.len()..bytes.len() + batch.len());
            bytes.put_slice(&batch);
            bytes.put_u8(0);
        }
        bytes.put_slice(&[0, 0]);
        let length = bytes.len() as i32 - 4;
        bytes[..4].copy_from_slice(&length.to_be_bytes());
        Frame { bytes, batches, stamp_at: stamp_at(&batch) }
    }

    pub fn batch_bytes(&self) -> usize {
        self.batches.iter().map(|batch| batch.len()).sum()
    }

    /// Whom the batches are of from now on.
    pub fn set_producer(&mut self, producer: Producer) {
        for range in &self.batches {
            let batch = &mut self.bytes[range.clone()];
            batch[PRODUCER_AT..PRODUCER_AT + 8].copy_from_slice(&producer.id.to_be_bytes());
            batch[PRODUCER_AT + 8..SEQUENCE_AT].copy_from_slice(&producer.epoch.to_be_bytes());
        }
    }

    /// The frame as it goes out now. All its batches carry the same sequence.
    pub fn patched(&mut self, correlation: i32, sequence: i32, stamp: u64) -> &[u8] {
        self.bytes[CORRELATION_AT..CORRELATION_AT + 4].copy_from_slice(&correlation.to_be_bytes());
        for range in &self.batches {
            let batch = &mut self.bytes[range.clone()];
            batch[SEQUENCE_AT..SEQUENCE_AT + 4].copy_from_slice(&sequence.to_be_bytes());
            batch[self.stamp_at..self.stamp_at + STAMP_BYTES].copy_from_slice(&stamp.to_be_bytes());
            build::seal(batch);
        }
        &self.bytes
    }
}

/// A compact length: one more than it is, as a varint (KIP-482).
fn put_length(out: &mut BytesMut, length: usize) {
    let mut value = length + 1;
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}
