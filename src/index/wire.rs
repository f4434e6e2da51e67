//! Questions to another broker's replica, and its replies, packed: a few bytes for a partition, fifteen or so for a
//! pointer.

use bytes::{BufMut, Bytes, BytesMut};

use crate::index::question::{self, Error, Found, Query, Question, Replies, Reply};
use crate::shard::BatchPointer;
use crate::types::varint::{self, Malformed, Reader};
use crate::types::{ObjectId, Offset, Partition, ShardId, Timestamp, TopicId};

/// More queries are never taken in one frame.
const QUERIES_MAX: usize = 1 << 20;
/// Pointers in one frame. Partitions past it show only that they have more, as in Kafka when a fetch is full.
const POINTERS_MAX: usize = 8192;

/// How a replica is to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// After a read index.
    Linearizable,
    /// From what is applied, once that is at least `floor`; waits for `bytes_min`.
    News { floor: u64, bytes_min: usize, wait_ms: u64 },
}

pub(super) fn encode_queries(shard: ShardId, how: How, queries: &[Query]) -> Bytes {
    let mut out = BytesMut::with_capacity(32 + queries.len() * 8);
    varint::put(&mut out, shard.into());
    match how {
        How::Linearizable => out.put_u8(0),
        How::News { floor, bytes_min, wait_ms } => {
            out.put_u8(1);
            for number in [floor, bytes_min as u64, wait_ms] {
                varint::put(&mut out, number);
            }
        }
    }
    varint::put(&mut out, queries.len() as u64);
    let mut topic = TopicId::ZERO;
    for query in queries {
        let again = query.partition.topic == topic;
        topic = query.partition.topic;
        out.put_u8(kind_of(&query.question) << 1 | u8::from(again));
        if !again {
            out.put_slice(topic.as_bytes());
        }
        varint::put_signed(&mut out, query.partition.index.into());
        varint::put_signed(&mut out, query.client_epoch.into());
        match query.question {
            Question::Look { offset, bytes_max } => {
                varint::put_signed(&mut out, offset);
                varint::put(&mut out, bytes_max as u64);
            }
            Question::FromTime(time) => varint::put_signed(&mut out, time),
            Question::EpochEnd(epoch) => varint::put_signed(&mut out, epoch.into()),
            Question::Latest | Question::Earliest | Question::MaxTime => {}
        }
    }
    out.freeze()
}

/// What follows the shard.
pub(super) fn decode_queries(bytes: &[u8]) -> Result<(How, Vec<Query>), Malformed> {
    let mut r = Reader::new(bytes);
    let how = match r.byte()? {
        0 => How::Linearizable,
        1 => How::News { floor: r.u64()?, bytes_min: r.int()?, wait_ms: r.u64()? },
        _ => return Err(Malformed),
    };
    let count = r.count(3)?;
    if count > QUERIES_MAX {
        return Err(Malformed);
    }
    let mut topic = TopicId::ZERO;
    let mut queries = Vec::with_capacity(count);
    for _ in 0..count {
        let tag = r.byte()?;
        if tag & 1 == 0 {
            topic = TopicId::from_bytes(r.array()?);
        }
        let (index, client_epoch) = (small(&mut r)?, small(&mut r)?);
        let question = match tag >> 1 {
            0 => Question::Look { offset: r.signed()?, bytes_max: r.int()? },
            1 => Question::Latest,
            2 => Question::Earliest,
            3 => Question::FromTime(r.signed()?),
            4 => Question::MaxTime,
            5 => Question::EpochEnd(small(&mut r)?),
            _ => return Err(Malformed),
        };
        queries.push(Query { partition: Partition { topic, index }, client_epoch, question });
    }
    r.finish()?;
    Ok((how, queries))
}

fn kind_of(question: &Question) -> u8 {
    match question {
        Question::Look { .. } => 0,
        Question::Latest => 1,
        Question::Earliest => 2,
        Question::FromTime(_) => 3,
        Question::MaxTime => 4,
        Question::EpochEnd(_) => 5,
    }
}

fn small(r: &mut Reader) -> Result<i32, Malformed> {
    i32::try_from(r.signed()?).map_err(|_| Malformed)
}

const FOUND: u8 = 0;
const AT: u8 = 1;
const POINTERS: u8 = 2;
const UNAVAILABLE: u8 = 3;
const NEWER_EPOCH: u8 = 4;
const OUT_OF_RANGE: u8 = 5;

/// `applied` is an index that what is told is not newer than.
pub(super) fn encode_replies(applied: u64, replies: &Replies) -> Bytes {
    let mut out = BytesMut::with_capacity(16 + replies.len() * 8);
    varint::put(&mut out, applied);
    let mut left = POINTERS_MAX;
    for reply in replies {
        match reply {
            Ok(Reply::Found(found)) => {
                out.put_u8(FOUND);
                for offset in [found.log_start_offset, found.last_stable_offset, found.high_watermark] {
                    varint::put_signed(&mut out, offset);
                }
                let taken = found.pointers.len().min(left);
                let more = found.more || taken < found.pointers.len();
                out.put_u8(u8::from(more) | u8::from(found.ahead) << 1);
                put_pointers(&mut out, &found.pointers[..taken]);
                left -= taken;
            }
            Ok(Reply::At { epoch, offset }) => {
                out.put_u8(AT);
                varint::put_signed(&mut out, (*epoch).into());
                varint::put_signed(&mut out, *offset);
            }
            Ok(Reply::Pointers { start, pointers }) => {
                out.put_u8(POINTERS);
                varint::put_signed(&mut out, *start);
                put_pointers(&mut out, pointers);
            }
            Err(Error::Unavailable) => out.put_u8(UNAVAILABLE),
            Err(Error::NewerEpoch) => out.put_u8(NEWER_EPOCH),
            Err(Error::OutOfRange) => out.put_u8(OUT_OF_RANGE),
        }
    }
    out.freeze()
}

