use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;

use super::layout::{self, Footer};
use super::{CopyState, Error, Head, Key, Name, Store, copies, paths};
use crate::types::ByteRange;

/// What is read from the end at first: the index of some thousand partitions.
const TAIL_BYTES: u64 = 64 << 10;

/// What is known of an object, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Inspection {
    pub key: String,
    pub len: u64,
    /// Milliseconds since the Unix epoch, by the store's clock.
    pub last_modified: u64,
    /// What the key names, in words.
    pub name: Option<String>,
    /// By zone; empty where the store has one bucket.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub copies: BTreeMap<String, CopyState>,
    /// The index, of a write-ahead object.
    pub index: Option<Index>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Index {
    pub version: u32,
    pub index_bytes: u64,
    pub sections: Vec<Section>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Section {
    pub shard: u32,
    pub topic_id: String,
    pub partition: i32,
    pub start: u64,
    pub len: u64,
    pub batch_count: u32,
    pub record_count: u32,
    pub min_timestamp: i64,
    pub max_timestamp: i64,
    pub crc32c: String,
}

/// Looks at an object and, when it is a write-ahead object, reads its index; never its records.
///
/// # Errors
/// [`Error::Corrupt`] when an index is there and wrong.
pub async fn inspect(store: &dyn Store, key: &Key) -> Result<Inspection, Error> {
    let head = store.head(key).await?;
    let last_modified = head.last_modified.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Ok(Inspection {
        key: key.to_string(),
        len: head.len,
        last_modified: last_modified.as_millis() as u64,
        name: paths::parse(key).map(|(cluster, incarnation, name)| in_words(&cluster, incarnation, name)),
        copies: copies(store, key).await,
        index: read_index(store, key, head).await?.map(Index::from),
    })
}

/// The index of an object, or `None` when it is none of this format.
async fn read_index(store: &dyn Store, key: &Key, head: Head) -> Result<Option<Footer>, Error> {
    let tail = |len: u64| ByteRange::new(head.len - len, len);
    let mut bytes: Bytes = store.get_range(key, tail(head.len.min(TAIL_BYTES))).await?;
    if let Err(layout::Error::TailTooShort { tail_bytes }) = Footer::read(&bytes, head.len) {
        bytes = store.get_range(key, tail(tail_bytes)).await?;
    }
    match Footer::read(&bytes, head.len) {
        Ok(footer) => Ok(Some(footer)),
        Err(layout::Error::NotOurs) => Ok(None),
        Err(error) => Err(Error::corrupt(key, error)),
    }
}

fn in_words(cluster: &str, incarnation: u32, name: Name) -> String {
    let of = format!("of cluster {cluster}, incarnation {incarnation}");
    match name {
        Name::WriteAhead(id) => {
            let (broker, epoch, sequence, attempt) = (id.broker, id.epoch, id.sequence, id.attempt);
            format!("write-ahead object {sequence} (attempt {attempt}) of broker {broker} in its epoch {epoch}, {of}")
        }
        Name::Data { shard, job, .. } => format!("data of shard {shard} written by job {job}, {of}"),
        Name::Snapshot { shard, log_index, .. } => format!("snapshot of shard {shard} at log index {log_index}, {of}"),
    }
}

impl From<Footer> for Index {
    fn from(footer: Footer) -> Self {
        let sections = footer.sections.into_iter().map(Section::from).collect();
        Index { version: footer.version, index_bytes: footer.index_bytes, sections }
    }
}

impl From<layout::Section> for Section {
    fn from(section: layout::Section) -> Self {
        Section {
            shard: section.shard,
            topic_id: section.partition.topic.to_string(),
            partition: section.partition.index,
            start: section.range.start,
            len: section.range.len,
            batch_count: section.batch_count,
            record_count: section.record_count,
            min_timestamp: section.min_timestamp,
            max_timestamp: section.max_timestamp,
            crc32c: format!("{:08x}", section.crc32c),
        }
    }
}

#[cfg(test)]
#[path = "inspect_test.rs"]
mod tests;
