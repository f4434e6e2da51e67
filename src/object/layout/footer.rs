use super::varint::{Reader, unzigzag};
use super::{Error, FOOTER_BYTES_MAX, MAGIC, Section, TRAILER_BYTES, VERSION, footer_crc32c};
use crate::types::{ByteRange, Partition, TopicId};

/// The least a section takes in the footer: eight varints of one byte and a checksum.
const SECTION_FOOTER_BYTES_MIN: usize = 12;

/// The checked index of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footer {
    pub version: u32,
    /// Bytes of footer and trailer together.
    pub index_bytes: u64,
    pub sections: Vec<Section>,
}

impl Footer {
    /// Reads the index of an object of `object_len` bytes from its last bytes, however many of them are at hand.
    ///
    /// # Errors
    /// [`Error::TailTooShort`] says how many bytes from the end to read instead. Anything else: not an object of
    /// this format, or damaged. Hostile bytes are an error, never a panic, and never make it allocate more than a
    /// small multiple of `tail`.
    pub fn read(tail: &[u8], object_len: u64) -> Result<Footer, Error> {
        if tail.len() as u64 > object_len {
            return Err(Error::Malformed("the tail is longer than the object"));
        }
        let Some((before, trailer)) = tail.split_last_chunk::<TRAILER_BYTES>() else {
            let tail_bytes = TRAILER_BYTES as u64;
            return Err(if object_len < tail_bytes { Error::NotOurs } else { Error::TailTooShort { tail_bytes } });
        };
        let word = |at: usize| u32::from_le_bytes(trailer[at..at + 4].try_into().expect("four bytes of sixteen"));
        if trailer[12..] != MAGIC {
            return Err(Error::NotOurs);
        }
        let (footer_len, crc, version) = (word(0) as usize, word(4), word(8));
        if version != VERSION {
            return Err(Error::Version { version });
        }
        let index_bytes = (footer_len + TRAILER_BYTES) as u64;
        if footer_len > FOOTER_BYTES_MAX || index_bytes > object_len {
            return Err(Error::Malformed("the footer is longer than it can be"));
        }
        let Some(start) = before.len().checked_sub(footer_len) else {
            return Err(Error::TailTooShort { tail_bytes: index_bytes });
        };
        let footer = &before[start..];
        if footer_crc32c(footer, version) != crc {
            return Err(Error::Malformed("the footer does not match its checksum"));
        }
        let sections = read_sections(footer)?;
        if sections.last().map_or(0, |last| last.range.end()) != object_len - index_bytes {
            return Err(Error::Malformed("the sections do not fill the object"));
        }
        Ok(Footer { version, index_bytes, sections })
    }
}

fn read_sections(footer: &[u8]) -> Result<Vec<Section>, Error> {
    let mut reader = Reader(footer);
    let topics = read_topics(&mut reader)?;
    let count = reader.varint()?;
    if count > (reader.0.len() / SECTION_FOOTER_BYTES_MIN) as u64 {
        return Err(Error::Malformed("more sections than the footer has room for"));
    }
    let mut sections: Vec<Section> = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let section = read_section(&mut reader, &topics, sections.last())?;
        sections.push(section);
    }
    if !reader.0.is_empty() {
        return Err(Error::Malformed("bytes after the last section"));
    }
    Ok(sections)
}

fn read_topics(reader: &mut Reader<'_>) -> Result<Vec<TopicId>, Error> {
    let count = reader.varint()?;
    if count > (reader.0.len() / 16) as u64 {
        return Err(Error::Malformed("more topics than the footer has room for"));
    }
    let topics = (0..count).map(|_| reader.take().map(TopicId::from_bytes)).collect::<Result<Vec<_>, _>>()?;
    if !topics.is_sorted_by(|a, b| a < b) {
        return Err(Error::Malformed("the table of topics is not sorted"));
    }
    Ok(topics)
}

fn read_section(reader: &mut Reader<'_>, topics: &[TopicId], before: Option<&Section>) -> Result<Section, Error> {
    let shard_step: u32 = reader.varint_as("a shard is too large")?;
    let shard =
        before.map_or(0, |b| b.shard).checked_add(shard_step).ok_or(Error::Malformed("a shard is too large"))?;
    let topic: usize = reader.varint_as("a topic is outside the table")?;
    let topic = *topics.get(topic).ok_or(Error::Malformed("a topic is outside the table"))?;
    let partition = Partition { topic, index: reader.varint_as("a partition index is too large")? };
    if before.is_some_and(|b| (b.shard, b.partition) >= (shard, partition)) {
        return Err(Error::Malformed("sections are out of order"));
    }
    let range = ByteRange::new(before.map_or(0, |b| b.range.end()), reader.varint()?);
    // Saturated sums are caught by the length of the object, so only emptiness is left to check here.
    if range.len == 0 {
        return Err(Error::Malformed("a section is empty"));
    }
    let batch_count = reader.varint_as("a batch count is too large")?;
    let record_count = reader.varint_as("a record count is too large")?;
    let min_timestamp = unzigzag(reader.varint()?);
    let max_timestamp = min_timestamp.wrapping_add(unzigzag(reader.varint()?));
    let crc32c = u32::from_le_bytes(reader.take()?);
    Ok(Section { shard, partition, range, batch_count, record_count, min_timestamp, max_timestamp, crc32c })
}
