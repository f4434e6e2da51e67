use bytes::Bytes;
use kafka_protocol::messages::{HeartbeatRequest, HeartbeatResponse};

use crate::batch::Segments;
use crate::group::classic::{Ask, Caller};
use crate::group::{Groups, error_of};
use crate::protocol::{self, ErrorCode, decode, encode};

/// # Errors
/// The body does not follow the protocol.
pub async fn heartbeat(groups: &Groups, version: i16, body: Bytes) -> Result<Segments, protocol::Error> {
    let request: HeartbeatRequest = decode(version, body)?;
    let caller = Caller {
        member: request.member_id.to_string(),
        instance: request.group_instance_id.map(|instance| instance.to_string()),
        generation: request.generation_id,
    };
    let error = match error_of(groups.ask_named(&request.group_id, Ask::Heartbeat(caller)).await) {
        // Its members get a whole session when the coordinator is ready: no reason to disturb them.
        ErrorCode::CoordinatorLoadInProgress => ErrorCode::None,
        error => error,
    };
    encode(version, &HeartbeatResponse::default().with_error_code(error.code()))
}
