use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::fetch_response::{
    AbortedTransaction as GeneratedAborted, EpochEndOffset, FetchableTopicResponse, LeaderIdAndEpoch,
    NodeEndpoint as GeneratedNode, PartitionData,
};
use kafka_protocol::messages::{BrokerId, FetchResponse as Generated, TopicName};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};

use super::fetch::*;
use super::{Error, ErrorCode, TopicRef};
use crate::batch::Segments;
use crate::types::TopicId;

const ID: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

fn records() -> Bytes {
    Bytes::from(vec![0xab; 5_000])
}

fn ours(version: i16) -> FetchResponse {
    let topic = if version >= 13 {
        TopicRef::Id(TopicId::from_bytes(ID))
    } else {
        TopicRef::Name(StrBytes::from_static_str("a topic"))
    };
    let mut segments = Segments::new();
    segments.put(b"header of a batch");
    segments.share(records());
    let full = FetchPartition {
        index: 3,
        error: ErrorCode::None,
        high_watermark: 1_000,
        last_stable_offset: 900,
        log_start_offset: 10,
        aborted: Some(vec![
            AbortedTransaction { producer_id: 5, first_offset: 20 },
            AbortedTransaction { producer_id: 6, first_offset: 30 },
        ]),
        preferred_read_replica: (version >= 11).then_some(2),
        records: segments,
        diverging_epoch: (version >= 12).then_some(EpochEnd { epoch: 4, end_offset: 77 }),
        current_leader: None,
    };
    let wrong_broker = FetchPartition {
        current_leader: (version >= 12).then_some(CurrentLeader { leader: 1, epoch: 8 }),
        ..FetchPartition::failed(4, ErrorCode::NotLeaderOrFollower)
    };
    let mut node_endpoints = Vec::new();
    if version >= 16 {
        let host = StrBytes::from_static_str("broker-1");
        let rack = Some(StrBytes::from_static_str("az1"));
        node_endpoints.push(NodeEndpoint { node: 1, host: host.clone(), port: 9092, rack });
        node_endpoints.push(NodeEndpoint { node: 2, host, port: 65_535, rack: None });
    }
    FetchResponse {
        throttle_time_ms: 11,
        error: ErrorCode::None,
        session_id: if version >= 7 { 12 } else { 0 },
        topics: vec![
            FetchTopic { topic: topic.clone(), partitions: vec![full, wrong_broker] },
            FetchTopic { topic, partitions: vec![] },
        ],
        node_endpoints,
    }
}

fn generated(version: i16) -> Generated {
    let named = |partitions| {
        let topic = FetchableTopicResponse::default().with_partitions(partitions);
        if version >= 13 {
            topic.with_topic_id(TopicId::from_bytes(ID).into())
        } else {
            topic.with_topic(TopicName(StrBytes::from_static_str("a topic")))
        }
    };
    let aborted = |id: i64, first| GeneratedAborted::default().with_producer_id(id.into()).with_first_offset(first);
    let mut full = PartitionData::default()
        .with_partition_index(3)
        .with_high_watermark(1_000)
        .with_last_stable_offset(900)
        .with_log_start_offset(10)
        .with_aborted_transactions(Some(vec![aborted(5, 20), aborted(6, 30)]))
        .with_records(Some(Bytes::from([b"header of a batch".as_slice(), &records()].concat())));
    let mut wrong_broker = PartitionData::default()
        .with_partition_index(4)
        .with_error_code(6)
        .with_high_watermark(-1)
        .with_aborted_transactions(None);
    if version >= 11 {
        full = full.with_preferred_read_replica(BrokerId(2));
    }
    if version >= 12 {
        full = full.with_diverging_epoch(EpochEndOffset::default().with_epoch(4).with_end_offset(77));
        let leader = LeaderIdAndEpoch::default().with_leader_id(BrokerId(1)).with_leader_epoch(8);
        wrong_broker = wrong_broker.with_current_leader(leader);
    }
    let node = |id, port| {
        GeneratedNode::default()
            .with_node_id(BrokerId(id))
            .with_host(StrBytes::from_static_str("broker-1"))
            .with_port(port)
    };
    let mut response = Generated::default()
        .with_throttle_time_ms(11)
        .with_responses(vec![named(vec![full, wrong_broker]), named(vec![])]);
    if version >= 7 {
        response = response.with_session_id(12);
    }
    if version >= 16 {
        response = response.with_node_endpoints(vec![
            node(1, 9092).with_rack(Some(StrBytes::from_static_str("az1"))),
            node(2, 65_535).with_rack(None),
        ]);
    }
    response
}

#[test]
fn encodes_every_version_byte_for_byte_as_the_generated_codec() {
    for version in 4..=18 {
        let mut expected = BytesMut::new();
        generated(version).encode(&mut expected, version).unwrap();
        let bytes = encode(version, ours(version)).unwrap().to_vec();
        assert_eq!(bytes, expected, "version {version}");
        let mut bytes = Bytes::from(bytes);
        Generated::decode(&mut bytes, version).unwrap();
        assert!(bytes.is_empty());
    }
}

#[test]
fn fields_that_an_old_version_lacks_are_left_out() {
    for version in 4..12 {
        let mut response = ours(version);
        response.session_id = 12;
        let partition = &mut response.topics[0].partitions[0];
        partition.diverging_epoch = Some(EpochEnd { epoch: 1, end_offset: 2 });
        partition.current_leader = Some(CurrentLeader { leader: 1, epoch: 2 });
        let expected = encode(version, ours(version)).unwrap().to_vec();
        assert_eq!(encode(version, response).unwrap().to_vec().len(), expected.len());
    }
}

#[test]
fn record_bytes_are_shared() {
    let shared = records();
    let mut response = ours(18);
    response.topics[0].partitions[0].records = Segments::from(shared.clone());
    let chunks = encode(18, response).unwrap().into_chunks();
    assert!(chunks.iter().any(|chunk| chunk.as_ptr() == shared.as_ptr()));
}

#[test]
fn a_topic_must_be_named_as_the_version_demands() {
    assert!(matches!(encode(13, ours(12)), Err(Error::Invalid(_))));
    assert!(matches!(encode(12, ours(13)), Err(Error::Invalid(_))));
}
