//! Client bytes in, bytes out: the write and the read path over a socket of a real broker.

use std::collections::BTreeSet;

use bytes::Bytes;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::*;
use uuid::Uuid;

use crate::batch::build::{NewRecord, Spec, batch};
use crate::batch::{Codec, Header, TimestampType, records};
use crate::node::testing::{Client, broker, broker_in, text};
use crate::protocol::ErrorCode;
use crate::types::Producer;

const TOPIC: &str = "t";
const T0: i64 = 1_700_000_000_000;

struct Topic {
    id: Uuid,
}

impl Topic {
    async fn create(client: &mut Client, partitions: i32, configs: &[(&'static str, &'static str)]) -> Topic {
        let configs = configs.iter().map(|(name, value)| {
            CreatableTopicConfig::default().with_name(text(name)).with_value(Some(text(value)))
        });
        let topic = CreatableTopic::default()
            .with_name(text(TOPIC).into())
            .with_num_partitions(partitions)
            .with_replication_factor(1)
            .with_configs(configs.collect());
        let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(10_000);
        let created: CreateTopicsResponse = client.ask(ApiKey::CreateTopics, 7, &request).await;
        assert_eq!(created.topics[0].error_code, 0);
        Topic { id: created.topics[0].topic_id }
    }

    fn produce(&self, version: i16, acks: i16, batches: &[Bytes]) -> ProduceRequest {
        let partition = PartitionProduceData::default().with_index(0).with_records(Some(batches.concat().into()));
        let data = TopicProduceData::default().with_partition_data(vec![partition]);
        let data = if version >= 13 { data.with_topic_id(self.id) } else { data.with_name(text(TOPIC).into()) };
        ProduceRequest::default()
            .with_transactional_id(None)
            .with_acks(acks)
            .with_timeout_ms(10_000)
            .with_topic_data(vec![data])
    }

    async fn produced(&self, client: &mut Client, version: i16, batches: &[Bytes]) -> PartitionProduceResponse {
        let request = self.produce(version, -1, batches);
        let response: ProduceResponse = client.ask(ApiKey::Produce, version, &request).await;
        response.responses[0].partition_responses[0].clone()
    }

    fn fetch(&self, version: i16, offset: i64, bytes_max: i32, wait_ms: i32) -> FetchRequest {
        let partition = FetchPartition::default()
            .with_partition(0)
            .with_fetch_offset(offset)
            .with_partition_max_bytes(bytes_max);
        let topic = FetchTopic::default().with_partitions(vec![partition]);
        let topic = if version >= 13 { topic.with_topic_id(self.id) } else { topic.with_topic(text(TOPIC).into()) };
        FetchRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_max_wait_ms(wait_ms)
            .with_min_bytes(1)
            .with_max_bytes(i32::MAX)
            .with_topics(vec![topic])
    }

    async fn fetched(&self, client: &mut Client, version: i16, offset: i64, bytes_max: i32) -> PartitionData {
        let request = self.fetch(version, offset, bytes_max, 0);
        let response: FetchResponse = client.ask(ApiKey::Fetch, version, &request).await;
        response.responses[0].partitions[0].clone()
    }

    async fn offset_of(&self, client: &mut Client, timestamp: i64) -> (i64, i64) {
        let partition = ListOffsetsPartition::default().with_partition_index(0).with_timestamp(timestamp);
        let topic =
            ListOffsetsTopic::default().with_name(text(TOPIC).into()).with_partitions(vec![partition]);
        let request = ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic]);
        let response: ListOffsetsResponse = client.ask(ApiKey::ListOffsets, 7, &request).await;
        let partition = &response.topics[0].partitions[0];
        assert_eq!(partition.error_code, 0);
        (partition.offset, partition.timestamp)
    }
}

