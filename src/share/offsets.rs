//! Where share groups have come to, and having them begin elsewhere: at the broker that coordinates the group, which asks
//! the leaders of the shards.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;
use kafka_protocol::messages::alter_share_group_offsets_response::{
    AlterShareGroupOffsetsResponsePartition, AlterShareGroupOffsetsResponseTopic,
};
use kafka_protocol::messages::delete_share_group_offsets_response::DeleteShareGroupOffsetsResponseTopic;
use kafka_protocol::messages::describe_share_group_offsets_request::DescribeShareGroupOffsetsRequestGroup;
use kafka_protocol::messages::describe_share_group_offsets_response::{
    DescribeShareGroupOffsetsResponseGroup, DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
};
use kafka_protocol::messages::{
    AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse, DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse, DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse,
};

use crate::batch::Segments;
use crate::cluster::Cluster;
use crate::group::{Groups, ShareGroupSeen, ShareGroupUnseen};
use crate::index::Shards;
use crate::protocol::{self, ErrorCode, StrBytes, decode, encode};
use crate::share::Share;
use crate::share::ask::{ask_leader, code_of};
use crate::share::wire::{Described, Reply, What};
use crate::types::{Offset, Partition, ROOT_SHARD, ShardId, TopicId};

/// Of a partition that the group has not come to.
const NONE: Offset = -1;
/// Kafka's words for a partition that is not there.
const NO_PARTITION: &str = "This server does not host this topic-partition.";

/// DescribeShareGroupOffsets (API 90).
///
/// # Errors
/// The body does not follow the protocol.
pub async fn describe_share_group_offsets(
    share: &Share,
    groups: &Groups,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: DescribeShareGroupOffsetsRequest = decode(version, body)?;
    let each = request.groups.iter().map(async |group| {
        let answer = DescribeShareGroupOffsetsResponseGroup::default().with_group_id(group.group_id.clone());
        match described(share, groups, group).await {
            Ok(topics) => answer.with_topics(topics),
            Err((error, why)) => answer.with_error_code(error.code()).with_error_message(told(why)),
        }
    });
    let groups = join_all(each).await;
    encode(version, &DescribeShareGroupOffsetsResponse::default().with_groups(groups))
}

/// A group that is not there, or is no share group, has come nowhere: that is no error (Kafka:
/// `GroupCoordinatorService.describeShareGroupOffsets`). Nor is it one of a partition that is not there.
async fn described(
    share: &Share,
    groups: &Groups,
    group: &DescribeShareGroupOffsetsRequestGroup,
) -> Result<Vec<DescribeShareGroupOffsetsResponseTopic>, ShareGroupUnseen> {
    let seen = match groups.share_group(&group.group_id).await {
        Ok(seen) => Some(seen),
        Err((ErrorCode::GroupIdNotFound | ErrorCode::InvalidGroupId, _)) => None,
        Err(unseen) => return Err(unseen),
    };
    let of = |one: Described| {
        let answer = DescribeShareGroupOffsetsResponsePartition::default().with_partition_index(one.partition.index);
        answer.with_start_offset(one.start).with_leader_epoch(one.leader_epoch).with_error_code(one.error)
    };
    let Some(wanted) = &group.topics else {
        let Some(seen) = seen else { return Ok(Vec::new()) };
        let mut topics: BTreeMap<StrBytes, DescribeShareGroupOffsetsResponseTopic> = BTreeMap::new();
        let view = share.cluster.view();
        let mut all = share.everything(&group.group_id).await.map_err(|error| (error, String::new()))?;
        let known: HashSet<Partition> = all.iter().map(|one| one.partition).collect();
        for topic in seen.topics.iter().filter_map(|name| view.topic_named(name)).filter(|topic| !topic.deleting) {
            let partitions = (0..topic.live).map(|index| Partition { topic: topic.id, index });
            all.extend(partitions.filter(|partition| !known.contains(partition)).map(nowhere));
        }
        for one in all {
            let Some(topic) = view.topic(one.partition.topic) else { continue };
            let name = StrBytes::from_string(topic.name.clone());
            let answer = topics.entry(name.clone()).or_default();
            (answer.topic_name, answer.topic_id) = (name.into(), topic.id.into());
            answer.partitions.push(of(one));
        }
        topics.values_mut().for_each(|topic| topic.partitions.sort_by_key(|partition| partition.partition_index));
        return Ok(topics.into_values().collect());
    };
    let mut topics = Vec::with_capacity(wanted.len());
    for topic in wanted {
        let id = share.topic_id(&topic.topic_name);
        let partitions: Vec<Partition> = topic
            .partitions
            .iter()
            .map(|index| Partition { topic: id.unwrap_or(TopicId::ZERO), index: *index })
            .collect();
        let found = match seen {
            Some(_) => share.look_up(&group.group_id, &partitions).await,
            None => partitions.into_iter().map(nowhere).collect(),
        };
        let is_there = |one: &Described| one.error != ErrorCode::UnknownTopicOrPartition.code();
        let found = found.into_iter().map(|one| if is_there(&one) { one } else { nowhere(one.partition) });
        let answer = DescribeShareGroupOffsetsResponseTopic::default().with_topic_name(topic.topic_name.clone());
        let answer = answer.with_topic_id(id.unwrap_or(TopicId::ZERO).into());
        topics.push(answer.with_partitions(found.map(of).collect()));
    }
    Ok(topics)
}

