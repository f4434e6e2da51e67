//! Words of the domain as types. Integers appear only at the wire.

mod answer_memory;
pub mod arc_map;
mod object_id;
mod topic;
pub mod varint;

pub use answer_memory::{AnswerMemory, Answers};
pub use object_id::{ATTEMPT_MAX, ByteRange, ObjectId, StorageClass};
pub use topic::{Partition, TopicId};

/// Kafka's broker id: `node.id`, chosen by the operator. Not the Raft node id.
pub type BrokerId = i32;

/// Issued by the root shard at each start of a broker; a larger epoch fences the smaller.
pub type BrokerEpoch = u64;

/// A Raft group that carries the pointer logs of many partitions. Shard 0 is the root.
pub type ShardId = u32;

/// The shard of the cluster itself: brokers, topics, configs, placement, producer ids.
pub const ROOT_SHARD: ShardId = 0;

/// A record's position in its partition (Kafka: `offset`).
pub type Offset = i64;

/// Kafka's leader epoch: `epoch_base` of the partition plus the Raft term of its shard.
pub type LeaderEpoch = i32;

/// Milliseconds since the Unix epoch, as Kafka's record timestamps; -1 when there is none.
pub type Timestamp = i64;

/// A share of the connections' memory budget, given back when the last clone is dropped.
pub type Memory = std::sync::Arc<dyn std::any::Any + Send + Sync>;

/// Kafka's producer id and epoch (KIP-98).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Producer {
    pub id: i64,
    pub epoch: i16,
}
