use std::collections::BTreeMap;

use bytes::Bytes;
use futures::future::join_all;
use kafka_protocol::messages::delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult};
use kafka_protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse};
use tokio::time::Instant;

use crate::admin::{Admin, Context, is_internal, topics};
use crate::batch::Segments;
use crate::cluster::RootState;
use crate::commit::{self, Trimmed};
use crate::peer::LeaderError;
use crate::protocol::{self, ErrorCode, decode, encode};
use crate::types::{Offset, Partition, ShardId};

/// What is answered in place of a start (Kafka: `DeleteRecordsResponse.INVALID_LOW_WATERMARK`).
const NO_LOW_WATERMARK: Offset = -1;

/// What is asked of one shard, and the places of the answers.
type OfShard = (Vec<usize>, Vec<(Partition, Offset)>);

/// DeleteRecords (API 21), at any broker: the leaders of the partitions' shards are asked.
///
/// # Errors
/// The body does not follow the protocol.
pub async fn delete_records(
    admin: &Admin,
    _context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: DeleteRecordsRequest = decode(version, body)?;
    let deadline = topics::deadline(request.timeout_ms);
    let view = admin.cluster.view();
    let mut results: Vec<Result<Offset, ErrorCode>> = Vec::new();
    let mut by_shard: BTreeMap<ShardId, OfShard> = BTreeMap::new();
    for topic in &request.topics {
        for wanted in &topic.partitions {
            match locate(&view, &topic.name, wanted.partition_index) {
                Ok((shard, partition)) => {
                    let (places, all) = by_shard.entry(shard).or_default();
                    places.push(results.len());
                    all.push((partition, wanted.offset));
                    results.push(Err(ErrorCode::RequestTimedOut));
                }
                Err(code) => results.push(Err(code)),
            }
        }
    }
    let timeout = deadline.saturating_duration_since(Instant::now());
    let asked = by_shard.into_iter().map(async |(shard, (places, wanted))| {
        (places, commit::trim(&admin.cluster, &admin.shards, shard, &wanted, timeout).await)
    });
    for (places, answer) in join_all(asked).await {
        for (at, place) in places.into_iter().enumerate() {
            results[place] = match &answer {
                Ok(trimmed) => outcome(trimmed[at]),
                Err(LeaderError::NoLeader) => Err(ErrorCode::LeaderNotAvailable),
                Err(LeaderError::Unknown) => Err(ErrorCode::RequestTimedOut),
                Err(LeaderError::Refused(_)) => Err(ErrorCode::UnknownServerError),
            };
        }
    }
    let mut results = results.into_iter();
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().zip(results.by_ref()).map(|(wanted, result)| {
            DeleteRecordsPartitionResult::default()
                .with_partition_index(wanted.partition_index)
                .with_low_watermark(result.unwrap_or(NO_LOW_WATERMARK))
                .with_error_code(result.err().unwrap_or(ErrorCode::None).code())
        });
        DeleteRecordsTopicResult::default().with_partitions(partitions.collect()).with_name(topic.name)
    });
    encode(version, &DeleteRecordsResponse::default().with_topics(topics.collect()))
}

/// Kafka refuses internal topics, and those that are compacted and nothing else.
fn locate(view: &RootState, name: &str, index: i32) -> Result<(ShardId, Partition), ErrorCode> {
    let topic = view.topic_named(name).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    if is_internal(name) {
        return Err(ErrorCode::InvalidTopic);
    }
    if topic.configs.get("cleanup.policy").is_some_and(|policy| policy == "compact") {
        return Err(ErrorCode::PolicyViolation);
    }
    if index < 0 || index >= topic.live {
        return Err(ErrorCode::UnknownTopicOrPartition);
    }
    Ok((topic.placement[index as usize], Partition { topic: topic.id, index }))
}

fn outcome(trimmed: Trimmed) -> Result<Offset, ErrorCode> {
    match trimmed {
        Trimmed::Start(offset) => Ok(offset),
        Trimmed::OutOfRange => Err(ErrorCode::OffsetOutOfRange),
        Trimmed::Unknown => Err(ErrorCode::UnknownTopicOrPartition),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::admin::{CONSUMER_OFFSETS, sample};
    use crate::cluster::{NewTopic, RootEntry};

    #[test]
    fn what_may_not_lose_records_has_kafkas_code() {
        let mut view = sample::cluster(&["a"]);
        sample::topic(&mut view, "t", 1, 3, 2);
        sample::topic(&mut view, CONSUMER_OFFSETS, 2, 1, 1);
        for (id, policy) in [(3, "compact"), (4, "compact,delete")] {
            let configs = BTreeMap::from([("cleanup.policy".to_owned(), policy.to_owned())]);
            let (id, name) = (sample::topic_id(id), policy.to_owned());
            view.apply(RootEntry::CreateTopic(NewTopic {
                id,
                name,
                partitions: 1,
                replication_factor: 1,
                configs,
                assigned: Vec::new(),
            }));
            view.apply(RootEntry::SetLive { topic: id, partitions: 1 });
        }
        assert_eq!(locate(&view, "t", 1).map(|(_, partition)| partition.index), Ok(1));
        assert!(locate(&view, "compact,delete", 0).is_ok());
        for (name, index, code) in [
            ("t", 2, ErrorCode::UnknownTopicOrPartition),
            ("t", -1, ErrorCode::UnknownTopicOrPartition),
            ("u", 0, ErrorCode::UnknownTopicOrPartition),
            (CONSUMER_OFFSETS, 0, ErrorCode::InvalidTopic),
            ("compact", 0, ErrorCode::PolicyViolation),
        ] {
            assert_eq!(locate(&view, name, index), Err(code), "{name} {index}");
        }
    }
}