fn nowhere(partition: Partition) -> Described {
    Described { partition, start: NONE, leader_epoch: 0, error: 0 }
}

/// For people, where there is something to tell.
fn told(why: impl Into<String>) -> Option<StrBytes> {
    Some(StrBytes::from_string(why.into())).filter(|why| !why.is_empty())
}

fn told_of(code: ErrorCode) -> Option<StrBytes> {
    told(if code == ErrorCode::UnknownTopicOrPartition { NO_PARTITION } else { "" })
}

/// AlterShareGroupOffsets (API 91), of a group without members, which is made if there is none and something to alter.
///
/// # Errors
/// The body does not follow the protocol.
pub async fn alter_share_group_offsets(
    share: &Share,
    groups: &Groups,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: AlterShareGroupOffsetsRequest = decode(version, body)?;
    let answer = AlterShareGroupOffsetsResponse::default();
    let mut codes: HashMap<Partition, ErrorCode> = HashMap::new();
    let mut by_shard: BTreeMap<ShardId, BTreeMap<Partition, Offset>> = BTreeMap::new();
    for topic in &request.topics {
        let Some(id) = share.topic_id(&topic.topic_name) else { continue };
        for wanted in &topic.partitions {
            let partition = Partition { topic: id, index: wanted.partition_index };
            match share.place(&partition) {
                Ok(shard) => {
                    // Whoever names it twice means the last.
                    by_shard.entry(shard).or_default().insert(partition, wanted.start_offset);
                }
                Err(_) => drop(codes.insert(partition, ErrorCode::UnknownTopicOrPartition)),
            }
        }
    }
    if let Err((error, why)) = is_empty(groups.share_group_or_new(&request.group_id, !by_shard.is_empty()).await) {
        return encode(version, &answer.with_error_code(error.code()).with_error_message(told(why)));
    }
    let begin =
        |(shard, starts): (_, BTreeMap<_, _>)| share.begin(shard, &request.group_id, starts.into_iter().collect());
    let asked = by_shard.into_iter().map(begin);
    codes.extend(join_all(asked).await.concat());
    let topics = request.topics.iter().map(|topic| {
        let id = share.topic_id(&topic.topic_name);
        let partitions = topic.partitions.iter().map(|wanted| {
            let index = wanted.partition_index;
            let code = id.and_then(|topic| codes.get(&Partition { topic, index }));
            let code = code.copied().unwrap_or(ErrorCode::UnknownTopicOrPartition);
            let answer = AlterShareGroupOffsetsResponsePartition::default().with_partition_index(index);
            answer.with_error_code(code.code()).with_error_message(told_of(code))
        });
        AlterShareGroupOffsetsResponseTopic::default()
            .with_topic_name(topic.topic_name.clone())
            .with_topic_id(id.unwrap_or(TopicId::ZERO).into())
            .with_partitions(partitions.collect())
    });
    encode(version, &answer.with_responses(topics.collect()))
}

/// DeleteShareGroupOffsets (API 92), of a group without members.
///
/// # Errors
/// The body does not follow the protocol.
pub async fn delete_share_group_offsets(
    share: &Share,
    groups: &Groups,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: DeleteShareGroupOffsetsRequest = decode(version, body)?;
    let answer = DeleteShareGroupOffsetsResponse::default();
    if let Err((error, why)) = is_empty(groups.share_group(&request.group_id).await) {
        return encode(version, &answer.with_error_code(error.code()).with_error_message(told(why)));
    }
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let id = share.topic_id(&topic.topic_name);
        let (code, why) = match id {
            Some(id) => match share.forget_topic(&request.group_id, id).await {
                Ok(true) => (ErrorCode::None, ""),
                Ok(false) => (ErrorCode::UnknownTopicOrPartition, "There is no offset information to delete."),
                Err(error) => (error, ""),
            },
            None => (ErrorCode::UnknownTopicOrPartition, NO_PARTITION),
        };
        let answer = DeleteShareGroupOffsetsResponseTopic::default().with_topic_name(topic.topic_name.clone());
        let answer = answer.with_topic_id(id.unwrap_or(TopicId::ZERO).into());
        topics.push(answer.with_error_code(code.code()).with_error_message(told(why)));
    }
    encode(version, &answer.with_responses(topics))
}

