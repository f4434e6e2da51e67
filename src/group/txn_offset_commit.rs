use bytes::Bytes;
use kafka_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kafka_protocol::messages::{TxnOffsetCommitRequest, TxnOffsetCommitResponse};

use crate::batch::Segments;
use crate::group::classic::{Ask, Caller, Commit, InTransaction};
use crate::group::offset_commit::{Asked, Checked};
use crate::group::{Groups, error_of, place};
use crate::protocol::{self, ErrorCode, decode, encode};
use crate::shard::group::Committed;
use crate::types::{Partition, Producer};

/// From here on the commit itself makes the group part of the transaction (KIP-890, transaction version 2).
const ADDS_SINCE: i16 = 5;
/// From here on producers know TRANSACTION_ABORTABLE.
const ABORTABLE_SINCE: i16 = 4;
/// Producers before that may crash when they are told that a coordinator is loading (KAFKA-7296).
const LOADING_SINCE: i16 = 2;

/// Offsets that count once the transaction is committed.
///
/// # Errors
/// The body does not follow the protocol.
pub async fn txn_offset_commit(groups: &Groups, version: i16, body: Bytes) -> Result<Segments, protocol::Error> {
    let request: TxnOffsetCommitRequest = decode(version, body)?;
    let view = groups.cluster.view();
    let mut checked = Checked::default();
    for topic in &request.topics {
        let found = view.topic_named(&topic.name);
        for partition in &topic.partitions {
            let asked = Asked {
                index: partition.partition_index,
                offset: partition.committed_offset,
                leader_epoch: partition.committed_leader_epoch,
                metadata: partition.committed_metadata.as_deref(),
            };
            checked.add(found, &asked);
        }
    }
    let error = match checked.names_any() {
        true => {
            let offsets = checked.take_offsets();
            for_version(groups.commit_in_transaction(version, &request, offsets).await, version)
        }
        false => ErrorCode::None,
    };
    let mut codes = checked.codes(error);
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            let told = TxnOffsetCommitResponsePartition::default().with_partition_index(partition.partition_index);
            told.with_error_code(codes.next().unwrap_or(error).code())
        });
        let partitions = partitions.collect();
        TxnOffsetCommitResponseTopic::default().with_name(topic.name).with_partitions(partitions)
    });
    encode(version, &TxnOffsetCommitResponse::default().with_topics(topics.collect()))
}

impl Groups {
    async fn commit_in_transaction(
        &self,
        version: i16,
        request: &TxnOffsetCommitRequest,
        offsets: Vec<(Partition, Committed)>,
    ) -> ErrorCode {
        if request.group_id.is_empty() {
            return ErrorCode::InvalidGroupId;
        }
        let producer = Producer { id: request.producer_id.0, epoch: request.producer_epoch };
        // Before anything is added to the transaction: another broker may be the one to ask.
        let at = match self.coordinates(&request.group_id) {
            Ok(at) => at,
            Err(error) => return error,
        };
        let verified = self.verify.verify(&request.transactional_id, producer, &[at], version >= ADDS_SINCE).await;
        let txn_no = match verified.into_iter().next() {
            Some(Ok(txn_no)) => txn_no,
            Some(Err(error)) => return error,
            None => return ErrorCode::CoordinatorNotAvailable,
        };
        let caller = Caller {
            member: request.member_id.to_string(),
            instance: request.group_instance_id.as_ref().map(|instance| instance.to_string()),
            generation: request.generation_id,
        };
        let commit = Commit {
            caller,
            retention_ms: None,
            offsets,
            knows_group_id_not_found: false,
            transaction: Some(InTransaction { producer, txn_no }),
        };
        error_of(self.ask(&request.group_id, Ask::Commit(commit)).await)
    }

    /// The group's partition, if this broker leads its shard.
    fn coordinates(&self, group: &str) -> Result<Partition, ErrorCode> {
        let (shard, at) = self.place(group)?;
        let shard = self.shards.get(shard).ok_or(ErrorCode::NotCoordinator)?;
        let leadership = *shard.group.leadership().borrow();
        if leadership.ready { Ok(at) } else { Err(place::refusal(leadership, self.cluster.node_id())) }
    }
}

/// What Kafka makes of the errors of either coordinator.
fn for_version(error: ErrorCode, version: i16) -> ErrorCode {
    let error = match error {
        ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch,
        ErrorCode::TransactionAbortable if version < ABORTABLE_SINCE => ErrorCode::InvalidTxnState,
        // Asked again without looking for the group's coordinator, which is not the one that is missing.
        ErrorCode::ConcurrentTransactions if version < ADDS_SINCE => ErrorCode::CoordinatorLoadInProgress,
        error => error,
    };
    match error {
        ErrorCode::CoordinatorLoadInProgress if version < LOADING_SINCE => ErrorCode::CoordinatorNotAvailable,
        error => error,
    }
}
