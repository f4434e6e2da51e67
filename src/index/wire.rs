//! Questions to another broker's replica, and its replies, packed: a few bytes for a partition, fifteen or so for a
//! pointer.

use bytes::{BufMut, Bytes, BytesMut};

use crate::index::question::{self, Error, Found, Query, Question, Replies, Reply};
use crate::shard::{BatchPointer, CONTROL_BATCH_BYTES, Control};
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
            Ok(Reply::Pointers(pointers)) => {
                out.put_u8(POINTERS);
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
        (POINTERS, Question::FromTime(_) | Question::MaxTime) => Ok(Reply::Pointers(take_pointers(r)?)),
        (UNAVAILABLE, _) => Err(Error::Unavailable),
        (NEWER_EPOCH, _) => Err(Error::NewerEpoch),
        (OUT_OF_RANGE, _) => Err(Error::OutOfRange),
        _ => return Err(Malformed),
    })
}

const STAMPED: u8 = 1;
const CONTROL: u8 = 2;
const COMMIT: u8 = 4;

/// Each as its difference from the one before: what follows it in offsets and comes from the next object is all zeros
/// and ones. Differences wrap, so that no pair of numbers is impossible.
fn put_pointers(out: &mut BytesMut, pointers: &[BatchPointer]) {
    varint::put(out, pointers.len() as u64);
    let mut before = origin();
    for p in pointers {
        let commits = p.control.is_some_and(|control| control.commit);
        let flags = [(STAMPED, p.append_time.is_some()), (CONTROL, p.control.is_some()), (COMMIT, commits)];
        out.put_u8(flags.into_iter().filter(|(_, set)| *set).fold(0, |all, (flag, _)| all | flag));
        varint::put_signed(out, p.base.wrapping_sub(before.last));
        varint::put_signed(out, p.last.wrapping_sub(p.base));
        varint::put_signed(out, i64::from(p.leader_epoch) - i64::from(before.leader_epoch));
        varint::put_signed(out, p.max_timestamp.wrapping_sub(before.max_timestamp));
        varint::put_signed(out, p.max_timestamp_so_far.wrapping_sub(p.max_timestamp));
        p.append_time.inspect(|time| varint::put_signed(out, time.wrapping_sub(p.max_timestamp)));
        let object = match p.control {
            Some(control) => {
                varint::put_signed(out, control.producer_id);
                varint::put_signed(out, control.producer_epoch.into());
                varint::put_signed(out, control.coordinator_epoch.into());
                before.object
            }
            None => {
                varint::put_signed(out, i64::from(p.object.broker) - i64::from(before.object.broker));
                varint::put_signed(out, p.object.epoch.wrapping_sub(before.object.epoch) as i64);
                varint::put_signed(out, p.object.sequence.wrapping_sub(before.object.sequence) as i64);
                varint::put(out, p.object.packed().3.into());
                varint::put(out, p.start);
                varint::put(out, p.len);
                p.object
            }
        };
        before = BatchPointer { object, ..*p };
    }
}

fn take_pointers(r: &mut Reader) -> Result<Vec<BatchPointer>, Malformed> {
    let count = r.count(9)?;
    let mut before = origin();
    let mut pointers = Vec::with_capacity(count);
    for _ in 0..count {
        let flags = r.byte()?;
        if flags & !(STAMPED | CONTROL | COMMIT) != 0 {
            return Err(Malformed);
        }
        let base: Offset = before.last.wrapping_add(r.signed()?);
        let last: Offset = base.wrapping_add(r.signed()?);
        let leader_epoch = near(before.leader_epoch, r.signed()?)?;
        let max_timestamp: Timestamp = before.max_timestamp.wrapping_add(r.signed()?);
        let max_timestamp_so_far: Timestamp = max_timestamp.wrapping_add(r.signed()?);
        let append_time = match flags & STAMPED {
            0 => None,
            _ => Some(max_timestamp.wrapping_add(r.signed()?)),
        };
        let placed = match flags & CONTROL {
            0 => take_place(r, before.object)?,
            _ => BatchPointer { control: Some(take_control(r, flags & COMMIT != 0)?), ..origin() },
        };
        let pointer =
            BatchPointer { base, last, leader_epoch, max_timestamp, max_timestamp_so_far, append_time, ..placed };
        let object = if pointer.control.is_some() { before.object } else { pointer.object };
        before = BatchPointer { object, ..pointer };
        pointers.push(pointer);
    }
    Ok(pointers)
}

fn near(old: i32, difference: i64) -> Result<i32, Malformed> {
    i64::from(old).checked_add(difference).and_then(|new| i32::try_from(new).ok()).ok_or(Malformed)
}

fn take_place(r: &mut Reader, before: ObjectId) -> Result<BatchPointer, Malformed> {
    let broker = near(before.broker, r.signed()?)?;
    let epoch = before.epoch.wrapping_add(r.signed()? as u64);
    let sequence = before.sequence.wrapping_add(r.signed()? as u64);
    let object = ObjectId::unpacked((broker, epoch, sequence, r.int()?));
    Ok(BatchPointer { object, start: r.u64()?, len: r.u64()?, ..origin() })
}

fn take_control(r: &mut Reader, commit: bool) -> Result<Control, Malformed> {
    let producer_id = r.signed()?;
    let producer_epoch = i16::try_from(r.signed()?).map_err(|_| Malformed)?;
    Ok(Control { producer_id, producer_epoch, commit, coordinator_epoch: small(r)? })
}

/// What the first pointer is told as a difference from, and the place of one that no object holds.
fn origin() -> BatchPointer {
    BatchPointer {
        base: 0,
        last: 0,
        leader_epoch: 0,
        object: ObjectId::unpacked((0, 0, 0, 0)),
        start: 0,
        len: CONTROL_BATCH_BYTES.into(),
        max_timestamp: 0,
        max_timestamp_so_far: 0,
        append_time: None,
        control: None,
    }
}
