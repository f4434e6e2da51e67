use std::ops::ControlFlow;

use bytes::Bytes;

use super::header::CRC_START;
use super::{Codec, Error, HEADER_BYTES, Header, NO_PRODUCER, TimestampType, crc, records, varint};
use crate::types::Timestamp;

/// What the topic and the request's version allow.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// `max.message.bytes`: the size of a batch as it is sent, after compression.
    pub message_bytes_max: usize,
    /// Clients before Produce 7 know no zstd, and would not be able to read it back.
    pub zstd_allowed: bool,
    /// A compacted topic takes no record without a key; finding one means reading every record.
    pub keys_required: bool,
    /// The topic has append time: its producers must not claim to have set it.
    pub append_time: bool,
    /// The latest and earliest time the topic takes from producers, seen from the header alone.
    pub timestamp_max: Timestamp,
    pub timestamp_min: Timestamp,
    /// Bounds the work on a batch whose records have to be read.
    pub inflated_bytes_max: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            message_bytes_max: 1024 * 1024 + 12,
            zstd_allowed: true,
            keys_required: false,
            append_time: false,
            timestamp_max: Timestamp::MAX,
            timestamp_min: Timestamp::MIN,
            inflated_bytes_max: records::INFLATED_BYTES_MAX,
        }
    }
}

/// Records of a batch that are named when it is refused for them.
pub const RECORDS_REJECTED_MAX: usize = 100;

/// A batch that [`validate`] has accepted: the proof that ingest asks for.
#[derive(Debug, Clone)]
pub struct ValidBatch {
    pub(super) header: Header,
    pub(super) bytes: Bytes,
    pub(super) max_timestamp: Timestamp,
}

impl ValidBatch {
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The batch verbatim, shared with the frame it came in.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The largest timestamp of the records. The header's word is taken only where it can be true.
    pub fn max_timestamp(&self) -> Timestamp {
        self.max_timestamp
    }

    /// Offsets the batch takes.
    pub fn count(&self) -> i32 {
        self.header.count
    }
}

/// Splits the records of one partition into batches and checks each.
///
/// Compressed records are not inflated here unless a rule or a missing timestamp demands it. Kafka does inflate them, to
/// count them and to see each one's offset and time; here that would be the hot path's largest cost, so a count that lies
/// is left to the readers of whoever wrote it: offsets are given by the header, and no other batch is touched.
///
/// # Errors
/// The first fault found; nothing of the partition is to be stored then.
pub fn validate(records: Bytes, rules: &Rules) -> Result<Vec<ValidBatch>, Error> {
    if records.is_empty() {
        return Err(Error::InvalidRecord("no record batch"));
    }
    let mut rest = records;
    let mut batches = Vec::with_capacity(1);
    while !rest.is_empty() {
        let header = Header::peek(&rest)?;
        let bytes = rest.split_to(header.total_len);
        batches.push(check(header, bytes, rules)?);
    }
    Ok(batches)
}

fn check(header: Header, bytes: Bytes, rules: &Rules) -> Result<ValidBatch, Error> {
    if header.total_len > rules.message_bytes_max {
        return Err(Error::TooLarge { bytes: header.total_len, max: rules.message_bytes_max });
    }
    if crc::crc32c(&[&bytes[CRC_START..]]) != header.crc {
        return Err(Error::Corrupt("CRC-32C does not match"));
    }
    let codec = header.attributes.codec()?;
    if codec == Codec::Zstd && !rules.zstd_allowed {
        return Err(Error::UnsupportedCodec(4));
    }
    if header.attributes.is_control() {
        return Err(Error::InvalidRecord("clients may not write control batches"));
    }
    // Elsewhere Kafka takes the bit and clears it; here it is cleared when the batch is read.
    if rules.append_time && header.attributes.timestamp_type() == TimestampType::LogAppendTime {
        return Err(Error::InvalidTimestamp("producers may not set the append time"));
    }
    if header.base_offset != 0 {
        return Err(Error::InvalidRecord("base offset is not 0"));
    }
    if header.count < 1 || i64::from(header.last_offset_delta) != i64::from(header.count) - 1 {
        return Err(Error::InvalidRecord("count and last offset delta do not agree"));
    }
    check_producer(&header)?;
    if codec == Codec::None {
        check_lengths(&bytes[HEADER_BYTES..], header.count)?;
    }
    let max_timestamp = check_records(&header, &bytes, rules)?;
    Ok(ValidBatch { header, bytes, max_timestamp })
}

fn check_producer(header: &Header) -> Result<(), Error> {
    let coherent = if header.producer.id == NO_PRODUCER.id {
        // What stands for its sequence then means nothing: clients send -1 or 0.
        !header.attributes.is_transactional()
    } else {
        header.producer.id >= 0 && header.producer.epoch >= 0 && header.base_sequence >= 0
    };
    if coherent { Ok(()) } else { Err(Error::InvalidRecord("producer id, epoch and sequence do not agree")) }
}

/// Records that are not compressed must fill the batch exactly, or every later reader would stumble.
pub(super) fn check_lengths(mut rest: &[u8], count: i32) -> Result<(), Error> {
    for _ in 0..count {
        let length = varint::get_i32(&mut rest).and_then(|length| usize::try_from(length).ok());
        rest = length.and_then(|length| rest.get(length..)).ok_or(Error::InvalidRecord("record is cut"))?;
    }
    if rest.is_empty() { Ok(()) } else { Err(Error::InvalidRecord("bytes after the last record")) }
}

/// Reads the records where the header is not enough. Answers their largest timestamp.
fn check_records(header: &Header, bytes: &[u8], rules: &Rules) -> Result<Timestamp, Error> {
    // Some producers leave the header's maximum unset; a look-up by time must still find the record.
    let trusted = header.max_timestamp >= 0 && header.max_timestamp >= header.base_timestamp;
    // The header shows the latest record, and none that may be too early.
    let in_time = rules.append_time || header.max_timestamp <= rules.timestamp_max && rules.timestamp_min < 0;
    if trusted && in_time && !rules.keys_required {
        return Ok(header.max_timestamp);
    }
    let mut max_timestamp = Timestamp::MIN;
    let mut index = 0;
    let (mut keyless, mut out_of_time) = (Vec::new(), Vec::new());
    let allowed = rules.timestamp_min..=rules.timestamp_max;
    records::scan(bytes, rules.inflated_bytes_max, |stamp| {
        max_timestamp = max_timestamp.max(stamp.timestamp);
        if rules.keys_required && !stamp.has_key && keyless.len() < RECORDS_REJECTED_MAX {
            keyless.push(index);
        }
        // A record may have no time.
        let timed = stamp.timestamp >= 0 && !rules.append_time;
        if timed && !allowed.contains(&stamp.timestamp) && out_of_time.len() < RECORDS_REJECTED_MAX {
            out_of_time.push((index, stamp.timestamp));
        }
        index += 1;
        ControlFlow::Continue(())
    })?;
    if !out_of_time.is_empty() {
        return Err(Error::RecordTimes(out_of_time));
    }
    if !keyless.is_empty() {
        return Err(Error::Keyless(keyless));
    }
    Ok(max_timestamp)
}
