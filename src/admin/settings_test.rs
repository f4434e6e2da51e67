//! Settings and limits over a socket of a real broker: set, told, and in force.

use kafka_protocol::messages::alter_configs_request::{AlterConfigsResource, AlterableConfig as ReplacingConfig};
use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::delete_acls_request::DeleteAclsFilter;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource as Changed, AlterableConfig};
use kafka_protocol::messages::*;

use crate::admin::configs::topic::TOPIC_CONFIGS;
use crate::batch::build::{NewRecord, Spec, batch};
use crate::batch::{Codec, Header, records};
use crate::node::testing::{Client, T0, TOPIC, Topic, broker, records_of, text};
use crate::protocol::ErrorCode;

const OF_TOPIC: i8 = 2;
const OF_BROKER: i8 = 4;
const OF_SUBSCRIPTION: i8 = 16;
const OF_LOGGER: i8 = 8;
const OF_GROUP: i8 = 32;
const SET: i8 = 0;
const DELETE: i8 = 1;

/// One change of one setting; what the broker answers.
async fn alter(client: &mut Client, kind: i8, name: &'static str, change: (&'static str, i8, &'static str)) -> i16 {
    let (key, operation, value) = change;
    let value = (operation != DELETE).then(|| text(value));
    let config = AlterableConfig::default().with_name(text(key)).with_config_operation(operation).with_value(value);
    let resource =
        Changed::default().with_resource_type(kind).with_resource_name(text(name)).with_configs(vec![config]);
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    let answer: IncrementalAlterConfigsResponse = client.ask(ApiKey::IncrementalAlterConfigs, 1, &request).await;
    answer.responses[0].error_code
}

