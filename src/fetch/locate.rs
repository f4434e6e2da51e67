use std::sync::Arc;

use crate::cluster::{Cluster, Topic};
use crate::index;
use crate::protocol::{ErrorCode, TopicRef};
use crate::types::{Partition, ShardId};

/// A partition and the shard that carries it, wherever its replicas are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Located {
    pub partition: Partition,
    pub shard: ShardId,
}

pub(super) fn topic(cluster: &Cluster, topic: &TopicRef) -> Result<Arc<Topic>, ErrorCode> {
    cluster.view().find(topic).cloned().ok_or(topic.unknown())
}

/// # Errors
/// The partition does not exist.
pub(super) fn partition(topic: &Topic, index: i32) -> Result<Located, ErrorCode> {
    if index < 0 || index >= topic.live {
        return Err(ErrorCode::UnknownTopicOrPartition);
    }
    Ok(Located { partition: Partition { topic: topic.id, index }, shard: topic.placement[index as usize] })
}

/// Retriable at another broker, or later, unless the offset is wrong.
pub(super) fn code_of(e: index::Error) -> ErrorCode {
    match e {
        index::Error::Unavailable => ErrorCode::NotLeaderOrFollower,
        index::Error::NewerEpoch => ErrorCode::UnknownLeaderEpoch,
        index::Error::OutOfRange => ErrorCode::OffsetOutOfRange,
    }
}
