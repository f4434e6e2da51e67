//! Share groups over sockets of real brokers.

use std::time::Duration;

use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::share_acknowledge_request::{
    AcknowledgePartition, AcknowledgeTopic, AcknowledgementBatch as Said,
};
use kafka_protocol::messages::share_fetch_request::{AcknowledgementBatch, FetchPartition, FetchTopic};
use kafka_protocol::messages::*;
use uuid::Uuid;

use crate::batch::Header;
use crate::batch::build::Spec;
use crate::node::Node;
use crate::node::testing::{Client, Site, TOPIC, Topic, broker_in, records_of, text};
use crate::protocol::ErrorCode;
use crate::types::Producer;

pub(super) const ACCEPT: i8 = 1;
const RELEASE: i8 = 2;
const REJECT: i8 = 3;
/// Ends a test that would hang; nothing is concluded from it.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// (first, last, how often delivered)
pub(super) type Got = Vec<(i64, i64, i16)>;

/// A member of group `g`, on a connection of its own.
pub(super) struct Member {
    client: Client,
    id: &'static str,
    topic: Uuid,
    epoch: i32,
}

impl Member {
    pub(super) async fn new(node: &Node, id: &'static str, topic: Uuid) -> Member {
        Member { client: Client::connect(node).await, id, topic, epoch: 0 }
    }

    fn fetch_request(&self, records: i32, wait_ms: i32, acks: &[(i64, i64, i8)]) -> ShareFetchRequest {
        let acks = acks.iter().map(|(first, last, kind)| {
            let ack = AcknowledgementBatch::default().with_first_offset(*first).with_last_offset(*last);
            ack.with_acknowledge_types(vec![*kind])
        });
        let partition = FetchPartition::default().with_acknowledgement_batches(acks.collect());
        let topic = FetchTopic::default().with_topic_id(self.topic).with_partitions(vec![partition]);
        ShareFetchRequest::default()
            .with_group_id(Some(text("g").into()))
            .with_member_id(Some(text(self.id)))
            .with_share_session_epoch(self.epoch)
            .with_max_wait_ms(wait_ms)
            .with_min_bytes(1)
            .with_max_bytes(1 << 20)
            .with_max_records(records)
            .with_batch_size(records)
            .with_topics(vec![topic])
    }

    fn next(&mut self) {
        self.epoch += 1;
    }

    async fn ask(&mut self, records: i32, wait_ms: i32, acks: &[(i64, i64, i8)]) -> ShareFetchResponse {
        let request = self.fetch_request(records, wait_ms, acks);
        let answer: ShareFetchResponse = self.client.ask(ApiKey::ShareFetch, 1, &request).await;
        if answer.error_code == 0 {
            self.next();
        }
        answer
    }

    /// What it acquires; all of it is in the records that come along.
    pub(super) async fn acquire(&mut self, records: i32, wait_ms: i32) -> Got {
        let answer = self.ask(records, wait_ms, &[]).await;
        assert_eq!(answer.error_code, 0);
        got(&answer)
    }

    /// As often as it takes while a leader is looked for.
    async fn acquire_at_last(&mut self, records: i32) -> Got {
        let asked = async {
            loop {
                let answer = self.ask(records, 1000, &[]).await;
                assert_eq!(answer.error_code, 0);
                let got = got(&answer);
                if !got.is_empty() {
                    return got;
                }
            }
        };
        tokio::time::timeout(PATIENCE, asked).await.expect("nothing is ever acquired")
    }

