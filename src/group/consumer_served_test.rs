//! Groups of the consumer protocol over sockets of real brokers.

use std::collections::BTreeSet;
use std::time::Duration;

use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::*;
use uuid::Uuid;

use crate::node::Node;
use crate::node::testing::{Client, Site, broker_in, text};
use crate::protocol::{ErrorCode, StrBytes};

pub(super) const FEW: &[&str] = &["--offsets-topic-partitions=3"];

/// A member of group `g`, as its client knows it.
struct Member {
    id: StrBytes,
    epoch: i32,
    owned: BTreeSet<i32>,
}

pub(super) async fn create(client: &mut Client, name: &'static str, partitions: i32) -> Uuid {
    let topic = CreatableTopic::default().with_name(text(name).into()).with_num_partitions(partitions);
    let request = CreateTopicsRequest::default().with_topics(vec![topic.with_replication_factor(-1)]);
    let created: CreateTopicsResponse = client.ask(ApiKey::CreateTopics, 7, &request.with_timeout_ms(30_000)).await;
    assert_eq!(created.topics[0].error_code, 0);
    created.topics[0].topic_id
}

/// The broker that coordinates `g`.
pub(super) async fn coordinator(client: &mut Client) -> (i16, i32) {
    let request = FindCoordinatorRequest::default().with_coordinator_keys(vec![text("g")]);
    let found: FindCoordinatorResponse = client.ask(ApiKey::FindCoordinator, 4, &request).await;
    (found.coordinators[0].error_code, found.coordinators[0].node_id.0)
}

fn heartbeat(member: &StrBytes, epoch: i32) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest::default()
        .with_group_id(text("g").into())
        .with_member_id(member.clone())
        .with_member_epoch(epoch)
}

fn join(member: &StrBytes) -> ConsumerGroupHeartbeatRequest {
    heartbeat(member, 0)
        .with_rebalance_timeout_ms(60_000)
        .with_subscribed_topic_names(Some(vec![text("t").into()]))
        .with_topic_partitions(Some(Vec::new()))
}

async fn beat(
    client: &mut Client,
    version: i16,
    request: &ConsumerGroupHeartbeatRequest,
) -> ConsumerGroupHeartbeatResponse {
    client.ask(ApiKey::ConsumerGroupHeartbeat, version, request).await
}

impl Member {
    async fn joined(client: &mut Client, id: &'static str) -> Member {
        let mut member = Member::new(id);
        assert_eq!(member.join(client).await, 0);
        member
    }

    fn new(id: &'static str) -> Member {
        Member { id: text(id), epoch: 0, owned: BTreeSet::new() }
    }

    async fn join(&mut self, client: &mut Client) -> i16 {
        let told = beat(client, 1, &join(&self.id)).await;
        if told.error_code == 0 {
            self.hear(&told);
        }
        told.error_code
    }

    fn hear(&mut self, told: &ConsumerGroupHeartbeatResponse) {
        self.epoch = told.member_epoch;
        if let Some(assignment) = &told.assignment {
            self.owned = assignment.topic_partitions.iter().flat_map(|topic| topic.partitions.clone()).collect();
        }
    }

    /// Says what it has, having let go of what it was told to. The error, if it is told one.
    async fn obey(&mut self, client: &mut Client, topic: Uuid) -> i16 {
        let owned =
            TopicPartitions::default().with_topic_id(topic).with_partitions(self.owned.iter().copied().collect());
        let owned = if self.owned.is_empty() { Vec::new() } else { vec![owned] };
        let told = beat(client, 1, &heartbeat(&self.id, self.epoch).with_topic_partitions(Some(owned))).await;
        if told.error_code == 0 {
            self.hear(&told);
        }
        told.error_code
    }

    fn commits(&self, epoch: i32, offset: i64) -> OffsetCommitRequest {
        let partition = OffsetCommitRequestPartition::default().with_partition_index(0).with_committed_offset(offset);
        let topic = OffsetCommitRequestTopic::default().with_name(text("t").into()).with_partitions(vec![partition]);
        OffsetCommitRequest::default()
            .with_group_id(text("g").into())
            .with_generation_id_or_member_epoch(epoch)
            .with_member_id(self.id.clone())
            .with_topics(vec![topic])
    }

    async fn commit(&self, client: &mut Client, epoch: i32, offset: i64) -> i16 {
        let answer: OffsetCommitResponse = client.ask(ApiKey::OffsetCommit, 9, &self.commits(epoch, offset)).await;
        answer.topics[0].partitions[0].error_code
    }

