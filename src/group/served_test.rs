//! The whole room over sockets of real brokers.

use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::*;

use crate::node::Node;
use crate::node::testing::{Client, Site, broker_in, text};
use crate::protocol::{ErrorCode, StrBytes};

const FAST: &[&str] = &["--group-initial-rebalance-delay=0s", "--offsets-topic-partitions=5"];

#[allow(async_fn_in_trait)]
trait Member {
    async fn topic(&mut self, name: &'static str);
    async fn coordinator(&mut self, version: i16, group: &'static str) -> (i16, i32, i32);
    async fn join(&mut self, version: i16, group: &'static str, member: &StrBytes) -> JoinGroupResponse;
    async fn sync(&mut self, version: i16, group: &'static str, joined: &JoinGroupResponse) -> SyncGroupResponse;
    async fn beat(&mut self, version: i16, group: &'static str, joined: &JoinGroupResponse) -> i16;
    async fn leave(&mut self, version: i16, group: &'static str, member: &StrBytes) -> i16;
    async fn commit(
        &mut self,
        version: i16,
        group: &'static str,
        as_member: Option<&JoinGroupResponse>,
        at: i64,
    ) -> i16;
    async fn committed(&mut self, version: i16, group: &'static str) -> Result<i64, i16>;
}

impl Member for Client {
    async fn topic(&mut self, name: &'static str) {
        let topic = CreatableTopic::default().with_name(text(name).into()).with_num_partitions(2);
        let request = CreateTopicsRequest::default().with_topics(vec![topic.with_replication_factor(-1)]);
        let created: CreateTopicsResponse = self.ask(ApiKey::CreateTopics, 7, &request.with_timeout_ms(30_000)).await;
        assert_eq!(created.topics[0].error_code, 0);
    }

    async fn coordinator(&mut self, version: i16, group: &'static str) -> (i16, i32, i32) {
        let request = FindCoordinatorRequest::default();
        let request = match version {
            0..=3 => request.with_key(text(group)),
            _ => request.with_coordinator_keys(vec![text(group)]),
        };
        let found: FindCoordinatorResponse = self.ask(ApiKey::FindCoordinator, version, &request).await;
        match found.coordinators.first() {
            Some(one) => (one.error_code, one.node_id.0, one.port),
            None => (found.error_code, found.node_id.0, found.port),
        }
    }

    async fn join(&mut self, version: i16, group: &'static str, member: &StrBytes) -> JoinGroupResponse {
        let protocol = JoinGroupRequestProtocol::default().with_name(text("range"));
        let protocol = protocol.with_metadata(Bytes::from_static(&[0, 0, 0, 0, 0, 1, 0, 1, b't']));
        let request = JoinGroupRequest::default()
            .with_group_id(text(group).into())
            .with_session_timeout_ms(30_000)
            .with_rebalance_timeout_ms(if version > 0 { 60_000 } else { -1 })
            .with_member_id(member.clone())
            .with_protocol_type(text("consumer"))
            .with_protocols(vec![protocol]);
        self.ask(ApiKey::JoinGroup, version, &request).await
    }

    async fn sync(&mut self, version: i16, group: &'static str, joined: &JoinGroupResponse) -> SyncGroupResponse {
        let assignments = joined.members.iter().map(|member| {
            SyncGroupRequestAssignment::default()
                .with_member_id(member.member_id.clone())
                .with_assignment(Bytes::copy_from_slice(member.member_id.as_bytes()))
        });
        let request = SyncGroupRequest::default()
            .with_group_id(text(group).into())
            .with_generation_id(joined.generation_id)
            .with_member_id(joined.member_id.clone())
            .with_protocol_type((version >= 5).then(|| text("consumer")))
            .with_protocol_name((version >= 5).then(|| text("range")))
            .with_assignments(assignments.collect());
        self.ask(ApiKey::SyncGroup, version, &request).await
    }

    async fn beat(&mut self, version: i16, group: &'static str, joined: &JoinGroupResponse) -> i16 {
        let request = HeartbeatRequest::default()
            .with_group_id(text(group).into())
            .with_generation_id(joined.generation_id)
            .with_member_id(joined.member_id.clone());
        let answer: HeartbeatResponse = self.ask(ApiKey::Heartbeat, version, &request).await;
        answer.error_code
    }

    async fn leave(&mut self, version: i16, group: &'static str, member: &StrBytes) -> i16 {
        let request = LeaveGroupRequest::default().with_group_id(text(group).into());
        let request = match version {
            0..=2 => request.with_member_id(member.clone()),
            _ => request.with_members(vec![MemberIdentity::default().with_member_id(member.clone())]),
        };
        let left: LeaveGroupResponse = self.ask(ApiKey::LeaveGroup, version, &request).await;
        left.members.first().map_or(left.error_code, |member| member.error_code)
    }

    async fn commit(
        &mut self,
        version: i16,
        group: &'static str,
        as_member: Option<&JoinGroupResponse>,
        at: i64,
    ) -> i16 {
        let partition = OffsetCommitRequestPartition::default().with_partition_index(1).with_committed_offset(at);
        let partition = partition.with_committed_metadata(Some(text("note")));
        let topic = OffsetCommitRequestTopic::default().with_name(text("t").into()).with_partitions(vec![partition]);
        let request = OffsetCommitRequest::default()
            .with_group_id(text(group).into())
            .with_generation_id_or_member_epoch(as_member.map_or(-1, |joined| joined.generation_id))
            .with_member_id(as_member.map(|joined| joined.member_id.clone()).unwrap_or_default())
            .with_topics(vec![topic]);
        let answer: OffsetCommitResponse = self.ask(ApiKey::OffsetCommit, version, &request).await;
        answer.topics[0].partitions[0].error_code
    }

    /// -1 when there is none.
    async fn committed(&mut self, version: i16, group: &'static str) -> Result<i64, i16> {
        let request = OffsetFetchRequest::default();
        if version < 8 {
            let topic = OffsetFetchRequestTopic::default().with_name(text("t").into()).with_partition_indexes(vec![1]);
            let request = request.with_group_id(text(group).into()).with_topics(Some(vec![topic]));
            let answer: OffsetFetchResponse = self.ask(ApiKey::OffsetFetch, version, &request).await;
            let Some(topic) = answer.topics.first() else { return Err(answer.error_code) };
            let one = &topic.partitions[0];
            return if one.error_code == 0 { Ok(one.committed_offset) } else { Err(one.error_code) };
        }
        let topic = OffsetFetchRequestTopics::default().with_name(text("t").into()).with_partition_indexes(vec![1]);
        let asked = OffsetFetchRequestGroup::default().with_group_id(text(group).into()).with_topics(Some(vec![topic]));
        let answer: OffsetFetchResponse =
            self.ask(ApiKey::OffsetFetch, version, &request.with_groups(vec![asked])).await;
        let group = &answer.groups[0];
        let one = group.topics.first().map(|topic| topic.partitions[0].clone());
        one.map(|one| one.committed_offset).ok_or(group.error_code)
    }
}

/// A member of a stable group that is alone in it.
async fn member(client: &mut Client, group: &'static str) -> JoinGroupResponse {
    let id = client.join(9, group, &StrBytes::default()).await;
    assert_eq!(id.error_code, ErrorCode::MemberIdRequired.code());
    let joined = client.join(9, group, &id.member_id).await;
    assert_eq!((joined.error_code, &joined.leader), (0, &joined.member_id));
    assert_eq!(client.sync(5, group, &joined).await.assignment, joined.member_id.as_bytes());
    joined
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_version_of_every_group_api_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let (node, mut client) = broker_in(dir.path(), FAST).await;
    client.topic("t").await;
    // Before there are groups at all.
    assert_eq!(client.committed(7, "g").await, Err(ErrorCode::NotCoordinator.code()));
    for version in 0..=6 {
        assert_eq!(client.coordinator(version, "g").await, (0, 0, i32::from(node.address().port())));
    }
    for version in 0..=9 {
        let first = client.join(version, "g", &StrBytes::default()).await;
        let joined = match version < 4 {
            true => first,
            false => client.join(version, "g", &first.member_id).await,
        };
        assert_eq!((joined.error_code, joined.members.len()), (0, 1), "JoinGroup {version}");
        let none = client.join(version, "g", &text("nobody")).await;
        assert_eq!((none.error_code, none.generation_id), (ErrorCode::UnknownMemberId.code(), -1));
        for version in 0..=5 {
            assert_eq!(client.sync(version, "g", &joined).await.assignment, joined.member_id.as_bytes());
        }
        for version in 0..=4 {
            assert_eq!(client.beat(version, "g", &joined).await, 0);
        }
        for version in 2..=9 {
            let offset = i64::from(version);
            assert_eq!(client.commit(version, "g", Some(&joined), offset).await, 0);
            assert_eq!(client.committed(version.max(2), "g").await, Ok(offset));
        }
        for version in 0..=6 {
            let ask = DescribeGroupsRequest::default().with_groups(vec![text("g").into(), text("none").into()]);
            let ask = ask.with_include_authorized_operations(version >= 3);
            let told: DescribeGroupsResponse = client.ask(ApiKey::DescribeGroups, version, &ask).await;
            let (group, none) = (&told.groups[0], &told.groups[1]);
            assert_eq!((group.group_state.as_str(), group.protocol_data.as_str()), ("Stable", "range"));
            assert_eq!(group.members[0].client_id.as_str(), "test,zone=local-0");
            let due = if version < 6 { 0 } else { ErrorCode::GroupIdNotFound.code() };
            assert_eq!((none.group_state.as_str(), none.error_code), ("Dead", due));
        }
        let leaves = version.min(5);
        assert_eq!(client.leave(leaves, "g", &text("nobody")).await, ErrorCode::UnknownMemberId.code());
        assert_eq!(client.leave(leaves, "g", &joined.member_id).await, 0, "LeaveGroup {leaves}");
    }
    assert_eq!(client.committed(1, "g").await, Ok(9));
    for version in 0..=5 {
        let ask = ListGroupsRequest::default();
        let ask = if version >= 4 { ask.with_states_filter(vec![text("empty")]) } else { ask };
        let ask = if version >= 5 { ask.with_types_filter(vec![text("Classic")]) } else { ask };
        let told: ListGroupsResponse = client.ask(ApiKey::ListGroups, version, &ask).await;
        assert_eq!((told.groups.len(), told.groups[0].protocol_type.as_str()), (1, "consumer"));
        if version >= 4 {
            let ask = ask.with_states_filter(vec![text("Stable")]);
            let told: ListGroupsResponse = client.ask(ApiKey::ListGroups, version, &ask).await;
            assert!(told.groups.is_empty());
        }
    }
    let partition = OffsetDeleteRequestPartition::default().with_partition_index(1);
    let partitions = vec![partition, OffsetDeleteRequestPartition::default().with_partition_index(9)];
    let topic = OffsetDeleteRequestTopic::default().with_name(text("t").into()).with_partitions(partitions);
    let ask = OffsetDeleteRequest::default().with_group_id(text("g").into()).with_topics(vec![topic]);
    let told: OffsetDeleteResponse = client.ask(ApiKey::OffsetDelete, 0, &ask).await;
    let codes: Vec<i16> = told.topics[0].partitions.iter().map(|partition| partition.error_code).collect();
    assert_eq!(codes, [0, ErrorCode::UnknownTopicOrPartition.code()]);
    let partitions = vec![OffsetDeleteRequestPartition::default()];
    let unknown = OffsetDeleteRequestTopic::default().with_name(text("none").into()).with_partitions(partitions);
    let named = [("", ErrorCode::InvalidGroupId), ("none", ErrorCode::GroupIdNotFound), ("g", ErrorCode::None)];
    for ((group, error), topics) in named.into_iter().flat_map(|one| [(one, vec![unknown.clone()]), (one, vec![])]) {
        let ask = OffsetDeleteRequest::default().with_group_id(text(group).into()).with_topics(topics);
        let told: OffsetDeleteResponse = client.ask(ApiKey::OffsetDelete, 0, &ask).await;
        assert_eq!(told.error_code, error.code(), "{group}, {}", ask.topics.len());
        let codes = told.topics.iter().flat_map(|topic| topic.partitions.iter().map(|one| one.error_code));
        assert!(codes.into_iter().all(|code| code == ErrorCode::UnknownTopicOrPartition.code()));
    }
    assert_eq!(client.committed(9, "g").await, Ok(-1));
    for version in 0..=2 {
        assert_eq!(client.commit(9, "g", None, 1).await, 0);
        let names = ["g", "none", "g"].map(|name| text(name).into()).to_vec();
        let ask = DeleteGroupsRequest::default().with_groups_names(names);
        let told: DeleteGroupsResponse = client.ask(ApiKey::DeleteGroups, version, &ask).await;
        let codes: Vec<i16> = told.results.iter().map(|result| result.error_code).collect();
        assert_eq!(codes, [0, ErrorCode::GroupIdNotFound.code()], "DeleteGroups {version}");
        assert_eq!(client.committed(8, "g").await, Ok(-1));
    }
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_a_request_is_said_in_kafkas_words() {
    let dir = tempfile::tempdir().unwrap();
    let (node, mut client) = broker_in(dir.path(), FAST).await;
    client.topic("t").await;
    client.coordinator(4, "g").await;
    let nobody = StrBytes::default();
    assert_eq!(client.join(9, "", &nobody).await.error_code, ErrorCode::InvalidGroupId.code());
    for ms in [5_999, 1_800_001, -1] {
        let request = JoinGroupRequest::default().with_group_id(text("g").into()).with_session_timeout_ms(ms);
        let answer: JoinGroupResponse = client.ask(ApiKey::JoinGroup, 5, &request).await;
        assert_eq!(answer.error_code, ErrorCode::InvalidSessionTimeout.code());
    }
    let unnamed = SyncGroupRequest::default().with_group_id(text("g").into());
    let answer: SyncGroupResponse = client.ask(ApiKey::SyncGroup, 5, &unnamed).await;
    assert_eq!(answer.error_code, ErrorCode::InconsistentGroupProtocol.code());
    for (key_type, error) in [(1, ErrorCode::None), (2, ErrorCode::InvalidRequest), (9, ErrorCode::InvalidRequest)] {
        let request = FindCoordinatorRequest::default().with_key_type(key_type);
        let request = request.with_coordinator_keys(vec![text("x")]);
        let answer: FindCoordinatorResponse = client.ask(ApiKey::FindCoordinator, 6, &request).await;
        assert_eq!(answer.coordinators[0].error_code, error.code());
    }
    let partition = |index: i32, metadata: &str| {
        let metadata = StrBytes::from_string(metadata.to_owned());
        OffsetCommitRequestPartition::default().with_partition_index(index).with_committed_metadata(Some(metadata))
    };
    let topic =
        |name, partitions| OffsetCommitRequestTopic::default().with_name(text(name).into()).with_partitions(partitions);
    let large = "x".repeat(4097);
    let topics = vec![
        topic("t", vec![partition(0, ""), partition(2, ""), partition(1, &large)]),
        topic("gone", vec![partition(0, "")]),
    ];
    let request = OffsetCommitRequest::default().with_group_id(text("g").into()).with_topics(topics);
    let answer: OffsetCommitResponse = client.ask(ApiKey::OffsetCommit, 9, &request).await;
    let codes: Vec<i16> = answer.topics.iter().flat_map(|t| &t.partitions).map(|p| p.error_code).collect();
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    assert_eq!(codes, [0, unknown, ErrorCode::OffsetMetadataTooLarge.code(), unknown]);
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_topic_of_groups_is_internal_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (node, mut client) = broker_in(dir.path(), FAST).await;
    client.coordinator(4, "g").await;
    let ask = MetadataRequest::default().with_topics(None);
    let told: MetadataResponse = client.ask(ApiKey::Metadata, 12, &ask).await;
    let topic = &told.topics[0];
    assert_eq!((topic.name.as_ref().unwrap().as_str(), topic.partitions.len()), ("__consumer_offsets", 5));
    assert!(topic.is_internal);
    let delete = DeleteTopicState::default().with_name(Some(text("__consumer_offsets").into()));
    let delete = DeleteTopicsRequest::default().with_topics(vec![delete]).with_timeout_ms(30_000);
    let answer: DeleteTopicsResponse = client.ask(ApiKey::DeleteTopics, 6, &delete).await;
    assert_eq!(answer.responses[0].error_code, ErrorCode::InvalidRequest.code());
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_and_commits_survive_a_restart_and_a_deleted_topic_takes_its_commits_along() {
    let dir = tempfile::tempdir().unwrap();
    let (node, mut client) = broker_in(dir.path(), FAST).await;
    client.topic("t").await;
    client.coordinator(4, "g").await;
    let joined = member(&mut client, "g").await;
    assert_eq!(client.commit(8, "g", Some(&joined), 11).await, 0);
    node.shut_down().await;
    let (node, mut client) = broker_in(dir.path(), FAST).await;
    assert_eq!(client.coordinator(4, "g").await.0, 0);
    assert_eq!(client.committed(8, "g").await, Ok(11));
    assert_eq!(client.beat(4, "g", &joined).await, 0, "the member and its generation are known");
    let delete = DeleteTopicsRequest::default().with_topic_names(vec![text("t").into()]).with_timeout_ms(30_000);
    let _: DeleteTopicsResponse = client.ask(ApiKey::DeleteTopics, 5, &delete).await;
    client.topic("t").await;
    assert_eq!(client.committed(8, "g").await, Ok(-1));
    let all = OffsetFetchRequestGroup::default().with_group_id(text("g").into()).with_topics(None);
    let all = OffsetFetchRequest::default().with_groups(vec![all]);
    let told: OffsetFetchResponse = client.ask(ApiKey::OffsetFetch, 8, &all).await;
    assert!(told.groups[0].topics.is_empty());
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_waits_does_not_hold_up_a_broker_that_stops() {
    let dir = tempfile::tempdir().unwrap();
    let (node, mut client) = broker_in(dir.path(), &["--group-initial-rebalance-delay=1h"]).await;
    client.coordinator(4, "g").await;
    let request = JoinGroupRequest::default()
        .with_group_id(text("g").into())
        .with_session_timeout_ms(30_000)
        .with_rebalance_timeout_ms(60_000)
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![JoinGroupRequestProtocol::default().with_name(text("range"))]);
    client.send(ApiKey::JoinGroup, 3, &request).await;
    let describe = async |client: &mut Client| -> String {
        let ask = DescribeGroupsRequest::default().with_groups(vec![text("g").into()]);
        let told: DescribeGroupsResponse = client.ask(ApiKey::DescribeGroups, 0, &ask).await;
        told.groups[0].group_state.to_string()
    };
    let mut other = Client::connect(&node).await;
    while describe(&mut other).await != "PreparingRebalance" {}
    let stopping = tokio::spawn(node.shut_down());
    let answer: JoinGroupResponse = client.receive(ApiKey::JoinGroup, 3).await;
    assert_eq!(answer.error_code, ErrorCode::NotCoordinator.code());
    stopping.await.unwrap();
}

/// Asks until the answer is what is waited for.
async fn coordinator_of(nodes: &[Node], group: &'static str, is: impl Fn(i32) -> bool) -> usize {
    let mut client = Client::connect(nodes.last().unwrap()).await;
    let found = async {
        loop {
            let (error, id, _) = client.coordinator(4, group).await;
            if let Some(at) = nodes.iter().position(|node| error == 0 && is(id) && node.cluster().broker_id() == id) {
                return at;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), found).await.expect("no such coordinator")
}

/// The only member of the group commits 42, at whichever broker coordinates for so long: leadership of shards that are new
/// moves to those that are preferred.
async fn committed_as_member(nodes: &[Node]) -> (usize, JoinGroupResponse) {
    loop {
        let coordinator = coordinator_of(nodes, "g", |_| true).await;
        let mut client = Client::connect(&nodes[coordinator]).await;
        let id = client.join(9, "g", &StrBytes::default()).await.member_id;
        let joined = client.join(9, "g", &id).await;
        if joined.error_code == 0
            && client.sync(5, "g", &joined).await.error_code == 0
            && client.commit(8, "g", Some(&joined), 42).await == 0
        {
            return (coordinator, joined);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_coordinator_knows_what_the_last_one_answered() {
    let site = Site::new(3);
    let mut nodes = Vec::new();
    for broker in 0..3 {
        nodes.push(site.start(broker, &[0, 1, 2]).await);
    }
    let mut client = Client::connect(&nodes[2]).await;
    client.topic("t").await;
    let first = coordinator_of(&nodes, "g", |_| true).await;
    for (at, node) in nodes.iter().enumerate().filter(|(at, _)| *at != first) {
        let mut elsewhere = Client::connect(node).await;
        let not_here = ErrorCode::NotCoordinator.code();
        assert_eq!(elsewhere.committed(8, "g").await, Err(not_here), "broker {at}");
        assert_eq!(elsewhere.join(5, "g", &StrBytes::default()).await.error_code, not_here);
    }
    let committed = tokio::time::timeout(Duration::from_secs(60), committed_as_member(&nodes)).await;
    let (first, joined) = committed.expect("nobody coordinates for long enough");
    let stopped = nodes.remove(first);
    let was = stopped.cluster().broker_id();
    stopped.shut_down().await;
    let next = coordinator_of(&nodes, "g", |id| id != was).await;
    let mut client = Client::connect(&nodes[next]).await;
    let ready = async { while client.committed(8, "g").await.is_err() {} };
    tokio::time::timeout(Duration::from_secs(60), ready).await.expect("the new coordinator is never ready");
    assert_eq!(client.committed(8, "g").await, Ok(42));
    assert_eq!(client.beat(4, "g", &joined).await, 0);
    assert_eq!(client.sync(5, "g", &joined).await.assignment, joined.member_id.as_bytes());
    assert_eq!(client.commit(8, "g", Some(&joined), 43).await, 0);
    let older = joined.clone().with_generation_id(joined.generation_id - 1);
    assert_eq!(client.commit(8, "g", Some(&older), 44).await, ErrorCode::IllegalGeneration.code());
    assert_eq!(client.committed(9, "g").await, Ok(43));
    for node in nodes {
        node.shut_down().await;
    }
}