    pub(super) async fn acknowledge(&mut self, first: i64, last: i64, kinds: &[i8]) -> i16 {
        let ack =
            Said::default().with_first_offset(first).with_last_offset(last).with_acknowledge_types(kinds.to_vec());
        let partition = AcknowledgePartition::default().with_acknowledgement_batches(vec![ack]);
        let topic = AcknowledgeTopic::default().with_topic_id(self.topic).with_partitions(vec![partition]);
        let request = ShareAcknowledgeRequest::default()
            .with_group_id(Some(text("g").into()))
            .with_member_id(Some(text(self.id)))
            .with_share_session_epoch(self.epoch)
            .with_topics(vec![topic]);
        let answer: ShareAcknowledgeResponse = self.client.ask(ApiKey::ShareAcknowledge, 1, &request).await;
        if answer.error_code != 0 {
            return answer.error_code;
        }
        self.next();
        answer.responses[0].partitions[0].error_code
    }
}

/// What an answer says is acquired, once all of it has been found in its batches.
fn got(answer: &ShareFetchResponse) -> Got {
    let mut all = Vec::new();
    for partition in answer.responses.iter().flat_map(|topic| &topic.partitions) {
        let mut spans = Vec::new();
        let mut rest = partition.records.clone().unwrap_or_default();
        while !rest.is_empty() {
            let header = Header::peek(&rest).unwrap();
            assert!(!header.attributes.is_control());
            spans.push(header.base_offset..=header.base_offset + i64::from(header.last_offset_delta));
            rest = rest.slice(header.total_len..);
        }
        for range in &partition.acquired_records {
            for offset in range.first_offset..=range.last_offset {
                assert!(spans.iter().any(|span| span.contains(&offset)), "{offset} did not come");
            }
            all.push((range.first_offset, range.last_offset, range.delivery_count));
        }
    }
    all
}

async fn set(client: &mut Client, key: &'static str, value: &'static str) {
    const GROUP: i8 = 32;
    let config = AlterableConfig::default().with_name(text(key)).with_value(Some(text(value)));
    let resource = AlterConfigsResource::default()
        .with_resource_type(GROUP)
        .with_resource_name(text("g"))
        .with_configs(vec![config]);
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    let answer: IncrementalAlterConfigsResponse = client.ask(ApiKey::IncrementalAlterConfigs, 1, &request).await;
    assert_eq!(answer.responses[0].error_code, 0, "{key}");
}

async fn topic_id(client: &mut Client) -> Uuid {
    let request = MetadataRequest::default().with_topics(None);
    let answer: MetadataResponse = client.ask(ApiKey::Metadata, 12, &request).await;
    let named = |topic: &&metadata_response::MetadataResponseTopic| topic.name.as_ref().is_some_and(|n| &**n == TOPIC);
    answer.topics.iter().find(named).expect("the topic is known").topic_id
}

/// A broker with the topic, of which group `g` reads everything, and that many records in it.
pub(super) async fn stage(records: i64) -> (Node, Client, Topic, Uuid, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let few = ["--offsets-topic-partitions=3", "--transaction-topic-partitions=3"];
    let (node, mut client) = broker_in(dir.path(), &few).await;
    let topic = Topic::create(&mut client, 1, &[]).await;
    set(&mut client, "share.auto.offset.reset", "earliest").await;
    let id = topic_id(&mut client).await;
    produce(&mut client, &topic, records).await;
    (node, client, topic, id, dir)
}