    async fn committed(&self, client: &mut Client, epoch: i32) -> Result<i64, i16> {
        let topic = OffsetFetchRequestTopics::default().with_name(text("t").into()).with_partition_indexes(vec![0]);
        let group = OffsetFetchRequestGroup::default()
            .with_group_id(text("g").into())
            .with_member_id(Some(self.id.clone()))
            .with_member_epoch(epoch)
            .with_topics(Some(vec![topic]));
        let request = OffsetFetchRequest::default().with_groups(vec![group]);
        let answer: OffsetFetchResponse = client.ask(ApiKey::OffsetFetch, 9, &request).await;
        let topic = answer.groups[0].topics.first();
        topic.map(|topic| topic.partitions[0].committed_offset).ok_or(answer.groups[0].error_code)
    }
}

async fn describe(
    client: &mut Client,
    version: i16,
    id: &'static str,
) -> consumer_group_describe_response::DescribedGroup {
    let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![text(id).into()]);
    let request = request.with_include_authorized_operations(true);
    let mut told: ConsumerGroupDescribeResponse = client.ask(ApiKey::ConsumerGroupDescribe, version, &request).await;
    told.groups.remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_version_of_the_consumer_protocol_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let (node, mut client) = broker_in(dir.path(), FEW).await;
    let topic = create(&mut client, "t", 2).await;
    assert_eq!(beat(&mut client, 1, &join(&text("a"))).await.error_code, ErrorCode::NotCoordinator.code());
    assert_eq!(coordinator(&mut client).await.0, 0);
    for version in 0..=1 {
        // Clients of version 0 get their id here.
        let id = if version == 0 { StrBytes::default() } else { text("a") };
        let told = beat(&mut client, version, &join(&id)).await;
        assert_eq!((told.error_code, told.heartbeat_interval_ms), (0, 5000), "{:?}", told.error_message);
        let mut member = Member { id: told.member_id.clone().unwrap(), epoch: 0, owned: BTreeSet::new() };
        assert!(!member.id.is_empty());
        member.hear(&told);
        assert_eq!(member.owned, [0, 1].into());
        let quiet = beat(&mut client, version, &heartbeat(&member.id, member.epoch)).await;
        assert_eq!((quiet.error_code, quiet.member_epoch, quiet.assignment), (0, member.epoch, None));
        assert_eq!(member.commit(&mut client, member.epoch, 7).await, 0);
        assert_eq!(member.commit(&mut client, member.epoch + 1, 8).await, ErrorCode::StaleMemberEpoch.code());
        assert_eq!(member.committed(&mut client, member.epoch).await, Ok(7));
        let stale = member.committed(&mut client, member.epoch + 1).await;
        assert_eq!(stale, Err(ErrorCode::StaleMemberEpoch.code()));
        let group = describe(&mut client, version, "g").await;
        assert_eq!(
            (group.error_code, group.group_state.as_str(), group.assignor_name.as_str()),
            (0, "Stable", "uniform")
        );
        assert_eq!((group.group_epoch, group.assignment_epoch), (member.epoch, member.epoch));
        assert!(group.authorized_operations > 0);
        let one = &group.members[0];
        assert_eq!((one.member_epoch, one.client_id.as_str()), (member.epoch, "test,zone=local-0"));
        assert_eq!(one.member_type, if version == 0 { -1 } else { 1 });
        let assigned = &one.assignment.topic_partitions[0];
        assert_eq!((assigned.topic_id, assigned.topic_name.as_str()), (topic, "t"));
        assert_eq!((&assigned.partitions, &one.assignment), (&vec![0, 1], &one.target_assignment));
        let left = beat(&mut client, version, &heartbeat(&member.id, -1)).await;
        assert_eq!((left.error_code, left.member_epoch), (0, -1));
    }
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_that_are_sent_at_once_are_taken_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let (node, mut client) = broker_in(dir.path(), FEW).await;
    create(&mut client, "t", 2).await;
    coordinator(&mut client).await;
    let member = Member::joined(&mut client, "a").await;
    for offset in 0..100 {
        client.send(ApiKey::OffsetCommit, 9, &member.commits(member.epoch, offset)).await;
    }
    for _ in 0..100 {
        let answer: OffsetCommitResponse = client.receive(ApiKey::OffsetCommit, 9).await;
        assert_eq!(answer.topics[0].partitions[0].error_code, 0);
    }
    assert_eq!(member.committed(&mut client, member.epoch).await, Ok(99));
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_see_groups_of_both_protocols() {
    let dir = tempfile::tempdir().unwrap();
    let (node, mut client) = broker_in(dir.path(), FEW).await;
    create(&mut client, "t", 2).await;
    coordinator(&mut client).await;
    let member = Member::joined(&mut client, "a").await;
    let list = async |client: &mut Client, state: &'static str, kind: &'static str| {
        let some = |one: &'static str| if one.is_empty() { Vec::new() } else { vec![text(one)] };
        let request = ListGroupsRequest::default().with_states_filter(some(state)).with_types_filter(some(kind));
        let told: ListGroupsResponse = client.ask(ApiKey::ListGroups, 5, &request).await;
        let told = told.groups.iter().map(|group| (group.group_state.to_string(), group.group_type.to_string()));
        told.collect::<Vec<_>>()
    };
    let stable = vec![("Stable".to_owned(), "consumer".to_owned())];
    assert_eq!(list(&mut client, "", "").await, stable);
    assert_eq!(list(&mut client, "stable", "Consumer").await, stable);
    assert_eq!(list(&mut client, "Empty", "").await, []);
    assert_eq!(list(&mut client, "", "classic").await, []);
    let request = DescribeGroupsRequest::default().with_groups(vec![text("g").into()]);
    let told: DescribeGroupsResponse = client.ask(ApiKey::DescribeGroups, 6, &request).await;
    assert_eq!(told.groups[0].error_code, ErrorCode::GroupIdNotFound.code(), "no classic group");
    Member::joined(&mut client, "b").await;
    beat(&mut client, 1, &heartbeat(&member.id, member.epoch)).await;
    let group = describe(&mut client, 1, "g").await;
    let of = |all: &consumer_group_describe_response::Assignment| all.topic_partitions[0].partitions.clone();
    let one = &group.members[0];
    assert_eq!((of(&one.assignment), of(&one.target_assignment)), (vec![0, 1], vec![0]), "it has not let go yet");
    beat(&mut client, 1, &heartbeat(&text("b"), -1)).await;
    let none = describe(&mut client, 1, "none").await;
    assert_eq!(none.error_message.as_deref(), Some("Group none not found."));
    assert_eq!(none.error_code, ErrorCode::GroupIdNotFound.code());
    let delete = DeleteGroupsRequest::default().with_groups_names(vec![text("g").into()]);
    let told: DeleteGroupsResponse = client.ask(ApiKey::DeleteGroups, 2, &delete).await;
    assert_eq!(told.results[0].error_code, ErrorCode::NonEmptyGroup.code());
    beat(&mut client, 1, &heartbeat(&member.id, -1)).await;
    assert_eq!(describe(&mut client, 1, "g").await.group_state.as_str(), "Empty");
    let told: DeleteGroupsResponse = client.ask(ApiKey::DeleteGroups, 2, &delete).await;
    assert_eq!(told.results[0].error_code, 0);
    assert_eq!(list(&mut client, "", "").await, []);
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_a_heartbeat_is_said_in_kafkas_words() {
    let dir = tempfile::tempdir().unwrap();
    let (node, mut client) = broker_in(dir.path(), FEW).await;
    create(&mut client, "t", 2).await;
    coordinator(&mut client).await;
    let a = text("a");
    let blank = Some(text(" "));
    let invalid = ErrorCode::InvalidRequest;
    let cases = [
        (join(&a).with_group_id(text("").into()), invalid),
        (join(&StrBytes::default()), invalid),
        (join(&a).with_instance_id(blank.clone()), invalid),
        (join(&a).with_rack_id(blank), invalid),
        (join(&a).with_rebalance_timeout_ms(-1), invalid),
        (join(&a).with_topic_partitions(None), invalid),
        (join(&a).with_topic_partitions(Some(vec![TopicPartitions::default()])), invalid),
        (join(&a).with_subscribed_topic_names(None), invalid),
        (heartbeat(&a, -2), invalid),
        (heartbeat(&a, -3), invalid),
        (join(&a).with_server_assignor(Some(text("sticky"))), ErrorCode::UnsupportedAssignor),
        (join(&a).with_subscribed_topic_regex(Some(text("t["))), ErrorCode::InvalidRegularExpression),
        (heartbeat(&a, 3), ErrorCode::GroupIdNotFound),
    ];
    for (request, error) in cases {
        let told = beat(&mut client, 1, &request).await;
        assert_eq!(told.error_code, error.code(), "{request:?}");
        assert!(told.error_message.is_some());
    }
    let by_pattern = join(&a).with_subscribed_topic_names(None).with_subscribed_topic_regex(Some(text("t.*")));
    let told = beat(&mut client, 1, &by_pattern).await;
    assert_eq!(told.assignment.unwrap().topic_partitions[0].partitions, [0, 1]);
    node.shut_down().await;
}

/// The broker that coordinates, once it is one of these.
pub(super) async fn coordinator_among(nodes: &[Node]) -> usize {
    let mut client = Client::connect(nodes.last().unwrap()).await;
    let found = async {
        loop {
            let (error, id) = coordinator(&mut client).await;
            if let Some(at) = nodes.iter().position(|node| error == 0 && node.cluster().broker_id() == id) {
                return at;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), found).await.expect("no such coordinator")
}

/// Asks wherever the coordinator is by now: leadership may move at any time.
pub(super) async fn told<A>(
    nodes: &[Node],
    client: &mut Client,
    mut ask: impl AsyncFnMut(&mut Client) -> A,
    code: impl Fn(&A) -> i16,
) -> A {
    let elsewhere =
        [ErrorCode::CoordinatorLoadInProgress, ErrorCode::CoordinatorNotAvailable, ErrorCode::NotCoordinator];
    let asked = async {
        loop {
            let answer = ask(client).await;
            if !elsewhere.map(ErrorCode::code).contains(&code(&answer)) {
                return answer;
            }
            *client = Client::connect(&nodes[coordinator_among(nodes).await]).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), asked).await.expect("no coordinator is ever ready")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_that_is_lost_between_revoking_and_assigning_gives_nothing_twice() {
    let site = Site::new(3);
    let mut nodes = Vec::new();
    for broker in 0..3 {
        nodes.push(site.start(broker, &[0, 1, 2]).await);
    }
    let mut client = Client::connect(&nodes[2]).await;
    let topic = create(&mut client, "t", 2).await;
    let (mut a, mut b) = (Member::new("a"), Member::new("b"));
    let same = |code: &i16| *code;
    assert_eq!(told(&nodes, &mut client, async |c| a.join(c).await, same).await, 0);
    assert_eq!(told(&nodes, &mut client, async |c| a.commit(c, 1, 42).await, same).await, 0);
    assert_eq!(told(&nodes, &mut client, async |c| b.join(c).await, same).await, 0);
    // A is told to let go of one; before it has said that it did, its coordinator is gone.
    let quiet = heartbeat(&a.id, a.epoch);
    let revoked = told(&nodes, &mut client, async |c| beat(c, 1, &quiet).await, |told| told.error_code).await;
    assert_eq!(revoked.assignment.as_ref().unwrap().topic_partitions[0].partitions, [0]);
    let lost = coordinator_among(&nodes).await;
    nodes.remove(lost).shut_down().await;
    client = Client::connect(&nodes[0]).await;
    assert_eq!(told(&nodes, &mut client, async |c| b.obey(c, topic).await, same).await, 0);
    assert_eq!((b.epoch, &b.owned), (2, &BTreeSet::new()), "a still has it");
    assert_eq!(told(&nodes, &mut client, async |c| a.obey(c, topic).await, same).await, 0);
    assert_eq!(a.epoch, 1, "it has not let go");
    assert_eq!(told(&nodes, &mut client, async |c| b.obey(c, topic).await, same).await, 0);
    assert!(b.owned.is_empty());
    a.hear(&revoked);
    assert_eq!(told(&nodes, &mut client, async |c| a.obey(c, topic).await, same).await, 0);
    assert_eq!(a.epoch, 2);
    assert_eq!(told(&nodes, &mut client, async |c| b.obey(c, topic).await, same).await, 0);
    assert_eq!(b.owned, BTreeSet::from([1]));
    // Nobody had to join again, and what an older epoch commits is refused.
    let stale = told(&nodes, &mut client, async |c| a.commit(c, 1, 43).await, same).await;
    assert_eq!(stale, ErrorCode::StaleMemberEpoch.code());
    let found = told(&nodes, &mut client, async |c| a.committed(c, 2).await, |found| found.err().unwrap_or(0)).await;
    assert_eq!(found, Ok(42));
    for node in nodes {
        node.shut_down().await;
    }
}
