//! ▲ What a shard's Raft log carries. First byte the kind, second the version of that kind; then packed numbers.
//! A kind or version that this build does not know stops the replica: skipping it would let replicas differ.

use bytes::{BufMut, Bytes, BytesMut};

use crate::shard::group::{self, GroupCommits, GroupEntry};
use crate::shard::marker::Markers;
use crate::shard::share::{self, ShareEntry};
use crate::shard::transaction::{self, TransactionEntry};
use crate::types::varint::{self, Malformed, Reader};
use crate::types::{BrokerEpoch, BrokerId, LeaderEpoch, ObjectId, Offset, Partition, Producer, Timestamp, TopicId};

/// A partition's number inside its shard: issued in order of creation, never reused.
pub type Slot = u32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    Create(Create),
    Append {
        append_time: Timestamp,
        append: Append,
    },
    Release(Release),
    Delete {
        topic: TopicId,
    },
    Fence(Fence),
    ExpireProducers {
        before: Timestamp,
    },
    /// Partitions begin at these offsets from here on; what is below is gone.
    Trim {
        starts: Vec<(Slot, Offset)>,
    },
    Markers(Markers),
    Group(GroupEntry),
    GroupCommits(GroupCommits),
    /// From here on appends to the topic's partitions are stamped or not. A change that is older than the last one known
    /// changes nothing: it may be late.
    Stamping {
        topic: TopicId,
        stamped: bool,
        change: u64,
    },
    Transaction(TransactionEntry),
    Share(ShareEntry),
    /// Time has passed for groups and transactions whose coordinator had nothing to say.
    GroupClock {
        term: u64,
        clock_ms: u64,
    },
}

/// Partitions of one topic begin to exist in this shard. Repeating it changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Create {
    pub topic: TopicId,
    pub partitions: Vec<i32>,
    /// `leader_epoch = epoch_base + term`.
    pub epoch_base: LeaderEpoch,
    /// `message.timestamp.type=LogAppendTime`.
    pub append_time: bool,
    /// The root's fence table at the time: a shard is born with it.
    pub fences: Vec<Fence>,
}

/// One object's batches for this shard. Packed once by the broker that took the bytes, carried as is into the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Append {
    pub object: ObjectId,
    /// The object of the same broker and epoch before this one in this shard; 0 for the first.
    pub previous: u64,
    pub parts: Vec<Part>,
}

/// Byte-adjacent batches of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub slot: Slot,
    pub start: u64,
    pub batches: Vec<Batch>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    pub len: u32,
    /// Offsets taken: the batch's last offset delta + 1.
    pub span: u32,
    pub max_timestamp: Timestamp,
    pub sequence: Option<Sequence>,
}

/// Idempotent producer's claim (KIP-98): this batch holds sequences `[base, base + span)`, and is part of that
/// transaction of the producer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequence {
    pub producer: Producer,
    pub base: i32,
    /// The number that the coordinator gave to the transaction, from 1 on.
    pub transaction: Option<u64>,
}

/// Ends the wait of a producer's held batches in one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    pub slot: Slot,
    pub producer_id: i64,
    /// Nothing can come before what is held: an unknown producer begins with it, a known one has left a gap.
    pub settled: bool,
}

