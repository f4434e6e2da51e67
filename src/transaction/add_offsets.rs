use bytes::Bytes;
use kafka_protocol::messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};
use tokio::time::{Duration, Instant};

use crate::batch::Segments;
use crate::group::place_in;
use crate::protocol::{self, ErrorCode, decode, encode};
use crate::transaction::machine::{Add, Ask, Reply};
use crate::transaction::{Transactions, error_of, for_version};
use crate::types::{Partition, Producer, ShardId};

/// Clients know PRODUCER_FENCED from here on.
const FENCED_SINCE: i16 = 2;
const CREATION_WAIT: Duration = Duration::from_secs(5);

/// A group's offsets become part of the transaction: its partition of `__consumer_offsets` does.
///
/// # Errors
/// The body does not follow the protocol.
pub async fn add_offsets_to_txn(
    transactions: &Transactions,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: AddOffsetsToTxnRequest = decode(version, body)?;
    let id = request.transactional_id.as_str();
    let reply = match transactions.place_of_group(&request.group_id).await {
        _ if id.is_empty() => Reply::Failed(ErrorCode::InvalidRequest),
        Ok(place) => {
            let producer = Producer { id: request.producer_id.0, epoch: request.producer_epoch };
            transactions.ask(id, Ask::Add(Add { producer, partitions: vec![place] })).await
        }
        Err(error) => Reply::Failed(error),
    };
    let code = for_version(error_of(&reply), version, FENCED_SINCE);
    encode(version, &AddOffsetsToTxnResponse::default().with_error_code(code.code()))
}

impl Transactions {
    /// A producer may name its group before anybody has looked for the group's coordinator.
    async fn place_of_group(&self, group: &str) -> Result<(Partition, ShardId), ErrorCode> {
        let topic = self.admin.consumer_offsets(Instant::now() + CREATION_WAIT).await.map_err(|e| {
            tracing::warn!(error = %e, "there is no place for groups yet");
            ErrorCode::CoordinatorNotAvailable
        })?;
        let (shard, partition) = place_in(&topic, group).ok_or(ErrorCode::CoordinatorNotAvailable)?;
        Ok((partition, shard))
    }
}
