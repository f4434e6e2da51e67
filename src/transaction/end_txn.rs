use bytes::Bytes;
use kafka_protocol::messages::{EndTxnRequest, EndTxnResponse};

use crate::batch::Segments;
use crate::protocol::{self, ErrorCode, decode, encode};
use crate::transaction::machine::{Ask, End, Reply};
use crate::transaction::{Transactions, error_of, for_version};
use crate::types::Producer;

/// Clients know PRODUCER_FENCED from here on.
const FENCED_SINCE: i16 = 2;
/// And from here on that the end raises their epoch, which the answer brings (KIP-890).
const BUMPS_SINCE: i16 = 5;

/// Answered when the end is decided; that it is known everywhere is seen to afterwards.
///
/// # Errors
/// The body does not follow the protocol.
pub async fn end_txn(transactions: &Transactions, version: i16, body: Bytes) -> Result<Segments, protocol::Error> {
    let request: EndTxnRequest = decode(version, body)?;
    let id = request.transactional_id.as_str();
    let producer = Producer { id: request.producer_id.0, epoch: request.producer_epoch };
    let (commit, bumps) = (request.committed, version >= BUMPS_SINCE);
    let reply = match id.is_empty() {
        true => Reply::Failed(ErrorCode::InvalidRequest),
        false => transactions.ask_with_id(id, |fresh_id| Ask::End(End { producer, commit, bumps, fresh_id })).await,
    };
    let code = for_version(error_of(&reply), version, FENCED_SINCE);
    let answer = EndTxnResponse::default().with_error_code(code.code());
    let answer = match reply {
        Reply::Producer(next) if bumps => answer.with_producer_id(next.id.into()).with_producer_epoch(next.epoch),
        _ => answer,
    };
    encode(version, &answer)
}
