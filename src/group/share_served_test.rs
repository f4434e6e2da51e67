//! Share groups over sockets of real brokers.

use std::collections::BTreeSet;

use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::update_features_request::FeatureUpdateKey;
use kafka_protocol::messages::*;

use crate::group::consumer_served_test::{FEW, coordinator, coordinator_among, create, told};
use crate::node::testing::{Client, Site, broker_in, text};
use crate::protocol::ErrorCode;

const GROUP_CONFIG: i8 = 32;
const SAFE_DOWNGRADE: i8 = 2;

fn heartbeat(member: &'static str, epoch: i32) -> ShareGroupHeartbeatRequest {
    ShareGroupHeartbeatRequest::default()
        .with_group_id(text("g").into())
        .with_member_id(text(member))
        .with_member_epoch(epoch)
}

fn join(member: &'static str) -> ShareGroupHeartbeatRequest {
    heartbeat(member, 0).with_rack_id(Some(text("az1"))).with_subscribed_topic_names(Some(vec![text("t").into()]))
}

async fn beat(client: &mut Client, request: &ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse {
    client.ask(ApiKey::ShareGroupHeartbeat, 1, request).await
}

fn partitions(told: &ShareGroupHeartbeatResponse) -> BTreeSet<i32> {
    let assignment = told.assignment.as_ref().expect("an assignment");
    assignment.topic_partitions.iter().flat_map(|topic| topic.partitions.clone()).collect()
}

async fn describe(client: &mut Client, id: &'static str) -> share_group_describe_response::DescribedGroup {
    let request = ShareGroupDescribeRequest::default().with_group_ids(vec![text(id).into()]);
    let request = request.with_include_authorized_operations(true);
    let mut told: ShareGroupDescribeResponse = client.ask(ApiKey::ShareGroupDescribe, 1, &request).await;
    told.groups.remove(0)
}

async fn delete(client: &mut Client) -> i16 {
    let request = DeleteGroupsRequest::default().with_groups_names(vec![text("g").into()]);
    let answer: DeleteGroupsResponse = client.ask(ApiKey::DeleteGroups, 2, &request).await;
    answer.results[0].error_code
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_share_partitions_and_tools_see_them() {
    let dir = tempfile::tempdir().unwrap();
    let (node, mut client) = broker_in(dir.path(), FEW).await;
    let topic = create(&mut client, "t", 2).await;
    assert_eq!(coordinator(&mut client).await.0, 0);
    let a = beat(&mut client, &join("a")).await;
    assert_eq!((a.error_code, a.heartbeat_interval_ms), (0, 5000), "{:?}", a.error_message);
    assert_eq!((a.member_id.as_deref(), a.member_epoch, partitions(&a)), (Some("a"), 1, [0, 1].into()));
    let b = beat(&mut client, &join("b")).await;
    let a = beat(&mut client, &heartbeat("a", 1)).await;
    assert_eq!((a.member_epoch, b.member_epoch), (2, 2));
    assert!(partitions(&a).is_disjoint(&partitions(&b)));
    let quiet = beat(&mut client, &heartbeat("a", 2)).await;
    assert_eq!((quiet.error_code, quiet.member_epoch, quiet.assignment), (0, 2, None));

    let group = describe(&mut client, "g").await;
    assert_eq!((group.error_code, group.group_state.as_str(), group.assignor_name.as_str()), (0, "Stable", "simple"));
    assert_eq!((group.group_epoch, group.assignment_epoch, group.members.len()), (2, 2, 2));
    assert!(group.authorized_operations > 0);
    let one = &group.members[0];
    assert_eq!((one.member_id.as_str(), one.rack_id.as_deref(), one.member_epoch), ("a", Some("az1"), 2));
    assert_eq!((one.client_host.as_str(), one.subscribed_topic_names[0].as_str()), ("/127.0.0.1", "t"));
    let assigned = &one.assignment.topic_partitions[0];
    assert_eq!((assigned.topic_id, assigned.topic_name.as_str()), (topic, "t"));
    let list = async |client: &mut Client, state: &'static str, kind: &'static str| {
        let request = ListGroupsRequest::default().with_states_filter(vec![text(state)]);
        let request = request.with_types_filter(vec![text(kind)]);
        let told: ListGroupsResponse = client.ask(ApiKey::ListGroups, 5, &request).await;
        told.groups.len()
    };
    assert_eq!(list(&mut client, "Stable", "Share").await, 1);
    assert_eq!((list(&mut client, "Empty", "share").await, list(&mut client, "Stable", "consumer").await), (0, 0));

    assert_eq!(delete(&mut client).await, ErrorCode::NonEmptyGroup.code());
    for member in ["a", "b"] {
        let left = beat(&mut client, &heartbeat(member, -1)).await;
        assert_eq!((left.error_code, left.member_epoch, left.heartbeat_interval_ms), (0, -1, 0));
    }
    assert_eq!(list(&mut client, "empty", "share").await, 1);
    assert_eq!(describe(&mut client, "g").await.group_state.as_str(), "Empty");
    assert_eq!(delete(&mut client).await, 0);
    assert_eq!(describe(&mut client, "g").await.error_code, ErrorCode::GroupIdNotFound.code());
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_share_group_is_not_asked_has_kafkas_codes() {
    let dir = tempfile::tempdir().unwrap();
    let (node, mut client) = broker_in(dir.path(), FEW).await;
    create(&mut client, "t", 2).await;
    coordinator(&mut client).await;
    let blank = text(" ");
    let refused = [
        (join("a").with_group_id(text("").into()), ErrorCode::InvalidRequest),
        (join("a").with_member_id(blank.clone()), ErrorCode::InvalidRequest),
        (join("a").with_rack_id(Some(blank)), ErrorCode::InvalidRequest),
        (join("a").with_subscribed_topic_names(None), ErrorCode::InvalidRequest),
        (join("a").with_subscribed_topic_names(Some(vec![])), ErrorCode::InvalidRequest),
        (heartbeat("a", -2), ErrorCode::InvalidRequest),
        (heartbeat("a", 3), ErrorCode::GroupIdNotFound),
        (heartbeat("a", -1), ErrorCode::GroupIdNotFound),
    ];
    for (request, error) in refused {
        let told = beat(&mut client, &request).await;
        assert_eq!(told.error_code, error.code(), "{request:?}");
        assert!(told.error_message.is_some());
    }
    assert_eq!(beat(&mut client, &join("a")).await.error_code, 0);
    let stale = beat(&mut client, &heartbeat("a", 9)).await;
    assert_eq!(stale.error_code, ErrorCode::FencedMemberEpoch.code());

    let protocol = JoinGroupRequestProtocol::default().with_name(text("range"));
    let request = JoinGroupRequest::default()
        .with_group_id(text("g").into())
        .with_session_timeout_ms(10_000)
        .with_rebalance_timeout_ms(10_000)
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol]);
    let joined: JoinGroupResponse = client.ask(ApiKey::JoinGroup, 9, &request).await;
    assert_eq!(joined.error_code, ErrorCode::InconsistentGroupProtocol.code());
    let partition = OffsetCommitRequestPartition::default().with_partition_index(0).with_committed_offset(1);
    let topic = OffsetCommitRequestTopic::default().with_name(text("t").into()).with_partitions(vec![partition]);
    let request = OffsetCommitRequest::default().with_group_id(text("g").into()).with_topics(vec![topic]);
    let answer: OffsetCommitResponse = client.ask(ApiKey::OffsetCommit, 9, &request).await;
    assert_eq!(answer.topics[0].partitions[0].error_code, ErrorCode::GroupIdNotFound.code());
    let topic = OffsetFetchRequestTopics::default().with_name(text("t").into()).with_partition_indexes(vec![0]);
    let group = OffsetFetchRequestGroup::default().with_group_id(text("g").into()).with_topics(Some(vec![topic]));
    let request = OffsetFetchRequest::default().with_groups(vec![group.with_member_epoch(-1)]);
    let answer: OffsetFetchResponse = client.ask(ApiKey::OffsetFetch, 9, &request).await;
    assert_eq!(answer.groups[0].topics[0].partitions[0].committed_offset, -1);
    let request = DescribeGroupsRequest::default().with_groups(vec![text("g").into()]);
    let answer: DescribeGroupsResponse = client.ask(ApiKey::DescribeGroups, 6, &request).await;
    assert_eq!(answer.groups[0].error_code, ErrorCode::GroupIdNotFound.code());
    assert_eq!(answer.groups[0].error_message.as_deref(), Some("Group g is not a classic group."));
    let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![text("g").into()]);
    let answer: ConsumerGroupDescribeResponse = client.ask(ApiKey::ConsumerGroupDescribe, 1, &request).await;
    assert_eq!(answer.groups[0].error_code, ErrorCode::GroupIdNotFound.code());
    assert_eq!(answer.groups[0].error_message.as_deref(), Some("Group g is not a consumer group."));

    let off = FeatureUpdateKey::default().with_feature(text("share.version")).with_max_version_level(0);
    let off = UpdateFeaturesRequest::default().with_feature_updates(vec![off.with_upgrade_type(SAFE_DOWNGRADE)]);
    let answer: UpdateFeaturesResponse = client.ask(ApiKey::UpdateFeatures, 2, &off.with_timeout_ms(30_000)).await;
    assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
    let unsupported = ErrorCode::UnsupportedVersion.code();
    assert_eq!(beat(&mut client, &heartbeat("a", 1)).await.error_code, unsupported);
    assert_eq!(describe(&mut client, "g").await.error_code, unsupported);
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_groups_own_interval_is_told_to_its_members() {
    let dir = tempfile::tempdir().unwrap();
    let (node, mut client) = broker_in(dir.path(), FEW).await;
    create(&mut client, "t", 2).await;
    coordinator(&mut client).await;
    let set = |name, value| AlterableConfig::default().with_name(text(name)).with_value(Some(text(value)));
    let resource = AlterConfigsResource::default().with_resource_type(GROUP_CONFIG).with_resource_name(text("g"));
    let configs = vec![set("share.heartbeat.interval.ms", "6000"), set("consumer.heartbeat.interval.ms", "7000")];
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource.with_configs(configs)]);
    let answer: IncrementalAlterConfigsResponse = client.ask(ApiKey::IncrementalAlterConfigs, 1, &request).await;
    assert_eq!(answer.responses[0].error_code, 0, "{:?}", answer.responses[0].error_message);
    assert_eq!(beat(&mut client, &join("a")).await.heartbeat_interval_ms, 6000);
    beat(&mut client, &heartbeat("a", -1)).await;
    assert_eq!(delete(&mut client).await, 0);
    let consumer = ConsumerGroupHeartbeatRequest::default()
        .with_group_id(text("g").into())
        .with_member_id(text("a"))
        .with_rebalance_timeout_ms(60_000)
        .with_subscribed_topic_names(Some(vec![text("t").into()]))
        .with_topic_partitions(Some(Vec::new()));
    let told: ConsumerGroupHeartbeatResponse = client.ask(ApiKey::ConsumerGroupHeartbeat, 1, &consumer).await;
    assert_eq!((told.error_code, told.heartbeat_interval_ms), (0, 7000));
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_coordinator_goes_on_with_the_members_it_finds() {
    let site = Site::new(3);
    let mut nodes = Vec::new();
    for broker in 0..3 {
        nodes.push(site.start(broker, &[0, 1, 2]).await);
    }
    let mut client = Client::connect(&nodes[2]).await;
    create(&mut client, "t", 2).await;
    let code = |told: &ShareGroupHeartbeatResponse| told.error_code;
    let ask = async |client: &mut Client, nodes: &[crate::node::Node], request: ShareGroupHeartbeatRequest| {
        told(nodes, client, async |client| beat(client, &request).await, code).await
    };
    let a = ask(&mut client, &nodes, join("a")).await;
    let b = ask(&mut client, &nodes, join("b")).await;
    assert_eq!((a.member_epoch, b.member_epoch), (1, 2));
    let lost = coordinator_among(&nodes).await;
    nodes.remove(lost).shut_down().await;
    client = Client::connect(&nodes[0]).await;
    let quiet = ask(&mut client, &nodes, heartbeat("b", 2)).await;
    assert_eq!((quiet.error_code, quiet.member_epoch, quiet.assignment), (0, 2, None));
    let a = ask(&mut client, &nodes, heartbeat("a", 1)).await;
    assert_eq!((a.error_code, a.member_epoch), (0, 2));
    assert!(partitions(&a).is_disjoint(&partitions(&b)));
    for node in nodes {
        node.shut_down().await;
    }
}
