use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use kafka_protocol::messages::describe_transactions_response::{TopicData, TransactionState};
use kafka_protocol::messages::{DescribeTransactionsRequest, DescribeTransactionsResponse};

use crate::batch::Segments;
use crate::cluster::RootState;
use crate::protocol::{self, ErrorCode, StrBytes, decode, encode};
use crate::shard::transaction::Transaction;
use crate::transaction::Transactions;
use crate::types::TopicId;

/// # Errors
/// The body does not follow the protocol.
pub async fn describe_transactions(
    transactions: &Transactions,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: DescribeTransactionsRequest = decode(version, body)?;
    let mut states = Vec::with_capacity(request.transactional_ids.len());
    for id in request.transactional_ids {
        let state = match transactions.applied(&id).await {
            Ok(one) => described(&transactions.cluster.view(), &one),
            Err(error) => TransactionState::default().with_error_code(error.code()),
        };
        states.push(state.with_transactional_id(id));
    }
    encode(version, &DescribeTransactionsResponse::default().with_transaction_states(states))
}

impl Transactions {
    async fn applied(&self, id: &str) -> Result<Arc<Transaction>, ErrorCode> {
        if id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        let (shard, partition) = self.read(id).await?;
        let one = shard.replica().read(|state| {
            let slot = state.partition(&partition)?.slot;
            state.transactions().get(slot, id).cloned()
        });
        one.ok_or(ErrorCode::TransactionalIdNotFound)
    }
}

fn described(view: &RootState, one: &Transaction) -> TransactionState {
    let mut topics: BTreeMap<TopicId, Vec<i32>> = BTreeMap::new();
    for partition in one.partitions.keys() {
        topics.entry(partition.topic).or_default().push(partition.index);
    }
    // What was deleted since has no name any more.
    let topics = topics.into_iter().filter_map(|(topic, partitions)| {
        let name = StrBytes::from_string(view.topic(topic)?.name.clone());
        Some(TopicData::default().with_topic(name.into()).with_partitions(partitions))
    });
    TransactionState::default()
        .with_transaction_state(StrBytes::from_static_str(one.phase.name()))
        .with_transaction_timeout_ms(i32::try_from(one.timeout_ms).unwrap_or(i32::MAX))
        .with_transaction_start_time_ms(one.started_at)
        .with_producer_id(one.producer_id.into())
        .with_producer_epoch(one.epoch)
        .with_topics(topics.collect())
}
