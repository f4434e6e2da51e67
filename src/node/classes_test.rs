//! Topics choose where their records are: in a regional store or in the buckets of zones.

use std::sync::Arc;

use futures::TryStreamExt;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::*;

use crate::batch::build::Spec;
use crate::node::Node;
use crate::node::testing::{Client, Topic, batches, broker, records_of, start_on, text};
use crate::object::fault::Fault;
use crate::object::zonal::testing::{Zones, zones};
use crate::object::{Classes, Memory, Prefix, Start, Store, list_pages};
use crate::protocol::ErrorCode;
use crate::types::StorageClass;

const CLASS: &str = "milepost.storage.class";
const ZONAL: &str = "--store=az1=memory://1,az2=memory://2,az3=memory://3";

async fn create(client: &mut Client, name: &'static str, class: Option<&'static str>) -> i16 {
    let configs =
        class.map(|class| CreatableTopicConfig::default().with_name(text(CLASS)).with_value(Some(text(class))));
    let topic = CreatableTopic::default()
        .with_name(text(name).into())
        .with_num_partitions(1)
        .with_replication_factor(1)
        .with_configs(configs.into_iter().collect());
    let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(10_000);
    let created: CreateTopicsResponse = client.ask(ApiKey::CreateTopics, 7, &request).await;
    created.topics[0].error_code
}

async fn produce(client: &mut Client, names: &[&'static str]) -> Vec<i16> {
    let data = names.iter().map(|name| {
        let records = Some(records_of(3, &Spec::default()));
        let partition = PartitionProduceData::default().with_index(0).with_records(records);
        TopicProduceData::default().with_name(text(name).into()).with_partition_data(vec![partition])
    });
    let request = ProduceRequest::default().with_acks(-1).with_timeout_ms(10_000).with_topic_data(data.collect());
    let answer: ProduceResponse = client.ask(ApiKey::Produce, 9, &request).await;
    answer.responses.iter().map(|topic| topic.partition_responses[0].error_code).collect()
}

async fn fetch(client: &mut Client, name: &'static str) -> usize {
    let partition = FetchPartition::default().with_partition(0).with_partition_max_bytes(1 << 20);
    let topic = FetchTopic::default().with_topic(text(name).into()).with_partitions(vec![partition]);
    let request =
        FetchRequest::default().with_replica_id(BrokerId(-1)).with_max_bytes(i32::MAX).with_topics(vec![topic]);
    let answer: FetchResponse = client.ask(ApiKey::Fetch, 12, &request).await;
    batches(&answer.responses[0].partitions[0]).len()
}

/// Objects of records, by the kind of their keys.
async fn kinds(store: &dyn Store) -> Vec<String> {
    let prefix = Prefix::all();
    let pages: Vec<_> = list_pages(store, &prefix, Start::Beginning).try_collect().await.unwrap();
    let kind = |key: &str| key.split('/').nth(1).map(str::to_owned);
    let kinds = pages.iter().flatten().filter_map(|listed| kind(listed.key.as_str()));
    kinds.filter(|kind| kind != "snap").collect()
}

async fn start(zones: &Zones, regional: Option<Arc<dyn Store>>, dir: &tempfile::TempDir) -> (Node, Client) {
    let flags: &[&str] = if regional.is_some() { &["--store=memory://", ZONAL] } else { &[ZONAL] };
    let classes = Arc::new(Classes::new(regional, zones.zonal.clone()));
    let node = start_on(classes, dir.path(), flags).await.unwrap();
    let client = Client::connect(&node).await;
    (node, client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_holds_records_of_one_class() {
    let (zones, regional, dir) = (zones(), Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let (node, mut client) = start(&zones, Some(regional.clone()), &dir).await;
    for (name, class) in [("r", Some("regional")), ("z", Some("zonal")), ("default", None)] {
        assert_eq!(create(&mut client, name, class).await, 0);
    }
    assert_eq!(produce(&mut client, &["r", "z", "default"]).await, [0, 0, 0]);
    for name in ["r", "z", "default"] {
        assert_eq!(fetch(&mut client, name).await, 1, "{name}");
    }
    assert_eq!(kinds(&*regional).await, ["wal"]);
    let zonal: Vec<String> = kinds(&zones.zonal).await;
    assert_eq!(zonal, ["zonal"]);
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_buckets_of_zones_only_everything_is_zonal_and_survives_a_hung_one() {
    let (zones, dir) = (zones(), tempfile::tempdir().unwrap());
    let (node, mut client) = start(&zones, None, &dir).await;
    let topic = Topic::create(&mut client, 1, &[]).await;
    topic.produced(&mut client, 9, &[records_of(1, &Spec::default())]).await;
    zones.hurt(0, &Fault::Hang);
    let answer = topic.produced(&mut client, 9, &[records_of(1, &Spec::default())]).await;
    assert_eq!((answer.error_code, answer.base_offset), (0, 1));
    assert_eq!(kinds(&zones.zonal).await, ["zonal", "zonal"]);
    let refused = create(&mut client, "r", Some("regional")).await;
    assert_eq!(refused, ErrorCode::InvalidConfig.code());
    node.shut_down().await;
    // A broker starts while a bucket is away, its own zone's; nothing is cached any more.
    let (node, mut client) = start(&zones, None, &dir).await;
    assert_eq!(batches(&topic.fetched(&mut client, 12, 0, 1 << 20).await).len(), 2);
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_class_that_the_cluster_has_no_store_for_is_refused() {
    let (node, mut client, _dir) = broker().await;
    assert_eq!(create(&mut client, "z", Some("zonal")).await, ErrorCode::InvalidConfig.code());
    assert_eq!(create(&mut client, "x", Some("glacial")).await, ErrorCode::InvalidConfig.code());
    assert_eq!(create(&mut client, "r", Some(StorageClass::Regional.name())).await, 0);
    node.shut_down().await;
}
