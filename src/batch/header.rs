use bytes::Buf;

use super::Error;
use crate::types::{LeaderEpoch, Offset, Producer, Timestamp};

/// Bytes before the first record.
pub const HEADER_BYTES: usize = 61;

/// `baseOffset` and `batchLength`, which `batchLength` does not count.
const LENGTH_OVERHEAD_BYTES: usize = 12;

/// Where the CRC's cover begins.
pub(super) const CRC_START: usize = 21;

/// The producer of a batch that is neither idempotent nor transactional.
pub const NO_PRODUCER: Producer = Producer { id: -1, epoch: -1 };

/// The base sequence of a batch without producer.
pub const NO_SEQUENCE: i32 = -1;

/// Who set the timestamps of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampType {
    CreateTime,
    LogAppendTime,
}

/// How the records after the header are compressed (attribute bits 0 to 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl Codec {
    pub(super) fn number(self) -> i16 {
        match self {
            Codec::None => 0,
            Codec::Gzip => 1,
            Codec::Snappy => 2,
            Codec::Lz4 => 3,
            Codec::Zstd => 4,
        }
    }
}

/// The attribute bits of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes(pub i16);

impl Attributes {
    pub(super) const LOG_APPEND_TIME: i16 = 1 << 3;
    pub(super) const TRANSACTIONAL: i16 = 1 << 4;
    pub(super) const CONTROL: i16 = 1 << 5;

    /// # Errors
    /// `UnsupportedCodec` for the numbers 5 to 7, which Kafka has not given out.
    pub fn codec(self) -> Result<Codec, Error> {
        match self.0 & 0b111 {
            0 => Ok(Codec::None),
            1 => Ok(Codec::Gzip),
            2 => Ok(Codec::Snappy),
            3 => Ok(Codec::Lz4),
            4 => Ok(Codec::Zstd),
            other => Err(Error::UnsupportedCodec(other as u8)),
        }
    }

    pub fn timestamp_type(self) -> TimestampType {
        if self.0 & Self::LOG_APPEND_TIME == 0 { TimestampType::CreateTime } else { TimestampType::LogAppendTime }
    }

    /// As the producer's own times would be marked.
    pub fn with_create_time(self) -> Attributes {
        Attributes(self.0 & !Self::LOG_APPEND_TIME)
    }

    /// The same with another codec.
    pub(super) fn with_codec(self, codec: Codec) -> Attributes {
        Attributes(self.0 & !0b111 | codec.number())
    }

    pub fn is_transactional(self) -> bool {
        self.0 & Self::TRANSACTIONAL != 0
    }

    pub fn is_control(self) -> bool {
        self.0 & Self::CONTROL != 0
    }
}

/// The header of a v2 batch, as it stands in the bytes: nothing here is checked beyond magic and length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub base_offset: Offset,
    /// Bytes of the whole batch, header included; never more than the bytes that were peeked at.
    pub total_len: usize,
    pub leader_epoch: LeaderEpoch,
    pub crc: u32,
    pub attributes: Attributes,
    pub last_offset_delta: i32,
    pub base_timestamp: Timestamp,
    pub max_timestamp: Timestamp,
    pub producer: Producer,
    pub base_sequence: i32,
    pub count: i32,
}

impl Header {
    /// Reads the header of the first batch in `bytes`, which must hold that batch whole.
    ///
    /// # Errors
    /// `InvalidMagic` for another format, `Corrupt` when the length is nonsense, `Cut` when it exceeds what is there.
    pub fn peek(bytes: &[u8]) -> Result<Header, Error> {
        // The magic stands in the same place in every format, and old formats have shorter headers.
        if let Some(&magic) = bytes.get(16)
            && magic != 2
        {
            return Err(Error::InvalidMagic(magic as i8));
        }
        let Some(mut head) = bytes.get(..HEADER_BYTES) else {
            return Err(Error::Corrupt("shorter than a batch header"));
        };
        let base_offset = head.get_i64();
        let batch_length = head.get_i32();
        let leader_epoch = head.get_i32();
        head.advance(1);
        let total_len = usize::try_from(batch_length)
            .ok()
            .and_then(|length| length.checked_add(LENGTH_OVERHEAD_BYTES))
            .filter(|&total| total >= HEADER_BYTES)
            .ok_or(Error::Corrupt("batch length is shorter than a header"))?;
        if total_len > bytes.len() {
            return Err(Error::Cut);
        }
        Ok(Header {
            base_offset,
            total_len,
            leader_epoch,
            crc: head.get_u32(),
            attributes: Attributes(head.get_i16()),
            last_offset_delta: head.get_i32(),
            base_timestamp: head.get_i64(),
            max_timestamp: head.get_i64(),
            producer: Producer { id: head.get_i64(), epoch: head.get_i16() },
            base_sequence: head.get_i32(),
            count: head.get_i32(),
        })
    }

    /// The sequence of the last record. Kafka's sequences wrap to 0 after `i32::MAX`.
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence == NO_SEQUENCE {
            return NO_SEQUENCE;
        }
        let last = i64::from(self.base_sequence) + i64::from(self.last_offset_delta.max(0));
        (last % (i64::from(i32::MAX) + 1)) as i32
    }
}
