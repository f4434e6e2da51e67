//! Makes batches: what a producer would send, and what compaction and markers will write.

use std::io::Write;

use bytes::Bytes;

use super::header::CRC_START;
use super::{Attributes, Codec, HEADER_BYTES, NO_PRODUCER, NO_SEQUENCE, crc, varint};
use crate::types::{Producer, Timestamp};

/// Java writes snappy in blocks of this size.
const SNAPPY_BLOCK_BYTES: usize = 32 * 1024;

/// One record to be written.
#[derive(Debug, Clone, Copy)]
pub struct NewRecord<'a> {
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub timestamp: Timestamp,
    pub headers: &'a [(&'a [u8], Option<&'a [u8]>)],
}

impl<'a> NewRecord<'a> {
    pub fn new(key: &'a [u8], value: &'a [u8], timestamp: Timestamp) -> Self {
        NewRecord { key: Some(key), value: Some(value), timestamp, headers: &[] }
    }

    /// A record without a key.
    pub fn value(value: &'a [u8], timestamp: Timestamp) -> Self {
        NewRecord { key: None, value: Some(value), timestamp, headers: &[] }
    }
}

/// What the header says beside the records.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    pub producer: Producer,
    pub base_sequence: i32,
    pub codec: Codec,
    pub transactional: bool,
    pub control: bool,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            producer: NO_PRODUCER,
            base_sequence: NO_SEQUENCE,
            codec: Codec::None,
            transactional: false,
            control: false,
        }
    }
}

/// The batch of `records`, with base offset 0 and no leader epoch. Base timestamp is the first record's.
///
/// # Panics
/// With more records or bytes than a batch can count.
pub fn batch(records: &[NewRecord<'_>], spec: &Spec) -> Bytes {
    let count = i32::try_from(records.len()).expect("a batch counts its records in an i32");
    let base_timestamp = records.first().map_or(-1, |record| record.timestamp);
    let max_timestamp = records.iter().map(|record| record.timestamp).max().unwrap_or(-1);
    let mut plain = Vec::new();
    for (delta, record) in (0..).zip(records) {
        put_record(&mut plain, record, delta, record.timestamp - base_timestamp);
    }
    let payload = compress(spec.codec, plain, None);
    let length = i32::try_from(HEADER_BYTES - 12 + payload.len()).expect("a batch counts its bytes in an i32");

    let mut out = Vec::with_capacity(HEADER_BYTES + payload.len());
    out.extend_from_slice(&0i64.to_be_bytes());
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&(-1i32).to_be_bytes());
    out.push(2);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&attributes(spec).to_be_bytes());
    out.extend_from_slice(&(count - 1).to_be_bytes());
    out.extend_from_slice(&base_timestamp.to_be_bytes());
    out.extend_from_slice(&max_timestamp.to_be_bytes());
    out.extend_from_slice(&spec.producer.id.to_be_bytes());
    out.extend_from_slice(&spec.producer.epoch.to_be_bytes());
    out.extend_from_slice(&spec.base_sequence.to_be_bytes());
    out.extend_from_slice(&count.to_be_bytes());
    out.extend_from_slice(&payload);
    seal(&mut out);
    Bytes::from(out)
}

/// The control batch that ends a transaction (Kafka: `EndTransactionMarker`, version 0). The same bytes whoever makes it.
pub fn transaction_end(producer: Producer, commit: bool, coordinator_epoch: i32, timestamp: Timestamp) -> Bytes {
    const VERSION: [u8; 2] = [0, 0];
    let key = [VERSION, i16::from(commit).to_be_bytes()].concat();
    let value = [&VERSION[..], &coordinator_epoch.to_be_bytes()].concat();
    let spec = Spec { producer, transactional: true, control: true, ..Spec::default() };
    batch(&[NewRecord::new(&key, &value, timestamp)], &spec)
}

/// Writes the CRC of a batch whose other bytes are final.
///
/// # Panics
/// If `batch` is shorter than a header.
pub fn seal(batch: &mut [u8]) {
    let sum = crc::crc32c(&[&batch[CRC_START..]]);
    batch[17..CRC_START].copy_from_slice(&sum.to_be_bytes());
}

fn attributes(spec: &Spec) -> i16 {
    let codec = spec.codec.number();
    let transactional = if spec.transactional { Attributes::TRANSACTIONAL } else { 0 };
    let control = if spec.control { Attributes::CONTROL } else { 0 };
    codec | transactional | control
}

fn put_record(out: &mut Vec<u8>, record: &NewRecord<'_>, offset_delta: i32, timestamp_delta: i64) {
    let mut body = vec![0];
    varint::put_i64(&mut body, timestamp_delta);
    varint::put_i32(&mut body, offset_delta);
    put_field(&mut body, record.key);
    put_field(&mut body, record.value);
    varint::put_i32(&mut body, record.headers.len() as i32);
    for &(name, value) in record.headers {
        put_field(&mut body, Some(name));
        put_field(&mut body, value);
    }
    put_field(out, Some(&body));
}

fn put_field(out: &mut Vec<u8>, field: Option<&[u8]>) {
    let Some(bytes) = field else {
        return varint::put_i32(out, -1);
    };
    varint::put_i32(out, i32::try_from(bytes.len()).expect("a record counts its bytes in an i32"));
    out.extend_from_slice(bytes);
}

/// `level` is the codec's own; gzip knows -1 for its default.
pub(super) fn compress(codec: Codec, plain: Vec<u8>, level: Option<i32>) -> Vec<u8> {
    const MEMORY: &str = "writing to memory does not fail";
    match codec {
        Codec::None => plain,
        Codec::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), gzip_level(level));
            encoder.write_all(&plain).expect(MEMORY);
            encoder.finish().expect(MEMORY)
        }
        Codec::Snappy => {
            let mut out = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
            for block in plain.chunks(SNAPPY_BLOCK_BYTES) {
                let packed = snap::raw::Encoder::new().compress_vec(block).expect(MEMORY);
                out.extend_from_slice(&(packed.len() as u32).to_be_bytes());
                out.extend_from_slice(&packed);
            }
            out
        }
        Codec::Lz4 => {
            // Kafka's clients expect independent blocks of 64 KiB.
            let frame = lz4_flex::frame::FrameInfo::new()
                .block_size(lz4_flex::frame::BlockSize::Max64KB)
                .block_mode(lz4_flex::frame::BlockMode::Independent);
            let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(frame, Vec::new());
            encoder.write_all(&plain).expect(MEMORY);
            encoder.finish().expect(MEMORY)
        }
        Codec::Zstd => zstd::encode_all(plain.as_slice(), level.unwrap_or(3)).expect(MEMORY),
    }
}

fn gzip_level(level: Option<i32>) -> flate2::Compression {
    match level.and_then(|level| u32::try_from(level).ok()) {
        Some(level) => flate2::Compression::new(level.min(9)),
        None => flate2::Compression::default(),
    }
}
