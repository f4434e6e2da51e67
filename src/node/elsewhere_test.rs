//! Four brokers and topics on three of them: the fourth has no replica, and serves its zone like any other.

use std::time::Duration;

use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::describe_topic_partitions_request::TopicRequest;
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponsePartition;
use kafka_protocol::messages::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use kafka_protocol::messages::*;
use tokio::time::{sleep, timeout};

use crate::batch::build::Spec;
use crate::cluster::RootState;
use crate::node::Node;
use crate::node::testing::{Client, Site, T0, TOPIC, Topic, batches, claim, config, records_of, text};
use crate::protocol::ErrorCode;

/// Ends a test that would hang; nothing is concluded from it.
const PATIENCE: Duration = Duration::from_secs(60);
const IDS: [&str; 4] = ["app,zone=z0", "app,zone=z1", "app,zone=z2", "app,zone=z3"];

struct Four {
    /// `None` once it was stopped.
    nodes: Vec<Option<Node>>,
    topic: Topic,
    /// The broker without a replica.
    outsider: usize,
    _site: Site,
}

impl Four {
    async fn start() -> Four {
        let site = Site::new(4);
        let mut nodes = Vec::new();
        for broker in 0..4 {
            nodes.push(Some(site.start(broker, &[0]).await));
        }
        let first = nodes[0].as_ref().unwrap();
        let topic = Topic::create_replicated(&mut Client::named(first, IDS[0]).await, 1, 3, &[]).await;
        let view = first.cluster().view();
        let voters = view.shard(view.topic_named(TOPIC).unwrap().placement[0]).unwrap().voters.clone();
        let outsider = view.brokers().find(|b| !voters.contains(&b.node)).expect("three of four have it").id as usize;
        let four = Four { nodes, topic, outsider, _site: site };
        until(four.node(outsider), |view| view.topic_named(TOPIC).is_some_and(|topic| topic.live == 1)).await;
        four
    }

    fn node(&self, broker: usize) -> &Node {
        self.nodes[broker].as_ref().expect("not stopped")
    }

    fn replicas(&self) -> Vec<usize> {
        (0..4).filter(|broker| *broker != self.outsider && self.nodes[*broker].is_some()).collect()
    }

    async fn client(&self, broker: usize) -> Client {
        Client::named(self.node(broker), IDS[broker]).await
    }

    /// What a client of this zone is told of the partition by a broker.
    async fn told(&self, zone: usize, by: usize) -> MetadataResponsePartition {
        let mut client = Client::named(self.node(by), IDS[zone]).await;
        let topic = MetadataRequestTopic::default().with_name(Some(text(TOPIC).into()));
        let request = MetadataRequest::default().with_topics(Some(vec![topic]));
        let answer: MetadataResponse = client.ask(ApiKey::Metadata, 9, &request).await;
        answer.topics[0].partitions[0].clone()
    }

    async fn stop_broker(&mut self, broker: usize) {
        self.nodes[broker].take().expect("not stopped").shut_down().await;
    }

    async fn stop(self) {
        futures::future::join_all(self.nodes.into_iter().flatten().map(Node::shut_down)).await;
    }
}

async fn until(node: &Node, like_that: impl Fn(&RootState) -> bool) {
    let mut applied = node.cluster().root().applied();
    let reached = async {
        while !like_that(&node.cluster().view()) {
            applied.changed().await.unwrap();
        }
    };
    timeout(PATIENCE, reached).await.expect("the root state never became like that");
}