/// The applied index, and a reply of the right kind to each query.
pub(super) fn decode_replies(queries: &[Query], bytes: &[u8]) -> Result<(u64, Replies), Malformed> {
    let mut r = Reader::new(bytes);
    let applied = r.u64()?;
    let replies = queries.iter().map(|query| decode_reply(query, &mut r)).collect::<Result<Replies, Malformed>>()?;
    r.finish()?;
    Ok((applied, replies))
}

fn decode_reply(query: &Query, r: &mut Reader) -> Result<Result<Reply, Error>, Malformed> {
    Ok(match (r.byte()?, query.question) {
        (FOUND, Question::Look { offset, .. }) => {
            let (log_start_offset, last_stable_offset, high_watermark) = (r.signed()?, r.signed()?, r.signed()?);
            let flags = r.byte()?;
            let pointers = take_pointers(r)?;
            let bytes = pointers.iter().fold(0, |sum: usize, p| sum.saturating_add(question::share(p, offset)));
            let (more, ahead) = (flags & 1 != 0, flags & 2 != 0);
            let offsets = Found { high_watermark, last_stable_offset, log_start_offset, ..Found::default() };
            Ok(Reply::Found(Found { pointers, bytes, more, ahead, ..offsets }))
        }
        (AT, Question::Latest | Question::Earliest | Question::EpochEnd(_)) => {
            Ok(Reply::At { epoch: small(r)?, offset: r.signed()? })
        }
        (POINTERS, Question::FromTime(_) | Question::MaxTime) => {
            Ok(Reply::Pointers { start: r.signed()?, pointers: take_pointers(r)? })
        }
        (UNAVAILABLE, _) => Err(Error::Unavailable),
        (NEWER_EPOCH, _) => Err(Error::NewerEpoch),
        (OUT_OF_RANGE, _) => Err(Error::OutOfRange),
        _ => return Err(Malformed),
    })
}

/// Each as its difference from the one before: what follows it in offsets and comes from the next object is all zeros
/// and ones. Differences wrap, so that no pair of numbers is impossible.
fn put_pointers(out: &mut BytesMut, pointers: &[BatchPointer]) {
    varint::put(out, pointers.len() as u64);
    let mut before = origin();
    for p in pointers {
        varint::put_signed(out, p.base.wrapping_sub(before.last));
        varint::put_signed(out, p.last.wrapping_sub(p.base));
        varint::put_signed(out, i64::from(p.leader_epoch) - i64::from(before.leader_epoch));
        varint::put_signed(out, i64::from(p.object.broker) - i64::from(before.object.broker));
        varint::put_signed(out, p.object.epoch.wrapping_sub(before.object.epoch) as i64);
        varint::put_signed(out, p.object.sequence.wrapping_sub(before.object.sequence) as i64);
        varint::put(out, p.object.packed().3.into());
        varint::put(out, p.start);
        varint::put(out, p.len);
        varint::put_signed(out, p.max_timestamp.wrapping_sub(before.max_timestamp));
        varint::put_signed(out, p.max_timestamp_so_far.wrapping_sub(p.max_timestamp));
        match p.append_time {
            None => out.put_u8(0),
            Some(time) => {
                out.put_u8(1);
                varint::put_signed(out, time.wrapping_sub(p.max_timestamp));
            }
        }
        before = *p;
    }
}

fn take_pointers(r: &mut Reader) -> Result<Vec<BatchPointer>, Malformed> {
    let count = r.count(12)?;
    let mut before = origin();
    let mut pointers = Vec::with_capacity(count);
    for _ in 0..count {
        let base: Offset = before.last.wrapping_add(r.signed()?);
        let last: Offset = base.wrapping_add(r.signed()?);
        let near = |old: i32, difference: i64| {
            i64::from(old).checked_add(difference).and_then(|new| i32::try_from(new).ok()).ok_or(Malformed)
        };
        let leader_epoch = near(before.leader_epoch, r.signed()?)?;
        let broker = near(before.object.broker, r.signed()?)?;
        let epoch = before.object.epoch.wrapping_add(r.signed()? as u64);
        let sequence = before.object.sequence.wrapping_add(r.signed()? as u64);
        let object = ObjectId::unpacked((broker, epoch, sequence, r.int()?));
        let (start, len) = (r.u64()?, r.u64()?);
        let max_timestamp: Timestamp = before.max_timestamp.wrapping_add(r.signed()?);
        let max_timestamp_so_far: Timestamp = max_timestamp.wrapping_add(r.signed()?);
        let append_time = match r.byte()? {
            0 => None,
            1 => Some(max_timestamp.wrapping_add(r.signed()?)),
            _ => return Err(Malformed),
        };
        before = BatchPointer {
            base,
            last,
            leader_epoch,
            object,
            start,
            len,
            max_timestamp,
            max_timestamp_so_far,
            append_time,
        };
        pointers.push(before);
    }
    Ok(pointers)
}

/// What the first pointer is told as a difference from.
fn origin() -> BatchPointer {
    BatchPointer {
        base: 0,
        last: 0,
        leader_epoch: 0,
        object: ObjectId::unpacked((0, 0, 0, 0)),
        start: 0,
        len: 0,
        max_timestamp: 0,
        max_timestamp_so_far: 0,
        append_time: None,
    }
}