/// The value of a setting, and where it comes from.
async fn told(client: &mut Client, kind: i8, name: &'static str, key: &'static str) -> (Option<String>, i8) {
    let resource = DescribeConfigsResource::default().with_resource_type(kind).with_resource_name(text(name));
    let resource = resource.with_configuration_keys(Some(vec![text(key)]));
    let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
    let answer: DescribeConfigsResponse = client.ask(ApiKey::DescribeConfigs, 4, &request).await;
    let config = &answer.results[0].configs[0];
    (config.value.as_ref().map(ToString::to_string), config.config_source)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_are_set_and_told_for_every_kind_of_thing() {
    let (node, mut client, _dir) = broker().await;
    Topic::create(&mut client, 1, &[]).await;
    for (kind, name, key, value, source) in [
        (OF_TOPIC, TOPIC, "retention.ms", "5000", 1),
        (OF_BROKER, "", "log.retention.bytes", "7", 3),
        (OF_BROKER, "0", "log.flush.interval.messages", "5", 2),
        (OF_GROUP, "g", "consumer.session.timeout.ms", "50000", 8),
        (OF_SUBSCRIPTION, "m", "interval.ms", "1000", 7),
    ] {
        assert_eq!(alter(&mut client, kind, name, (key, SET, value)).await, 0, "{key}");
        assert_eq!(told(&mut client, kind, name, key).await, (Some(value.to_owned()), source), "{key}");
    }
    // Topics inherit what is set for all brokers.
    assert_eq!(told(&mut client, OF_TOPIC, TOPIC, "retention.bytes").await, (Some("7".to_owned()), 3));
    let listed: ListConfigResourcesResponse =
        client.ask(ApiKey::ListConfigResources, 1, &ListConfigResourcesRequest::default()).await;
    assert_eq!(listed.config_resources.len(), 4, "the topic, the broker, the subscription, the group");
    // Kafka's kind that nothing has here, and one that Kafka does not know either.
    for (kind, code) in [(OF_LOGGER, ErrorCode::None), (3, ErrorCode::UnsupportedVersion)] {
        let ask = ListConfigResourcesRequest::default().with_resource_types(vec![kind]);
        let listed: ListConfigResourcesResponse = client.ask(ApiKey::ListConfigResources, 1, &ask).await;
        assert_eq!((listed.error_code, listed.config_resources.len()), (code.code(), 0));
    }
    let rules: DescribeAclsResponse = client.ask(ApiKey::DescribeAcls, 3, &DescribeAclsRequest::default()).await;
    let disabled = ErrorCode::SecurityDisabled.code();
    assert_eq!((rules.error_code, rules.resources.len()), (disabled, 0), "there are no rules, and no authorizer");
    let ask = CreateAclsRequest::default().with_creations(vec![AclCreation::default(); 2]);
    let made: CreateAclsResponse = client.ask(ApiKey::CreateAcls, 3, &ask).await;
    assert_eq!(made.results.iter().map(|result| result.error_code).collect::<Vec<_>>(), [disabled; 2]);
    let ask = DeleteAclsRequest::default().with_filters(vec![DeleteAclsFilter::default(); 2]);
    let gone: DeleteAclsResponse = client.ask(ApiKey::DeleteAcls, 3, &ask).await;
    assert_eq!(gone.filter_results.iter().map(|result| result.error_code).collect::<Vec<_>>(), [disabled; 2]);
    let ask = DescribeUserScramCredentialsRequest::default();
    let users: DescribeUserScramCredentialsResponse = client.ask(ApiKey::DescribeUserScramCredentials, 0, &ask).await;
    assert_eq!((users.error_code, users.results.len()), (0, 0));
    assert_eq!(alter(&mut client, OF_TOPIC, TOPIC, ("retention.ms", DELETE, "")).await, 0);
    assert_eq!(told(&mut client, OF_TOPIC, TOPIC, "retention.ms").await.1, 5);

    for (kind, name, key, value, refusal) in [
        (OF_TOPIC, TOPIC, "retention.ms", "-2", ErrorCode::InvalidConfig),
        (OF_TOPIC, "nowhere", "retention.ms", "1", ErrorCode::UnknownTopicOrPartition),
        (OF_TOPIC, "nowhere", "retention.ms", "x", ErrorCode::InvalidConfig),
        (OF_LOGGER, "0", "kafka.server.KafkaApis", "DEBUG", ErrorCode::InvalidRequest),
        (OF_BROKER, "0", "broker.id", "4", ErrorCode::InvalidRequest),
        (OF_BROKER, "1", "log.retention.ms", "4", ErrorCode::InvalidRequest),
        (OF_GROUP, "", "consumer.session.timeout.ms", "50000", ErrorCode::InvalidRequest),
        (OF_SUBSCRIPTION, "m", "interval.ms", "1", ErrorCode::InvalidRequest),
    ] {
        assert_eq!(alter(&mut client, kind, name, (key, SET, value)).await, refusal.code(), "{key}");
    }
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_old_api_replaces_everything_and_validation_changes_nothing() {
    let (node, mut client, _dir) = broker().await;
    Topic::create(&mut client, 1, &[("retention.ms", "5")]).await;
    for (version, validate_only, value) in [(0, true, "604800000"), (1, false, "604800000"), (2, false, "604800000")] {
        let config = ReplacingConfig::default().with_name(text("retention.bytes")).with_value(Some(text("7")));
        let resource = AlterConfigsResource::default().with_resource_type(OF_TOPIC).with_resource_name(text(TOPIC));
        let request = AlterConfigsRequest::default().with_resources(vec![resource.with_configs(vec![config])]);
        let request = request.with_validate_only(validate_only);
        let answer: AlterConfigsResponse = client.ask(ApiKey::AlterConfigs, version, &request).await;
        assert_eq!(answer.responses[0].error_code, 0);
        let retention = told(&mut client, OF_TOPIC, TOPIC, "retention.ms").await.0;
        assert_eq!(retention.as_deref(), Some(if validate_only { "5" } else { value }));
    }
    assert_eq!(told(&mut client, OF_TOPIC, TOPIC, "retention.bytes").await, (Some("7".to_owned()), 1));
    assert!(TOPIC_CONFIGS.len() > 30);
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_stamps_records_can_change() {
    let (node, mut client, _dir) = broker().await;
    let topic = Topic::create(&mut client, 1, &[]).await;
    let key = "message.timestamp.type";
    for (change, stamped) in [(("", SET, ""), false), ((key, SET, "LogAppendTime"), true), ((key, DELETE, ""), false)] {
        if !change.0.is_empty() {
            assert_eq!(alter(&mut client, OF_TOPIC, TOPIC, change).await, 0);
        }
        // The shards are told after the answer.
        let mut applied = node.cluster().root().applied();
        while node.cluster().view().topic_named(TOPIC).unwrap().is_unfinished() {
            applied.changed().await.unwrap();
        }
        let time = topic.produced(&mut client, 9, &[records_of(1, &Spec::default())]).await.log_append_time_ms;
        assert_eq!(time > T0, stamped);
    }
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clients_metrics_are_asked_for_and_taken() {
    let (node, mut client, _dir) = broker().await;
    // Nobody is told of it before somebody wants metrics: librdkafka says so in its log.
    let told: ApiVersionsResponse = client.ask(ApiKey::ApiVersions, 0, &ApiVersionsRequest::default()).await;
    assert!(told.api_keys.iter().all(|api| api.api_key != ApiKey::PushTelemetry as i16));
    let ask = GetTelemetrySubscriptionsRequest::default();
    let none: GetTelemetrySubscriptionsResponse = client.ask(ApiKey::GetTelemetrySubscriptions, 0, &ask).await;
    assert_eq!((none.error_code, none.push_interval_ms, none.requested_metrics.len()), (0, 300_000, 0));
    assert!(!none.client_instance_id.is_nil());
    assert_eq!(alter(&mut client, OF_SUBSCRIPTION, "m", ("metrics", SET, "a.,b.")).await, 0);
    let told: ApiVersionsResponse = client.ask(ApiKey::ApiVersions, 0, &ApiVersionsRequest::default()).await;
    assert!(told.api_keys.iter().any(|api| api.api_key == ApiKey::PushTelemetry as i16));
    let ask = ask.with_client_instance_id(none.client_instance_id);
    let some: GetTelemetrySubscriptionsResponse = client.ask(ApiKey::GetTelemetrySubscriptions, 0, &ask).await;
    assert_eq!((some.client_instance_id, some.requested_metrics.len()), (none.client_instance_id, 2));
    for (subscription, error) in
        [(none.subscription_id, ErrorCode::UnknownSubscriptionId), (some.subscription_id, ErrorCode::None)]
    {
        let push = PushTelemetryRequest::default().with_client_instance_id(some.client_instance_id);
        let push = push.with_subscription_id(subscription).with_metrics(vec![7; 100].into());
        let answer: PushTelemetryResponse = client.ask(ApiKey::PushTelemetry, 0, &push).await;
        assert_eq!(answer.error_code, error.code());
    }
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_topic_asks_of_batches_is_in_force_at_once() {
    let (node, mut client, _dir) = broker().await;
    let topic = Topic::create(&mut client, 1, &[]).await;
    let codec_of = |partition: fetch_response::PartitionData| {
        Header::peek(&partition.records.unwrap()).unwrap().attributes.codec().unwrap()
    };
    let lz4 = records_of(20, &Spec { codec: Codec::Lz4, ..Spec::default() });
    let codecs = [("zstd", Codec::Zstd), ("lz4", Codec::Lz4), ("uncompressed", Codec::None), ("producer", Codec::Lz4)];
    for (at, (value, codec)) in (0..).zip(codecs) {
        assert_eq!(alter(&mut client, OF_TOPIC, TOPIC, ("compression.type", SET, value)).await, 0);
        assert_eq!(topic.produced(&mut client, 9, std::slice::from_ref(&lz4)).await.base_offset, 20 * at);
        let read = topic.fetched(&mut client, 12, 20 * at, 1 << 20).await;
        assert_eq!(records::iter(read.records.as_ref().unwrap(), 1 << 20).unwrap().count(), 20);
        assert_eq!(codec_of(read), codec, "{value}");
    }
    // Small enough as it came, and too large as it would be stored.
    assert_eq!(alter(&mut client, OF_TOPIC, TOPIC, ("max.message.bytes", SET, "1000")).await, 0);
    let large =
        topic.produced(&mut client, 9, &[records_of(20, &Spec { codec: Codec::Zstd, ..Spec::default() })]).await;
    assert_eq!(large.error_code, 0);
    assert_eq!(alter(&mut client, OF_TOPIC, TOPIC, ("compression.type", SET, "uncompressed")).await, 0);
    let large =
        topic.produced(&mut client, 9, &[records_of(20, &Spec { codec: Codec::Zstd, ..Spec::default() })]).await;
    assert_eq!(large.error_code, ErrorCode::MessageTooLarge.code());

    assert_eq!(alter(&mut client, OF_TOPIC, TOPIC, ("compression.type", DELETE, "")).await, 0);
    assert_eq!(alter(&mut client, OF_TOPIC, TOPIC, ("cleanup.policy", SET, "compact")).await, 0);
    let keyless = batch(&[NewRecord::new(b"k", b"v", T0), NewRecord::value(b"v", T0)], &Spec::default());
    let refused = topic.produced(&mut client, 9, std::slice::from_ref(&keyless)).await;
    assert_eq!((refused.error_code, refused.record_errors.len()), (ErrorCode::InvalidRecord.code(), 1));
    assert_eq!(refused.record_errors[0].batch_index, 1);
    assert_eq!(alter(&mut client, OF_TOPIC, TOPIC, ("message.timestamp.before.max.ms", SET, "1000")).await, 0);
    let refused = topic.produced(&mut client, 9, &[keyless]).await;
    assert_eq!((refused.error_code, refused.record_errors.len()), (ErrorCode::InvalidTimestamp.code(), 2));
    assert!(refused.error_message.is_some_and(|message| message.ends_with("due to invalid timestamp")));
    node.shut_down().await;
}
