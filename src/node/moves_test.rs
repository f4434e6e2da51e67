//! Shards that move between brokers while they are used, and what administrators ask about members and leaders.

use std::time::Duration;

use futures::future::join_all;
use kafka_protocol::messages::alter_partition_reassignments_request::{ReassignablePartition, ReassignableTopic};
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::*;
use tokio::time::{sleep, timeout};

use crate::batch::build::Spec;
use crate::cluster::{RootState, SeatError};
use crate::node::testing::{Client, Site, TOPIC, Topic, batches, records_of, text};
use crate::node::{Error, Node};
use crate::peer::{self, Answer};
use crate::protocol::ErrorCode;
use crate::survey::told::BrokerTold;

const PATIENCE: Duration = Duration::from_secs(60);

async fn until(node: &Node, like_that: impl Fn(&RootState) -> bool) {
    let mut applied = node.cluster().root().applied();
    let reached = async {
        while !like_that(&node.cluster().view()) {
            applied.changed().await.unwrap();
        }
    };
    timeout(PATIENCE, reached).await.expect("the root state never became like that");
}

/// Brokers that have each other, and a topic of one partition.
async fn cluster(brokers: usize, replication_factor: i16) -> (Site, Vec<Node>, Topic) {
    let site = Site::new(brokers + 1);
    let mut nodes = Vec::new();
    for broker in 0..brokers {
        nodes.push(site.start(broker, &[0]).await);
    }
    until(&nodes[0], |view| view.brokers().filter(|b| b.alive).count() == brokers).await;
    let mut client = Client::connect(&nodes[0]).await;
    let topic = Topic::create_replicated(&mut client, 1, replication_factor, &[]).await;
    (site, nodes, topic)
}

fn voters(view: &RootState) -> Vec<i32> {
    let shard = view.shard(view.topic_named(TOPIC).unwrap().placement[0]).unwrap();
    shard.voters.iter().map(|node| view.broker_of(*node).unwrap().id).collect()
}

fn has_moved(view: &RootState) -> bool {
    view.shard(view.topic_named(TOPIC).unwrap().placement[0]).unwrap().moving_from.is_empty()
}

async fn alter(client: &mut Client, replicas: Option<&[i32]>) -> i16 {
    let replicas = replicas.map(|all| all.iter().map(|id| BrokerId(*id)).collect());
    let partition = ReassignablePartition::default().with_partition_index(0).with_replicas(replicas);
    let topic = ReassignableTopic::default().with_name(text(TOPIC).into()).with_partitions(vec![partition]);
    let request = AlterPartitionReassignmentsRequest::default().with_topics(vec![topic]).with_timeout_ms(10_000);
    let answer: AlterPartitionReassignmentsResponse =
        client.ask(ApiKey::AlterPartitionReassignments, 1, &request).await;
    answer.responses[0].partitions[0].error_code
}

async fn listed(client: &mut Client) -> usize {
    let request = ListPartitionReassignmentsRequest::default().with_topics(None);
    let answer: ListPartitionReassignmentsResponse = client.ask(ApiKey::ListPartitionReassignments, 0, &request).await;
    answer.topics.len()
}

/// (log dirs, bytes) of the topic at a broker.
async fn log_dir(client: &mut Client) -> (usize, Option<i64>) {
    let request = DescribeLogDirsRequest::default().with_topics(None);
    let answer: DescribeLogDirsResponse = client.ask(ApiKey::DescribeLogDirs, 4, &request).await;
    let sizes = answer.results[0].topics.iter().map(|topic| topic.partitions[0].partition_size);
    (answer.results.len(), sizes.reduce(|a, b| a + b))
}

