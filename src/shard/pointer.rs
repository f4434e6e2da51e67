use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::types::{ByteRange, LeaderEpoch, ObjectId, Offset, Producer, Timestamp};

/// Where one partition's bytes for a span of offsets are: the only thing of a record that Raft sees.
///
/// ```text
/// offsets   [base, last]         one or more RecordBatches, back to back
/// bytes     object[start .. start + len)
/// ```
/// A span, not a count: compaction may leave holes in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchPointer {
    pub base: Offset,
    pub last: Offset,
    pub leader_epoch: LeaderEpoch,
    #[serde(with = "packed_object")]
    pub object: ObjectId,
    pub start: u64,
    pub len: u64,
    /// Largest record timestamp in the span.
    pub max_timestamp: Timestamp,
    /// Largest record timestamp in this and every earlier pointer of the partition: makes lookup by time a binary search.
    pub max_timestamp_so_far: Timestamp,
    /// Set when the topic stamps records on append (`message.timestamp.type=LogAppendTime`).
    pub append_time: Option<Timestamp>,
    /// The end of a transaction. Its batch is made of this when it is read: no object holds it, and what names one here
    /// (`object`, `start`) is zero.
    pub control: Option<Control>,
}

/// A transaction's end in a partition (Kafka: a control batch).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub commit: bool,
    pub coordinator_epoch: i32,
}

/// The size of the batch that is made of a [`Control`].
pub const CONTROL_BATCH_BYTES: u32 = 78;

impl Control {
    pub fn producer(&self) -> Producer {
        Producer { id: self.producer_id, epoch: self.producer_epoch }
    }
}

impl BatchPointer {
    /// Bytes of an object: a control pointer has none.
    pub fn stored_bytes(&self) -> u64 {
        if self.control.is_some() { 0 } else { self.len }
    }

    pub fn range(&self) -> ByteRange {
        ByteRange::new(self.start, self.len)
    }
}

/// One partition's pointers, oldest first, contiguous in offsets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Stored")]
pub struct PointerLog {
    pointers: VecDeque<BatchPointer>,
    /// Of all pointers together; counted anew after a restore.
    #[serde(skip)]
    bytes: u64,
}

/// As a snapshot has it.
#[derive(Deserialize)]
struct Stored {
    pointers: VecDeque<BatchPointer>,
}

impl From<Stored> for PointerLog {
    fn from(Stored { pointers }: Stored) -> PointerLog {
        let bytes = pointers.iter().fold(0, |sum: u64, p| sum.saturating_add(p.stored_bytes()));
        PointerLog { pointers, bytes }
    }
}

impl PointerLog {
    /// The caller has checked that `pointer.base` is the end of the log.
    pub(super) fn push(&mut self, mut pointer: BatchPointer) {
        let so_far = self.pointers.back().map_or(Timestamp::MIN, |p| p.max_timestamp_so_far);
        pointer.max_timestamp_so_far = so_far.max(pointer.max_timestamp);
        self.bytes = self.bytes.saturating_add(pointer.stored_bytes());
        self.pointers.push_back(pointer);
    }

    /// Grows the last pointer by `next` when the two are one run of bytes of one object.
    pub(super) fn extend_last(&mut self, next: &BatchPointer) -> bool {
        let Some(last) = self.pointers.back_mut() else { return false };
        let adjacent = last.object == next.object
            && last.control.is_none()
            && last.start + last.len == next.start
            && last.last + 1 == next.base
            && last.leader_epoch == next.leader_epoch
            && last.append_time == next.append_time;
        if adjacent {
            last.last = next.last;
            last.len += next.len;
            self.bytes = self.bytes.saturating_add(next.len);
            last.max_timestamp = last.max_timestamp.max(next.max_timestamp);
            last.max_timestamp_so_far = last.max_timestamp_so_far.max(next.max_timestamp);
        }
        adjacent
    }

    /// Drops the pointers that have no record at or above `start`.
    pub(super) fn drop_below(&mut self, start: Offset) {
        while let Some(first) = self.pointers.front().filter(|p| p.last < start) {
            self.bytes = self.bytes.saturating_sub(first.stored_bytes());
            self.pointers.pop_front();
        }
    }

    /// Bytes of the object store that the pointers cover.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn len(&self) -> usize {
        self.pointers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pointers.is_empty()
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &BatchPointer> {
        self.pointers.iter()
    }

    /// Pointers from the one that contains `offset` onward: O(log n) to find, whatever the depth.
    pub fn from_offset(&self, offset: Offset) -> impl Iterator<Item = &BatchPointer> {
        let first = self.pointers.partition_point(|p| p.last < offset);
        self.pointers.range(first..)
    }

    /// Pointers that may hold a record with timestamp ≥ `target`, from the first such onward.
    pub fn from_timestamp(&self, target: Timestamp) -> impl Iterator<Item = &BatchPointer> {
        let first = self.pointers.partition_point(|p| p.max_timestamp_so_far < target);
        self.pointers.range(first..).filter(move |p| p.max_timestamp >= target)
    }

    /// The earliest pointer that holds the largest timestamp.
    pub fn max_timestamp(&self) -> Option<&BatchPointer> {
        let max = self.pointers.iter().map(|p| p.max_timestamp).max()?;
        self.pointers.iter().find(|p| p.max_timestamp == max)
    }

    /// Finds where `object`'s byte `start` went, looking back over at most `POINTERS_SEARCHED_MAX` pointers.
    pub fn find_object(&self, object: ObjectId, start: u64) -> Option<&BatchPointer> {
        const POINTERS_SEARCHED_MAX: usize = 4096;
        self.pointers
            .iter()
            .rev()
            .take(POINTERS_SEARCHED_MAX)
            .find(|p| p.object == object && p.start <= start && start < p.start + p.len)
    }
}

/// Four small numbers instead of a map with field names.
mod packed_object {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::types::ObjectId;

    pub fn serialize<S: Serializer>(id: &ObjectId, s: S) -> Result<S::Ok, S::Error> {
        id.packed().serialize(s)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<ObjectId, D::Error> {
        Deserialize::deserialize(d).map(ObjectId::unpacked)
    }
}
