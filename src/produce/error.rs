//! What Kafka calls each way a batch can fail. Anything retriable must be so for Java, librdkafka and franz-go alike.

use crate::batch;
use crate::commit::{self, SlotError};
use crate::protocol::ErrorCode;
use crate::shard::Refusal;

/// TRANSACTION_ABORTABLE is known to producers from here on (KIP-890).
const ABORTABLE_SINCE: i16 = 11;

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

/// `assumed`: the batch's transaction was not asked for at the coordinator.
pub(super) fn of_refusal(refusal: Refusal, assumed: bool) -> ErrorCode {
    match refusal {
        // Come again: then it is asked for.
        Refusal::WrongTransaction if assumed => ErrorCode::NotEnoughReplicas,
        Refusal::UnknownPartition => ErrorCode::UnknownTopicOrPartition,
        Refusal::StaleProducerEpoch => ErrorCode::InvalidProducerEpoch,
        Refusal::OutOfOrderSequence => ErrorCode::OutOfOrderSequenceNumber,
        Refusal::DuplicateSequence => ErrorCode::DuplicateSequenceNumber,
        // Not OUT_OF_ORDER: that is fatal in librdkafka, and the predecessor may yet come.
        Refusal::SequenceGap => ErrorCode::NotEnoughReplicas,
        Refusal::Forgotten => ErrorCode::RequestTimedOut,
        Refusal::WrongTransaction => ErrorCode::InvalidTxnState,
        Refusal::StaleCoordinator => ErrorCode::TransactionCoordinatorFenced,
    }
}

/// What a coordinator says of a transaction, as Kafka's broker tells it to producers (`AddPartitionsToTxnManager`,
/// `ReplicaManager`).
pub(super) fn of_verification(e: ErrorCode, version: i16) -> ErrorCode {
    match e {
        ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch,
        ErrorCode::TransactionAbortable if version < ABORTABLE_SINCE => ErrorCode::InvalidTxnState,
        // Retriable for every client, and without a new look at the metadata.
        ErrorCode::ConcurrentTransactions
        | ErrorCode::NetworkException
        | ErrorCode::CoordinatorLoadInProgress
        | ErrorCode::CoordinatorNotAvailable
        | ErrorCode::NotCoordinator => ErrorCode::NotEnoughReplicas,
        other => other,
    }
}

pub(super) fn of_commit(e: commit::Error) -> ErrorCode {
    match e {
        commit::Error::Unknown => ErrorCode::RequestTimedOut,
        // Certainly not appended, and worth a retry: elsewhere, since this broker is replaced by its next life.
        commit::Error::Fenced => ErrorCode::NotLeaderOrFollower,
        commit::Error::NotStored => ErrorCode::NotEnoughReplicas,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn producers_hear_what_their_version_knows() {
        let told = |e| [7, 11, 12].map(|version| of_verification(e, version));
        assert_eq!(told(ErrorCode::ProducerFenced), [ErrorCode::InvalidProducerEpoch; 3]);
        assert_eq!(told(ErrorCode::NotCoordinator), [ErrorCode::NotEnoughReplicas; 3]);
        assert_eq!(told(ErrorCode::InvalidTxnState), [ErrorCode::InvalidTxnState; 3]);
        let abortable = ErrorCode::TransactionAbortable;
        assert_eq!(told(abortable), [ErrorCode::InvalidTxnState, abortable, abortable]);
    }

    #[test]
    fn a_refusal_is_final_only_when_the_coordinator_was_asked() {
        assert_eq!(of_refusal(Refusal::WrongTransaction, true), ErrorCode::NotEnoughReplicas);
        assert_eq!(of_refusal(Refusal::WrongTransaction, false), ErrorCode::InvalidTxnState);
        assert_eq!(of_refusal(Refusal::StaleProducerEpoch, true), ErrorCode::InvalidProducerEpoch);
    }
}