/// Objects of `broker` below (epoch, sequence) are refused from here on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    pub broker: BrokerId,
    pub epoch: BrokerEpoch,
    pub sequence: u64,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum DecodeError {
    #[error("entry kind {kind} version {version} is not known to this build")]
    Unknown { kind: u8, version: u8 },
    #[error("entry bytes are malformed")]
    Malformed(#[from] Malformed),
}

const CREATE: u8 = 1;
const APPEND: u8 = 2;
const RELEASE: u8 = 3;
const DELETE: u8 = 4;
const FENCE: u8 = 5;
const EXPIRE_PRODUCERS: u8 = 6;
// 7 to 11, 32 and 33: a group's.
const GROUP_CLOCK: u8 = 12;
const TRIM: u8 = 44;
// 20 to 24: a transaction's.
const STAMPING: u8 = 36;
const MARKERS: u8 = 40;
// 41 and 47: a group's. 46: a share group's progress.

impl Entry {
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(64);
        match self {
            Entry::Create(create) => {
                out.put_slice(&[CREATE, 1]);
                out.put_slice(create.topic.as_bytes());
                varint::put(&mut out, create.partitions.len() as u64);
                create.partitions.iter().for_each(|index| varint::put(&mut out, *index as u64));
                varint::put_signed(&mut out, create.epoch_base.into());
                out.put_u8(create.append_time.into());
                varint::put(&mut out, create.fences.len() as u64);
                create.fences.iter().for_each(|fence| fence.put(&mut out));
            }
            Entry::Append { append_time, append } => return append_entry(*append_time, &append.encode()),
            Entry::Release(release) => {
                out.put_slice(&[RELEASE, 1]);
                varint::put(&mut out, release.slot.into());
                varint::put_signed(&mut out, release.producer_id);
                out.put_u8(release.settled.into());
            }
            Entry::Delete { topic } => {
                out.put_slice(&[DELETE, 1]);
                out.put_slice(topic.as_bytes());
            }
            Entry::Fence(fence) => {
                out.put_slice(&[FENCE, 1]);
                fence.put(&mut out);
            }
            Entry::ExpireProducers { before } => {
                out.put_slice(&[EXPIRE_PRODUCERS, 1]);
                varint::put_signed(&mut out, *before);
            }
            Entry::Trim { starts } => {
                out.put_slice(&[TRIM, 1]);
                varint::put(&mut out, starts.len() as u64);
                for (slot, start) in starts {
                    varint::put(&mut out, (*slot).into());
                    varint::put_signed(&mut out, *start);
                }
            }
            Entry::Stamping { topic, stamped, change } => {
                out.put_slice(&[STAMPING, 1]);
                out.put_slice(topic.as_bytes());
                out.put_u8((*stamped).into());
                varint::put(&mut out, *change);
            }
            Entry::Markers(markers) => {
                out.put_slice(&[MARKERS, 1]);
                markers.put(&mut out);
            }
            Entry::Group(entry) => entry.put(&mut out),
            Entry::GroupCommits(entry) => entry.put(&mut out),
            Entry::Transaction(entry) => entry.put(&mut out),
            Entry::Share(entry) => entry.put(&mut out),
            Entry::GroupClock { term, clock_ms } => {
                out.put_slice(&[GROUP_CLOCK, 1]);
                varint::put(&mut out, *term);
                varint::put(&mut out, *clock_ms);
            }
        }
        out.freeze()
    }

    pub fn decode(bytes: &[u8]) -> Result<Entry, DecodeError> {
        let mut r = Reader::new(bytes);
        let entry = match (r.byte()?, r.byte()?) {
            (CREATE, 1) => Entry::Create(Create {
                topic: TopicId::from_bytes(r.array()?),
                partitions: (0..r.count(1)?).map(|_| r.int()).collect::<Result<_, _>>()?,
                epoch_base: i32::try_from(r.signed()?).map_err(|_| Malformed)?,
                append_time: r.byte()? != 0,
                fences: (0..r.count(3)?).map(|_| Fence::read(&mut r)).collect::<Result<_, _>>()?,
            }),
            (APPEND, 1) => {
                let append_time = r.signed()?;
                Entry::Append { append_time, append: Append::read(&mut r)? }
            }
            (RELEASE, 1) => {
                Entry::Release(Release { slot: r.int()?, producer_id: r.signed()?, settled: r.byte()? != 0 })
            }
            (DELETE, 1) => Entry::Delete { topic: TopicId::from_bytes(r.array()?) },
            (FENCE, 1) => Entry::Fence(Fence::read(&mut r)?),
            (EXPIRE_PRODUCERS, 1) => Entry::ExpireProducers { before: r.signed()? },
            (TRIM, 1) => Entry::Trim {
                starts: (0..r.count(2)?).map(|_| Ok((r.int()?, r.signed()?))).collect::<Result<_, Malformed>>()?,
            },
            (kind @ transaction::INIT..=transaction::REMOVE, 1) => {
                Entry::Transaction(TransactionEntry::read(kind, &mut r)?)
            }
            (
                kind @ (group::COMMIT..=group::DELETE_IF_UNUSED
                | group::CONSUMER
                | group::TRANSACTIONAL_COMMIT
                | group::SHARE),
                1,
            ) => Entry::Group(GroupEntry::read(kind, &mut r)?),
            (group::COMMITS, 1) => Entry::GroupCommits(GroupCommits::read(&mut r)?),
            (share::SHARE, 1) => Entry::Share(ShareEntry::read(&mut r)?),
            (MARKERS, 1) => Entry::Markers(Markers::read(&mut r)?),
            (GROUP_CLOCK, 1) => Entry::GroupClock { term: r.u64()?, clock_ms: r.u64()? },
            (STAMPING, 1) => {
                Entry::Stamping { topic: TopicId::from_bytes(r.array()?), stamped: r.byte()? != 0, change: r.u64()? }
            }
            (kind, version) => return Err(DecodeError::Unknown { kind, version }),
        };
        r.finish()?;
        Ok(entry)
    }
}

