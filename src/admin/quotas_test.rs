//! Quotas over sockets of a real broker.

use std::time::Duration;

use kafka_protocol::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::Encodable;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::batch::build::Spec;
use crate::node::testing::{Client, TOPIC, Topic, broker, records_of, text};
use crate::protocol::ErrorCode;

/// Of the clients that connect without another name.
async fn limit(client: &mut Client, key: &'static str, value: Option<f64>) {
    limit_of(client, "client-id", Some("test-0"), key, value).await;
}

async fn limit_of(
    client: &mut Client,
    kind: &'static str,
    name: Option<&'static str>,
    key: &'static str,
    value: Option<f64>,
) {
    let entity = EntityData::default().with_entity_type(text(kind)).with_entity_name(name.map(text));
    let op = OpData::default().with_key(text(key)).with_value(value.unwrap_or(0.0)).with_remove(value.is_none());
    let entry = EntryData::default().with_entity(vec![entity]).with_ops(vec![op]);
    let request = AlterClientQuotasRequest::default().with_entries(vec![entry]);
    let answer: AlterClientQuotasResponse = client.ask(ApiKey::AlterClientQuotas, 1, &request).await;
    assert_eq!(answer.entries[0].error_code, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_over_its_limit_is_told_to_wait_and_not_read_from() {
    let (node, mut client, _dir) = broker().await;
    let topic = Topic::create(&mut client, 1, &[]).await;
    let mut other = Client::named(&node, "other").await;
    let request = topic.produce(9, -1, &[records_of(20, &Spec::default())]);
    // Ten seconds' worth and three quarters of a second's more. The zone in the client's id is no part of its name.
    let rate = (request.compute_size(9).unwrap() as f64 / 10.75).floor();
    limit(&mut other, "producer_byte_rate", Some(rate)).await;
    let described: DescribeClientQuotasResponse =
        other.ask(ApiKey::DescribeClientQuotas, 1, &DescribeClientQuotasRequest::default()).await;
    assert_eq!(described.entries.unwrap()[0].values[0].value, rate);
    let begun = Instant::now();
    let produced: ProduceResponse = client.ask(ApiKey::Produce, 9, &request).await;
    assert_eq!(produced.responses[0].partition_responses[0].error_code, 0);
    let wait = Duration::from_millis(produced.throttle_time_ms as u64);
    assert!(wait > Duration::from_millis(500), "{wait:?}");
    let _: MetadataResponse = client.ask(ApiKey::Metadata, 12, &MetadataRequest::default()).await;
    assert!(begun.elapsed() >= wait, "its next request was not read before");
    let free: ProduceResponse = other.ask(ApiKey::Produce, 9, &request).await;
    assert_eq!(free.throttle_time_ms, 0);
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_over_its_limit_gets_nothing_until_it_has_waited() {
    let (node, mut client, _dir) = broker().await;
    let topic = Topic::create(&mut client, 1, &[]).await;
    topic.produced(&mut client, 9, &[records_of(20, &Spec::default())]).await;
    let mut other = Client::named(&node, "other").await;
    limit(&mut other, "consumer_byte_rate", Some(100.0)).await;
    let fetch = topic.fetch(12, 0, 1 << 20, 0);
    let first: FetchResponse = client.ask(ApiKey::Fetch, 12, &fetch).await;
    assert!(first.throttle_time_ms > 500 && first.responses[0].partitions[0].records.is_some());
    let mut again = Client::connect(&node).await;
    let second: FetchResponse = again.ask(ApiKey::Fetch, 12, &fetch).await;
    assert!(second.throttle_time_ms > 0 && second.responses.is_empty());
    limit(&mut other, "consumer_byte_rate", None).await;
    let mut again = Client::connect(&node).await;
    let third: FetchResponse = again.ask(ApiKey::Fetch, 12, &fetch).await;
    assert_eq!((third.throttle_time_ms, third.responses.len()), (0, 1));
    node.shut_down().await;
}

/// (code, throttle time)
async fn create(client: &mut Client, version: i16, name: &'static str) -> (i16, i32) {
    let topic =
        CreatableTopic::default().with_name(text(name).into()).with_num_partitions(3).with_replication_factor(1);
    let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(10_000);
    let answer: CreateTopicsResponse = client.ask(ApiKey::CreateTopics, version, &request).await;
    (answer.topics[0].error_code, answer.throttle_time_ms)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_are_made_and_deleted_within_the_limit() {
    let (node, mut client, _dir) = broker().await;
    let mut other = Client::named(&node, "other").await;
    // Eleven seconds' worth is less than a partition.
    limit(&mut other, "controller_mutation_rate", Some(0.05)).await;
    assert_eq!(create(&mut client, 7, TOPIC).await, (0, 0), "the first may take more than is left");
    let exceeded = ErrorCode::ThrottlingQuotaExceeded.code();
    let (code, wait) = create(&mut client, 7, "second").await;
    assert!(code == exceeded && wait > 20_000, "{code} {wait}");
    let mut again = Client::connect(&node).await;
    let growth = CreatePartitionsTopic::default().with_name(text(TOPIC).into()).with_count(4).with_assignments(None);
    let request = CreatePartitionsRequest::default().with_topics(vec![growth]).with_timeout_ms(10_000);
    let grown: CreatePartitionsResponse = again.ask(ApiKey::CreatePartitions, 3, &request).await;
    assert!(grown.results[0].error_code == exceeded && grown.throttle_time_ms > 20_000);
    let mut again = Client::connect(&node).await;
    let topic = DeleteTopicState::default().with_name(Some(text(TOPIC).into()));
    let request = DeleteTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(10_000);
    let deleted: DeleteTopicsResponse = again.ask(ApiKey::DeleteTopics, 6, &request).await;
    assert!(deleted.responses[0].error_code == exceeded && deleted.throttle_time_ms > 20_000);
    // A client that does not know the error gets what it asks for, and waits.
    let mut old = Client::connect(&node).await;
    let (code, wait) = create(&mut old, 5, "third").await;
    assert!(code == 0 && wait > 20_000, "{code} {wait}");
    assert_eq!(create(&mut other, 7, "fourth").await, (0, 0));
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_come_too_fast_are_closed() {
    let (node, mut client, _dir) = broker().await;
    limit_of(&mut client, "ip", None, "connection_creation_rate", Some(1.0)).await;
    // ApiVersions 0, without a name.
    let request = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff];
    let mut answered = 0;
    loop {
        let mut stream = TcpStream::connect(node.address()).await.unwrap();
        stream.write_all(&request).await.unwrap();
        match stream.read_u32().await {
            Ok(_) => answered += 1,
            Err(_) => break,
        }
    }
    assert!(answered >= 10, "{answered}");
    limit_of(&mut client, "ip", None, "connection_creation_rate", None).await;
    let _: MetadataResponse = Client::connect(&node).await.ask(ApiKey::Metadata, 12, &MetadataRequest::default()).await;
    node.shut_down().await;
}
