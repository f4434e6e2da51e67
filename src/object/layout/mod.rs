//! Format v1 of a write-ahead object: many partitions' bytes, then an index that says what they are.
//!
//! ```text
//! +-----------+-----------+-----+-----------+--------+---------+
//! | section 0 | section 1 | ... | section n | footer | trailer |     sections lie end to end from byte 0
//! +-----------+-----------+-----+-----------+--------+---------+
//! footer   varint topic count, the topic ids (16 bytes each), varint section count, then per section:
//!          varint shard - shard before   varint topic (position in the table)   varint partition index
//!          varint length   varint batches   varint records
//!          zigzag min timestamp   zigzag (max - min timestamp, wrapping)   u32 CRC-32C of the section
//! trailer  u32 footer length   u32 CRC-32C of footer, its length and version   u32 version   "MLPO"
//! ```
//! Varints are LEB128, shortest form; fixed integers are little-endian. Sections are ordered by (shard, topic id,
//! partition index), so partitions of a shard are adjacent and each has one section. Starts are not stored: they
//! are the sums of the lengths before, so sections cannot overlap or leave holes.
//!
//! In: bytes with their counts and timestamps, as handed in. Out: one buffer, filled by one copy; or, from the bytes
//! of a store, an index that was checked. Never: looks into the bytes of a section.

mod builder;
mod footer;
mod varint;

pub use builder::{Builder, Contents};
pub use footer::Footer;

use crate::types::{ByteRange, Partition, ShardId, Timestamp};

pub const VERSION: u32 = 1;
pub const TRAILER_BYTES: usize = 16;

/// A footer longer than this is not read: 100,000 partitions take less than 4 MiB.
pub const FOOTER_BYTES_MAX: usize = 16 << 20;

const MAGIC: [u8; 4] = *b"MLPO";

/// One partition's bytes within an object, and what they hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    pub shard: ShardId,
    pub partition: Partition,
    pub range: ByteRange,
    pub batch_count: u32,
    pub record_count: u32,
    pub min_timestamp: Timestamp,
    pub max_timestamp: Timestamp,
    pub crc32c: u32,
}

/// Why bytes are no index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The tail that was read does not reach back to the start of the footer: read this many bytes from the end.
    #[error("the footer starts earlier: the last {tail_bytes} bytes of the object are needed")]
    TailTooShort { tail_bytes: u64 },
    /// Another program's object, or one that was cut short.
    #[error("no trailer of a write-ahead object at the end")]
    NotOurs,
    /// Written by a newer Milepost.
    #[error("format version {version}, this program reads {VERSION}")]
    Version { version: u32 },
    #[error("{0}")]
    Malformed(&'static str),
    /// The builder was handed sections that do not fit the format.
    #[error("{0}")]
    Input(&'static str),
}

/// The checksum in the trailer covers everything of footer and trailer but itself and the magic.
fn footer_crc32c(footer: &[u8], version: u32) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(footer);
    digest.update(&(footer.len() as u32).to_le_bytes());
    digest.update(&version.to_le_bytes());
    digest.finalize() as u32
}

/// Makes the trailer of damaged bytes right again, so that the damage reaches what is behind the checksum.
#[cfg(test)]
pub(crate) fn mend(object: &mut Vec<u8>) {
    let Some(at) = object.len().checked_sub(TRAILER_BYTES) else { return };
    let claimed = u32::from_le_bytes(object[at..at + 4].try_into().expect("four bytes")) as usize;
    let footer = object[at - claimed.min(at)..at].to_vec();
    object.truncate(at);
    object.extend_from_slice(&(footer.len() as u32).to_le_bytes());
    object.extend_from_slice(&footer_crc32c(&footer, VERSION).to_le_bytes());
    object.extend_from_slice(&VERSION.to_le_bytes());
    object.extend_from_slice(&MAGIC);
}

#[cfg(test)]
#[path = "layout_test.rs"]
mod tests;
