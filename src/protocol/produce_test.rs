use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{ProduceRequest as Generated, TopicName, TransactionalId};
use kafka_protocol::protocol::{Encodable, StrBytes};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::produce::{Limits, ProduceTopic, decode};
use super::{Error, TopicRef};
use crate::types::TopicId;

const ID: TopicId = TopicId::ZERO;

fn text(text: &'static str) -> StrBytes {
    StrBytes::from_static_str(text)
}

fn generated(version: i16, transactional: bool) -> Generated {
    let partition = |index, records| PartitionProduceData::default().with_index(index).with_records(records);
    let topic = |name, partitions| {
        let topic = TopicProduceData::default().with_partition_data(partitions);
        if version >= 13 { topic.with_topic_id(ID.into()) } else { topic.with_name(TopicName(text(name))) }
    };
    Generated::default()
        .with_transactional_id(transactional.then(|| TransactionalId(text("a transaction"))))
        .with_acks(-1)
        .with_timeout_ms(30_000)
        .with_topic_data(vec![
            topic(
                "first",
                vec![
                    partition(0, Some(Bytes::from(vec![7; 300]))),
                    partition(1, None),
                    partition(-2, Some(Bytes::new())),
                ],
            ),
            topic("second", vec![]),
            topic("", vec![partition(i32::MAX, Some(Bytes::from_static(b"x")))]),
        ])
}

fn encoded(version: i16) -> Bytes {
    let mut bytes = BytesMut::new();
    generated(version, true).encode(&mut bytes, version).unwrap();
    bytes.freeze()
}

#[test]
fn decodes_every_version_as_the_generated_codec_wrote_it() {
    for version in 3..=13 {
        for transactional in [false, true] {
            let request = generated(version, transactional);
            let mut bytes = BytesMut::new();
            request.encode(&mut bytes, version).unwrap();
            let decoded = decode(version, bytes.freeze(), &Limits::default()).unwrap();
            assert_eq!(decoded.transactional_id, request.transactional_id.map(|id| id.0));
            assert_eq!((decoded.acks, decoded.timeout_ms), (request.acks, request.timeout_ms));
            assert_eq!(decoded.topics.len(), request.topic_data.len());
            for (topic, expected) in decoded.topics.iter().zip(&request.topic_data) {
                same_topic(version, topic, expected);
            }
        }
    }
}

fn same_topic(version: i16, topic: &ProduceTopic, expected: &TopicProduceData) {
    match &topic.topic {
        TopicRef::Name(name) => assert_eq!((name, version < 13), (&expected.name.0, true)),
        TopicRef::Id(id) => assert_eq!((*id, version >= 13), (TopicId::from(expected.topic_id), true)),
    }
    assert_eq!(topic.partitions.len(), expected.partition_data.len());
    for (partition, expected) in topic.partitions.iter().zip(&expected.partition_data) {
        assert_eq!(partition.index, expected.index);
        assert_eq!(partition.records, expected.records.clone().unwrap_or_default());
    }
}

#[test]
fn records_share_the_frame() {
    for version in [8, 13] {
        let frame = encoded(version);
        let decoded = decode(version, frame.clone(), &Limits::default()).unwrap();
        assert!(frame.as_ptr_range().contains(&decoded.topics[0].partitions[0].records.as_ptr()));
    }
}

#[test]
fn refuses_more_than_the_limits() {
    let topics = Limits { topics_max: 2, ..Limits::default() };
    let partitions = Limits { partitions_max: 3, ..Limits::default() };
    for version in 3..=13 {
        assert!(matches!(decode(version, encoded(version), &topics), Err(Error::TooMany { max: 2, .. })));
        assert!(matches!(decode(version, encoded(version), &partitions), Err(Error::TooMany { max: 0, .. })));
    }
}

#[test]
fn a_claimed_count_is_compared_with_what_came() {
    for (version, count) in [(8i16, i32::MAX.to_be_bytes().to_vec()), (9, vec![0xff, 0xff, 0xff, 0xff, 0x0f])] {
        let mut frame = BytesMut::new();
        if version >= 9 {
            frame.put_u8(0)
        } else {
            frame.put_i16(-1)
        }
        frame.put_i16(-1);
        frame.put_i32(0);
        frame.put_slice(&count);
        let limits = Limits { topics_max: usize::MAX, partitions_max: usize::MAX };
        assert_eq!(decode(version, frame.freeze(), &limits), Err(Error::Cut("topics")));
    }
}

#[test]
fn every_truncation_and_mutation_is_answered() {
    let mut random = StdRng::seed_from_u64(7);
    for version in 3..=13 {
        let frame = encoded(version);
        for cut in 0..frame.len() {
            decode(version, frame.slice(..cut), &Limits::default()).unwrap_err();
        }
        for _ in 0..2_000 {
            let mut bytes = frame.to_vec();
            for _ in 0..random.random_range(1..5) {
                let at = random.random_range(0..bytes.len());
                bytes[at] = random.random();
            }
            let _ = decode(version, Bytes::from(bytes), &Limits::default());
        }
    }
}
