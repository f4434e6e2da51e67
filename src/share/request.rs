//! What members' requests have in common.

use kafka_protocol::messages::GroupId;

use crate::admin::features::SHARE_VERSION;
use crate::protocol::{ErrorCode, StrBytes};
use crate::share::Share;
use crate::share::wire::Ack;
use crate::types::{Offset, Partition, ShardId};

/// A group and a member of it.
pub(super) type Key = (String, String);

/// What a member says of one partition's records.
pub(super) type Acks = Result<Vec<Ack>, ErrorCode>;

/// # Errors
/// Kafka's INVALID_REQUEST: they are not in order, or one of them says nothing clear.
pub(super) fn acks_of<'a>(batches: impl Iterator<Item = (Offset, Offset, &'a [i8])>, renews: bool) -> Acks {
    let mut acks: Vec<Ack> = Vec::new();
    for (first, last, kinds) in batches {
        let ack = Ack::of_client(first, last, kinds, renews)?;
        if acks.last().is_some_and(|before| before.last >= ack.first) {
            return Err(ErrorCode::InvalidRequest);
        }
        acks.push(ack);
    }
    Ok(acks)
}

impl Share {
    /// # Errors
    /// One of them is missing, or share groups are off (feature `share.version`).
    pub(super) fn key(&self, group: Option<&GroupId>, member: Option<&StrBytes>) -> Result<Key, ErrorCode> {
        if SHARE_VERSION.level(&self.cluster.view()) == 0 {
            return Err(ErrorCode::UnsupportedVersion);
        }
        let group = group.filter(|group| !group.is_empty()).ok_or(ErrorCode::InvalidGroupId)?;
        let member = member.filter(|member| !member.is_empty()).ok_or(ErrorCode::InvalidRequest)?;
        Ok((group.to_string(), member.to_string()))
    }

    /// # Errors
    /// The group's members may not hold on to records (`share.renew.acknowledge.enable`).
    pub(super) fn check_renewing(&self, group: &str, renews: bool) -> Result<(), ErrorCode> {
        match renews && !self.settings(group).renews {
            true => Err(ErrorCode::InvalidRequest),
            false => Ok(()),
        }
    }

    /// # Errors
    /// Kafka's word for a partition that is not.
    pub(super) fn place(&self, partition: &Partition) -> Result<ShardId, ErrorCode> {
        let view = self.cluster.view();
        let topic = view.topic(partition.topic).filter(|topic| !topic.deleting).ok_or(ErrorCode::UnknownTopicId)?;
        let index = usize::try_from(partition.index).ok().filter(|_| partition.index < topic.live);
        index.and_then(|at| topic.placement.get(at)).copied().ok_or(ErrorCode::UnknownTopicOrPartition)
    }

    /// Those of whom nothing is said are passed over.
    pub(super) async fn acknowledge_named(
        &self,
        key: &Key,
        named: Vec<(Partition, Acks)>,
    ) -> Vec<(Partition, ErrorCode)> {
        let (mut answers, mut asks) = (Vec::new(), Vec::new());
        for (partition, acks) in named {
            if acks.as_ref().is_ok_and(Vec::is_empty) {
                continue;
            }
            match acks.and_then(|acks| Ok((self.place(&partition)?, acks))) {
                Ok((shard, acks)) => asks.push((partition, shard, acks)),
                Err(error) => answers.push((partition, error)),
            }
        }
        answers.extend(self.acknowledge(key, asks).await);
        answers
    }
}