fn records_of(count: i64, spec: &Spec) -> Bytes {
    let values: Vec<String> = (0..count).map(|i| format!("value {i} {}", "x".repeat(60))).collect();
    let records: Vec<NewRecord> =
        (0..).zip(&values).map(|(i, value)| NewRecord::new(b"key", value.as_bytes(), T0 + i)).collect();
    batch(&records, spec)
}

fn claim(id: i64, base_sequence: i32) -> Spec {
    Spec { producer: Producer { id, epoch: 0 }, base_sequence, ..Spec::default() }
}

/// (base offset, leader epoch, offsets taken) of every batch in an answer.
fn batches(partition: &PartitionData) -> Vec<(i64, i32, i32)> {
    let mut rest = partition.records.clone().unwrap_or_default();
    let mut found = Vec::new();
    while !rest.is_empty() {
        let header = Header::peek(&rest).unwrap();
        found.push((header.base_offset, header.leader_epoch, header.last_offset_delta + 1));
        rest = rest.slice(header.total_len..);
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_version_produces_and_fetches() {
    let (node, mut client, _dir) = broker().await;
    let topic = Topic::create(&mut client, 1, &[]).await;
    for (i, version) in (3..=13).enumerate() {
        let answer = topic.produced(&mut client, version, &[records_of(2, &Spec::default())]).await;
        assert_eq!((answer.error_code, answer.base_offset), (0, 2 * i as i64), "Produce {version}");
    }
    for version in 4..=18 {
        let answer = topic.fetched(&mut client, version, 0, 1 << 20).await;
        assert_eq!((answer.error_code, answer.high_watermark), (0, 22), "Fetch {version}");
        let bases: Vec<i64> = batches(&answer).iter().map(|(base, ..)| *base).collect();
        assert_eq!(bases, (0..11).map(|i| 2 * i).collect::<Vec<_>>(), "Fetch {version}");
    }
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fetch_gives_the_batch_that_contains_the_offset_and_keeps_its_limits() {
    let (node, mut client, _dir) = broker().await;
    let topic = Topic::create(&mut client, 1, &[]).await;
    let all = [records_of(10, &Spec::default()), records_of(10, &Spec::default()), records_of(10, &Spec::default())];
    assert_eq!(topic.produced(&mut client, 9, &all).await.base_offset, 0);
    let bases = |partition: &PartitionData| batches(partition).iter().map(|b| b.0).collect::<Vec<_>>();
    assert_eq!(bases(&topic.fetched(&mut client, 12, 15, 1 << 20).await), [10, 20]);
    // The first batch comes whole whatever the limit says; the next only if it fits.
    assert_eq!(bases(&topic.fetched(&mut client, 12, 15, 1).await), [10]);
    let two = (all[0].len() * 2) as i32;
    assert_eq!(bases(&topic.fetched(&mut client, 12, 0, two).await), [0, 10]);
    assert_eq!(bases(&topic.fetched(&mut client, 12, 0, two - 1).await), [0]);
    assert_eq!(topic.fetched(&mut client, 12, 30, 1 << 20).await.error_code, 0);
    for outside in [-1, 31] {
        let answer = topic.fetched(&mut client, 12, outside, 1 << 20).await;
        assert_eq!(answer.error_code, ErrorCode::OffsetOutOfRange.code());
    }
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_fetch_wakes_when_something_is_appended() {
    let (node, mut client, _dir) = broker().await;
    let topic = Topic::create(&mut client, 1, &[]).await;
    let mut reader = Client::connect(&node).await;
    reader.send(ApiKey::Fetch, 12, &topic.fetch(12, 0, 1 << 20, 60_000)).await;
    topic.produced(&mut client, 9, &[records_of(1, &Spec::default())]).await;
    let answer: FetchResponse = reader.receive(ApiKey::Fetch, 12).await;
    assert_eq!(answer.responses[0].partitions[0].high_watermark, 1);
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idempotent_batches_get_one_offset_and_gaps_are_not_fatal() {
    let (node, mut client, _dir) = broker().await;
    let topic = Topic::create(&mut client, 1, &[]).await;
    let init = InitProducerIdRequest::default().with_transactional_id(None);
    let given: InitProducerIdResponse = client.ask(ApiKey::InitProducerId, 4, &init).await;
    let id = given.producer_id.0;
    assert_eq!(topic.produced(&mut client, 9, &[records_of(3, &claim(id, 0))]).await.base_offset, 0);
    assert_eq!(topic.produced(&mut client, 9, &[records_of(3, &claim(id, 0))]).await.base_offset, 0);
    // Ahead of its predecessor: held, then refused in a way that every client tries again.
    let ahead = topic.produced(&mut client, 9, &[records_of(3, &claim(id, 6))]).await;
    assert_eq!(ahead.error_code, ErrorCode::NotEnoughReplicas.code());
    assert_eq!(topic.produced(&mut client, 9, &[records_of(3, &claim(id, 3))]).await.base_offset, 3);
    assert_eq!(topic.produced(&mut client, 9, &[records_of(3, &claim(id, 6))]).await.base_offset, 6);
    // A producer whose first batch has not come: it may yet.
    let given: InitProducerIdResponse = client.ask(ApiKey::InitProducerId, 4, &init).await;
    let id = given.producer_id.0;
    let unknown = topic.produced(&mut client, 9, &[records_of(3, &claim(id, 3))]).await;
    assert_eq!(unknown.error_code, ErrorCode::NotEnoughReplicas.code());
    assert_eq!(topic.produced(&mut client, 9, &[records_of(3, &claim(id, 0))]).await.base_offset, 9);
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_batch_is_appended_when_its_predecessor_comes() {
    let (node, mut client, _dir) = broker().await;
    let topic = Topic::create(&mut client, 1, &[]).await;
    assert_eq!(topic.produced(&mut client, 9, &[records_of(1, &claim(0, 0))]).await.base_offset, 0);
    let mut other = Client::connect(&node).await;
    other.send(ApiKey::Produce, 9, &topic.produce(9, -1, &[records_of(1, &claim(0, 2))])).await;
    assert_eq!(topic.produced(&mut client, 9, &[records_of(1, &claim(0, 1))]).await.base_offset, 1);
    let held: ProduceResponse = other.receive(ApiKey::Produce, 9).await;
    let held = &held.responses[0].partition_responses[0];
    assert_eq!((held.error_code, held.base_offset), (0, 2));
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_are_found_to_the_record_in_every_codec() {
    let (node, mut client, _dir) = broker().await;
    let topic = Topic::create(&mut client, 1, &[]).await;
    assert_eq!(topic.offset_of(&mut client, T0).await, (-1, -1));
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        topic.produced(&mut client, 9, &[records_of(10, &Spec { codec, ..Spec::default() })]).await;
    }
    assert_eq!(topic.offset_of(&mut client, 0).await, (0, T0));
    assert_eq!(topic.offset_of(&mut client, T0 + 7).await, (7, T0 + 7));
    assert_eq!(topic.offset_of(&mut client, T0 + 10).await, (-1, -1));
    assert_eq!(topic.offset_of(&mut client, -3).await, (9, T0 + 9));
    assert_eq!(topic.offset_of(&mut client, -2).await.0, 0);
    assert_eq!(topic.offset_of(&mut client, -1).await.0, 50);
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn append_time_is_stamped_with_a_right_checksum() {
    let (node, mut client, _dir) = broker().await;
    let topic = Topic::create(&mut client, 1, &[("message.timestamp.type", "LogAppendTime")]).await;
    let answer = topic.produced(&mut client, 9, &[records_of(3, &Spec::default())]).await;
    assert!(answer.log_append_time_ms > T0);
    let fetched = topic.fetched(&mut client, 12, 0, 1 << 20).await.records.unwrap();
    let header = Header::peek(&fetched).unwrap();
    assert_eq!(header.attributes.timestamp_type(), TimestampType::LogAppendTime);
    assert_eq!(header.max_timestamp, answer.log_append_time_ms);
    assert_eq!(crate::object::crc32c(&fetched[21..]), header.crc);
    let times: BTreeSet<i64> =
        records::iter(&fetched, 1 << 20).unwrap().map(|record| record.unwrap().timestamp).collect();
    assert_eq!(times, BTreeSet::from([answer.log_append_time_ms]));
    assert_eq!(topic.offset_of(&mut client, answer.log_append_time_ms).await, (0, answer.log_append_time_ms));
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_batches_get_kafkas_errors_and_good_ones_are_still_taken() {
    let (node, mut client, _dir) = broker().await;
    let topic = Topic::create(&mut client, 1, &[("max.message.bytes", "2000")]).await;
    let mut damaged = records_of(2, &Spec::default()).to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    let mut old = records_of(2, &Spec::default()).to_vec();
    old[16] = 1;
    let cases = [
        (Bytes::from(damaged), ErrorCode::CorruptMessage),
        (Bytes::from(old), ErrorCode::InvalidRecord),
        (records_of(40, &Spec::default()), ErrorCode::MessageTooLarge),
        (Bytes::new(), ErrorCode::InvalidRecord),
        (records_of(1, &Spec { transactional: true, ..claim(1, 0) }), ErrorCode::InvalidTxnState),
        (records_of(1, &Spec { control: true, ..Spec::default() }), ErrorCode::InvalidRecord),
    ];
    for (bytes, error) in cases {
        assert_eq!(topic.produced(&mut client, 9, &[bytes]).await.error_code, error.code(), "{error:?}");
    }
    let zstd = records_of(1, &Spec { codec: Codec::Zstd, ..Spec::default() });
    let answer = topic.produced(&mut client, 6, &[zstd]).await;
    assert_eq!(answer.error_code, ErrorCode::UnsupportedCompressionType.code());
    assert_eq!(topic.produced(&mut client, 9, &[records_of(2, &Spec::default())]).await.base_offset, 0);
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_acks_success_is_silent_and_failure_closes() {
    let (node, mut client, _dir) = broker().await;
    let topic = Topic::create(&mut client, 1, &[]).await;
    client.send(ApiKey::Produce, 9, &topic.produce(9, 0, &[records_of(2, &Spec::default())])).await;
    // The next answer on the connection is the next request's.
    assert_eq!(topic.produced(&mut client, 9, &[records_of(1, &Spec::default())]).await.base_offset, 2);
    client.send(ApiKey::Produce, 9, &topic.produce(9, 0, &[Bytes::from_static(b"no batch at all, but bytes")])).await;
    assert!(client.is_closed().await);
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (node, mut client) = broker_in(dir.path(), &[]).await;
    let topic = Topic::create(&mut client, 1, &[]).await;
    for i in 0..20 {
        let answer = topic.produced(&mut client, 9, &[records_of(5, &claim(0, 5 * i))]).await;
        assert_eq!(answer.base_offset, i64::from(5 * i));
    }
    node.shut_down().await;
    let (node, mut client) = broker_in(dir.path(), &[]).await;
    let found = topic.fetched(&mut client, 13, 0, 1 << 20).await;
    assert_eq!(batches(&found).iter().map(|b| b.2).sum::<i32>(), 100);
    // What producers sent before is remembered: the last batch again gets its old offset, the next a new one.
    assert_eq!(topic.produced(&mut client, 9, &[records_of(5, &claim(0, 95))]).await.base_offset, 95);
    assert_eq!(topic.produced(&mut client, 9, &[records_of(5, &claim(0, 100))]).await.base_offset, 100);
    let epochs: Vec<i32> = batches(&topic.fetched(&mut client, 13, 90, 1 << 20).await).iter().map(|b| b.1).collect();
    assert!(epochs.is_sorted() && epochs.first() < epochs.last());
    node.shut_down().await;
}
