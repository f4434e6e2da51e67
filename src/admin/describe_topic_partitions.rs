use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use kafka_protocol::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use kafka_protocol::messages::metadata_response::MetadataResponsePartition;
use kafka_protocol::messages::{DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse};
use kafka_protocol::protocol::StrBytes;

use crate::admin::epochs::{self, Epochs};
use crate::admin::metadata::Told;
use crate::admin::{Admin, Context, leaders, names, operations};
use crate::batch::Segments;
use crate::cluster::{RootState, Topic};
use crate::protocol::{self, ErrorCode, decode, encode};

/// Partitions of one answer (Kafka: `max.request.partition.size.limit`).
const PARTITIONS_PER_ANSWER_MAX: usize = 2000;

/// A topic and those of its partitions that an answer shows.
type Shown = (String, Result<(Arc<Topic>, Range<usize>), ErrorCode>);

/// DescribeTopicPartitions (API 75, KIP-966), page by page. It is what administrators look with, so it names the true
/// leaders, whatever zone the client is in.
///
/// # Errors
/// The body does not follow the protocol.
pub async fn describe_topic_partitions(
    admin: &Admin,
    _context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: DescribeTopicPartitionsRequest = decode(version, body)?;
    let asked: BTreeSet<String> = request.topics.iter().map(|topic| topic.name.to_string()).collect();
    let cursor = request.cursor.map(|cursor| (cursor.topic_name.to_string(), cursor.partition_index));
    let limit = usize::try_from(request.response_partition_limit).unwrap_or(0).clamp(1, PARTITIONS_PER_ANSWER_MAX);
    let view = admin.cluster.view();
    let (shown, next) = page(&view, &asked, cursor.as_ref(), limit);
    let live = shown.iter().filter_map(|(_, topic)| topic.as_ref().ok());
    let wanted = live.flat_map(|(topic, range)| epochs::live(topic).skip(range.start).take(range.len()));
    let epochs = Epochs::gather(admin, wanted).await;
    let placed = leaders::place(&view, None, |shard| epochs.leader(shard));
    let told = Told { view: &view, placed, epoch: |shard, partition: &_| epochs.of(shard, partition) };
    let topics = shown.into_iter().map(|(name, topic)| {
        let answer =
            DescribeTopicPartitionsResponseTopic::default().with_name(Some(StrBytes::from_string(name).into()));
        match topic {
            Err(code) => answer.with_error_code(code.code()),
            Ok((topic, range)) => {
                let partitions = epochs::live(&topic).skip(range.start).take(range.len());
                let partitions = partitions.map(|(shard, partition)| described(told.partition(shard, &partition)));
                answer
                    .with_topic_id(topic.id.into())
                    .with_topic_authorized_operations(operations::ON_A_TOPIC)
                    .with_partitions(partitions.collect())
            }
        }
    });
    let next = next.map(|(name, index)| {
        Cursor::default().with_topic_name(StrBytes::from_string(name).into()).with_partition_index(index as i32)
    });
    let answer = DescribeTopicPartitionsResponse::default().with_topics(topics.collect()).with_next_cursor(next);
    encode(version, &answer)
}

/// Topics by name, from the cursor on, until `limit` partitions are shown; and where the next page begins. All topics
/// when none is asked for (Kafka: `DescribeTopicPartitionsRequestHandler`).
fn page(
    view: &RootState,
    asked: &BTreeSet<String>,
    cursor: Option<&(String, i32)>,
    limit: usize,
) -> (Vec<Shown>, Option<(String, usize)>) {
    let lost = |(name, index): &(String, i32)| *index < 0 || !(asked.is_empty() || asked.contains(name));
    if cursor.is_some_and(lost) {
        return (asked.iter().map(|name| (name.clone(), Err(ErrorCode::InvalidRequest))).collect(), None);
    }
    let names: BTreeSet<&str> = match asked.is_empty() {
        true => view.live_topics().map(|topic| topic.name.as_str()).collect(),
        false => asked.iter().map(String::as_str).collect(),
    };
    let (from, start) = cursor.map_or(("", 0), |(name, index)| (name.as_str(), *index as usize));
    let (mut shown, mut left) = (Vec::new(), limit);
    for name in names.range::<&str, _>(from..) {
        if left == 0 {
            return (shown, Some(((*name).to_owned(), 0)));
        }
        let topic = match view.topic_named(name) {
            Some(topic) if topic.live > 0 => topic.clone(),
            Some(_) => {
                shown.push(((*name).to_owned(), Err(ErrorCode::LeaderNotAvailable)));
                continue;
            }
            None => {
                let code =
                    names::validate(name).map_or(ErrorCode::InvalidTopic, |()| ErrorCode::UnknownTopicOrPartition);
                shown.push(((*name).to_owned(), Err(code)));
                continue;
            }
        };
        let live = topic.live as usize;
        let start = if *name == from { start.min(live) } else { 0 };
        let end = live.min(start + left);
        left -= end - start;
        shown.push(((*name).to_owned(), Ok((topic, start..end))));
        if end < live {
            return (shown, Some(((*name).to_owned(), end)));
        }
    }
    (shown, None)
}

