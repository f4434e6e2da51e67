//! Decodes the records of one batch. Everything here may meet hostile bytes: each function takes the
//! number of bytes the records may inflate to, and answers an error beyond it.

use std::io::{self, BufRead};
use std::ops::ControlFlow;

use bytes::Bytes;

use super::{Error, HEADER_BYTES, Header, TimestampType, inflate, varint};
use crate::types::{Offset, Timestamp};

/// The part of a record before its key: length excluded, attributes, two deltas, the key's length.
const FRONT_BYTES_MAX: usize = 1 + 10 + 5 + 5;

/// A cap for callers without a reason for another: a full batch of highly repetitive text fits.
pub const INFLATED_BYTES_MAX: usize = 256 * 1024 * 1024;

/// One record; keys, values and headers share the bytes of the batch unless it is compressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub offset_delta: i32,
    pub timestamp: Timestamp,
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
    pub headers: Vec<(Bytes, Option<Bytes>)>,
}

/// The records of `batch`, in order. Ends after the first error.
///
/// # Errors
/// Those of [`Header::peek`], an unknown codec, or records that do not decompress within `bytes_max`.
pub fn iter(batch: &Bytes, bytes_max: usize) -> Result<Records, Error> {
    let header = Header::peek(batch)?;
    let payload = batch.slice(HEADER_BYTES..header.total_len);
    let plain = inflate::all(header.attributes.codec()?, &payload, bytes_max)?;
    Ok(Records { header, plain, left: header.count })
}

/// Iterator over the records of one batch.
#[derive(Debug)]
pub struct Records {
    header: Header,
    plain: Bytes,
    left: i32,
}

impl Iterator for Records {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left <= 0 {
            return None;
        }
        let record = self.take();
        self.left = if record.is_ok() { self.left - 1 } else { 0 };
        Some(record)
    }
}

impl Records {
    fn take(&mut self) -> Result<Record, Error> {
        const CUT: Error = Error::InvalidRecord("record is cut");
        let length = self.varint().and_then(|n| usize::try_from(n).ok()).ok_or(CUT)?;
        if length > self.plain.len() {
            return Err(CUT);
        }
        let after = self.plain.split_off(length);
        let record = self.body();
        self.plain = after;
        record
    }

    /// Decodes one record whose bytes are all of `plain`.
    fn body(&mut self) -> Result<Record, Error> {
        const CUT: Error = Error::InvalidRecord("record is shorter than its fields");
        let mut rest: &[u8] = self.plain.get(1..).ok_or(CUT)?;
        let timestamp_delta = varint::get_i64(&mut rest).ok_or(CUT)?;
        let offset_delta = varint::get_i32(&mut rest).ok_or(CUT)?;
        let at = self.plain.len() - rest.len();
        self.plain = self.plain.slice(at..);
        let key = self.field()?;
        let value = self.field()?;
        let count = self.varint().ok_or(CUT)?;
        let mut headers = Vec::new();
        for _ in 0..count {
            let name = self.field()?.ok_or(Error::InvalidRecord("record header without a name"))?;
            headers.push((name, self.field()?));
        }
        if count < 0 || !self.plain.is_empty() {
            return Err(Error::InvalidRecord("record is longer than its fields"));
        }
        let timestamp = timestamp(&self.header, timestamp_delta)?;
        Ok(Record { offset_delta, timestamp, key, value, headers })
    }

    /// A length-prefixed byte string; a negative length is null.
    fn field(&mut self) -> Result<Option<Bytes>, Error> {
        const CUT: Error = Error::InvalidRecord("record field exceeds its record");
        let Ok(length) = usize::try_from(self.varint().ok_or(CUT)?) else {
            return Ok(None);
        };
        if length > self.plain.len() {
            return Err(CUT);
        }
        Ok(Some(self.plain.split_to(length)))
    }

    fn varint(&mut self) -> Option<i32> {
        let mut rest: &[u8] = &self.plain;
        let value = varint::get_i32(&mut rest)?;
        let at = self.plain.len() - rest.len();
        self.plain = self.plain.slice(at..);
        Some(value)
    }
}

/// The front of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub offset_delta: i32,
    pub timestamp: Timestamp,
    pub has_key: bool,
}