/// Asks again while the answer is one that every client asks again for.
async fn fetched(topic: &Topic, client: &mut Client, offset: i64) -> PartitionData {
    let served = async {
        loop {
            let answer = topic.fetched(client, 12, offset, 1 << 20).await;
            if answer.error_code != ErrorCode::NotLeaderOrFollower.code() {
                return answer;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, served).await.expect("never served")
}

async fn produced(topic: &Topic, client: &mut Client, records: i64) -> i64 {
    let answer = topic.produced(client, 9, &[records_of(records, &Spec::default())]).await;
    assert_eq!(answer.error_code, 0);
    answer.base_offset
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_without_a_replica_serves_whatever_a_leader_does() {
    let four = Four::start().await;
    let (topic, outsider) = (&four.topic, four.outsider);
    let mut client = four.client(outsider).await;
    assert_eq!(produced(topic, &mut client, 10).await, 0);
    assert_eq!(produced(topic, &mut four.client(four.replicas()[0]).await, 10).await, 10);

    let all = fetched(topic, &mut client, 0).await;
    assert_eq!((all.error_code, all.high_watermark, all.last_stable_offset), (0, 20, 20));
    assert_eq!(batches(&all).iter().map(|(base, _, count)| (*base, *count)).collect::<Vec<_>>(), [(0, 10), (10, 10)]);
    assert_eq!(batches(&fetched(topic, &mut client, 15).await)[0].0, 10, "the batch that contains the offset");
    let end = fetched(topic, &mut client, 20).await;
    assert_eq!((end.error_code, batches(&end).len()), (0, 0));
    for outside in [-1, 21] {
        assert_eq!(fetched(topic, &mut client, outside).await.error_code, ErrorCode::OffsetOutOfRange.code());
    }

    assert_eq!(topic.offset_of(&mut client, -1).await.0, 20);
    assert_eq!(topic.offset_of(&mut client, -2).await.0, 0);
    assert_eq!(topic.offset_of(&mut client, T0 + 7).await, (7, T0 + 7));
    assert_eq!(topic.offset_of(&mut client, T0 + 10).await, (-1, -1));
    assert_eq!(topic.offset_of(&mut client, -3).await, (9, T0 + 9));

    let epoch = four.told(outsider, outsider).await.leader_epoch;
    let partition = OffsetForLeaderPartition::default().with_partition(0).with_leader_epoch(epoch);
    let asked = OffsetForLeaderTopic::default().with_topic(text(TOPIC).into()).with_partitions(vec![partition]);
    let request = OffsetForLeaderEpochRequest::default().with_replica_id(BrokerId(-2)).with_topics(vec![asked]);
    let answer: OffsetForLeaderEpochResponse = client.ask(ApiKey::OffsetForLeaderEpoch, 4, &request).await;
    let end = &answer.topics[0].partitions[0];
    assert_eq!((end.error_code, end.leader_epoch, end.end_offset), (0, epoch, 20));

    let init = InitProducerIdRequest::default().with_transactional_id(None);
    let given: InitProducerIdResponse = client.ask(ApiKey::InitProducerId, 4, &init).await;
    assert_eq!(given.error_code, 0);
    for (sequence, due) in [(0, 20), (5, 25), (0, 20)] {
        let batch = records_of(5, &claim(given.producer_id.0, sequence));
        let answer = topic.produced(&mut client, 9, &[batch]).await;
        assert_eq!((answer.error_code, answer.base_offset), (0, due));
    }
    let grow = CreatePartitionsTopic::default().with_name(text(TOPIC).into()).with_count(2).with_assignments(None);
    let grow = CreatePartitionsRequest::default().with_topics(vec![grow]).with_timeout_ms(30_000);
    let grown: CreatePartitionsResponse = client.ask(ApiKey::CreatePartitions, 3, &grow).await;
    assert_eq!(grown.results[0].error_code, 0);
    four.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fetch_that_waits_at_a_broker_without_a_replica_wakes_when_something_is_appended() {
    let four = Four::start().await;
    let mut reader = four.client(four.outsider).await;
    assert_eq!(fetched(&four.topic, &mut reader, 0).await.high_watermark, 0);
    // Longer than any replica is asked to wait at once.
    reader.send(ApiKey::Fetch, 12, &four.topic.fetch(12, 0, 1 << 20, 50_000)).await;
    produced(&four.topic, &mut four.client(four.replicas()[0]).await, 3).await;
    let answer: FetchResponse = timeout(PATIENCE, reader.receive(ApiKey::Fetch, 12)).await.expect("it never woke");
    let partition = &answer.responses[0].partitions[0];
    assert_eq!((partition.error_code, batches(partition).len()), (0, 1));
    four.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zone_is_led_to_its_own_broker_by_every_broker_alike_and_elsewhere_when_that_is_gone() {
    let mut four = Four::start().await;
    let outsider = four.outsider;
    let truth = four.told(outsider, four.replicas()[0]).await;
    assert!(truth.leader_epoch >= 0);
    for by in 0..4 {
        let asked = TopicRequest::default().with_name(text(TOPIC).into());
        let request = DescribeTopicPartitionsRequest::default().with_topics(vec![asked]);
        let request = request.with_response_partition_limit(10).with_cursor(None);
        let mut client = Client::named(four.node(by), IDS[outsider]).await;
        let answer: DescribeTopicPartitionsResponse = client.ask(ApiKey::DescribeTopicPartitions, 0, &request).await;
        let described = &answer.topics[0].partitions[0];
        assert_eq!(described.replica_nodes, truth.replica_nodes);
        assert_eq!(described.leader_epoch, truth.leader_epoch);
        assert_ne!(described.leader_id.0 as usize, outsider, "administrators are told the true leader");
        for zone in 0..4 {
            let told = four.told(zone, by).await;
            assert_eq!(told.leader_id.0 as usize, zone, "a client of z{zone}, told by broker {by}");
            assert_eq!(told.leader_epoch, truth.leader_epoch);
            assert_eq!(told.replica_nodes, truth.replica_nodes, "the true voters, for everybody");
            assert!(!told.replica_nodes.contains(&BrokerId(outsider as i32)));
        }
    }
    four.stop_broker(outsider).await;
    for by in four.replicas() {
        until(four.node(by), |view| !view.broker(outsider as i32).unwrap().alive).await;
        assert_ne!(four.told(outsider, by).await.leader_id.0 as usize, outsider);
    }
    four.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_without_a_replica_goes_on_with_another_when_the_one_it_asked_stops() {
    let mut four = Four::start().await;
    let outsider = four.outsider;
    let mut client = four.client(outsider).await;
    for stops in 0..2 {
        assert_eq!(produced(&four.topic, &mut client, 5).await, 5 * stops);
        let before = fetched(&four.topic, &mut client, 0).await;
        assert_eq!(before.high_watermark, 5 * (stops + 1));
        if stops == 0 {
            let first = four.replicas()[0];
            four.stop_broker(first).await;
            // Nothing that was shown is taken back, whoever answers now.
            let after = fetched(&four.topic, &mut client, 5).await;
            assert_eq!((after.error_code, after.high_watermark), (0, 5));
        }
    }
    four.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_is_sent_to_a_replica_in_its_rack_and_never_to_a_broker_without_one() {
    let four = Four::start().await;
    let (at, near) = (four.replicas()[0], four.replicas()[1]);
    let mut client = four.client(at).await;
    produced(&four.topic, &mut client, 1).await;
    let mut hint = async |rack: usize| {
        let request = four.topic.fetch(12, 0, 1 << 20, 0).with_rack_id(text(&IDS[rack]["app,zone=".len()..]));
        let answer: FetchResponse = client.ask(ApiKey::Fetch, 12, &request).await;
        let partition = &answer.responses[0].partitions[0];
        (partition.preferred_read_replica.0, batches(partition).len())
    };
    assert_eq!(hint(near).await, (near as i32, 0));
    assert_eq!(hint(at).await, (-1, 1), "it is in the rack itself");
    assert_eq!(hint(four.outsider).await, (-1, 1), "the only broker in the rack has no replica");
    four.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_says_which_zone_its_clients_are_in_and_where_the_same_listener_is() {
    let dir = tempfile::tempdir().unwrap();
    let ports: Vec<u16> = {
        let held: Vec<_> = (0..2).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        held.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
    };
    let listeners = format!("--zone-listeners=far=127.0.0.1:{},near=127.0.0.1:{}@broker.example:7", ports[0], ports[1]);
    let node = Node::start(config(dir.path(), &["--zone=far", &listeners])).await.unwrap();
    let mut addresses = Vec::new();
    for port in [node.address().port(), ports[0], ports[1]] {
        let mut client = Client::at(([127, 0, 0, 1], port).into(), "app").await;
        let answer: MetadataResponse = client.ask(ApiKey::Metadata, 9, &MetadataRequest::default()).await;
        addresses.push((answer.brokers[0].host.to_string(), answer.brokers[0].port));
    }
    let local = |port: u16| ("127.0.0.1".to_owned(), i32::from(port));
    assert_eq!(addresses, [local(node.address().port()), local(ports[0]), ("broker.example".to_owned(), 7)]);
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_are_deleted_at_any_broker_and_for_all_of_them() {
    let four = Four::start().await;
    let topic = &four.topic;
    let mut client = four.client(four.outsider).await;
    assert_eq!(produced(topic, &mut client, 10).await, 0);
    assert_eq!(produced(topic, &mut client, 10).await, 10);
    let partition = DeleteRecordsPartition::default().with_partition_index(0).with_offset(12);
    let wanted = DeleteRecordsTopic::default().with_name(text(TOPIC).into()).with_partitions(vec![partition]);
    let request = DeleteRecordsRequest::default().with_topics(vec![wanted]).with_timeout_ms(10_000);
    let answer: DeleteRecordsResponse = client.ask(ApiKey::DeleteRecords, 2, &request).await;
    let told = &answer.topics[0].partitions[0];
    assert_eq!((told.error_code, told.low_watermark), (0, 12));
    for broker in 0..4 {
        let mut client = four.client(broker).await;
        assert_eq!(topic.offset_of(&mut client, -2).await.0, 12, "earliest, at broker {broker}");
        assert_eq!(topic.offset_of(&mut client, T0).await, (12, T0 + 2), "by time, at broker {broker}");
        assert_eq!(fetched(topic, &mut client, 11).await.error_code, ErrorCode::OffsetOutOfRange.code());
        let rest = fetched(topic, &mut client, 12).await;
        assert_eq!((rest.error_code, rest.log_start_offset, rest.high_watermark), (0, 12, 20));
    }
    four.stop().await;
}
