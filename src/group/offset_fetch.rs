use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions, OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{OffsetFetchRequest, OffsetFetchResponse, TopicName};

use crate::batch::Segments;
use crate::group::Groups;
use crate::group::consumer::{Ask, Reply};
use crate::protocol::{self, ErrorCode, StrBytes, decode, encode};
use crate::shard::group::Committed;
use crate::types::Partition;

/// Since this version an error is said once.
const ERROR_SINCE: i16 = 2;
/// Since this version several groups are asked for at once.
const BATCHED_SINCE: i16 = 8;

/// Partitions by topic, in the order they were asked for; `None` for all that the group has.
type Asked = Option<Vec<(TopicName, Vec<i32>)>>;
/// An offset, or that it is about to change: a transaction that has committed another is not decided yet.
type Offset = Result<Committed, ErrorCode>;
type Found = Vec<(TopicName, Vec<(i32, Offset)>)>;

/// # Errors
/// The body does not follow the protocol.
pub async fn offset_fetch(groups: &Groups, version: i16, body: Bytes) -> Result<Segments, protocol::Error> {
    let request: OffsetFetchRequest = decode(version, body)?;
    if version >= BATCHED_SINCE {
        let mut answers = Vec::with_capacity(request.groups.len());
        for group in request.groups {
            let asked = group.topics.map(|all| all.into_iter().map(|t| (t.name, t.partition_indexes)).collect());
            let member = (group.member_id.as_ref().map(|member| member.to_string()), group.member_epoch);
            let answer = OffsetFetchResponseGroup::default();
            let found = match groups.may_fetch(&group.group_id, member).await {
                Ok(()) => groups.offsets(&group.group_id, asked, request.require_stable).await,
                Err(error) => Err(error),
            };
            let answer = match found {
                Ok(found) => answer.with_topics(found.into_iter().map(told).collect()),
                Err(error) => answer.with_error_code(error.code()),
            };
            answers.push(answer.with_group_id(group.group_id));
        }
        return encode(version, &OffsetFetchResponse::default().with_groups(answers));
    }
    let asked: Asked = request.topics.map(|all| all.into_iter().map(|t| (t.name, t.partition_indexes)).collect());
    let answer = OffsetFetchResponse::default();
    let answer = match groups.offsets(&request.group_id, asked.clone(), request.require_stable).await {
        Ok(found) => answer.with_topics(found.into_iter().map(told_alone).collect()),
        Err(error) if version >= ERROR_SINCE => answer.with_error_code(error.code()),
        Err(error) => {
            let none =
                |(name, indexes): (TopicName, Vec<i32>)| (name, indexes.into_iter().map(|i| (i, Err(error))).collect());
            let all = asked.unwrap_or_default().into_iter().map(|topic| told_alone(none(topic)));
            answer.with_topics(all.collect())
        }
    };
    encode(version, &answer)
}

impl Groups {
    /// Members of the consumer protocol say who they are, so that they learn here when they are members no more. Tools,
    /// and clients of older versions, do not.
    async fn may_fetch(&self, group: &str, (member, epoch): (Option<String>, i32)) -> Result<(), ErrorCode> {
        if member.is_none() && epoch < 0 {
            return Ok(());
        }
        let ask = Ask::MayFetch { member: member.unwrap_or_default(), epoch };
        match self.ask_consumer(group, ask).await {
            Reply::Failed { error, .. } => Err(error),
            Reply::Done | Reply::Beaten(_) | Reply::Described(_) => Ok(()),
        }
    }

    /// With `stable` nothing is told of a partition that a transaction is about to move (KIP-447).
    async fn offsets(&self, group: &str, asked: Asked, stable: bool) -> Result<Found, ErrorCode> {
        let (shard, partition) = self.read(group).await?;
        let found = shard.replica().read(|state| {
            let slot = state.partition(&partition)?.slot;
            let pending: HashSet<Partition> = match stable {
                true => state.groups().pending(slot, group).copied().collect(),
                false => HashSet::new(),
            };
            Some((state.groups().get(slot, group).cloned(), pending))
        });
        let (group, pending) = found.ok_or(ErrorCode::NotCoordinator)?;
        let view = self.cluster.view();
        let offsets = group.as_ref().map(|group| &group.offsets);
        let offset_of = |at: &Partition| match pending.contains(at) {
            true => Err(ErrorCode::UnstableOffsetCommit),
            false => Ok(offsets.and_then(|offsets| offsets.get(at)).cloned().unwrap_or_else(none)),
        };
        let Some(asked) = asked else {
            let mut all: BTreeMap<String, Vec<(i32, Offset)>> = BTreeMap::new();
            for partition in offsets.into_iter().flat_map(|offsets| offsets.keys()) {
                // A topic that is being deleted has none any more.
                let Some(topic) = view.topic(partition.topic).filter(|topic| !topic.deleting) else { continue };
                all.entry(topic.name.clone()).or_default().push((partition.index, offset_of(partition)));
            }
            return Ok(all.into_iter().map(|(name, found)| (StrBytes::from_string(name).into(), found)).collect());
        };
        let found = asked.into_iter().map(|(name, indexes)| {
            let topic = view.topic_named(&name).map(|topic| topic.id);
            let of = |index: i32| {
                let offset = topic.map(|topic| offset_of(&Partition { topic, index }));
                (index, offset.unwrap_or_else(|| Ok(none())))
            };
            (name, indexes.into_iter().map(of).collect())
        });
        Ok(found.collect())
    }
}

/// What a partition has that nobody committed an offset of.
fn none() -> Committed {
    Committed { offset: -1, leader_epoch: -1, ..Committed::default() }
}

/// What is told of a partition, and its error.
fn value(offset: Offset) -> (Committed, ErrorCode) {
    offset.map_or_else(|error| (none(), error), |committed| (committed, ErrorCode::None))
}

fn told((name, found): (TopicName, Vec<(i32, Offset)>)) -> OffsetFetchResponseTopics {
    let partitions = found.into_iter().map(|(index, offset)| {
        let (committed, error) = value(offset);
        OffsetFetchResponsePartitions::default()
            .with_partition_index(index)
            .with_committed_offset(committed.offset)
            .with_committed_leader_epoch(committed.leader_epoch)
            .with_metadata(Some(StrBytes::from_string(committed.metadata)))
            .with_error_code(error.code())
    });
    OffsetFetchResponseTopics::default().with_name(name).with_partitions(partitions.collect())
}

fn told_alone((name, found): (TopicName, Vec<(i32, Offset)>)) -> OffsetFetchResponseTopic {
    let partitions = found.into_iter().map(|(index, offset)| {
        let (committed, error) = value(offset);
        OffsetFetchResponsePartition::default()
            .with_partition_index(index)
            .with_committed_offset(committed.offset)
            .with_committed_leader_epoch(committed.leader_epoch)
            .with_metadata(Some(StrBytes::from_string(committed.metadata)))
            .with_error_code(error.code())
    });
    OffsetFetchResponseTopic::default().with_name(name).with_partitions(partitions.collect())
}