/// An append entry around an already packed [`Append`]: the leader adds the time and nothing else.
pub fn append_entry(append_time: Timestamp, packed: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(packed.len() + 12);
    out.put_slice(&[APPEND, 1]);
    varint::put_signed(&mut out, append_time);
    out.put_slice(packed);
    out.freeze()
}

impl Fence {
    fn put(&self, out: &mut BytesMut) {
        varint::put(out, self.broker as u64);
        varint::put(out, self.epoch);
        varint::put(out, self.sequence);
    }

    fn read(r: &mut Reader) -> Result<Fence, Malformed> {
        Ok(Fence { broker: r.int()?, epoch: r.u64()?, sequence: r.u64()? })
    }
}

// A batch's flag byte: what follows its two lengths.
const IDEMPOTENT: u8 = 1;
/// Same producer as the batch before it in this part, and its sequences follow on: nothing more is written.
const FOLLOWS: u8 = 2;
/// Same producer, epoch and transaction as the last one written in this object.
const SAME_PRODUCER: u8 = 4;
/// The number of the transaction follows the producer. Batches of the other kinds that refer to it say nothing.
const TRANSACTIONAL: u8 = 8;

/// Whose batch the last one was, and in which transaction.
type Author = (Producer, Option<u64>);

impl Append {
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(24 + self.parts.len() * 24);
        let (broker, epoch, sequence, attempt) = self.object.packed();
        varint::put(&mut out, broker as u64);
        varint::put(&mut out, epoch);
        varint::put(&mut out, sequence);
        varint::put(&mut out, attempt.into());
        varint::put(&mut out, sequence - self.previous);
        // Timestamps cluster: each is written as its distance from the one before.
        let mut timestamp = 0;
        let (mut slot, mut end, mut author) = (0, 0, None);
        varint::put(&mut out, self.parts.len() as u64);
        for part in &self.parts {
            varint::put_signed(&mut out, i64::from(part.slot) - i64::from(slot));
            varint::put(&mut out, part.start - end);
            varint::put(&mut out, part.batches.len() as u64);
            (slot, end) = (part.slot, part.start);
            let mut before: Option<Batch> = None;
            for batch in &part.batches {
                batch.put(&mut out, before, &mut author, &mut timestamp);
                end += u64::from(batch.len);
                before = Some(*batch);
            }
        }
        out.freeze()
    }

    pub fn decode(bytes: &[u8]) -> Result<Append, Malformed> {
        let mut r = Reader::new(bytes);
        let append = Append::read(&mut r)?;
        r.finish()?;
        Ok(append)
    }

    fn read(r: &mut Reader) -> Result<Append, Malformed> {
        let object = ObjectId::unpacked((r.int()?, r.u64()?, r.u64()?, r.int()?));
        let previous = object.sequence.checked_sub(r.u64()?).ok_or(Malformed)?;
        let mut timestamp = 0;
        let (mut slot, mut end, mut author) = (0i64, 0u64, None);
        let count = r.count(3)?;
        let mut parts = Vec::with_capacity(count);
        for _ in 0..count {
            slot = slot.checked_add(r.signed()?).ok_or(Malformed)?;
            let start = end.checked_add(r.u64()?).ok_or(Malformed)?;
            let count = r.count(4)?;
            let mut batches = Vec::with_capacity(count);
            end = start;
            for _ in 0..count {
                let batch = Batch::read(r, batches.last(), &mut author, &mut timestamp)?;
                end = end.checked_add(batch.len.into()).ok_or(Malformed)?;
                batches.push(batch);
            }
            parts.push(Part { slot: Slot::try_from(slot).map_err(|_| Malformed)?, start, batches });
        }
        Ok(Append { object, previous, parts })
    }
}

