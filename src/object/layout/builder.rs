use bytes::{BufMut, Bytes, BytesMut};

use super::varint::{VARINT_BYTES_MAX, put, zigzag};
use super::{Error, FOOTER_BYTES_MAX, MAGIC, Section, TRAILER_BYTES, VERSION, footer_crc32c};
use crate::object::{OBJECT_BYTES_MAX, crc32c};
use crate::types::{ByteRange, Partition, ShardId, Timestamp, TopicId};

/// The most a section takes in the footer: eight varints and a checksum.
const SECTION_FOOTER_BYTES_MAX: usize = 8 * VARINT_BYTES_MAX + 4;

/// One partition's bytes, in pieces, and what the caller knows of them.
#[derive(Debug, Clone)]
pub struct Contents {
    pub shard: ShardId,
    pub partition: Partition,
    /// Concatenated they are the section. Shared, not copied, until [`Builder::finish`].
    pub slices: Vec<Bytes>,
    pub batch_count: u32,
    pub record_count: u32,
    pub min_timestamp: Timestamp,
    pub max_timestamp: Timestamp,
}

/// Collects sections, then writes the object in one copy into one buffer of known size.
#[derive(Debug, Default)]
pub struct Builder {
    sections: Vec<Contents>,
    bytes: u64,
}

impl Builder {
    pub fn new() -> Self {
        Builder::default()
    }

    /// The bytes of all sections so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.sections.is_empty()
    }

    /// # Errors
    /// [`Error::Input`] when the section is empty, does not come after the one before by (shard, topic, index), has
    /// a negative partition index, or would make the object too large.
    pub fn push(&mut self, contents: Contents) -> Result<(), Error> {
        let place = |c: &Contents| (c.shard, c.partition);
        if self.sections.last().is_some_and(|last| place(last) >= place(&contents)) {
            return Err(Error::Input("sections are out of order"));
        }
        if contents.partition.index < 0 {
            return Err(Error::Input("a partition index is negative"));
        }
        let len: u64 = contents.slices.iter().map(|slice| slice.len() as u64).sum();
        if len == 0 {
            return Err(Error::Input("a section is empty"));
        }
        let footer_bytes = (self.sections.len() + 1) * (SECTION_FOOTER_BYTES_MAX + 16) + VARINT_BYTES_MAX * 2;
        let total = self.bytes + len;
        if footer_bytes > FOOTER_BYTES_MAX || total + (footer_bytes + TRAILER_BYTES) as u64 > OBJECT_BYTES_MAX {
            return Err(Error::Input("the object is too large"));
        }
        self.bytes = total;
        self.sections.push(contents);
        Ok(())
    }

    /// The object, and where everything lies in it.
    pub fn finish(self) -> (Bytes, Vec<Section>) {
        let topics = self.topics();
        let footer_bytes = 2 * VARINT_BYTES_MAX + 16 * topics.len() + SECTION_FOOTER_BYTES_MAX * self.sections.len();
        let mut object = BytesMut::with_capacity(self.bytes as usize + footer_bytes + TRAILER_BYTES);
        let sections: Vec<Section> = self.sections.into_iter().map(|contents| copy(&mut object, contents)).collect();
        let footer_start = object.len();
        put_footer(&mut object, &topics, &sections);
        let footer = &object[footer_start..];
        let (len, crc) = (footer.len() as u32, footer_crc32c(footer, VERSION));
        object.put_u32_le(len);
        object.put_u32_le(crc);
        object.put_u32_le(VERSION);
        object.put_slice(&MAGIC);
        (object.freeze(), sections)
    }

    /// Each topic once, sorted: the table that sections refer to.
    fn topics(&self) -> Vec<TopicId> {
        let mut topics: Vec<TopicId> = self.sections.iter().map(|c| c.partition.topic).collect();
        topics.sort_unstable();
        topics.dedup();
        topics
    }
}

fn copy(object: &mut BytesMut, contents: Contents) -> Section {
    let start = object.len();
    for slice in &contents.slices {
        object.put_slice(slice);
    }
    let bytes = &object[start..];
    Section {
        shard: contents.shard,
        partition: contents.partition,
        range: ByteRange::new(start as u64, bytes.len() as u64),
        batch_count: contents.batch_count,
        record_count: contents.record_count,
        min_timestamp: contents.min_timestamp,
        max_timestamp: contents.max_timestamp,
        // Just copied, so still in the processor's cache.
        crc32c: crc32c(bytes),
    }
}

pub(super) fn put_footer(out: &mut BytesMut, topics: &[TopicId], sections: &[Section]) {
    put(out, topics.len() as u64);
    for topic in topics {
        out.put_slice(topic.as_bytes());
    }
    put(out, sections.len() as u64);
    let mut shard_before = 0;
    for section in sections {
        let topic = topics.binary_search(&section.partition.topic).expect("the table was made from these sections");
        put(out, u64::from(section.shard - shard_before));
        put(out, topic as u64);
        put(out, section.partition.index as u64);
        put(out, section.range.len);
        put(out, u64::from(section.batch_count));
        put(out, u64::from(section.record_count));
        put(out, zigzag(section.min_timestamp));
        put(out, zigzag(section.max_timestamp.wrapping_sub(section.min_timestamp)));
        out.put_u32_le(section.crc32c);
        shard_before = section.shard;
    }
}
