//! RecordBatch v2 as bytes: the lowest floor.
//!
//! In: bytes of a partition's `records` field, from a client or from an object.
//! Out: parsed headers, validated batches, batches patched for a reader, decoded records.
//!
//! Promises: bytes from outside are input, never trusted: every function answers an error instead of
//! panicking, and allocates no more than its caller's cap. A [`ValidBatch`] exists only if [`validate`]
//! has seen it. Record bytes are shared, not copied, from the socket to the store and back.
//!
//! Never: async, clocks, stores, Kafka error codes, topic names. It does not assign offsets.
//!
//! ```text
//!  0         8        12       16    17     21    23         27       35       43    51    57    61
//!  | base    | length | leader | mag | crc  | att | last off | base   | max    | producer    | n | records …
//!  | offset  |        | epoch  | ic  |      |     | delta    | time   | time   | id, ep, seq |   |
//!  '------ outside the CRC ----------'      '------------- covered by the CRC-32C ------------- …
//! ```
//!
//! Limits: a batch is at most `i32::MAX` bytes; the rest is [`Rules`] and the caps of [`records`].

pub mod build;
mod crc;
mod header;
mod inflate;
pub mod patch;
mod recompress;
pub mod records;
mod segments;
mod validate;
mod varint;

#[cfg(test)]
mod hostile_test;
#[cfg(test)]
mod records_test;
#[cfg(test)]
mod validate_test;

pub use header::{Attributes, Codec, HEADER_BYTES, Header, NO_PRODUCER, NO_SEQUENCE, TimestampType};
pub use recompress::Compression;
pub use segments::Segments;
pub use validate::{RECORDS_REJECTED_MAX, Rules, ValidBatch, validate};

use crate::types::Timestamp;

/// Why bytes are not an acceptable batch. The caller maps the variant to Kafka's code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Magic 0 and 1 were given up by Kafka 4; anything above 2 is unknown.
    #[error("record batch has magic {0}, only 2 is supported")]
    InvalidMagic(i8),
    /// The bytes were damaged or cut on their way: sending them again may help.
    #[error("corrupt record batch: {0}")]
    Corrupt(&'static str),
    /// There are fewer bytes than the batch says: its sender counted wrong, the frame around it is whole.
    #[error("record batch is cut")]
    Cut,
    #[error("record batch of {bytes} bytes exceeds the limit of {max}")]
    TooLarge { bytes: usize, max: usize },
    /// Codec 5 to 7, or zstd from a client whose protocol version has none.
    #[error("compression codec {0} is not supported here")]
    UnsupportedCodec(u8),
    /// The batch arrived as it was sent, and what was sent is wrong: sending it again is of no use.
    #[error("invalid record batch: {0}")]
    InvalidRecord(&'static str),
    /// A time that the topic does not take.
    #[error("invalid timestamp: {0}")]
    InvalidTimestamp(&'static str),
    /// Records whose times the topic does not take, with those; the first of them.
    #[error("records have times that the topic does not take")]
    RecordTimes(Vec<(i32, Timestamp)>),
    /// Records without a key where every record needs one; the first of them.
    #[error("records have no key")]
    Keyless(Vec<i32>),
    /// The records inflate to more than the caller's cap.
    #[error("records inflate to more than {max} bytes")]
    InflatesTooLarge { max: usize },
}