impl Batch {
    fn put(&self, out: &mut BytesMut, before: Option<Batch>, author: &mut Option<Author>, timestamp: &mut Timestamp) {
        let follows = self.sequence.is_some() && before.and_then(|b| b.next_sequence()) == self.sequence;
        let same = self.sequence.is_some_and(|s| *author == Some(s.author()));
        let flags = match self.sequence {
            None => 0,
            Some(_) if follows => IDEMPOTENT | FOLLOWS,
            Some(_) if same => IDEMPOTENT | SAME_PRODUCER,
            Some(Sequence { transaction: Some(_), .. }) => IDEMPOTENT | TRANSACTIONAL,
            Some(_) => IDEMPOTENT,
        };
        out.put_u8(flags);
        varint::put(out, self.len.into());
        varint::put(out, self.span.into());
        varint::put_signed(out, self.max_timestamp.wrapping_sub(*timestamp));
        *timestamp = self.max_timestamp;
        if let Some(sequence) = self.sequence
            && !follows
        {
            if !same {
                varint::put_signed(out, sequence.producer.id);
                varint::put_signed(out, sequence.producer.epoch.into());
                sequence.transaction.inspect(|number| varint::put(out, *number));
            }
            varint::put(out, sequence.base as u64);
            *author = Some(sequence.author());
        }
    }

    fn read(
        r: &mut Reader,
        before: Option<&Batch>,
        author: &mut Option<Author>,
        timestamp: &mut Timestamp,
    ) -> Result<Batch, Malformed> {
        let flags = r.byte()?;
        let (len, span) = (r.int()?, r.int()?);
        *timestamp = timestamp.wrapping_add(r.signed()?);
        let sequence = match flags {
            0 => None,
            f if f == IDEMPOTENT | FOLLOWS => Some(before.and_then(|b| b.next_sequence()).ok_or(Malformed)?),
            f if f == IDEMPOTENT | SAME_PRODUCER => {
                let (producer, transaction) = author.ok_or(Malformed)?;
                Some(Sequence { producer, base: r.int()?, transaction })
            }
            f if f == IDEMPOTENT || f == IDEMPOTENT | TRANSACTIONAL => {
                let id = r.signed()?;
                let epoch = i16::try_from(r.signed()?).map_err(|_| Malformed)?;
                let transaction = if f == IDEMPOTENT { None } else { Some(r.u64()?) };
                Some(Sequence { producer: Producer { id, epoch }, base: r.int()?, transaction })
            }
            _ => return Err(Malformed),
        };
        if let Some(sequence) = sequence {
            *author = Some(sequence.author());
        }
        if span == 0 {
            return Err(Malformed);
        }
        Ok(Batch { len, span, max_timestamp: *timestamp, sequence })
    }

    /// The claim that would continue this batch's.
    fn next_sequence(&self) -> Option<Sequence> {
        let sequence = self.sequence?;
        Some(Sequence { base: sequence_after(sequence.base, self.span), ..sequence })
    }
}

impl Sequence {
    fn author(&self) -> Author {
        (self.producer, self.transaction)
    }
}

/// Sequence numbers wrap from `i32::MAX` to 0 (Kafka: `DefaultRecordBatch.incrementSequence`).
pub fn sequence_after(base: i32, span: u32) -> i32 {
    ((i64::from(base) + i64::from(span)) % (i64::from(i32::MAX) + 1)) as i32
}

/// How far `sequence` is ahead of `expected`, across the wrap; negative when behind.
pub fn sequence_distance(expected: i32, sequence: i32) -> i64 {
    const CYCLE: i64 = i32::MAX as i64 + 1;
    let ahead = (i64::from(sequence) - i64::from(expected)).rem_euclid(CYCLE);
    if ahead < CYCLE / 2 { ahead } else { ahead - CYCLE }
}

/// Used by readers that only need to know which partition an entry's slot means.
pub fn partitions_of(create: &Create) -> impl Iterator<Item = Partition> + '_ {
    create.partitions.iter().map(|index| Partition { topic: create.topic, index: *index })
}

/// The offset just past a batch that starts at `base`.
pub fn end_of(base: Offset, batch: &Batch) -> Offset {
    base + Offset::from(batch.span)
}
