//! Offsets that a transaction has committed and that are not decided yet, as members of the group see them.

use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::*;
use milepost_raft::call_address;

use crate::admin::CONSUMER_OFFSETS;
use crate::commit::{Ending, Endings, decode_slots, with_shard};
use crate::group::place::place_in;
use crate::index::Shards;
use crate::node::Node;
use crate::node::testing::{Client, broker_in, text};
use crate::peer::{self, Answer};
use crate::protocol::ErrorCode;
use crate::shard::Entry;
use crate::shard::group::{Change, Committed, GroupEntry};
use crate::types::{Partition, Producer, ShardId};

const PATIENCE: Duration = Duration::from_secs(30);
const PRODUCER: Producer = Producer { id: 7, epoch: 0 };

async fn ask(node: &Node, kind: u8, shard: ShardId, body: &[u8]) -> Answer {
    let (address, cluster) = (node.cluster().node().listen_addr().to_string(), node.cluster().cluster_id());
    Answer::decode(call_address(&address, cluster, kind, with_shard(shard, body), PATIENCE).await.unwrap()).unwrap()
}

/// (offset, error) of both partitions of the topic, or of all that the group has.
async fn fetched(client: &mut Client, version: i16, stable: bool, all: bool) -> Vec<(i64, i16)> {
    let request = OffsetFetchRequest::default().with_require_stable(stable);
    let request = match version {
        ..8 => {
            let topic =
                OffsetFetchRequestTopic::default().with_name(text("t").into()).with_partition_indexes(vec![0, 1]);
            request.with_group_id(text("g").into()).with_topics((!all).then(|| vec![topic]))
        }
        8.. => {
            let topic =
                OffsetFetchRequestTopics::default().with_name(text("t").into()).with_partition_indexes(vec![0, 1]);
            let group = OffsetFetchRequestGroup::default().with_group_id(text("g").into());
            request.with_groups(vec![group.with_topics((!all).then(|| vec![topic]))])
        }
    };
    let answer: OffsetFetchResponse = client.ask(ApiKey::OffsetFetch, version, &request).await;
    match version {
        ..8 => answer.topics[0].partitions.iter().map(|p| (p.committed_offset, p.error_code)).collect(),
        8.. => answer.groups[0].topics[0].partitions.iter().map(|p| (p.committed_offset, p.error_code)).collect(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_offset_that_a_transaction_is_about_to_move_is_unstable() {
    let dir = tempfile::tempdir().unwrap();
    let (node, mut client) = broker_in(dir.path(), &["--offsets-topic-partitions=5"]).await;
    let topic =
        CreatableTopic::default().with_name(text("t").into()).with_num_partitions(2).with_replication_factor(-1);
    let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(30_000);
    let _: CreateTopicsResponse = client.ask(ApiKey::CreateTopics, 7, &request).await;
    let find = FindCoordinatorRequest::default().with_key(text("g"));
    let _: FindCoordinatorResponse = client.ask(ApiKey::FindCoordinator, 3, &find).await;
    let one = OffsetCommitRequestPartition::default().with_committed_offset(5);
    let topic = OffsetCommitRequestTopic::default().with_name(text("t").into()).with_partitions(vec![one]);
    let commit = OffsetCommitRequest::default().with_group_id(text("g").into()).with_topics(vec![topic]);
    let mut committed = ErrorCode::CoordinatorLoadInProgress.code();
    while committed == ErrorCode::CoordinatorLoadInProgress.code() || committed == ErrorCode::NotCoordinator.code() {
        let answer: OffsetCommitResponse = client.ask(ApiKey::OffsetCommit, 8, &commit).await;
        committed = answer.topics[0].partitions[0].error_code;
    }
    assert_eq!(committed, 0);

    let view = node.cluster().view();
    let (shard, groups) = place_in(view.topic_named(CONSUMER_OFFSETS).unwrap(), "g").unwrap();
    let Answer::Done(slots) = ask(&node, peer::SLOTS, shard, groups.topic.as_bytes()).await else { panic!("no slots") };
    let slots = decode_slots(&slots).unwrap();
    let slot = slots.iter().find(|(index, _)| *index == groups.index).unwrap().1;
    let topic = view.topic_named("t").unwrap().id;
    let moved = [0, 1].map(|index| {
        let committed = Committed { offset: 9, leader_epoch: -1, ..Committed::default() };
        (Partition { topic, index }, committed)
    });
    let mut term = 0;
    loop {
        let change = Change::TransactionalCommit { producer: PRODUCER, txn_no: 1, offsets: moved.to_vec() };
        let entry = Entry::Group(GroupEntry { slot, term, clock_ms: 0, group: "g".into(), change });
        match ask(&node, peer::SHARD_ENTRY, shard, &entry.encode()).await {
            Answer::Done(refused) if refused.is_empty() => break,
            _ => term += 1,
        }
    }

    let unstable = (-1, ErrorCode::UnstableOffsetCommit.code());
    for version in 7..=9 {
        assert_eq!(fetched(&mut client, version, true, false).await, [unstable, unstable]);
        assert_eq!(fetched(&mut client, version, true, true).await, [unstable]);
        assert_eq!(fetched(&mut client, version, false, false).await, [(5, 0), (-1, 0)]);
    }
    let endings = Endings::new(node.cluster().clone(), Arc::new(Shards::default()));
    let ending = Ending { producer: PRODUCER, txn_no: 1, commit: true, coordinator_epoch: 1 };
    assert_eq!(endings.end(shard, &ending, &[groups], PATIENCE).await.unwrap(), [Ok(())]);
    for stable in [true, false] {
        assert_eq!(fetched(&mut client, 9, stable, false).await, [(9, 0), (9, 0)]);
    }
    node.shut_down().await;
}