fn described(told: MetadataResponsePartition) -> DescribeTopicPartitionsResponsePartition {
    DescribeTopicPartitionsResponsePartition::default()
        .with_error_code(told.error_code)
        .with_partition_index(told.partition_index)
        .with_leader_id(told.leader_id)
        .with_leader_epoch(told.leader_epoch)
        .with_replica_nodes(told.replica_nodes)
        .with_isr_nodes(told.isr_nodes)
        // Raft elects from a majority: there are no other replicas that might lead.
        .with_eligible_leader_replicas(Some(Vec::new()))
        .with_last_known_elr(Some(Vec::new()))
        .with_offline_replicas(told.offline_replicas)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::sample;

    type Told = Vec<(String, Result<Range<usize>, ErrorCode>)>;

    fn told(asked: &[&str], cursor: Option<(&str, i32)>, limit: usize) -> (Told, Option<(String, usize)>) {
        let mut view = sample::cluster(&["a"]);
        sample::topic(&mut view, "b", 1, 5, 5);
        sample::topic(&mut view, "a", 2, 3, 3);
        sample::topic(&mut view, "making", 3, 3, 0);
        let asked = asked.iter().map(|name| (*name).to_owned()).collect();
        let cursor = cursor.map(|(name, index)| (name.to_owned(), index));
        let (shown, next) = page(&view, &asked, cursor.as_ref(), limit);
        (shown.into_iter().map(|(name, topic)| (name, topic.map(|(_, range)| range))).collect(), next)
    }

    fn shown(name: &str, range: Range<usize>) -> (String, Result<Range<usize>, ErrorCode>) {
        (name.to_owned(), Ok(range))
    }

    #[test]
    fn all_topics_come_by_name_in_pages_that_follow_each_other() {
        assert_eq!(told(&[], None, 100), (vec![shown("a", 0..3), shown("b", 0..5)], None));
        assert_eq!(told(&[], None, 2), (vec![shown("a", 0..2)], Some(("a".into(), 2))));
        let second = (vec![shown("a", 2..3), shown("b", 0..1)], Some(("b".into(), 1)));
        assert_eq!(told(&[], Some(("a", 2)), 2), second);
        assert_eq!(told(&[], Some(("b", 1)), 4), (vec![shown("b", 1..5)], None));
        assert_eq!(told(&[], None, 3), (vec![shown("a", 0..3)], Some(("b".into(), 0))));
        assert_eq!(told(&[], Some(("b", 9)), 3), (vec![shown("b", 5..5)], None));
    }

    #[test]
    fn what_was_asked_for_and_is_not_there_has_kafkas_code() {
        let (told, _) = told(&["no", "b", "making", "not/a/name"], None, 100);
        let codes: Vec<_> = told.into_iter().map(|(_, topic)| topic.err()).collect();
        let unknown = ErrorCode::UnknownTopicOrPartition;
        assert_eq!(codes, [None, Some(ErrorCode::LeaderNotAvailable), Some(unknown), Some(ErrorCode::InvalidTopic)]);
    }

    #[test]
    fn a_cursor_that_leads_nowhere_is_refused() {
        for (asked, cursor) in [(&["a"][..], ("b", 0)), (&["a"], ("a", -1)), (&[], ("a", -1))] {
            let (told, next) = told(asked, Some(cursor), 10);
            assert!(told.iter().all(|(_, topic)| *topic == Err(ErrorCode::InvalidRequest)));
            assert_eq!((told.len(), next), (asked.len(), None));
        }
    }
}