async fn produce(client: &mut Client, topic: &Topic, records: i64) {
    if records > 0 {
        assert_eq!(topic.produced(client, 9, &[records_of(records, &Spec::default())]).await.error_code, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_are_dealt_out_and_settled_one_by_one() {
    let (node, mut client, topic, id, _dir) = stage(10).await;
    let (mut a, mut b) = (Member::new(&node, "a", id).await, Member::new(&node, "b", id).await);
    assert_eq!(
        a.ask(4, 0, &[(0, 0, ACCEPT)]).await.error_code,
        ErrorCode::InvalidRequest.code(),
        "nothing is held yet"
    );
    assert_eq!(a.acquire(4, 10_000).await, [(0, 3, 1)]);
    assert_eq!(b.acquire(100, 10_000).await, [(4, 9, 1)]);
    assert_eq!(a.acknowledge(0, 3, &[ACCEPT, RELEASE, REJECT, ACCEPT]).await, 0);
    assert_eq!(a.acknowledge(4, 4, &[ACCEPT]).await, ErrorCode::InvalidRecordState.code(), "it is b's");
    assert_eq!(a.acknowledge(1, 1, &[9]).await, ErrorCode::InvalidRequest.code());
    let answer = b.ask(100, 10_000, &[(4, 6, ACCEPT)]).await;
    let partition = &answer.responses[0].partitions[0];
    assert_eq!((partition.acknowledge_error_code, answer.acquisition_lock_timeout_ms), (0, 30_000));
    assert_eq!(got(&answer), [(1, 1, 2)], "what was released is delivered again");
    produce(&mut client, &topic, 2).await;
    assert_eq!(a.acquire(100, 10_000).await, [(10, 11, 1)]);
    // A session that its member ends gives back what it holds.
    b.epoch = -1;
    assert_eq!(b.acknowledge(1, 1, &[ACCEPT]).await, 0);
    assert_eq!(a.acquire(100, 10_000).await, [(7, 9, 2)]);
    b.epoch = 3;
    assert_eq!(b.acknowledge(7, 7, &[ACCEPT]).await, ErrorCode::ShareSessionNotFound.code());
    a.epoch += 1;
    assert_eq!(a.acknowledge(7, 7, &[ACCEPT]).await, ErrorCode::InvalidShareSessionEpoch.code());
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_gets_what_comes_or_what_a_closed_connection_held() {
    let (node, mut client, topic, id, _dir) = stage(0).await;
    let (mut a, mut b) = (Member::new(&node, "a", id).await, Member::new(&node, "b", id).await);
    assert_eq!(a.acquire(100, 0).await, []);
    assert_eq!(a.acquire(100, 0).await, []);
    let request = a.fetch_request(100, 60_000, &[]);
    a.client.send(ApiKey::ShareFetch, 1, &request).await;
    produce(&mut client, &topic, 3).await;
    assert_eq!(got(&a.client.receive(ApiKey::ShareFetch, 1).await), [(0, 2, 1)]);
    let request = b.fetch_request(100, 60_000, &[]);
    b.client.send(ApiKey::ShareFetch, 1, &request).await;
    drop(a);
    assert_eq!(got(&b.client.receive(ApiKey::ShareFetch, 1).await), [(0, 2, 2)]);
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_runs_out_and_a_record_is_given_up_at_last() {
    let (node, mut client, _, id, _dir) = stage(2).await;
    set(&mut client, "share.delivery.count.limit", "2").await;
    let mut a = Member::new(&node, "a", id).await;
    assert_eq!(a.acquire(100, 10_000).await, [(0, 1, 1)]);
    assert_eq!(a.acknowledge(0, 1, &[RELEASE]).await, 0);
    assert_eq!(a.acquire(1, 10_000).await, [(0, 0, 2)]);
    assert_eq!(a.acknowledge(0, 0, &[RELEASE]).await, 0);
    assert_eq!(a.acquire(100, 10_000).await, [(1, 1, 2)]);
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_what_is_committed_never_sees_what_was_aborted() {
    let (node, mut client, _, id, _dir) = stage(2).await;
    set(&mut client, "share.isolation.level", "read_committed").await;
    let mut a = Member::new(&node, "a", id).await;
    for (sequence, commit) in [(0, false), (0, true)] {
        let transactional: TransactionalId = text("x").into();
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(transactional.clone()))
            .with_transaction_timeout_ms(60_000)
            .with_producer_id((-1).into())
            .with_producer_epoch(-1);
        let producer: InitProducerIdResponse = tokio::time::timeout(PATIENCE, async {
            loop {
                let find = FindCoordinatorRequest::default().with_key_type(1).with_coordinator_keys(vec![text("x")]);
                let _: FindCoordinatorResponse = client.ask(ApiKey::FindCoordinator, 4, &find).await;
                let answer: InitProducerIdResponse = client.ask(ApiKey::InitProducerId, 4, &request).await;
                if answer.error_code == 0 {
                    return answer;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await
        .expect("there is a coordinator at last");
        let at = Producer { id: producer.producer_id.0, epoch: producer.producer_epoch };
        let spec = Spec { producer: at, base_sequence: sequence, transactional: true, ..Spec::default() };
        let data = PartitionProduceData::default().with_index(0).with_records(Some(records_of(3, &spec)));
        let data = TopicProduceData::default().with_name(text(TOPIC).into()).with_partition_data(vec![data]);
        let request = ProduceRequest::default()
            .with_transactional_id(Some(transactional.clone()))
            .with_acks(-1)
            .with_timeout_ms(10_000)
            .with_topic_data(vec![data]);
        let produced: ProduceResponse = client.ask(ApiKey::Produce, 12, &request).await;
        assert_eq!(produced.responses[0].partition_responses[0].error_code, 0);
        let request = EndTxnRequest::default()
            .with_transactional_id(transactional)
            .with_producer_id(producer.producer_id)
            .with_producer_epoch(producer.producer_epoch)
            .with_committed(commit);
        let ended: EndTxnResponse = client.ask(ApiKey::EndTxn, 5, &request).await;
        assert_eq!(ended.error_code, 0);
    }
    // 0 and 1 are plain, 2 to 4 aborted, 5 the marker, 6 to 8 committed, 9 the marker.
    let mut all = Vec::new();
    while all.last().is_none_or(|(_, last, _)| *last < 8) {
        all.extend(a.acquire_at_last(100).await);
    }
    assert_eq!(all.first().map(|one| one.0), Some(0));
    assert!(all.iter().all(|(first, last, count)| *count == 1 && (*last < 2 || *first > 5)), "{all:?}");
    assert_eq!(a.acknowledge(0, 1, &[ACCEPT]).await, 0);
    assert_eq!(a.acknowledge(6, 8, &[ACCEPT]).await, 0);
    assert_eq!(a.acquire(100, 0).await, []);
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_broker_serves_and_a_new_leader_delivers_what_was_not_settled() {
    let site = Site::new(3);
    let mut nodes = Vec::new();
    for broker in 0..3 {
        nodes.push(site.start(broker, &[0, 1, 2]).await);
    }
    let mut client = Client::connect(&nodes[0]).await;
    let topic = Topic::create_replicated(&mut client, 1, 3, &[]).await;
    set(&mut client, "share.auto.offset.reset", "earliest").await;
    let id = topic_id(&mut client).await;
    produce(&mut client, &topic, 9).await;
    // Each broker has one member; one of them leads the shard.
    let mut members = Vec::new();
    for (node, name) in nodes.iter().zip(["a", "b", "c"]) {
        members.push(Member::new(node, name, id).await);
    }
    for (i, member) in members.iter_mut().enumerate() {
        let first = i as i64 * 3;
        assert_eq!(member.acquire_at_last(3).await, [(first, first + 2, 1)]);
        assert_eq!(member.acknowledge(first, first, &[ACCEPT]).await, 0);
    }
    let view = nodes[0].cluster().view();
    let preferred = view.shard(view.topic_named(TOPIC).unwrap().placement[0]).unwrap().preferred;
    let lost = nodes.iter().position(|node| node.cluster().node_id() == preferred).expect("it is one of them");
    nodes.remove(lost).shut_down().await;
    members.remove(lost);
    let mut again = Vec::new();
    while again.len() < 6 {
        for (first, last, _) in members[0].acquire_at_last(100).await {
            again.extend(first..=last);
        }
    }
    again.sort_unstable();
    assert_eq!(again, [1, 2, 4, 5, 7, 8]);
    assert_eq!(members[0].acknowledge(7, 8, &[ACCEPT]).await, 0);
    for node in nodes {
        node.shut_down().await;
    }
}
