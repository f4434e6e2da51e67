use bytes::Bytes;
use kafka_protocol::messages::add_partitions_to_txn_request::{AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction};
use kafka_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
};
use kafka_protocol::messages::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse};

use crate::admin::is_internal;
use crate::batch::Segments;
use crate::cluster::RootState;
use crate::protocol::{self, ErrorCode, decode, encode};
use crate::transaction::machine::{Add, Ask, Reply};
use crate::transaction::{Transactions, error_of, for_version};
use crate::types::{Partition, Producer, ShardId};

/// From here on several transactions are named, which may only be looked at: brokers ask so in Kafka.
const BATCHED_SINCE: i16 = 4;
/// Clients know PRODUCER_FENCED from here on.
const FENCED_SINCE: i16 = 2;

/// # Errors
/// The body does not follow the protocol.
pub async fn add_partitions_to_txn(
    transactions: &Transactions,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: AddPartitionsToTxnRequest = decode(version, body)?;
    let answer = AddPartitionsToTxnResponse::default();
    if version < BATCHED_SINCE {
        let one = AddPartitionsToTxnTransaction::default()
            .with_transactional_id(request.v3_and_below_transactional_id)
            .with_producer_id(request.v3_and_below_producer_id)
            .with_producer_epoch(request.v3_and_below_producer_epoch)
            .with_topics(request.v3_and_below_topics);
        let results = transactions.add_one(version, one).await;
        return encode(version, &answer.with_results_by_topic_v3_and_below(results));
    }
    let mut results = Vec::with_capacity(request.transactions.len());
    for one in request.transactions {
        let id = one.transactional_id.clone();
        let topics = transactions.add_one(version, one).await;
        results.push(AddPartitionsToTxnResult::default().with_transactional_id(id).with_topic_results(topics));
    }
    encode(version, &answer.with_results_by_transaction(results))
}

impl Transactions {
    async fn add_one(&self, version: i16, one: AddPartitionsToTxnTransaction) -> Vec<AddPartitionsToTxnTopicResult> {
        let id = one.transactional_id.as_str();
        let producer = Producer { id: one.producer_id.0, epoch: one.producer_epoch };
        let found = find_all(&self.cluster.view(), version, &one.topics);
        let partitions: Vec<(Partition, ShardId)> = found.iter().filter_map(|one| one.ok()).collect();
        let each: Vec<ErrorCode> = if partitions.len() < found.len() {
            // All or none: those that could have been added are told so.
            found.iter().map(|one| one.err().unwrap_or(ErrorCode::OperationNotAttempted)).collect()
        } else if id.is_empty() {
            vec![ErrorCode::InvalidRequest; found.len()]
        } else {
            let ask = match one.verify_only {
                true => Ask::Verify { producer, partitions: partitions.into_iter().map(|one| one.0).collect() },
                false => Ask::Add(Add { producer, partitions }),
            };
            match self.ask(id, ask).await {
                Reply::Verified(each) => each.into_iter().map(|one| one.err().unwrap_or(ErrorCode::None)).collect(),
                reply => vec![for_version(error_of(&reply), version, FENCED_SINCE); found.len()],
            }
        };
        let mut each = each.into_iter();
        let topics = one.topics.into_iter().map(|topic| {
            let results = topic.partitions.iter().zip(&mut each).map(|(index, error)| {
                let result = AddPartitionsToTxnPartitionResult::default().with_partition_index(*index);
                result.with_partition_error_code(error.code())
            });
            let results = results.collect();
            AddPartitionsToTxnTopicResult::default().with_name(topic.name).with_results_by_partition(results)
        });
        topics.collect()
    }
}

fn find_all(
    view: &RootState,
    version: i16,
    topics: &[AddPartitionsToTxnTopic],
) -> Vec<Result<(Partition, ShardId), ErrorCode>> {
    let mut found = Vec::new();
    for topic in topics {
        let record = view.topic_named(&topic.name);
        let hidden = version < BATCHED_SINCE && is_internal(&topic.name);
        found.extend(topic.partitions.iter().map(|index| match record {
            _ if hidden => Err(ErrorCode::TopicAuthorizationFailed),
            Some(record) if (0..record.live).contains(index) && !record.deleting => {
                Ok((Partition { topic: record.id, index: *index }, record.placement[*index as usize]))
            }
            _ => Err(ErrorCode::UnknownTopicOrPartition),
        }));
    }
    found
}
