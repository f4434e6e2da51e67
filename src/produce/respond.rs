use kafka_protocol::messages::TopicName;
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, ProduceResponse, TopicProduceResponse};

use crate::batch::Segments;
use crate::protocol::{self, ErrorCode, TopicRef};
use crate::types::{Offset, Timestamp};

pub(super) struct TopicAnswer {
    pub topic: TopicRef,
    pub partitions: Vec<PartitionAnswer>,
}

pub(super) struct PartitionAnswer {
    pub index: i32,
    pub error: ErrorCode,
    pub base_offset: Offset,
    /// Set where the topic stamps records on append.
    pub append_time: Option<Timestamp>,
}

impl PartitionAnswer {
    pub fn failed(index: i32, error: ErrorCode) -> Self {
        PartitionAnswer { index, error, base_offset: -1, append_time: None }
    }
}

pub(super) fn first_error(topics: &[TopicAnswer]) -> Option<ErrorCode> {
    let errors = topics.iter().flat_map(|t| &t.partitions).map(|p| p.error);
    errors.into_iter().find(|error| *error != ErrorCode::None)
}

pub(super) fn encode(version: i16, topics: Vec<TopicAnswer>) -> Result<Segments, protocol::Error> {
    let responses = topics.into_iter().map(|TopicAnswer { topic, partitions }| {
        let response = TopicProduceResponse::default()
            .with_partition_responses(partitions.into_iter().map(partition).collect());
        match topic {
            TopicRef::Name(name) => response.with_name(TopicName(name)),
            TopicRef::Id(id) => response.with_topic_id(id.into()),
        }
    });
    protocol::encode(version, &ProduceResponse::default().with_responses(responses.collect()))
}

fn partition(answer: PartitionAnswer) -> PartitionProduceResponse {
    PartitionProduceResponse::default()
        .with_index(answer.index)
        .with_error_code(answer.error.code())
        .with_base_offset(answer.base_offset)
        .with_log_append_time_ms(answer.append_time.unwrap_or(-1))
        .with_log_start_offset(if answer.error == ErrorCode::None { 0 } else { -1 })
        .with_error_message(None)
}
