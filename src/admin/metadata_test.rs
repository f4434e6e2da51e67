use std::collections::HashMap;

use bytes::Bytes;
use kafka_protocol::messages::MetadataResponse;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use crate::admin::metadata::{Told, asked};
use crate::admin::{leaders, sample};
use crate::cluster::{RootEntry, RootState};
use crate::protocol::{ErrorCode, TopicRef, decode, encode};
use crate::types::{Partition, ShardId, TopicId};

fn named(name: &'static str) -> MetadataRequestTopic {
    MetadataRequestTopic::default().with_name(Some(StrBytes::from_static_str(name).into()))
}

fn by_name(name: &'static str) -> TopicRef {
    TopicRef::Name(StrBytes::from_static_str(name))
}

fn tell(view: &RootState, zone: Option<&str>, wanted: &TopicRef) -> MetadataResponseTopic {
    let failed = HashMap::from([(by_name("failed"), ErrorCode::LeaderNotAvailable)]);
    let placed = leaders::place(view, zone, |_| None);
    Told { view, placed, epoch: |shard: ShardId, _: &Partition| (shard != 2).then_some(40) }.answer(wanted, &failed)
}

fn code(view: &RootState, wanted: &TopicRef) -> i16 {
    tell(view, None, wanted).error_code
}

#[test]
fn all_topics_are_asked_for_by_null_and_in_version_zero_by_nothing() {
    assert_eq!(asked(0, Some(vec![])), None);
    assert_eq!(asked(1, Some(vec![])), Some(vec![]));
    assert_eq!(asked(1, None), None);
    assert_eq!(asked(0, Some(vec![named("a")])), Some(vec![by_name("a")]));
}

#[test]
fn topics_are_asked_for_by_name_or_id_and_answered_once() {
    let id = Uuid::from_bytes([3; 16]);
    let with_id = MetadataRequestTopic::default().with_name(None).with_topic_id(id);
    let nameless = MetadataRequestTopic::default().with_name(None);
    let topics = vec![named("a"), with_id.clone(), named("a"), with_id.clone(), nameless];
    assert_eq!(asked(12, Some(topics)), Some(vec![by_name("a"), TopicRef::Id(id.into()), by_name("")]));
    assert_eq!(asked(11, Some(vec![with_id.with_name(named("b").name)])), Some(vec![by_name("b")]));
}

#[test]
fn shows_live_partitions_with_their_true_replicas_and_epoch() {
    let mut view = sample::cluster(&["a", "b", "c"]);
    let id = sample::topic(&mut view, "t", 1, 6, 4);
    sample::set_dead(&mut view, 2);
    let topic = tell(&view, None, &by_name("t"));
    assert_eq!((topic.error_code, topic.topic_id), (0, id.into()));
    assert_eq!(topic.partitions.len(), 4, "two are still being created");
    for partition in &topic.partitions {
        let ids = |brokers: &[kafka_protocol::messages::BrokerId]| brokers.iter().map(|b| b.0).collect::<Vec<_>>();
        let shard = view.topic(id).unwrap().placement[partition.partition_index as usize];
        let preferred = shard as i32 - 1;
        assert_eq!(partition.leader_id.0, if preferred == 2 { 0 } else { preferred });
        assert_eq!(partition.leader_epoch, if shard == 2 { -1 } else { 40 });
        assert_eq!(ids(&partition.replica_nodes)[0], preferred);
        assert_eq!((partition.replica_nodes.len(), partition.isr_nodes.len()), (3, 2));
        assert_eq!(ids(&partition.offline_replicas), [2]);
    }
    let in_zone_b = tell(&view, Some("b"), &by_name("t"));
    assert!(in_zone_b.partitions.iter().all(|partition| partition.leader_id.0 == 1));
    assert_eq!(tell(&view, Some("c"), &by_name("t")), topic, "a zone without live brokers is served elsewhere");
}

#[test]
fn what_cannot_be_shown_has_kafkas_code() {
    let mut view = sample::cluster(&["a"]);
    let id = sample::topic(&mut view, "deleting", 1, 1, 1);
    view.apply(RootEntry::DeleteTopic { topic: id, epoch: 0 });
    sample::topic(&mut view, "creating", 2, 1, 0);
    assert_eq!(code(&view, &by_name("creating")), ErrorCode::LeaderNotAvailable.code());
    assert_eq!(code(&view, &by_name("deleting")), ErrorCode::UnknownTopicOrPartition.code());
    assert_eq!(code(&view, &TopicRef::Id(id)), ErrorCode::UnknownTopicId.code());
    assert_eq!(code(&view, &TopicRef::Id(TopicId::from_bytes([9; 16]))), ErrorCode::UnknownTopicId.code());
    assert_eq!(code(&view, &by_name("a b")), ErrorCode::InvalidTopic.code());
    assert_eq!(code(&view, &by_name("failed")), ErrorCode::LeaderNotAvailable.code());
}

#[test]
fn partitions_without_any_live_replica_have_no_leader() {
    let mut view = sample::cluster(&["a"]);
    sample::topic(&mut view, "t", 1, 1, 1);
    sample::set_dead(&mut view, 0);
    let topic = tell(&view, Some("a"), &by_name("t"));
    let partition = &topic.partitions[0];
    assert_eq!((partition.leader_id.0, partition.error_code), (-1, ErrorCode::LeaderNotAvailable.code()));
}

#[test]
fn every_version_can_carry_the_answer() {
    let mut view = sample::cluster(&["a", "b"]);
    let id = sample::topic(&mut view, "t", 1, 2, 2);
    for version in 0..=13 {
        let mut topics = vec![tell(&view, None, &by_name("t")), tell(&view, None, &by_name("u"))];
        if version >= 12 {
            topics.push(tell(&view, None, &TopicRef::Id(id)));
            topics.push(tell(&view, None, &TopicRef::Id(TopicId::from_bytes([9; 16]))));
        }
        let answer = MetadataResponse::default().with_topics(topics.clone());
        let bytes = Bytes::from(encode(version, &answer).unwrap().to_vec());
        let read: MetadataResponse = decode(version, bytes).unwrap();
        assert_eq!(read.topics.len(), topics.len());
    }
}
