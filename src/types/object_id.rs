use std::ops::Range;

use crate::types::{BrokerEpoch, BrokerId};

/// Where the copies of an object are: the store's own care, or ours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StorageClass {
    /// One bucket that a zone's loss does not touch.
    #[default]
    Regional,
    /// A bucket in each zone, a copy in each.
    Zonal,
}

impl StorageClass {
    pub const ALL: [StorageClass; 2] = [StorageClass::Regional, StorageClass::Zonal];

    /// As topics and operators spell it.
    pub fn name(self) -> &'static str {
        match self {
            StorageClass::Regional => "regional",
            StorageClass::Zonal => "zonal",
        }
    }

    pub fn of_name(name: &str) -> Option<StorageClass> {
        StorageClass::ALL.into_iter().find(|class| class.name() == name)
    }
}

/// The most attempts at one object.
pub const ATTEMPT_MAX: u16 = 0x7fff;

/// The bit above the attempts, set for an object of the zonal class.
const ZONAL: u16 = 0x8000;

/// Names one write-ahead object. Never reused: the epoch is new at every start of a broker,
/// the sequence counts within it, and a repeated PUT of the same sequence is another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    pub broker: BrokerId,
    pub epoch: BrokerEpoch,
    pub sequence: u64,
    /// At most [`ATTEMPT_MAX`].
    pub attempt: u16,
    pub class: StorageClass,
}

impl ObjectId {
    /// ▲ As pointers carry it: broker, epoch, sequence, and the attempt with the class in its highest bit, so that an
    /// object of the regional class costs nothing more.
    pub fn packed(&self) -> (BrokerId, BrokerEpoch, u64, u16) {
        debug_assert!(self.attempt <= ATTEMPT_MAX, "{self:?}");
        let class = if self.class == StorageClass::Zonal { ZONAL } else { 0 };
        (self.broker, self.epoch, self.sequence, self.attempt | class)
    }

    pub fn unpacked((broker, epoch, sequence, attempt): (BrokerId, BrokerEpoch, u64, u16)) -> ObjectId {
        let class = if attempt & ZONAL == 0 { StorageClass::Regional } else { StorageClass::Zonal };
        ObjectId { broker, epoch, sequence, attempt: attempt & ATTEMPT_MAX, class }
    }
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
