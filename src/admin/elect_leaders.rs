use std::collections::BTreeMap;

use bytes::Bytes;
use futures::future::join_all;
use kafka_protocol::messages::elect_leaders_response::{PartitionResult, ReplicaElectionResult};
use kafka_protocol::messages::{ElectLeadersRequest, ElectLeadersResponse};
use kafka_protocol::protocol::StrBytes;
use tokio::time::Instant;

use crate::admin::{Admin, Context, topics};
use crate::batch::Segments;
use crate::cluster::{self, Elected, RootState};
use crate::protocol::{self, ErrorCode, decode, encode};
use crate::types::ShardId;

// Kafka's `ElectionType`.
const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;
/// Also where the leader is as good as what was asked for.
const NOT_NEEDED: &str = "Leader election not needed for topic partition.";

/// A partition by name, and its shard or why it has none.
type Wanted = (String, i32, Result<ShardId, (ErrorCode, &'static str)>);
type Outcome = (ErrorCode, Option<&'static str>);

/// ElectLeaders (API 43). A partition is led by whoever leads its shard; asked for one of them, leadership of all goes to
/// the shard's preferred voter. An unclean election is never made: a majority of voters elects, or nobody.
///
/// # Errors
/// The body does not follow the protocol.
pub async fn elect_leaders(
    admin: &Admin,
    _context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: ElectLeadersRequest = decode(version, body)?;
    if !matches!(request.election_type, PREFERRED | UNCLEAN) {
        return encode(version, &refused(request));
    }
    let deadline = topics::deadline(request.timeout_ms);
    let asked = request.topic_partitions.map(|topics| {
        let each = topics.into_iter().flat_map(|topic| {
            let name = topic.topic.to_string();
            topic.partitions.into_iter().map(move |index| (name.clone(), index))
        });
        each.collect::<Vec<_>>()
    });
    let all = asked.is_none();
    let wanted = wanted(&admin.cluster.view(), asked);
    let mut shards: Vec<ShardId> = wanted.iter().filter_map(|(_, _, shard)| shard.as_ref().ok().copied()).collect();
    shards.sort_unstable();
    shards.dedup();
    let elected = join_all(shards.into_iter().map(async |shard| {
        let within = deadline.saturating_duration_since(Instant::now());
        (shard, elect(admin, shard, request.election_type, within).await)
    }));
    let elected: BTreeMap<ShardId, Outcome> = elected.await.into_iter().collect();
    let mut by_topic: BTreeMap<String, Vec<PartitionResult>> = BTreeMap::new();
    for (name, index, shard) in wanted {
        let (code, message) = match shard {
            Ok(shard) => elected[&shard],
            Err((code, message)) => (code, Some(message)),
        };
        // Asked for everything, Kafka tells only of what it did or could not do.
        if all && code == ErrorCode::ElectionNotNeeded {
            continue;
        }
        let result = PartitionResult::default().with_partition_id(index).with_error_code(code.code());
        let result = result.with_error_message(message.map(StrBytes::from_static_str));
        by_topic.entry(name).or_default().push(result);
    }
    let results = by_topic.into_iter().map(|(name, results)| {
        let name = StrBytes::from_string(name).into();
        ReplicaElectionResult::default().with_topic(name).with_partition_result(results)
    });
    encode(version, &ElectLeadersResponse::default().with_replica_election_results(results.collect()))
}

/// Also each partition is told. A version that has no such field has no other election either.
fn refused(request: ElectLeadersRequest) -> ElectLeadersResponse {
    let code = ErrorCode::InvalidRequest.code();
    let why = StrBytes::from_string(format!("Unknown election type {}", request.election_type));
    let results = request.topic_partitions.unwrap_or_default().into_iter().map(|topic| {
        let partitions = topic.partitions.into_iter().map(|index| {
            let result = PartitionResult::default().with_partition_id(index).with_error_code(code);
            result.with_error_message(Some(why.clone()))
        });
        ReplicaElectionResult::default().with_topic(topic.topic).with_partition_result(partitions.collect())
    });
    ElectLeadersResponse::default().with_error_code(code).with_replica_election_results(results.collect())
}

/// All live partitions when none is asked for.
fn wanted(view: &RootState, asked: Option<Vec<(String, i32)>>) -> Vec<Wanted> {
    match asked {
        None => {
            let live = view.live_topics().filter(|topic| !topic.deleting);
            let each = live.flat_map(|topic| {
                let placed = (0..topic.live).zip(&topic.placement);
                placed.map(|(index, shard)| (topic.name.clone(), index, Ok(*shard)))
            });
            each.collect()
        }
        Some(asked) => {
            let find = |name: &str, index: i32| {
                let unknown = |what| (ErrorCode::UnknownTopicOrPartition, what);
                let topic = view.topic_named(name).ok_or(unknown("No such topic"))?;
                let known = (0..topic.live).contains(&index);
                known.then(|| topic.placement[index as usize]).ok_or(unknown("No such partition"))
            };
            asked.into_iter().map(|(name, index)| (name.clone(), index, find(&name, index))).collect()
        }
    }
}

async fn elect(admin: &Admin, shard: ShardId, election: i8, within: std::time::Duration) -> Outcome {
    if election == UNCLEAN {
        let why = "leaders are elected by a majority of voters alone, and there is none";
        return match cluster::is_led(&admin.cluster, &admin.shards, shard, within).await {
            true => (ErrorCode::ElectionNotNeeded, Some(NOT_NEEDED)),
            false => (ErrorCode::EligibleLeadersNotAvailable, Some(why)),
        };
    }
    match cluster::elect_preferred(&admin.cluster, &admin.shards, shard, within).await {
        Ok(Elected::Preferred) => (ErrorCode::None, None),
        Ok(Elected::NotNeeded) => (ErrorCode::ElectionNotNeeded, Some(NOT_NEEDED)),
        Ok(Elected::Unavailable) => {
            (ErrorCode::PreferredLeaderNotAvailable, Some("the preferred leader is away or behind"))
        }
        Err(_) => (ErrorCode::LeaderNotAvailable, Some("nobody leads the partition's shard now")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::sample;

    #[test]
    fn an_election_of_another_kind_is_refused_for_each_partition() {
        use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
        let topic = TopicPartitions::default().with_topic(StrBytes::from_static_str("t").into());
        let topic = topic.with_partitions(vec![0, 5]);
        let told =
            refused(ElectLeadersRequest::default().with_election_type(2).with_topic_partitions(Some(vec![topic])));
        assert_eq!(told.error_code, 42);
        let results = &told.replica_election_results[0].partition_result;
        let told: Vec<_> = results.iter().map(|result| (result.partition_id, result.error_code)).collect();
        assert_eq!(told, [(0, 42), (5, 42)]);
        assert_eq!(results[0].error_message.as_deref(), Some("Unknown election type 2"));
    }

    #[test]
    fn all_live_partitions_are_meant_when_none_is_named() {
        let mut view = sample::cluster(&["a", "b"]);
        sample::topic(&mut view, "t", 1, 3, 2);
        let all: Vec<_> = wanted(&view, None).into_iter().map(|(name, index, _)| (name, index)).collect();
        assert_eq!(all, [("t".to_owned(), 0), ("t".to_owned(), 1)]);
        let asked = [("t", 1), ("t", 2), ("t", -1), ("u", 0)].map(|(name, index)| (name.to_owned(), index));
        let found = wanted(&view, Some(asked.into()));
        let codes: Vec<_> = found.iter().map(|(_, _, shard)| shard.as_ref().err().map(|(code, _)| *code)).collect();
        let unknown = Some(ErrorCode::UnknownTopicOrPartition);
        assert_eq!(codes, [None, unknown, unknown, unknown]);
    }
}
