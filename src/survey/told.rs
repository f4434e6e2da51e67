//! What a broker says of itself and of the partitions it has, to whoever looks at the cluster from outside.

use std::collections::HashSet;

use milepost_raft::{Group, NodeId, StateMachine};
use serde::{Deserialize, Serialize};

use crate::cache;
use crate::cluster::{Cluster, Quorum};
use crate::index::{OpenShard, Shards};
use crate::peer::Answer;
use crate::shard::PartitionState;
use crate::types::{BrokerId, Offset, ShardId, TopicId};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BrokerTold {
    pub broker: BrokerId,
    /// Requests to the object store since the start, and what they brought.
    pub store_gets: u64,
    pub store_get_bytes: u64,
    /// The root is shard 0.
    pub shards: Vec<ShardTold>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShardTold {
    pub shard: ShardId,
    /// Index of the last applied entry.
    pub applied: u64,
    /// Readers are answered from this replica.
    pub serving: bool,
    /// The members, where this broker leads the shard.
    pub leads: Option<Quorum>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartitionTold {
    pub partition: i32,
    pub log_start_offset: Offset,
    pub high_watermark: Offset,
    pub pointers: u64,
    /// Distinct ones that the pointers name; an object holds other partitions too.
    pub objects: u64,
    pub bytes: u64,
}

/// Answers [`peer::STATUS`](crate::peer::STATUS).
pub(crate) fn answer_status(cluster: &Cluster, shards: &Shards, cache: Option<&cache::Metrics>) -> Answer {
    let me = cluster.node_id();
    let root = ShardTold { serving: true, ..of_group(me, cluster.root()) };
    let open = shards.all().into_iter();
    let mut all: Vec<ShardTold> =
        open.map(|shard| ShardTold { serving: shard.serving(), ..of_group(me, &shard.group) }).chain([root]).collect();
    all.sort_by_key(|told| told.shard);
    let told = BrokerTold {
        broker: cluster.broker_id(),
        store_gets: cache.map_or(0, |metrics| metrics.gets.get()),
        store_get_bytes: cache.map_or(0, |metrics| metrics.get_bytes.get()),
        shards: all,
    };
    Answer::Done(rmp_serde::to_vec(&told).expect("writing to memory does not fail").into())
}

fn of_group<S: StateMachine>(me: NodeId, group: &Group<S>) -> ShardTold {
    let ready = group.leadership().borrow().ready;
    let leads = group.progress().filter(|_| ready).map(|progress| Quorum::new(me, progress));
    ShardTold { shard: group.id(), applied: group.applied().borrow().index, serving: false, leads }
}

/// Answers [`peer::TOPIC`](crate::peer::TOPIC): the partitions of a topic that are in a shard, as this replica has them.
pub(crate) fn answer_topic(shard: &OpenShard, topic: &[u8]) -> Answer {
    let Ok(topic) = topic.try_into().map(TopicId::from_bytes) else {
        return Answer::Refused("a topic id has sixteen bytes".into());
    };
    // Counted outside the lock: applying does not wait for it.
    let partitions = shard.replica().read(|state| {
        let all = state.partitions().filter(|partition| partition.id.topic == topic);
        all.cloned().collect::<Vec<_>>()
    });
    let told: Vec<PartitionTold> = partitions.iter().map(|partition| of_partition(partition)).collect();
    Answer::Done(rmp_serde::to_vec(&told).expect("writing to memory does not fail").into())
}

fn of_partition(partition: &PartitionState) -> PartitionTold {
    let objects: HashSet<_> = partition.pointers.iter().filter(|p| p.control.is_none()).map(|p| p.object).collect();
    PartitionTold {
        partition: partition.id.index,
        log_start_offset: partition.log_start_offset,
        high_watermark: partition.high_watermark,
        pointers: partition.pointers.len() as u64,
        objects: objects.len() as u64,
        bytes: partition.pointers.bytes(),
    }
}