/// Ten more records through every broker; clients ask again while a shard has no leader.
async fn write_and_read(topic: &Topic, nodes: &[Node], due: &mut i64) {
    for node in nodes {
        let mut client = Client::connect(node).await;
        let produced = async {
            loop {
                let answer = topic.produced(&mut client, 9, &[records_of(10, &Spec::default())]).await;
                if answer.error_code == 0 {
                    return answer.base_offset;
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        assert!(timeout(PATIENCE, produced).await.expect("never taken") >= *due);
        *due += 10;
    }
    for node in nodes {
        let mut client = Client::connect(node).await;
        let read = async {
            loop {
                let answer = topic.fetched(&mut client, 12, 0, 1 << 20).await;
                let records: i32 = batches(&answer).iter().map(|(_, _, count)| count).sum();
                if i64::from(records) >= *due {
                    return;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, read).await.expect("not all of it is read");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_only_replica_of_a_shard_moves_to_another_broker_and_back() {
    let (_site, nodes, topic) = cluster(2, 1).await;
    let mut due = 0;
    write_and_read(&topic, &nodes, &mut due).await;
    let old = voters(&nodes[0].cluster().view())[0];
    let (old, new) = (old as usize, 1 - old as usize);
    let shard = nodes[0].cluster().view().topic_named(TOPIC).unwrap().placement[0];
    let mut at_old = Client::connect(&nodes[old]).await;
    let mut at_new = Client::connect(&nodes[new]).await;
    let (dirs, bytes) = log_dir(&mut at_old).await;
    assert!(dirs == 1 && bytes.is_some_and(|bytes| bytes > 0));
    assert_eq!(log_dir(&mut at_new).await, (1, None), "a broker without the replica has the directory alone");

    for (from, to) in [(old, new), (new, old)] {
        assert_eq!(alter(&mut at_new, Some(&[to as i32])).await, 0);
        write_and_read(&topic, &nodes, &mut due).await;
        for node in &nodes {
            until(node, |view| voters(view) == [to as i32] && has_moved(view)).await;
        }
        assert_eq!(listed(&mut at_old).await, 0);
        write_and_read(&topic, &nodes, &mut due).await;
        let closed = async {
            while has_open(&nodes[from], shard).await {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, closed).await.expect("the replica is never closed where it left");
        write_and_read(&topic, &nodes, &mut due).await;
    }
    assert!(log_dir(&mut at_old).await.1 > bytes);
    join_all(nodes.into_iter().map(Node::shut_down)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_moves_from_its_leader_and_a_move_that_cannot_end_is_taken_back() {
    let (_site, mut nodes, topic) = cluster(4, 3).await;
    let mut due = 0;
    write_and_read(&topic, &nodes, &mut due).await;
    let before = voters(&nodes[0].cluster().view());
    let outsider = (0..4).find(|id| !before.contains(id)).unwrap();
    // The first is preferred, and leads by now or soon.
    let after = [outsider, before[1], before[2]];
    let mut client = Client::connect(&nodes[outsider as usize]).await;
    assert_eq!(alter(&mut client, Some(&after)).await, 0);
    write_and_read(&topic, &nodes, &mut due).await;
    until(&nodes[0], |view| voters(view) == after && has_moved(view)).await;
    write_and_read(&topic, &nodes, &mut due).await;

    // Nothing can be moved to a broker that is away.
    let away = before[0] as usize;
    nodes.remove(away).shut_down().await;
    let mut client = Client::connect(&nodes[0]).await;
    until(&nodes[0], |view| !view.broker(away as i32).unwrap().alive).await;
    let to_the_dead = [outsider, before[1], away as i32];
    assert_eq!(alter(&mut client, Some(&to_the_dead)).await, 0);
    assert_eq!(alter(&mut client, Some(&before)).await, ErrorCode::ReassignmentInProgress.code());
    assert_eq!(listed(&mut client).await, 1);
    assert_eq!(alter(&mut client, None).await, 0);
    assert_eq!(alter(&mut client, None).await, ErrorCode::NoReassignmentInProgress.code());
    until(&nodes[0], |view| voters(view) == after && has_moved(view)).await;
    write_and_read(&topic, &nodes, &mut due).await;
    join_all(nodes.into_iter().map(Node::shut_down)).await;
}

/// The node has a replica of the shard open.
async fn has_open(node: &Node, shard: u32) -> bool {
    let (raft, me) = (node.cluster().node(), node.cluster().node_id());
    let told = raft.call(me, peer::STATUS, bytes::Bytes::new(), PATIENCE).await.unwrap();
    let Answer::Done(told) = Answer::decode(told).unwrap() else { panic!("every broker says what it has") };
    let told: BrokerTold = rmp_serde::from_slice(&told).unwrap();
    told.shards.iter().any(|here| here.shard == shard)
}

async fn elect(client: &mut Client, election: i8, named: Option<&'static str>) -> Vec<i16> {
    let partitions = |name| vec![TopicPartitions::default().with_topic(text(name).into()).with_partitions(vec![0])];
    let request = ElectLeadersRequest::default()
        .with_election_type(election)
        .with_topic_partitions(named.map(partitions))
        .with_timeout_ms(10_000);
    let answer: ElectLeadersResponse = client.ask(ApiKey::ElectLeaders, 2, &request).await;
    assert_eq!(answer.error_code, if election > 1 { ErrorCode::InvalidRequest.code() } else { 0 });
    let results = answer.replica_election_results.iter().flat_map(|topic| &topic.partition_result);
    results.map(|result| result.error_code).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_preferred_voter_is_elected_when_asked_for_and_nobody_uncleanly() {
    let (_site, nodes, _topic) = cluster(3, 3).await;
    let mut client = Client::connect(&nodes[0]).await;
    let not_needed = ErrorCode::ElectionNotNeeded.code();
    assert_eq!(elect(&mut client, 1, Some(TOPIC)).await, [not_needed]);
    assert_eq!(elect(&mut client, 0, Some("u")).await, [ErrorCode::UnknownTopicOrPartition.code()]);
    assert_eq!(elect(&mut client, 7, Some(TOPIC)).await, [ErrorCode::InvalidRequest.code()]);
    let mut order = voters(&nodes[0].cluster().view());
    order.rotate_left(1);
    assert_eq!(alter(&mut client, Some(&order)).await, 0);
    // The leader may have been quicker, by itself; or it does not know yet who is preferred.
    let elected = async {
        loop {
            match elect(&mut client, 0, Some(TOPIC)).await[..] {
                [0] => return,
                [code] if code == not_needed => sleep(Duration::from_millis(50)).await,
                ref other => panic!("{other:?}"),
            }
            if elect(&mut client, 0, None).await.is_empty() && elect(&mut client, 0, Some(TOPIC)).await == [not_needed]
            {
                return;
            }
        }
    };
    timeout(PATIENCE, elected).await.expect("never elected");
    join_all(nodes.into_iter().map(Node::shut_down)).await;
}

async fn quorum(client: &mut Client, version: i16) -> describe_quorum_response::PartitionData {
    use kafka_protocol::messages::describe_quorum_request::{PartitionData, TopicData};
    let topic = TopicData::default()
        .with_topic_name(text("__cluster_metadata").into())
        .with_partitions(vec![PartitionData::default()]);
    let request = DescribeQuorumRequest::default().with_topics(vec![topic]);
    let answer: DescribeQuorumResponse = client.ask(ApiKey::DescribeQuorum, version, &request).await;
    assert_eq!(answer.error_code, 0);
    assert_eq!(answer.nodes.is_empty(), version < 2);
    answer.topics[0].partitions[0].clone()
}

async fn unregister(client: &mut Client, broker: i32) -> i16 {
    let request = UnregisterBrokerRequest::default().with_broker_id(BrokerId(broker));
    let answer: UnregisterBrokerResponse = client.ask(ApiKey::UnregisterBroker, 0, &request).await;
    answer.error_code
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_broker_knows_the_quorum_and_one_that_is_away_is_removed_for_good() {
    let (site, mut nodes, topic) = cluster(4, 3).await;
    let shown = async {
        loop {
            let mut told = Vec::new();
            for (node, version) in nodes.iter().zip([2, 1, 0, 2]) {
                let told_here = quorum(&mut Client::connect(node).await, version).await;
                assert!(told_here.current_voters.iter().any(|v| v.replica_id == told_here.leader_id));
                told.push((told_here.current_voters.len(), told_here.observers.len(), told_here.high_watermark > 0));
            }
            if told == [(3, 1, true); 4] {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, shown).await.expect("three voters and an observer are never shown");
    let request = DescribeQuorumRequest::default();
    let mut client = Client::connect(&nodes[3]).await;
    let nothing: DescribeQuorumResponse = client.ask(ApiKey::DescribeQuorum, 2, &request).await;
    assert_eq!((nothing.error_code, nothing.topics.len()), (0, 0));

    let gone = voters(&nodes[0].cluster().view())[1];
    let invalid = ErrorCode::InvalidRequest.code();
    assert_eq!(unregister(&mut client, gone).await, invalid, "it is alive");
    assert_eq!(unregister(&mut client, 77).await, ErrorCode::BrokerIdNotRegistered.code());
    nodes.remove(gone as usize).shut_down().await;
    until(&nodes[0], |view| view.broker(gone).is_none_or(|broker| !broker.alive)).await;
    let mut client = Client::connect(&nodes[0]).await;
    assert_eq!(unregister(&mut client, gone).await, 0);
    // Its place is taken by the one that had none.
    until(&nodes[0], |view| voters_if_known(view).is_some_and(|voters| !voters.contains(&gone))).await;
    let mut due = 0;
    write_and_read(&topic, &nodes, &mut due).await;
    let back = timeout(PATIENCE, site.start_in(&site.data_dir(gone as usize), gone as usize, &[0, 1, 2, 3])).await;
    assert!(matches!(back.expect("it waits for ever"), Err(Error::Seat(SeatError::Replaced { .. }))));
    join_all(nodes.into_iter().map(Node::shut_down)).await;
}

/// `None` while a voter belongs to no broker.
fn voters_if_known(view: &RootState) -> Option<Vec<i32>> {
    let shard = view.shard(view.topic_named(TOPIC)?.placement[0])?;
    shard.voters.iter().map(|node| Some(view.broker_of(*node)?.id)).collect()
}
