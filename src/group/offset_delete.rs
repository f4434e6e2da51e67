use std::collections::HashMap;

use bytes::Bytes;
use kafka_protocol::messages::offset_delete_response::{OffsetDeleteResponsePartition, OffsetDeleteResponseTopic};
use kafka_protocol::messages::{OffsetDeleteRequest, OffsetDeleteResponse};

use crate::batch::Segments;
use crate::group::classic::{Ask, Reply};
use crate::group::{Groups, error_of};
use crate::protocol::{self, ErrorCode, decode, encode};
use crate::types::Partition;

/// # Errors
/// The body does not follow the protocol.
pub async fn offset_delete(groups: &Groups, version: i16, body: Bytes) -> Result<Segments, protocol::Error> {
    let request: OffsetDeleteRequest = decode(version, body)?;
    let view = groups.cluster.view();
    let mut known = Vec::new();
    for topic in &request.topics {
        let Some(found) = view.topic_named(&topic.name) else { continue };
        let indexes = topic.partitions.iter().map(|partition| partition.partition_index);
        let indexes = indexes.filter(|index| (0..found.live).contains(index));
        known.extend(indexes.map(|index| (topic.name.to_string(), Partition { topic: found.id, index })));
    }
    let answer = OffsetDeleteResponse::default();
    // Asked also where no topic is known: what is wrong with the group comes first.
    let each = match groups.ask_named(&request.group_id, Ask::DeleteOffsets(known.clone())).await {
        Reply::Each(each) => each,
        other => return encode(version, &answer.with_error_code(error_of(other).code())),
    };
    let asked = known.iter().map(|(topic, partition)| (topic.as_str(), partition.index));
    let codes: HashMap<(&str, i32), ErrorCode> = asked.zip(each).collect();
    let code_of =
        |name: &str, index: i32| codes.get(&(name, index)).copied().unwrap_or(ErrorCode::UnknownTopicOrPartition);
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            let index = partition.partition_index;
            let told = OffsetDeleteResponsePartition::default().with_partition_index(index);
            told.with_error_code(code_of(&topic.name, index).code())
        });
        OffsetDeleteResponseTopic::default().with_name(topic.name.clone()).with_partitions(partitions.collect())
    });
    encode(version, &answer.with_topics(topics.collect()))
}
