//! The whole room over a socket of a real broker: what the root decides, shards carry out, and clients see.

use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::update_features_request::FeatureUpdateKey;
use kafka_protocol::messages::*;

use crate::node::testing::{Client, broker_in, text};
use crate::protocol::ErrorCode;

#[allow(async_fn_in_trait)]
trait Admin {
    async fn metadata(&mut self, version: i16, name: &'static str) -> MetadataResponseTopic;
    async fn create(&mut self, version: i16, topics: Vec<CreatableTopic>, validate_only: bool) -> CreateTopicsResponse;
}

impl Admin for Client {
    async fn metadata(&mut self, version: i16, name: &'static str) -> MetadataResponseTopic {
        let topic = MetadataRequestTopic::default().with_name(Some(text(name).into()));
        let request = MetadataRequest::default().with_topics(Some(vec![topic]));
        let answer: MetadataResponse = self.ask(ApiKey::Metadata, version, &request).await;
        assert_eq!((answer.brokers.len(), answer.controller_id.0), (1, if version == 0 { -1 } else { 0 }));
        answer.topics.into_iter().next().unwrap()
    }

    async fn create(&mut self, version: i16, topics: Vec<CreatableTopic>, validate_only: bool) -> CreateTopicsResponse {
        let request = CreateTopicsRequest::default().with_topics(topics).with_validate_only(validate_only);
        self.ask(ApiKey::CreateTopics, version, &request).await
    }
}

fn creatable(name: &'static str, partitions: i32) -> CreatableTopic {
    let topic = CreatableTopic::default().with_name(text(name).into());
    topic.with_num_partitions(partitions).with_replication_factor(1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_is_usable_when_its_creation_is_answered_and_gone_when_its_deletion_is() {
    let dir = tempfile::tempdir().unwrap();
    let (node, mut client) = broker_in(dir.path(), &["--num-partitions=3"]).await;

    let validated = client.create(7, vec![creatable("t", 2)], true).await;
    assert_eq!((validated.topics[0].error_code, validated.topics[0].num_partitions), (0, 2));
    let created = client.create(7, vec![creatable("t", 2), creatable("u", -1), creatable("u", 1)], false).await;
    let codes: Vec<i16> = created.topics.iter().map(|topic| topic.error_code).collect();
    assert_eq!(codes, [0, ErrorCode::InvalidRequest.code()]);
    assert!(created.topics[0].configs.as_ref().is_some_and(|configs| configs.len() > 30));
    let again = client.create(2, vec![creatable("t", 2)], false).await;
    assert_eq!(again.topics[0].error_code, ErrorCode::TopicAlreadyExists.code());

    let topic = client.metadata(12, "t").await;
    assert_eq!((topic.error_code, topic.topic_id), (0, created.topics[0].topic_id));
    assert_eq!(topic.partitions.len(), 2);
    assert!(topic.partitions.iter().all(|p| p.leader_id.0 == 0 && p.leader_epoch > 0 && p.error_code == 0));

    let grow = CreatePartitionsTopic::default().with_name(text("t").into()).with_count(5).with_assignments(None);
    let grow = CreatePartitionsRequest::default().with_topics(vec![grow]).with_timeout_ms(30_000);
    let grown: CreatePartitionsResponse = client.ask(ApiKey::CreatePartitions, 3, &grow).await;
    assert_eq!(grown.results[0].error_code, 0);
    assert_eq!(client.metadata(0, "t").await.partitions.len(), 5);
    let grown: CreatePartitionsResponse = client.ask(ApiKey::CreatePartitions, 0, &grow).await;
    assert_eq!(grown.results[0].error_code, ErrorCode::InvalidPartitions.code());

    let by_id = DeleteTopicState::default().with_topic_id(topic.topic_id);
    let delete = DeleteTopicsRequest::default().with_topics(vec![by_id]).with_timeout_ms(30_000);
    let deleted: DeleteTopicsResponse = client.ask(ApiKey::DeleteTopics, 6, &delete).await;
    assert_eq!((deleted.responses[0].error_code, deleted.responses[0].name.as_ref().unwrap().as_str()), (0, "t"));
    let deleted: DeleteTopicsResponse = client.ask(ApiKey::DeleteTopics, 6, &delete).await;
    assert_eq!(deleted.responses[0].error_code, ErrorCode::UnknownTopicId.code());
    let by_name = DeleteTopicsRequest::default().with_topic_names(vec![text("t").into()]);
    let deleted: DeleteTopicsResponse = client.ask(ApiKey::DeleteTopics, 1, &by_name).await;
    assert_eq!(deleted.responses[0].error_code, ErrorCode::UnknownTopicOrPartition.code());

    let created = client.create(5, vec![creatable("t", 1)], false).await;
    assert_eq!(created.topics[0].error_code, 0, "the name is free at once");
    let again = client.metadata(13, "t").await;
    assert_ne!(again.topic_id, topic.topic_id);
    // Clients that knew the first one ignore whoever names a smaller epoch.
    assert!(again.partitions[0].leader_epoch > topic.partitions[0].leader_epoch);
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metadata_creates_what_is_missing_and_the_rest_is_told_truly() {
    let dir = tempfile::tempdir().unwrap();
    let (node, mut client) = broker_in(dir.path(), &["--num-partitions=3"]).await;
    let topic = client.metadata(4, "made.on_demand").await;
    assert_eq!((topic.error_code, topic.partitions.len()), (0, 3));
    assert_eq!(client.metadata(13, "made_on.demand").await.error_code, ErrorCode::InvalidTopic.code());
    let all = MetadataRequest::default().with_topics(None);
    let all: MetadataResponse = client.ask(ApiKey::Metadata, 9, &all).await;
    assert_eq!((all.topics.len(), all.brokers[0].rack.as_deref()), (1, Some("local")));

    let ask = DescribeConfigsResource::default().with_resource_type(2).with_resource_name(text("made.on_demand"));
    let ask = ask.with_configuration_keys(Some(vec![text("retention.ms")]));
    let ask = DescribeConfigsRequest::default().with_resources(vec![ask]).with_include_synonyms(true);
    for version in 1..=4 {
        let told: DescribeConfigsResponse = client.ask(ApiKey::DescribeConfigs, version, &ask).await;
        assert_eq!((told.results[0].configs.len(), told.results[0].error_code), (1, 0));
        assert_eq!(told.results[0].configs[0].value.as_deref(), Some("604800000"));
    }
    for version in 0..=2 {
        let ask = DescribeClusterRequest::default();
        let told: DescribeClusterResponse = client.ask(ApiKey::DescribeCluster, version, &ask).await;
        assert_eq!((told.brokers.len(), told.error_code, Some(told.cluster_id)), (1, 0, all.cluster_id.clone()));
    }
    let mut ids = Vec::new();
    for version in 0..=5 {
        let ask = InitProducerIdRequest::default().with_transactional_id(None);
        let told: InitProducerIdResponse = client.ask(ApiKey::InitProducerId, version, &ask).await;
        assert_eq!((told.error_code, told.producer_epoch), (0, 0));
        ids.push(told.producer_id.0);
    }
    ids.dedup();
    assert_eq!(ids.len(), 6, "every producer has its own id");
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_kafka_refuses_of_metadata_and_features_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (node, mut client) = broker_in(dir.path(), &[]).await;
    let created = client.create(7, vec![creatable("t", 1)], false).await;
    // Versions 10 and 11 have the field, and say that it is of no use yet.
    for (version, error) in [(10, 42), (11, 42), (12, 0)] {
        let by_id = MetadataRequestTopic::default().with_name(None).with_topic_id(created.topics[0].topic_id);
        let by_id = if version < 12 { by_id.with_name(Some(text("t").into())) } else { by_id };
        let request = MetadataRequest::default().with_topics(Some(vec![by_id]));
        let told: MetadataResponse = client.ask(ApiKey::Metadata, version, &request).await;
        assert_eq!(told.topics[0].error_code, error, "{version}");
    }
    let kept = client.metadata(4, "__cluster_metadata").await;
    assert_eq!(kept.error_code, ErrorCode::UnknownTopicOrPartition.code(), "made by nobody's wish");
    let update = FeatureUpdateKey::default().with_feature(text("no.such.version")).with_max_version_level(1);
    let request = UpdateFeaturesRequest::default().with_feature_updates(vec![update]).with_timeout_ms(30_000);
    for version in 0..=2 {
        let told: UpdateFeaturesResponse = client.ask(ApiKey::UpdateFeatures, version, &request).await;
        assert!(told.error_code != 0 && told.results.is_empty(), "{version}: {told:?}");
    }
    node.shut_down().await;
}

/// Without an authorizer everybody may do everything, and is told so when asking (`AuthHelper.authorizedOperations`).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_what_may_be_done_is_told_everything_there_is() {
    const NOT_ASKED: i32 = i32::MIN;
    let dir = tempfile::tempdir().unwrap();
    let (node, mut client) = broker_in(dir.path(), &[]).await;
    client.create(7, vec![creatable("t", 1)], false).await;
    let topics = ["t", "not/a/name"].map(|name| MetadataRequestTopic::default().with_name(Some(text(name).into())));
    for (version, asked) in [(8, true), (10, true), (8, false), (13, false)] {
        let request = MetadataRequest::default()
            .with_topics(Some(topics.to_vec()))
            .with_include_topic_authorized_operations(asked)
            .with_include_cluster_authorized_operations(asked);
        let told: MetadataResponse = client.ask(ApiKey::Metadata, version, &request).await;
        let on_topics: Vec<i32> = told.topics.iter().map(|topic| topic.topic_authorized_operations).collect();
        assert_eq!(on_topics, [if asked { 0b1101_1111_1000 } else { NOT_ASKED }, NOT_ASKED], "version {version}");
        assert_eq!(told.cluster_authorized_operations, if asked { 0b1_1111_1010_0000 } else { NOT_ASKED });
    }
    for (version, asked) in [(0, true), (2, true), (1, false)] {
        let request = DescribeClusterRequest::default().with_include_cluster_authorized_operations(asked);
        let told: DescribeClusterResponse = client.ask(ApiKey::DescribeCluster, version, &request).await;
        assert_eq!(told.cluster_authorized_operations, if asked { 0b1_1111_1010_0000 } else { NOT_ASKED });
    }
    let request = DescribeTopicPartitionsRequest::default().with_response_partition_limit(10);
    let told: DescribeTopicPartitionsResponse = client.ask(ApiKey::DescribeTopicPartitions, 0, &request).await;
    assert_eq!(told.topics[0].topic_authorized_operations, 0b1101_1111_1000);
    node.shut_down().await;
}
