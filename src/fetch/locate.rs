use std::sync::Arc;

use crate::cluster::{Cluster, Topic};
use crate::index::{OpenShard, Shards};
use crate::protocol::{ErrorCode, TopicRef};
use crate::shard::PartitionState;
use crate::types::{LeaderEpoch, Partition};

/// A partition that can be served here.
#[derive(Clone)]
pub(super) struct Located {
    pub partition: Partition,
    pub shard: Arc<OpenShard>,
}

pub(super) fn topic(cluster: &Cluster, topic: &TopicRef) -> Result<Arc<Topic>, ErrorCode> {
    cluster.view().find(topic).cloned().ok_or(topic.unknown())
}

/// # Errors
/// Retriable at another broker, or later, unless the partition does not exist.
pub(super) fn partition(shards: &Shards, topic: &Topic, index: i32) -> Result<Located, ErrorCode> {
    if index < 0 || index >= topic.live {
        return Err(ErrorCode::UnknownTopicOrPartition);
    }
    let shard = shards.get(topic.placement[index as usize]).ok_or(ErrorCode::NotLeaderOrFollower)?;
    if !shard.serving() {
        return Err(ErrorCode::NotLeaderOrFollower);
    }
    Ok(Located { partition: Partition { topic: topic.id, index }, shard })
}

impl Located {
    /// Reads the partition's applied state, checking the epoch the client knows (KIP-320): one that is newer than ours
    /// means that we are behind, an older one is served.
    pub fn read<T>(
        &self,
        client_epoch: LeaderEpoch,
        read: impl FnOnce(&PartitionState, LeaderEpoch) -> T,
    ) -> Result<T, ErrorCode> {
        let term = self.shard.group.leadership().borrow().term;
        self.shard.replica().read(|state| {
            // A live topic whose partition is not here yet: this replica has not applied its creation.
            let partition = state.partition(&self.partition).ok_or(ErrorCode::NotLeaderOrFollower)?;
            let epoch = partition.leader_epoch(term);
            if client_epoch > epoch {
                return Err(ErrorCode::UnknownLeaderEpoch);
            }
            Ok(read(partition, epoch))
        })
    }
}
