//! What a delivery report says of a record: the error code alone does not tell whether it may be in the log.

use rdkafka::bindings::{rd_kafka_message_status, rd_kafka_msg_status_t as Status};
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::producer::DeliveryResult;

use crate::event::Fate;

/// The fate of one record, and the error that came with it.
pub fn of(result: &DeliveryResult<'_>) -> (Fate, Option<String>) {
    let (message, error) = match result {
        Ok(message) => (message, None),
        Err((error, message)) => (message, Some(error.rdkafka_error_code().unwrap_or(Code::Fail))),
    };
    (classify(status(message), error, message.offset()), error.map(|code| format!("{code:?}")))
}

fn status(message: &BorrowedMessage<'_>) -> Status {
    // SAFETY: the pointer is the one librdkafka gave to the delivery callback that we are in, and the message lives
    // until that callback returns.
    unsafe { rd_kafka_message_status(message.ptr()) }
}

fn classify(status: Status, error: Option<Code>, offset: i64) -> Fate {
    match (error, status) {
        (None, Status::RD_KAFKA_MSG_STATUS_PERSISTED) if offset >= 0 => Fate::At(offset),
        (None, Status::RD_KAFKA_MSG_STATUS_PERSISTED) => Fate::Somewhere,
        (Some(code), Status::RD_KAFKA_MSG_STATUS_NOT_PERSISTED) if is_definite(code) => Fate::Refused,
        _ => Fate::Unknown,
    }
}

/// Not NotLeaderForPartition: a leader may append and lose its office before it answers. Not PurgeQueue: librdkafka
/// drops a broker that Metadata no longer names, takes what was on its way there for not persisted
/// (`RD_KAFKA_RESP_ERR__DESTROY_BROKER` in `rd_kafka_err_action`), and puts it back into the queue.
fn is_definite(code: Code) -> bool {
    matches!(
        code,
        Code::TopicAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::TransactionalIdAuthorizationFailed
            | Code::InvalidTopic
            | Code::UnknownTopic
            | Code::UnknownTopicOrPartition
            | Code::UnknownPartition
            | Code::MessageSizeTooLarge
            | Code::InvalidMessage
            | Code::InvalidRecord
            | Code::InvalidProducerEpoch
            | Code::ProducerFenced
            | Code::OutOfOrderSequenceNumber
            | Code::InvalidReplicationFactor
            | Code::UnsupportedVersion
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_status_and_not_the_code_alone() {
        let (persisted, possibly, not) = (
            Status::RD_KAFKA_MSG_STATUS_PERSISTED,
            Status::RD_KAFKA_MSG_STATUS_POSSIBLY_PERSISTED,
            Status::RD_KAFKA_MSG_STATUS_NOT_PERSISTED,
        );
        let table = [
            (persisted, None, 7, Fate::At(7)),
            (persisted, None, -1001, Fate::Somewhere),
            (not, Some(Code::PurgeQueue), -1001, Fate::Unknown),
            (not, Some(Code::MessageSizeTooLarge), -1001, Fate::Refused),
            (not, Some(Code::MessageTimedOut), -1001, Fate::Unknown),
            (not, Some(Code::NotLeaderForPartition), -1001, Fate::Unknown),
            (not, Some(Code::NotEnoughReplicasAfterAppend), -1001, Fate::Unknown),
            (possibly, Some(Code::PurgeInflight), -1001, Fate::Unknown),
            (possibly, Some(Code::OutOfOrderSequenceNumber), -1001, Fate::Unknown),
            (possibly, None, 7, Fate::Unknown),
        ];
        for (status, error, offset, due) in table {
            assert_eq!(classify(status, error, offset), due, "{error:?}");
        }
    }
}
