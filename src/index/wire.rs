//! Questions to another broker's replica, and its replies, packed: a few bytes for a partition, fifteen or so for a
//! pointer.

use bytes::{BufMut, Bytes, BytesMut};

use crate::index::pointers::{put_pointers, take_pointers};
use crate::index::question::{self, AbortedFrom, Error, Found, ProducerSeen, Query, Question, Replies, Reply};
use crate::types::varint::{self, Malformed, Reader};
use crate::types::{Offset, Partition, Producer, ShardId, TopicId};

/// More queries are never taken in one frame.
const QUERIES_MAX: usize = 1 << 20;
/// Pointers in one frame. Partitions past it show only that they have more, as in Kafka when a fetch is full.
pub(super) const POINTERS_MAX: usize = 8192;

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
        out.put_u8(kind_of(&query.question) << 2 | u8::from(query.committed) << 1 | u8::from(again));
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
            Question::Latest | Question::Earliest | Question::MaxTime | Question::Producers => {}
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
        let question = match tag >> 2 {
            0 => Question::Look { offset: r.signed()?, bytes_max: r.int()? },
            1 => Question::Latest,
            2 => Question::Earliest,
            3 => Question::FromTime(r.signed()?),
            4 => Question::MaxTime,
            5 => Question::EpochEnd(small(&mut r)?),
            6 => Question::Producers,
            _ => return Err(Malformed),
        };
        let committed = tag & 2 != 0;
        queries.push(Query { partition: Partition { topic, index }, client_epoch, committed, question });
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
        Question::Producers => 6,
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
const PRODUCERS: u8 = 6;

const MORE: u8 = 1;
const AHEAD: u8 = 2;
const ABORTED: u8 = 4;

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
                let flags = [(MORE, more), (AHEAD, found.ahead), (ABORTED, !found.aborted.is_empty())];
                out.put_u8(flags.into_iter().filter(|(_, set)| *set).fold(0, |all, (flag, _)| all | flag));
                put_pointers(&mut out, &found.pointers[..taken]);
                if !found.aborted.is_empty() {
                    put_aborted(&mut out, &found.aborted);
                }
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
            Ok(Reply::Producers(producers)) => {
                out.put_u8(PRODUCERS);
                put_producers(&mut out, producers);
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
            let (more, ahead) = (flags & MORE != 0, flags & AHEAD != 0);
            let aborted = if flags & ABORTED != 0 { take_aborted(r)? } else { Vec::new() };
            let offsets = Found { high_watermark, last_stable_offset, log_start_offset, ..Found::default() };
            Ok(Reply::Found(Found { pointers, aborted, bytes, more, ahead, ..offsets }))
        }
        (AT, Question::Latest | Question::Earliest | Question::EpochEnd(_)) => {
            Ok(Reply::At { epoch: small(r)?, offset: r.signed()? })
        }
        (POINTERS, Question::FromTime(_) | Question::MaxTime) => {
            Ok(Reply::Pointers { start: r.signed()?, pointers: take_pointers(r)? })
        }
        (PRODUCERS, Question::Producers) => Ok(Reply::Producers(take_producers(r)?)),
        (UNAVAILABLE, _) => Err(Error::Unavailable),
        (NEWER_EPOCH, _) => Err(Error::NewerEpoch),
        (OUT_OF_RANGE, _) => Err(Error::OutOfRange),
        _ => return Err(Malformed),
    })
}

fn put_aborted(out: &mut BytesMut, aborted: &[AbortedFrom]) {
    varint::put(out, aborted.len() as u64);
    let mut before = 0;
    for one in aborted {
        varint::put_signed(out, one.producer_id);
        varint::put_signed(out, one.first.wrapping_sub(before));
        before = one.first;
    }
}

fn take_aborted(r: &mut Reader) -> Result<Vec<AbortedFrom>, Malformed> {
    let count = r.count(2)?;
    let mut first: Offset = 0;
    let mut one = || {
        let producer_id = r.signed()?;
        first = first.wrapping_add(r.signed()?);
        Ok(AbortedFrom { producer_id, first })
    };
    (0..count).map(|_| one()).collect()
}

fn put_producers(out: &mut BytesMut, producers: &[ProducerSeen]) {
    varint::put(out, producers.len() as u64);
    for seen in producers {
        varint::put_signed(out, seen.producer.id);
        varint::put_signed(out, seen.producer.epoch.into());
        varint::put_signed(out, seen.last_sequence.into());
        varint::put_signed(out, seen.last_time);
        varint::put_signed(out, seen.coordinator_epoch.into());
        varint::put_signed(out, seen.open_since.unwrap_or(-1));
    }
}

fn take_producers(r: &mut Reader) -> Result<Vec<ProducerSeen>, Malformed> {
    let one = |r: &mut Reader| {
        let (id, epoch) = (r.signed()?, i16::try_from(r.signed()?).map_err(|_| Malformed)?);
        Ok(ProducerSeen {
            producer: Producer { id, epoch },
            last_sequence: small(r)?,
            last_time: r.signed()?,
            coordinator_epoch: small(r)?,
            open_since: Some(r.signed()?).filter(|first| *first >= 0),
        })
    };
    (0..r.count(6)?).map(|_| one(r)).collect()
}
