use bytes::Bytes;
use kafka_protocol::messages::{SyncGroupRequest, SyncGroupResponse};

use crate::batch::Segments;
use crate::group::classic::{Ask, Caller, Reply, Sync};
use crate::group::{Groups, error_of};
use crate::protocol::{self, ErrorCode, StrBytes, decode, encode};

/// Since this version the member says which protocol it means.
const PROTOCOL_SINCE: i16 = 5;

/// # Errors
/// The body does not follow the protocol.
pub async fn sync_group(groups: &Groups, version: i16, body: Bytes) -> Result<Segments, protocol::Error> {
    let request: SyncGroupRequest = decode(version, body)?;
    let group = request.group_id.0.clone();
    let named = request.protocol_type.is_some() && request.protocol_name.is_some();
    let reply = match version < PROTOCOL_SINCE || named {
        true => groups.ask_named(&group, Ask::Sync(sync(request))).await,
        false => Reply::Failed(ErrorCode::InconsistentGroupProtocol),
    };
    let answer = SyncGroupResponse::default();
    let answer = match reply {
        Reply::Synced { protocol_type, protocol_name, assignment } => answer
            .with_protocol_type(protocol_type.map(StrBytes::from_string))
            .with_protocol_name(protocol_name.map(StrBytes::from_string))
            .with_assignment(assignment),
        other => answer.with_error_code(error_of(other).code()),
    };
    encode(version, &answer)
}

fn sync(request: SyncGroupRequest) -> Sync {
    let caller = Caller {
        member: request.member_id.to_string(),
        instance: request.group_instance_id.map(|instance| instance.to_string()),
        generation: request.generation_id,
    };
    let text = |text: StrBytes| text.to_string();
    Sync {
        caller,
        protocol_type: request.protocol_type.map(text),
        protocol_name: request.protocol_name.map(text),
        assignments: request.assignments.into_iter().map(|a| (a.member_id.to_string(), a.assignment)).collect(),
    }
}
