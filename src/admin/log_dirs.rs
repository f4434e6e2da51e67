//! DescribeLogDirs and AlterReplicaLogDirs. A broker has one "log directory": the object store, whose bytes are what a
//! partition takes. Each replica names its partitions, as in Kafka, so a broker without replicas names none.
//!
//! # Decisions
//! **The log directory is the bucket.** DescribeLogDirs has one directory per broker, named by the store's URL, with
//! the bytes that the pointers of its replicas cover (kept as a sum: nobody walks them). A byte counts at each
//! replica, as in Kafka, though the store has it once; a broker without replicas shows the directory alone.

use std::collections::BTreeMap;

use bytes::Bytes;
use kafka_protocol::messages::alter_replica_log_dirs_response::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult,
};
use kafka_protocol::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use kafka_protocol::messages::{
    AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse, DescribeLogDirsRequest, DescribeLogDirsResponse,
};
use kafka_protocol::protocol::StrBytes;
use milepost_raft::NodeId;

use crate::admin::{Admin, Context};
use crate::batch::Segments;
use crate::cluster::{RootState, Topic};
use crate::index::Shards;
use crate::protocol::{self, ErrorCode, decode, encode};
use crate::types::{Partition, ShardId};

/// A bucket has no size (Kafka: `UNKNOWN_VOLUME_BYTES`).
const UNKNOWN_BYTES: i64 = -1;

/// # Errors
/// The body does not follow the protocol.
pub async fn describe_log_dirs(
    admin: &Admin,
    _context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: DescribeLogDirsRequest = decode(version, body)?;
    let view = admin.cluster.view();
    let asked = request.topics.map(|topics| {
        let mut asked: BTreeMap<String, Vec<i32>> = BTreeMap::new();
        for topic in topics {
            asked.entry(topic.topic.to_string()).or_default().extend(topic.partitions);
        }
        asked
    });
    let shown = shown(&view, admin.cluster.node_id(), asked.as_ref());
    let topics = shown.into_iter().filter_map(|(topic, partitions)| {
        let sizes = partitions.into_iter().filter_map(|(index, shard)| {
            let size = bytes_of(&admin.shards, shard, &Partition { topic: topic.id, index })?;
            let told = DescribeLogDirsPartition::default().with_partition_index(index);
            Some(told.with_partition_size(i64::try_from(size).unwrap_or(i64::MAX)))
        });
        let sizes: Vec<_> = sizes.collect();
        let name = StrBytes::from_string(topic.name.clone()).into();
        (!sizes.is_empty()).then(|| DescribeLogDirsTopic::default().with_name(name).with_partitions(sizes))
    });
    let dir = DescribeLogDirsResult::default()
        .with_log_dir(StrBytes::from_string(admin.settings.store.clone()))
        .with_topics(topics.collect());
    // Sizes of the volume came with version 4.
    let dir = match version {
        ..4 => dir,
        _ => dir.with_total_bytes(UNKNOWN_BYTES).with_usable_bytes(UNKNOWN_BYTES),
    };
    encode(version, &DescribeLogDirsResponse::default().with_results(vec![dir]))
}

/// Partitions of which this node has a replica, by topic; all of them when none is asked for. What is not there is left
/// out, as Kafka does.
fn shown<'v>(
    view: &'v RootState,
    me: NodeId,
    asked: Option<&BTreeMap<String, Vec<i32>>>,
) -> Vec<(&'v Topic, Vec<(i32, ShardId)>)> {
    let here = |shard: &ShardId| view.shard(*shard).is_some_and(|shard| shard.voters.contains(&me));
    let topics = view.live_topics().filter_map(|topic| {
        let wanted = match asked {
            None => None,
            Some(asked) => Some(asked.get(&topic.name)?),
        };
        let live = (0..topic.live).zip(topic.placement.iter().copied());
        let live = live.filter(|(index, shard)| here(shard) && wanted.is_none_or(|wanted| wanted.contains(index)));
        Some((topic.as_ref(), live.collect()))
    });
    topics.collect()
}

