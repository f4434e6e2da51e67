//! Produce requests (API 0, versions 3 to 13), decoded by hand: records and names share the frame.

use bytes::Bytes;

use super::reader::Reader;
use super::{Error, StrBytes, TopicRef};
use crate::types::TopicId;

/// What one request may name. A legal frame of many empty topics would cost far more memory than its size.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub topics_max: usize,
    /// Over all topics of the request.
    pub partitions_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { topics_max: 10_000, partitions_max: 100_000 }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProduceRequest {
    pub transactional_id: Option<StrBytes>,
    pub acks: i16,
    pub timeout_ms: i32,
    pub topics: Vec<ProduceTopic>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProduceTopic {
    /// By id from version 13 on.
    pub topic: TopicRef,
    pub partitions: Vec<ProducePartition>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProducePartition {
    pub index: i32,
    /// Record batches; empty where the client sent null.
    pub records: Bytes,
}

/// Versions from here on are flexible: compact lengths and tagged fields (KIP-482).
const FLEXIBLE: i16 = 9;

/// Versions from here on name topics by id (KIP-516).
const TOPIC_IDS: i16 = 13;

/// Decodes the body of a Produce request.
///
/// # Errors
/// The bytes do not follow the schema, or name more than `limits`: the connection is to be closed.
pub fn decode(version: i16, body: Bytes, limits: &Limits) -> Result<ProduceRequest, Error> {
    let compact = version >= FLEXIBLE;
    let mut reader = Reader::new(body);
    let transactional_id = if compact {
        reader.compact_nullable_string("transactional id")?
    } else {
        reader.nullable_string("transactional id")?
    };
    let acks = reader.i16("acks")?;
    let timeout_ms = reader.i32("timeout")?;
    let count = limited(reader.count(compact, 3, "topics")?, "topics of a request", limits.topics_max)?;
    let mut topics = Vec::with_capacity(count);
    let mut partitions_left = limits.partitions_max;
    for _ in 0..count {
        let topic = topic(version, &mut reader)?;
        let count = reader.count(compact, 5, "partitions")?;
        let count = limited(count, "partitions of a request", partitions_left)?;
        partitions_left -= count;
        let mut partitions = Vec::with_capacity(count);
        for _ in 0..count {
            let index = reader.i32("partition")?;
            let records = reader.nullable_bytes(compact, "records")?.unwrap_or_default();
            if compact {
                reader.tagged_fields()?;
            }
            partitions.push(ProducePartition { index, records });
        }
        if compact {
            reader.tagged_fields()?;
        }
        topics.push(ProduceTopic { topic, partitions });
    }
    if compact {
        reader.tagged_fields()?;
    }
    Ok(ProduceRequest { transactional_id, acks, timeout_ms, topics })
}

fn topic(version: i16, reader: &mut Reader) -> Result<TopicRef, Error> {
    const NAME: &str = "topic name";
    if version >= TOPIC_IDS {
        let id = reader.take(16, "topic id")?;
        let id: [u8; 16] = id[..].try_into().expect("sixteen bytes were taken");
        return Ok(TopicRef::Id(TopicId::from_bytes(id)));
    }
    let name =
        if version >= FLEXIBLE { reader.compact_nullable_string(NAME)? } else { reader.nullable_string(NAME)? };
    name.map(TopicRef::Name).ok_or(Error::Invalid(NAME))
}

fn limited(count: usize, what: &'static str, max: usize) -> Result<usize, Error> {
    if count > max { Err(Error::TooMany { what, count, max }) } else { Ok(count) }
}
