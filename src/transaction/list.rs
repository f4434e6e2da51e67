use bytes::Bytes;
use kafka_protocol::messages::list_transactions_response::TransactionState;
use kafka_protocol::messages::{ListTransactionsRequest, ListTransactionsResponse};

use crate::batch::Segments;
use crate::cluster::now_ms;
use crate::protocol::{self, ErrorCode, StrBytes, decode, encode};
use crate::shard::transaction::Transaction;
use crate::transaction::Transactions;

/// Kafka's states, also those that no id has here for longer than a decision takes.
const STATES: [&str; 8] = [
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
];

/// Transactional ids of the shards that this broker leads: clients ask every broker.
///
/// # Errors
/// The body does not follow the protocol.
pub async fn list_transactions(
    transactions: &Transactions,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: ListTransactionsRequest = decode(version, body)?;
    let unknown = request.state_filters.iter().filter(|state| !STATES.contains(&state.as_str()));
    let answer = ListTransactionsResponse::default().with_unknown_state_filters(unknown.cloned().collect());
    let now = now_ms();
    let is_wanted = |one: &Transaction| {
        let named = |state: &StrBytes| state.as_str() == one.phase.name();
        let lasts = now.saturating_sub(one.started_at) > request.duration_filter;
        (request.state_filters.is_empty() || request.state_filters.iter().any(named))
            && (request.producer_id_filters.is_empty() || request.producer_id_filters.contains(&one.producer_id.into()))
            && (request.duration_filter < 0 || lasts)
    };
    let mut found = Vec::new();
    for shard in transactions.shards.all() {
        match transactions.read_shard(&shard).await {
            Ok(()) => {}
            Err(ErrorCode::NotCoordinator) => continue,
            Err(error) => return encode(version, &answer.with_error_code(error.code())),
        }
        let all = shard.replica().read(|state| state.transactions().clone());
        found.extend(all.all().filter(|(.., one)| is_wanted(one)).map(|(_, id, one)| {
            TransactionState::default()
                .with_transactional_id(StrBytes::from_string(id.clone()).into())
                .with_producer_id(one.producer_id.into())
                .with_transaction_state(StrBytes::from_static_str(one.phase.name()))
        }));
    }
    encode(version, &answer.with_transaction_states(found))
}
