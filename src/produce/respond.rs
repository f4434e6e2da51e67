use kafka_protocol::messages::TopicName;
use kafka_protocol::messages::produce_response::{
    BatchIndexAndErrorMessage, PartitionProduceResponse, ProduceResponse, TopicProduceResponse,
};

use crate::batch::Segments;
use crate::produce::failure::{Failure, Rejected};
use crate::protocol::{self, ErrorCode, StrBytes, TopicRef};
use crate::types::{Offset, Timestamp};

pub(super) struct TopicAnswer {
    pub topic: TopicRef,
    pub partitions: Vec<PartitionAnswer>,
}

pub(super) struct PartitionAnswer {
    pub index: i32,
    pub error: ErrorCode,
    pub rejected: Option<Box<Rejected>>,
    pub base_offset: Offset,
    /// Set where the topic stamps records on append.
    pub append_time: Option<Timestamp>,
}

impl PartitionAnswer {
    pub fn failed(index: i32, error: ErrorCode) -> Self {
        PartitionAnswer { index, error, rejected: None, base_offset: -1, append_time: None }
    }

    pub fn refused(index: i32, failure: Failure) -> Self {
        PartitionAnswer { rejected: failure.rejected, ..Self::failed(index, failure.error) }
    }
}

pub(super) fn first_error(topics: &[TopicAnswer]) -> Option<ErrorCode> {
    let errors = topics.iter().flat_map(|t| &t.partitions).map(|p| p.error);
    errors.into_iter().find(|error| *error != ErrorCode::None)
}

pub(super) fn encode(version: i16, topics: Vec<TopicAnswer>) -> Result<Segments, protocol::Error> {
    let responses = topics.into_iter().map(|TopicAnswer { topic, partitions }| {
        let response = TopicProduceResponse::default()
            .with_partition_responses(partitions.into_iter().map(|answer| partition(version, answer)).collect());
        match topic {
            TopicRef::Name(name) => response.with_name(TopicName(name)),
            TopicRef::Id(id) => response.with_topic_id(id.into()),
        }
    });
    protocol::encode(version, &ProduceResponse::default().with_responses(responses.collect()))
}

fn partition(version: i16, answer: PartitionAnswer) -> PartitionProduceResponse {
    // The two fields came with version 8 (KIP-467).
    let Rejected { message, records } = *answer.rejected.filter(|_| version >= 8).unwrap_or_default();
    let records = records.into_iter().map(|(at, why)| {
        let why = Some(StrBytes::from_string(why));
        BatchIndexAndErrorMessage::default().with_batch_index(at).with_batch_index_error_message(why)
    });
    // The log start offset stays -1, unknown: it may be known in other zones only, and serves to tell what an
    // UNKNOWN_PRODUCER_ID means, which nobody is answered.
    PartitionProduceResponse::default()
        .with_index(answer.index)
        .with_error_code(answer.error.code())
        .with_base_offset(answer.base_offset)
        .with_log_append_time_ms(answer.append_time.unwrap_or(-1))
        .with_record_errors(records.collect())
        .with_error_message((!message.is_empty()).then(|| StrBytes::from_string(message)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_can_carry_success_and_failure() {
        for version in 3..=13 {
            let topic = match version {
                13 => TopicRef::Id(crate::types::TopicId::from_bytes([7; 16])),
                _ => TopicRef::Name(StrBytes::from_static_str("t")),
            };
            let good = PartitionAnswer {
                index: 0,
                error: ErrorCode::None,
                rejected: None,
                base_offset: 7,
                append_time: Some(9),
            };
            let rejected = Rejected { message: "m".into(), records: vec![(3, "r".into())] };
            let (error, rejected) = (ErrorCode::NotEnoughReplicas, Some(Box::new(rejected)));
            let bad = PartitionAnswer::refused(1, Failure { error, rejected });
            let encoded = encode(version, vec![TopicAnswer { topic, partitions: vec![good, bad] }]).unwrap();
            let body = bytes::Bytes::from(encoded.to_vec());
            let response: ProduceResponse = protocol::decode(version, body).unwrap();
            let partitions = &response.responses[0].partition_responses;
            assert_eq!((partitions[0].base_offset, partitions[0].log_append_time_ms), (7, 9), "version {version}");
            assert_eq!(partitions[1].error_code, ErrorCode::NotEnoughReplicas.code());
        }
    }
}
