use bytes::Bytes;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{FindCoordinatorRequest, FindCoordinatorResponse};
use tokio::time::{Duration, Instant};

use crate::batch::Segments;
use crate::cluster::Broker;
use crate::group::{Groups, place};
use crate::protocol::{self, ErrorCode, StrBytes, decode, encode};

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
/// Since this version a request names several keys.
const BATCHED_SINCE: i16 = 4;
const CREATION_WAIT: Duration = Duration::from_secs(5);

/// # Errors
/// The body does not follow the protocol.
///
/// `listener` is the zone of the listener that the client came by, if that has one.
pub async fn find_coordinator(
    groups: &Groups,
    listener: Option<&str>,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: FindCoordinatorRequest = decode(version, body)?;
    if version < BATCHED_SINCE {
        let found = groups.find(listener, request.key_type, &request.key).await;
        let answer = FindCoordinatorResponse::default();
        let answer = match found {
            Ok((id, host, port)) => answer.with_node_id(id.into()).with_host(host).with_port(port),
            Err(error) => answer.with_error_code(error.code()).with_node_id((-1).into()).with_port(-1),
        };
        return encode(version, &answer);
    }
    let mut coordinators = Vec::with_capacity(request.coordinator_keys.len());
    for key in request.coordinator_keys {
        let found = groups.find(listener, request.key_type, &key).await;
        let told = Coordinator::default().with_key(key);
        coordinators.push(match found {
            Ok((id, host, port)) => told.with_node_id(id.into()).with_host(host).with_port(port),
            Err(error) => told.with_error_code(error.code()).with_node_id((-1).into()).with_port(-1),
        });
    }
    encode(version, &FindCoordinatorResponse::default().with_coordinators(coordinators))
}

impl Groups {
    /// Everybody is told the true coordinator, whatever zone they are in: groups and transactions are few bytes.
    async fn find(&self, listener: Option<&str>, key_type: i8, key: &str) -> Result<(i32, StrBytes, i32), ErrorCode> {
        let deadline = Instant::now() + CREATION_WAIT;
        let topic = match key_type {
            GROUP => self.admin.consumer_offsets(deadline).await,
            TRANSACTION => self.admin.transaction_state(deadline).await,
            _ => return Err(ErrorCode::InvalidRequest),
        };
        let topic = topic.map_err(|e| {
            tracing::warn!(error = %e, key_type, "there is no place for what is coordinated yet");
            ErrorCode::CoordinatorNotAvailable
        })?;
        let (shard, _) = place::place_in(&topic, key).ok_or(ErrorCode::CoordinatorNotAvailable)?;
        let leader = self.leader_of(shard).await.ok_or(ErrorCode::CoordinatorNotAvailable)?;
        let view = self.cluster.view();
        let told = |broker: &Broker| {
            let (host, port) = broker.address_for(listener);
            (broker.id, StrBytes::from_string(host.to_owned()), port.into())
        };
        let broker = view.broker_of(leader).filter(|broker| broker.alive);
        broker.map(|broker| told(broker)).ok_or(ErrorCode::CoordinatorNotAvailable)
    }
}
