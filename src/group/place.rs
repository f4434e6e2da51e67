//! Where a group is.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use milepost_raft::{Leadership, NodeId};

use crate::admin::CONSUMER_OFFSETS;
use crate::cluster::Topic;
use crate::group::Groups;
use crate::index::OpenShard;
use crate::peer::{self, Answer};
use crate::protocol::ErrorCode;
use crate::types::{Partition, ShardId, varint};

const LEADER_TIMEOUT: Duration = Duration::from_secs(1);

/// The partition of `__consumer_offsets` that a group belongs to, as Kafka has it
/// (`GroupCoordinatorService.partitionFor`).
pub(super) fn partition_for(group: &str, partitions: i32) -> i32 {
    let hash = group.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    let hash = if hash == i32::MIN { 0 } else { hash.abs() };
    hash % partitions.max(1)
}

pub(crate) fn place_in(topic: &Topic, group: &str) -> Option<(ShardId, Partition)> {
    let index = partition_for(group, topic.placement.len() as i32);
    let shard = topic.placement.get(usize::try_from(index).ok()?)?;
    Some((*shard, Partition { topic: topic.id, index }))
}

/// What a broker that does not coordinate says: a leader that is not ready yet will be.
pub(crate) fn refusal(leadership: Leadership, me: NodeId) -> ErrorCode {
    match leadership.leader == Some(me) {
        true => ErrorCode::CoordinatorLoadInProgress,
        false => ErrorCode::NotCoordinator,
    }
}

impl Groups {
    /// # Errors
    /// There are no groups yet.
    pub(super) fn place(&self, group: &str) -> Result<(ShardId, Partition), ErrorCode> {
        let view = self.cluster.view();
        let topic = view.topic_named(CONSUMER_OFFSETS).filter(|topic| topic.is_live());
        topic.and_then(|topic| place_in(topic, group)).ok_or(ErrorCode::NotCoordinator)
    }

    /// The group's shard, when this broker leads it and all that was ever answered is applied here.
    ///
    /// # Errors
    /// Why another broker, or a later moment, is to be asked.
    pub(super) async fn read(&self, group: &str) -> Result<(Arc<OpenShard>, Partition), ErrorCode> {
        let (shard, partition) = self.place(group)?;
        let shard = self.shards.get(shard).ok_or(ErrorCode::NotCoordinator)?;
        let leadership = *shard.group.leadership().borrow();
        if !leadership.ready {
            return Err(refusal(leadership, self.cluster.node_id()));
        }
        let index = shard.group.read_index().await.map_err(|_| ErrorCode::CoordinatorLoadInProgress)?;
        let applied = shard.group.wait_applied(index, LEADER_TIMEOUT).await;
        applied.map_err(|_| ErrorCode::CoordinatorLoadInProgress)?;
        Ok((shard, partition))
    }

    /// The node that leads a shard now. A broker without a replica asks one that has.
    pub(super) async fn leader_of(&self, id: ShardId) -> Option<NodeId> {
        if let Some(shard) = self.shards.get(id) {
            return shard.leader();
        }
        let view = self.cluster.view();
        let record = view.shard(id)?;
        let alive = |node: &NodeId| view.broker_of(*node).is_some_and(|broker| broker.alive);
        let mut question = BytesMut::new();
        varint::put(&mut question, id.into());
        let question = question.freeze();
        for voter in record.voters.iter().copied().filter(alive) {
            let answer = self.cluster.node().call(voter, peer::READ_INDEX, question.clone(), LEADER_TIMEOUT).await;
            match answer.map(Answer::decode) {
                Ok(Ok(Answer::Done(_))) => return Some(voter),
                Ok(Ok(Answer::NotLeader { leader: Some(leader) })) => return Some(leader),
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_spread_as_in_kafka() {
        // Java: Math.abs("…".hashCode()) % 50.
        assert_eq!(partition_for("", 50), 0);
        assert_eq!(partition_for("a", 50), 97 % 50);
        assert_eq!(partition_for("test-group", 50), 12);
        assert_eq!(partition_for("polygenelubricants", 50), 0, "the hash is the smallest integer");
        assert_eq!(partition_for("ä😀", 50), partition_for("ä😀", 50));
    }
}
