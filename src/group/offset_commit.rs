use std::sync::Arc;

use bytes::Bytes;
use kafka_protocol::messages::offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};
use kafka_protocol::messages::{OffsetCommitRequest, OffsetCommitResponse};

use crate::batch::Segments;
use crate::cluster::Topic;
use crate::group::classic::{Ask, Caller, Commit};
use crate::group::{Groups, METADATA_BYTES_MAX, error_of};
use crate::protocol::{self, ErrorCode, decode, encode};
use crate::shard::group::Committed;
use crate::types::{LeaderEpoch, Offset, Partition};

/// Clients of this version know that a group may not exist.
const GROUP_ID_NOT_FOUND_SINCE: i16 = 9;

/// # Errors
/// The body does not follow the protocol.
pub async fn offset_commit(groups: &Groups, version: i16, body: Bytes) -> Result<Segments, protocol::Error> {
    let request: OffsetCommitRequest = decode(version, body)?;
    let view = groups.cluster.view();
    let mut checked = Checked::default();
    for topic in &request.topics {
        let found = view.topic_named(&topic.name);
        for partition in &topic.partitions {
            let asked = Asked {
                index: partition.partition_index,
                offset: partition.committed_offset,
                leader_epoch: partition.committed_leader_epoch,
                metadata: partition.committed_metadata.as_deref(),
            };
            checked.add(found, &asked);
        }
    }
    let error = match checked.each.is_empty() || checked.names_any() {
        true => {
            let caller = Caller {
                member: request.member_id.to_string(),
                instance: request.group_instance_id.map(|instance| instance.to_string()),
                generation: request.generation_id_or_member_epoch,
            };
            let commit = Commit {
                caller,
                retention_ms: u64::try_from(request.retention_time_ms).ok(),
                offsets: checked.take_offsets(),
                knows_group_id_not_found: version >= GROUP_ID_NOT_FOUND_SINCE,
                transaction: None,
            };
            error_of(groups.ask(&request.group_id, Ask::Commit(commit)).await)
        }
        false => ErrorCode::None,
    };
    let mut codes = checked.codes(error);
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            let told = OffsetCommitResponsePartition::default().with_partition_index(partition.partition_index);
            told.with_error_code(codes.next().unwrap_or(error).code())
        });
        let partitions = partitions.collect();
        OffsetCommitResponseTopic::default().with_name(topic.name).with_partitions(partitions)
    });
    encode(version, &OffsetCommitResponse::default().with_topics(topics.collect()))
}

/// An offset to commit, as either API names it.
pub(super) struct Asked<'a> {
    pub index: i32,
    pub offset: Offset,
    pub leader_epoch: LeaderEpoch,
    pub metadata: Option<&'a str>,
}

/// What of a request can be committed, and what not: partition by partition.
#[derive(Default)]
pub(super) struct Checked {
    offsets: Vec<(Partition, Committed)>,
    each: Vec<Result<(), ErrorCode>>,
}

impl Checked {
    pub fn add(&mut self, topic: Option<&Arc<Topic>>, asked: &Asked) {
        let one = check(topic, asked);
        self.each.push(one.as_ref().map(drop).map_err(|error| *error));
        self.offsets.extend(one);
    }

    /// As in Kafka, a request that names no partition there is does not reach the group.
    pub fn names_any(&self) -> bool {
        self.each.iter().any(|one| *one != Err(ErrorCode::UnknownTopicOrPartition))
    }

    /// Each partition once, as the request says it last.
    pub fn take_offsets(&mut self) -> Vec<(Partition, Committed)> {
        let mut offsets = std::mem::take(&mut self.offsets);
        offsets.reverse();
        offsets.sort_by_key(|(partition, _)| *partition);
        offsets.dedup_by_key(|(partition, _)| *partition);
        offsets
    }

    /// What each partition is told, in the order of the request, when the group has said this.
    pub fn codes(self, group: ErrorCode) -> impl Iterator<Item = ErrorCode> {
        self.each.into_iter().map(move |one| match one {
            Err(ErrorCode::OffsetMetadataTooLarge) if group != ErrorCode::None => group,
            Err(own) => own,
            Ok(()) => group,
        })
    }
}

fn check(topic: Option<&Arc<Topic>>, asked: &Asked) -> Result<(Partition, Committed), ErrorCode> {
    let topic = topic.filter(|topic| (0..topic.live).contains(&asked.index));
    let topic = topic.ok_or(ErrorCode::UnknownTopicOrPartition)?;
    let metadata = asked.metadata.unwrap_or_default().to_owned();
    // Java counts UTF-16 units.
    if metadata.len() > METADATA_BYTES_MAX && metadata.encode_utf16().count() > METADATA_BYTES_MAX {
        return Err(ErrorCode::OffsetMetadataTooLarge);
    }
    let Asked { index, offset, leader_epoch, .. } = *asked;
    Ok((Partition { topic: topic.id, index }, Committed { offset, leader_epoch, metadata, ..Committed::default() }))
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::types::TopicId;

    #[test]
    fn a_partition_named_often_is_committed_once_as_the_request_says_last() {
        let topic = TopicId::from_bytes([1; 16]);
        let one = |index, offset| (Partition { topic, index }, Committed { offset, ..Committed::default() });
        let mut checked = Checked { offsets: vec![one(1, 5), one(0, 6), one(1, 7), one(1, 4)], each: Vec::new() };
        assert_eq!(checked.take_offsets(), [one(0, 6), one(1, 4)]);
        assert_eq!(checked.take_offsets(), []);
    }
}
