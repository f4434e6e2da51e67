//! The offsets of share groups over sockets of a real broker: seen, set, forgotten.

use std::time::Duration;

use kafka_protocol::messages::alter_share_group_offsets_request::{
    AlterShareGroupOffsetsRequestPartition, AlterShareGroupOffsetsRequestTopic,
};
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::delete_share_group_offsets_request::DeleteShareGroupOffsetsRequestTopic;
use kafka_protocol::messages::describe_share_group_offsets_request::{
    DescribeShareGroupOffsetsRequestGroup, DescribeShareGroupOffsetsRequestTopic,
};
use kafka_protocol::messages::*;

use crate::node::testing::{Client, TOPIC, text};
use crate::protocol::ErrorCode;
use crate::share::served_test::{ACCEPT, Member, PATIENCE, stage};

/// The group has a member, then none.
async fn form_group(client: &mut Client) {
    let request = FindCoordinatorRequest::default().with_coordinator_keys(vec![text("g")]);
    let beat = |epoch| {
        ShareGroupHeartbeatRequest::default()
            .with_group_id(text("g").into())
            .with_member_id(text("m"))
            .with_member_epoch(epoch)
            .with_subscribed_topic_names(Some(vec![text(TOPIC).into()]))
    };
    let formed = async {
        loop {
            let found: FindCoordinatorResponse = client.ask(ApiKey::FindCoordinator, 4, &request).await;
            let joined: ShareGroupHeartbeatResponse = client.ask(ApiKey::ShareGroupHeartbeat, 1, &beat(0)).await;
            if (found.coordinators[0].error_code, joined.error_code) == (0, 0) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, formed).await.expect("there is a coordinator at last");
    let start = alter(client, 0).await;
    assert_eq!(start, Err(ErrorCode::NonEmptyGroup.code()), "it has a member");
    assert_eq!(
        describe(client, true).await.map(|told| told.len()),
        Ok(1),
        "what it reads, whether it has fetched or not"
    );
    let left: ShareGroupHeartbeatResponse = client.ask(ApiKey::ShareGroupHeartbeat, 1, &beat(-1)).await;
    assert_eq!(left.error_code, 0);
}

async fn describe(client: &mut Client, all: bool) -> Result<Vec<i64>, i16> {
    let topic = DescribeShareGroupOffsetsRequestTopic::default().with_topic_name(text(TOPIC).into());
    let group = DescribeShareGroupOffsetsRequestGroup::default()
        .with_group_id(text("g").into())
        .with_topics((!all).then(|| vec![topic.with_partitions(vec![0])]));
    let request = DescribeShareGroupOffsetsRequest::default().with_groups(vec![group]);
    let answer: DescribeShareGroupOffsetsResponse = client.ask(ApiKey::DescribeShareGroupOffsets, 0, &request).await;
    match answer.groups[0].error_code {
        0 => Ok(answer.groups[0].topics.iter().flat_map(|topic| &topic.partitions).map(|p| p.start_offset).collect()),
        error => Err(error),
    }
}

async fn alter(client: &mut Client, start: i64) -> Result<i16, i16> {
    let partition = AlterShareGroupOffsetsRequestPartition::default().with_start_offset(start);
    let topic = AlterShareGroupOffsetsRequestTopic::default().with_topic_name(text(TOPIC).into());
    let request = AlterShareGroupOffsetsRequest::default()
        .with_group_id(text("g").into())
        .with_topics(vec![topic.with_partitions(vec![partition])]);
    let answer: AlterShareGroupOffsetsResponse = client.ask(ApiKey::AlterShareGroupOffsets, 0, &request).await;
    match answer.error_code {
        0 => Ok(answer.responses[0].partitions[0].error_code),
        error => Err(error),
    }
}

async fn delete(client: &mut Client) -> i16 {
    let topic = DeleteShareGroupOffsetsRequestTopic::default().with_topic_name(text(TOPIC).into());
    let request = DeleteShareGroupOffsetsRequest::default().with_group_id(text("g").into()).with_topics(vec![topic]);
    let answer: DeleteShareGroupOffsetsResponse = client.ask(ApiKey::DeleteShareGroupOffsets, 0, &request).await;
    assert_eq!(answer.error_code, 0);
    answer.responses[0].error_code
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_a_group_is_can_be_seen_set_and_forgotten() {
    let (node, mut client, _, id, _dir) = stage(10).await;
    form_group(&mut client).await;
    assert_eq!(describe(&mut client, true).await, Ok(vec![]));
    assert_eq!(describe(&mut client, false).await, Ok(vec![-1]));
    assert_eq!(delete(&mut client).await, ErrorCode::UnknownTopicOrPartition.code());
    let mut a = Member::new(&node, "a", id).await;
    assert_eq!(a.acquire(4, 10_000).await, [(0, 3, 1)]);
    assert_eq!(a.acknowledge(0, 1, &[ACCEPT]).await, 0);
    assert_eq!(describe(&mut client, true).await, Ok(vec![2]));
    assert_eq!(alter(&mut client, 7).await, Ok(0));
    assert_eq!(describe(&mut client, false).await, Ok(vec![7]));
    assert_eq!(a.acquire(100, 10_000).await, [(7, 9, 1)]);
    assert_eq!(a.acknowledge(2, 3, &[ACCEPT]).await, 0, "what is below the start is over");
    assert_eq!(delete(&mut client).await, 0);
    assert_eq!(describe(&mut client, true).await, Ok(vec![]));
    assert_eq!(a.acquire(100, 10_000).await, [(0, 9, 1)], "it begins anew");
    let request = DeleteGroupsRequest::default().with_groups_names(vec![text("g").into()]);
    let deleted: DeleteGroupsResponse = client.ask(ApiKey::DeleteGroups, 2, &request).await;
    assert_eq!(deleted.results[0].error_code, 0);
    assert_eq!(describe(&mut client, true).await, Ok(vec![]), "it is no more");
    assert_eq!(describe(&mut client, false).await, Ok(vec![-1]));
    assert_eq!(alter(&mut client, 5).await, Ok(0), "before anybody has joined");
    assert_eq!(describe(&mut client, true).await, Ok(vec![5]));
    let deleted: DeleteGroupsResponse = client.ask(ApiKey::DeleteGroups, 2, &request).await;
    assert_eq!(deleted.results[0].error_code, 0);
    form_group(&mut client).await;
    assert_eq!(describe(&mut client, true).await, Ok(vec![]), "nothing is left of the group before");
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_misses_nothing_of_a_partition_that_comes_to_its_topic() {
    let (node, mut client, _, id, _dir) = stage(3).await;
    form_group(&mut client).await;
    assert_eq!(Member::new(&node, "a", id).await.acquire(2, 10_000).await, [(0, 1, 1)]);
    let topic = CreatePartitionsTopic::default().with_name(text(TOPIC).into()).with_count(2).with_assignments(None);
    let request = CreatePartitionsRequest::default().with_topics(vec![topic]).with_timeout_ms(60_000);
    let told: CreatePartitionsResponse = client.ask(ApiKey::CreatePartitions, 3, &request).await;
    assert_eq!(told.results[0].error_code, 0);
    assert_eq!(describe(&mut client, true).await, Ok(vec![0, 0]), "it is there before anybody asks for its records");
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_of_a_groups_offsets_is_not_there_is_told_in_kafkas_words() {
    let (node, mut client, _, _, _dir) = stage(1).await;
    form_group(&mut client).await;
    let topics = |names: &[&'static str], index| {
        let partition = AlterShareGroupOffsetsRequestPartition::default().with_partition_index(index);
        let of = |name: &&'static str| AlterShareGroupOffsetsRequestTopic::default().with_topic_name(text(name).into());
        names.iter().map(|name| of(name).with_partitions(vec![partition.clone()])).collect::<Vec<_>>()
    };
    let alter = async |client: &mut Client, group: &'static str, topics: Vec<AlterShareGroupOffsetsRequestTopic>| {
        let request = AlterShareGroupOffsetsRequest::default().with_group_id(text(group).into()).with_topics(topics);
        let told: AlterShareGroupOffsetsResponse = client.ask(ApiKey::AlterShareGroupOffsets, 0, &request).await;
        told
    };
    let delete = async |client: &mut Client, group: &'static str, topic: &'static str| {
        let topic = DeleteShareGroupOffsetsRequestTopic::default().with_topic_name(text(topic).into());
        let request = DeleteShareGroupOffsetsRequest::default().with_group_id(text(group).into());
        let request = request.with_topics(vec![topic]);
        let told: DeleteShareGroupOffsetsResponse = client.ask(ApiKey::DeleteShareGroupOffsets, 0, &request).await;
        told
    };
    for asked in [topics(&["none"], 0), topics(&[TOPIC], 9), Vec::new()] {
        let told = alter(&mut client, "new", asked).await;
        assert_eq!(told.error_code, 0);
        for one in told.responses.iter().flat_map(|topic| &topic.partitions) {
            let due = (ErrorCode::UnknownTopicOrPartition.code(), "This server does not host this topic-partition.");
            assert_eq!((one.error_code, one.error_message.as_deref().unwrap_or_default()), due);
        }
    }
    let told = delete(&mut client, "new", TOPIC).await;
    let due = (ErrorCode::GroupIdNotFound.code(), Some("Group new not found."));
    assert_eq!((told.error_code, told.error_message.as_deref()), due, "nothing was made");
    let due = (ErrorCode::InvalidGroupId.code(), Some("The group id is invalid."));
    let told = alter(&mut client, "", topics(&[TOPIC], 0)).await;
    assert_eq!((told.error_code, told.error_message.as_deref()), due);
    let told = delete(&mut client, "", TOPIC).await;
    assert_eq!((told.error_code, told.error_message.as_deref()), due);
    for (topic, why) in [
        (TOPIC, "There is no offset information to delete."),
        ("none", "This server does not host this topic-partition."),
    ] {
        let told = delete(&mut client, "g", topic).await;
        let one = &told.responses[0];
        let due = (ErrorCode::UnknownTopicOrPartition.code(), Some(why));
        assert_eq!((one.error_code, one.error_message.as_deref()), due);
    }
    // Whoever names a partition twice means the last.
    let twice = topics(&[TOPIC, TOPIC], 0).into_iter().enumerate().map(|(at, mut topic)| {
        topic.partitions[0].start_offset = at as i64;
        topic
    });
    let told = alter(&mut client, "g", twice.collect()).await;
    assert!(told.responses.iter().all(|topic| topic.partitions[0].error_code == 0));
    assert_eq!(describe(&mut client, true).await, Ok(vec![1]));
    node.shut_down().await;
}