fn bytes_of(shards: &Shards, shard: ShardId, partition: &Partition) -> Option<u64> {
    shards.get(shard)?.replica().read(|state| Some(state.partition(partition)?.pointers.bytes()))
}

/// # Errors
/// The body does not follow the protocol.
pub async fn alter_replica_log_dirs(
    admin: &Admin,
    _context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: AlterReplicaLogDirsRequest = decode(version, body)?;
    let view = admin.cluster.view();
    let mut results: BTreeMap<String, Vec<AlterReplicaLogDirPartitionResult>> = BTreeMap::new();
    for dir in &request.dirs {
        for topic in &dir.topics {
            let moved = |index: &i32| {
                let code =
                    move_to(&view, admin.cluster.node_id(), &admin.settings.store, &dir.path, &topic.name, *index);
                AlterReplicaLogDirPartitionResult::default().with_partition_index(*index).with_error_code(code.code())
            };
            results.entry(topic.name.to_string()).or_default().extend(topic.partitions.iter().map(moved));
        }
    }
    let results = results.into_iter().map(|(name, partitions)| {
        let name = StrBytes::from_string(name).into();
        AlterReplicaLogDirTopicResult::default().with_topic_name(name).with_partitions(partitions)
    });
    encode(version, &AlterReplicaLogDirsResponse::default().with_results(results.collect()))
}

/// There is one directory: a replica is in it already, and there is no other to move it to.
fn move_to(view: &RootState, me: NodeId, store: &str, path: &str, name: &str, index: i32) -> ErrorCode {
    if path != store {
        return ErrorCode::LogDirNotFound;
    }
    let Some(topic) = view.topic_named(name).filter(|topic| (0..topic.live).contains(&index)) else {
        return ErrorCode::UnknownTopicOrPartition;
    };
    match view.shard(topic.placement[index as usize]).is_some_and(|shard| shard.voters.contains(&me)) {
        true => ErrorCode::None,
        false => ErrorCode::ReplicaNotAvailable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::sample;

    #[test]
    fn a_broker_shows_the_partitions_that_it_replicates() {
        let mut view = sample::cluster(&["a", "b"]);
        let outsider = sample::join(&mut view, 2, "c");
        sample::topic(&mut view, "t", 1, 3, 3);
        sample::topic(&mut view, "u", 2, 1, 1);
        let indexes = |me, asked: Option<&[(&str, &[i32])]>| {
            let asked = asked.map(|asked| asked.iter().map(|(n, i)| ((*n).to_owned(), i.to_vec())).collect());
            let shown = shown(&view, me, asked.as_ref()).into_iter();
            shown.map(|(t, p)| (t.name.clone(), p.into_iter().map(|(i, _)| i).collect())).collect::<Vec<(_, Vec<_>)>>()
        };
        assert_eq!(indexes(1, None), [("t".to_owned(), vec![0, 1, 2]), ("u".to_owned(), vec![0])]);
        assert_eq!(indexes(2, Some(&[("t", &[1, 9]), ("v", &[0])])), [("t".to_owned(), vec![1])]);
        assert!(indexes(outsider, None).iter().all(|(_, partitions)| partitions.is_empty()));
    }

    #[test]
    fn there_is_nowhere_to_move_a_replica_to() {
        let mut view = sample::cluster(&["a"]);
        let outsider = sample::join(&mut view, 1, "b");
        sample::topic(&mut view, "t", 1, 1, 1);
        let code = |me, path, index| move_to(&view, me, "s3://b/p", path, "t", index);
        assert_eq!(code(1, "/var/lib/kafka", 0), ErrorCode::LogDirNotFound);
        assert_eq!(code(1, "s3://b/p", 0), ErrorCode::None);
        assert_eq!(code(1, "s3://b/p", 1), ErrorCode::UnknownTopicOrPartition);
        assert_eq!(code(outsider, "s3://b/p", 0), ErrorCode::ReplicaNotAvailable);
    }
}