/// Shows `visit` the front of each record until it breaks. Holds a few KiB whatever the batch inflates to.
///
/// # Errors
/// As [`iter`], and `InvalidRecord` where the records are fewer or shorter than they say.
pub fn scan(batch: &[u8], bytes_max: usize, mut visit: impl FnMut(Stamp) -> ControlFlow<()>) -> Result<(), Error> {
    // Of a batch as it was sent: what its producer says of append time means nothing.
    let mut header = Header::peek(batch)?;
    header.attributes = header.attributes.with_create_time();
    let payload = &batch[HEADER_BYTES..header.total_len];
    let mut reader = inflate::reader(header.attributes.codec()?, payload, bytes_max)?;
    for _ in 0..header.count {
        let stamp = read_stamp(&header, &mut *reader, bytes_max)?;
        if visit(stamp).is_break() {
            break;
        }
    }
    Ok(())
}

/// The first record of `batch`, which begins at `base_offset`, at offset `from` or above and with a timestamp of `target`
/// or later.
///
/// # Errors
/// As [`scan`].
pub fn find_timestamp(
    batch: &[u8],
    base_offset: Offset,
    from: Offset,
    target: Timestamp,
    bytes_max: usize,
) -> Result<Option<(Offset, Timestamp)>, Error> {
    let mut found = None;
    scan(batch, bytes_max, |stamp| {
        let offset = base_offset.saturating_add(i64::from(stamp.offset_delta));
        if offset < from || stamp.timestamp < target {
            return ControlFlow::Continue(());
        }
        found = Some((offset, stamp.timestamp));
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// The earliest of the records of `batch` at offset `from` or above that has their largest timestamp; None if there is no
/// such record.
///
/// # Errors
/// As [`scan`].
pub fn max_timestamp(
    batch: &[u8],
    base_offset: Offset,
    from: Offset,
    bytes_max: usize,
) -> Result<Option<(Offset, Timestamp)>, Error> {
    let mut best: Option<(Offset, Timestamp)> = None;
    scan(batch, bytes_max, |stamp| {
        let offset = base_offset.saturating_add(i64::from(stamp.offset_delta));
        if offset >= from && best.is_none_or(|(_, largest)| stamp.timestamp > largest) {
            best = Some((offset, stamp.timestamp));
        }
        ControlFlow::Continue(())
    })?;
    Ok(best)
}

/// With append time all records have the time of the header; else each has its own.
fn timestamp(header: &Header, delta: i64) -> Result<Timestamp, Error> {
    match header.attributes.timestamp_type() {
        TimestampType::LogAppendTime => Ok(header.max_timestamp),
        TimestampType::CreateTime => {
            header.base_timestamp.checked_add(delta).ok_or(Error::InvalidRecord("timestamp overflows"))
        }
    }
}

fn read_stamp(header: &Header, reader: &mut dyn BufRead, bytes_max: usize) -> Result<Stamp, Error> {
    const CUT: Error = Error::InvalidRecord("record is shorter than its fields");
    let broken = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => CUT,
        _ => inflate::broken(&error, bytes_max),
    };
    let length = read_varint(reader).map_err(broken)?;
    let length = usize::try_from(length).map_err(|_| Error::InvalidRecord("record has a negative length"))?;
    let mut front = [0; FRONT_BYTES_MAX];
    let front = &mut front[..length.min(FRONT_BYTES_MAX)];
    reader.read_exact(front).map_err(broken)?;
    skip(reader, length - front.len()).map_err(broken)?;
    let mut rest: &[u8] = front.get(1..).ok_or(CUT)?;
    let timestamp_delta = varint::get_i64(&mut rest).ok_or(CUT)?;
    let offset_delta = varint::get_i32(&mut rest).ok_or(CUT)?;
    let key_length = varint::get_i32(&mut rest).ok_or(CUT)?;
    Ok(Stamp { offset_delta, timestamp: timestamp(header, timestamp_delta)?, has_key: key_length >= 0 })
}

fn read_varint(reader: &mut dyn BufRead) -> io::Result<i32> {
    let mut bytes = [0; 5];
    for taken in 1..=bytes.len() {
        reader.read_exact(&mut bytes[taken - 1..taken])?;
        if bytes[taken - 1] & 0x80 == 0 {
            return varint::get_i32(&mut &bytes[..taken]).ok_or_else(|| io::ErrorKind::InvalidData.into());
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

fn skip(reader: &mut dyn BufRead, mut bytes: usize) -> io::Result<()> {
    while bytes > 0 {
        let ready = reader.fill_buf()?.len().min(bytes);
        if ready == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        reader.consume(ready);
        bytes -= ready;
    }
    Ok(())
}