/// # Errors
/// It is not, or it is no share group, or not coordinated here.
fn is_empty(seen: Result<ShareGroupSeen, ShareGroupUnseen>) -> Result<(), ShareGroupUnseen> {
    match seen?.members {
        0 => Ok(()),
        _ => Err((ErrorCode::NonEmptyGroup, "The group is not empty.".into())),
    }
}

/// Every shard that may carry partitions.
fn all_shards(cluster: &Cluster) -> Vec<ShardId> {
    cluster.view().shards().map(|shard| shard.id).filter(|shard| *shard != ROOT_SHARD).collect()
}

/// Nothing is left of the group in any partition.
///
/// # Errors
/// The leader of a shard is not reached; asking again is harmless.
pub async fn forget_group(cluster: &Cluster, shards: &Arc<Shards>, group: &str) -> Result<(), ErrorCode> {
    let all = all_shards(cluster);
    let asked =
        all.into_iter().map(|shard| ask_leader(cluster, shards, shard, group, What::Forget { partitions: None }));
    for reply in join_all(asked).await {
        let Reply::Each(codes) = reply? else { return Err(ErrorCode::UnknownServerError) };
        // A partition that is gone meanwhile has taken its state along.
        let gone = ErrorCode::UnknownTopicOrPartition.code();
        if let Some(code) = codes.into_iter().find(|code| *code != 0 && *code != gone) {
            return Err(code_of(code));
        }
    }
    Ok(())
}

impl Share {
    fn topic_id(&self, name: &str) -> Option<TopicId> {
        self.cluster.view().topic_named(name).filter(|topic| !topic.deleting).map(|topic| topic.id)
    }

    /// All that a group has come to.
    async fn everything(&self, group: &str) -> Result<Vec<Described>, ErrorCode> {
        let shards = all_shards(&self.cluster);
        let asked = shards.into_iter().map(|shard| self.describe(shard, group, None));
        let each: Result<Vec<_>, _> = join_all(asked).await.into_iter().collect();
        Ok(each?.concat())
    }

    /// Where the group is in these, in their order.
    async fn look_up(&self, group: &str, partitions: &[Partition]) -> Vec<Described> {
        let unknown =
            |partition: &Partition, error: ErrorCode| Described { error: error.code(), ..nowhere(*partition) };
        let mut found: HashMap<Partition, Described> = HashMap::new();
        let mut by_shard: BTreeMap<ShardId, Vec<Partition>> = BTreeMap::new();
        for partition in partitions {
            match self.place(partition) {
                Ok(shard) => by_shard.entry(shard).or_default().push(*partition),
                Err(_) => drop(found.insert(*partition, unknown(partition, ErrorCode::UnknownTopicOrPartition))),
            }
        }
        let asked =
            by_shard.into_iter().map(async |(shard, of)| match self.describe(shard, group, Some(of.clone())).await {
                Ok(described) => described,
                Err(error) => of.iter().map(|partition| unknown(partition, error)).collect(),
            });
        found.extend(join_all(asked).await.concat().into_iter().map(|one| (one.partition, one)));
        let of = |at: &Partition| found.get(at).copied().unwrap_or_else(|| unknown(at, ErrorCode::UnknownServerError));
        partitions.iter().map(of).collect()
    }

    /// False where the group has never come to the topic.
    ///
    /// # Errors
    /// The leader of a shard is not reached.
    async fn forget_topic(&self, group: &str, topic: TopicId) -> Result<bool, ErrorCode> {
        let view = self.cluster.view();
        let live = view.topic(topic).map_or(0, |topic| topic.live);
        let partitions: Vec<Partition> = (0..live).map(|index| Partition { topic, index }).collect();
        let known = self.look_up(group, &partitions).await;
        if let Some(failed) = known.iter().find(|one| one.error != 0) {
            return Err(code_of(failed.error));
        }
        let known: Vec<Partition> = known.iter().filter(|one| one.start != NONE).map(|one| one.partition).collect();
        if known.is_empty() {
            return Ok(false);
        }
        let mut by_shard: BTreeMap<ShardId, Vec<Partition>> = BTreeMap::new();
        for partition in known {
            by_shard.entry(self.place(&partition)?).or_default().push(partition);
        }
        let asked = by_shard.into_iter().map(|(shard, of)| {
            let what = What::Forget { partitions: Some(of.clone()) };
            self.each(shard, group, what, of)
        });
        let each = join_all(asked).await.concat();
        each.into_iter().map(|(_, code)| code).find(|code| *code != ErrorCode::None).map_or(Ok(true), Err)
    }
}
