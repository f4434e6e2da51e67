//! What Kafka calls each way a batch can fail. Anything retriable must be so for Java, librdkafka and franz-go alike.

use crate::batch;
use crate::commit::{self, SlotError};
use crate::protocol::ErrorCode;
use crate::shard::Refusal;

pub(super) fn of_batch(e: &batch::Error) -> ErrorCode {
    match e {
        batch::Error::InvalidMagic(0 | 1) | batch::Error::InvalidRecord(_) | batch::Error::Cut => {
            ErrorCode::InvalidRecord
        }
        // No format that ever was: damage.
        batch::Error::InvalidMagic(_) => ErrorCode::CorruptMessage,
        batch::Error::Keyless(_) => ErrorCode::InvalidRecord,
        batch::Error::InvalidTimestamp(_) | batch::Error::RecordTimes(_) => ErrorCode::InvalidTimestamp,
        batch::Error::Corrupt(_) => ErrorCode::CorruptMessage,
        batch::Error::TooLarge { .. } => ErrorCode::MessageTooLarge,
        batch::Error::UnsupportedCodec(_) => ErrorCode::UnsupportedCompressionType,
        batch::Error::InflatesTooLarge { .. } => ErrorCode::MessageTooLarge,
    }
}

pub(super) fn of_slot(e: SlotError) -> ErrorCode {
    match e {
        SlotError::UnknownPartition => ErrorCode::UnknownTopicOrPartition,
        // No leader can be reached: the client refreshes its metadata and tries again.
        SlotError::Unavailable => ErrorCode::NotLeaderOrFollower,
    }
}

pub(super) fn of_refusal(refusal: Refusal) -> ErrorCode {
    match refusal {
        Refusal::UnknownPartition => ErrorCode::UnknownTopicOrPartition,
        Refusal::StaleProducerEpoch => ErrorCode::InvalidProducerEpoch,
        Refusal::OutOfOrderSequence => ErrorCode::OutOfOrderSequenceNumber,
        Refusal::DuplicateSequence => ErrorCode::DuplicateSequenceNumber,
        // Not OUT_OF_ORDER: that is fatal in librdkafka, and the predecessor may yet come.
        Refusal::SequenceGap => ErrorCode::NotEnoughReplicas,
        Refusal::Forgotten => ErrorCode::RequestTimedOut,
    }
}

pub(super) fn of_commit(e: commit::Error) -> ErrorCode {
    match e {
        commit::Error::Unknown => ErrorCode::RequestTimedOut,
        // Certainly not appended, and worth a retry (a fenced broker is replaced by its next life).
        commit::Error::Fenced | commit::Error::NotStored => ErrorCode::NotEnoughReplicas,
    }
}
