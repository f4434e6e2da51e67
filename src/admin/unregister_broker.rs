use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::{UnregisterBrokerRequest, UnregisterBrokerResponse};
use tokio::time::Instant;

use crate::admin::error::code_and_message;
use crate::admin::{Admin, Context, Error};
use crate::batch::Segments;
use crate::cluster::{RootAnswer, RootEntry, RootRefusal};
use crate::protocol::{self, decode, encode};
use crate::types::BrokerId;

/// The request has no timeout of its own.
const PATIENCE: Duration = Duration::from_secs(30);

/// UnregisterBroker (API 64). Only one that is away: Kafka would let a live one register again at once; here its data
/// directory has no seat afterwards.
///
/// # Errors
/// The body does not follow the protocol.
pub async fn unregister_broker(
    admin: &Admin,
    _context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: UnregisterBrokerRequest = decode(version, body)?;
    let (code, message) = code_and_message(&unregister(admin, request.broker_id.0).await);
    encode(version, &UnregisterBrokerResponse::default().with_error_code(code).with_error_message(message))
}

async fn unregister(admin: &Admin, broker: BrokerId) -> Result<RootAnswer, Error> {
    let epoch = admin.cluster.view().broker(broker).ok_or(RootRefusal::UnknownBroker)?.epoch;
    admin.propose(RootEntry::RemoveBroker { broker, epoch }, Instant::now() + PATIENCE).await
}
