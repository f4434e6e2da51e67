use std::ops::Range;

use crate::types::{BrokerEpoch, BrokerId};

/// Names one write-ahead object. Never reused: the epoch is new at every start of a broker,
/// the sequence counts within it, and a repeated PUT of the same sequence is another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    pub broker: BrokerId,
    pub epoch: BrokerEpoch,
    pub sequence: u64,
    pub attempt: u16,
}

/// Bytes `[start, start + len)` of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ByteRange {
    pub start: u64,
    pub len: u64,
}

impl ByteRange {
    pub fn new(start: u64, len: u64) -> Self {
        ByteRange { start, len }
    }

    /// The first byte after the range. Saturates: a range from a hostile source never wraps.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.len)
    }

    pub fn contains(&self, other: &ByteRange) -> bool {
        self.start <= other.start && other.end() <= self.end()
    }
}

impl From<Range<u64>> for ByteRange {
    fn from(range: Range<u64>) -> Self {
        ByteRange::new(range.start, range.end.saturating_sub(range.start))
    }
}
