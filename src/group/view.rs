use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{BufMut, BytesMut};

use crate::shard::Slot;
use crate::types::{Partition, TopicId};

/// The cluster, as this broker knows it.
pub trait View {
    /// Another number whenever topics may have changed; never 0.
    fn version(&self) -> u64;
    /// A topic's id and number of partitions.
    fn topic(&self, name: &str) -> Option<(TopicId, i32)>;
    /// Those that [`View::topic`] knows.
    fn each_topic(&self, see: &mut dyn FnMut(&str));
    /// What a group has set for itself, of a setting that is a time (`consumer.session.timeout.ms` and the like).
    fn own_time(&self, group: &str, setting: &str) -> Option<Duration>;
}

/// A group's partitions with an offset that waits for the end of its transaction.
pub type Undecided<'a> = &'a dyn Fn(Slot, &str) -> Vec<Partition>;

/// Another number when any of these topics is another one, or has other partitions.
pub(super) fn digest(topics: &BTreeMap<String, (TopicId, i32)>) -> u32 {
    let mut bytes = BytesMut::new();
    for (name, (id, partitions)) in topics {
        bytes.put_slice(name.as_bytes());
        bytes.put_u8(0);
        bytes.put_slice(id.as_bytes());
        bytes.put_i32(*partitions);
    }
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &bytes) as u32
}
