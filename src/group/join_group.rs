use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::{JoinGroupRequest, JoinGroupResponse};
use uuid::Uuid;

use crate::batch::Segments;
use crate::group::classic::{Ask, Join, JoinAnswer, Reply};
use crate::group::{Context, Groups, error_of};
use crate::protocol::{self, ErrorCode, StrBytes, decode, encode};

const REBALANCE_TIMEOUT_SINCE: i16 = 1;
/// New members come again with the id they get (KIP-394).
const ID_REQUIRED_SINCE: i16 = 4;
/// The chosen protocol may be null.
const NULL_PROTOCOL_SINCE: i16 = 7;
const SKIP_ASSIGNMENT_SINCE: i16 = 9;

/// # Errors
/// The body does not follow the protocol.
pub async fn join_group(
    groups: &Groups,
    context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: JoinGroupRequest = decode(version, body)?;
    let (group, member) = (request.group_id.0.clone(), request.member_id.clone());
    if let Some(reason) = request.reason.as_deref().filter(|reason| !reason.is_empty()) {
        tracing::debug!(group = group.as_str(), member = member.as_str(), reason, "joins");
    }
    let session_timeout = millis(request.session_timeout_ms);
    let settings = &groups.settings;
    let reply = match (settings.session_timeout_min..=settings.session_timeout_max).contains(&session_timeout) {
        true => groups.ask_named(&group, Ask::Join(join(request, context, version))).await,
        false if group.is_empty() => Reply::Failed(ErrorCode::InvalidGroupId),
        false => Reply::Failed(ErrorCode::InvalidSessionTimeout),
    };
    let failed = |error: ErrorCode, member: StrBytes| {
        let answer = JoinGroupResponse::default().with_error_code(error.code()).with_member_id(member);
        answer.with_protocol_name((version < NULL_PROTOCOL_SINCE).then(StrBytes::default))
    };
    let answer = match reply {
        Reply::Joined(joined) => told(joined),
        Reply::JoinFailed { error, member } => failed(error, StrBytes::from_string(member)),
        other => failed(error_of(other), member),
    };
    encode(version, &answer)
}

fn join(request: JoinGroupRequest, context: &Context, version: i16) -> Join {
    let rebalance_timeout_ms = match version >= REBALANCE_TIMEOUT_SINCE {
        true => request.rebalance_timeout_ms,
        false => request.session_timeout_ms,
    };
    Join {
        member: request.member_id.to_string(),
        instance: request.group_instance_id.map(|instance| instance.to_string()),
        client_id: context.client_id.as_deref().unwrap_or_default().to_owned(),
        // As Java writes an address.
        client_host: format!("/{}", context.address.ip()),
        session_timeout: millis(request.session_timeout_ms),
        rebalance_timeout: millis(rebalance_timeout_ms),
        protocol_type: request.protocol_type.to_string(),
        // A copy: a group may live long, and the frame is larger.
        protocols: request
            .protocols
            .iter()
            .map(|p| (p.name.to_string(), Bytes::copy_from_slice(&p.metadata)))
            .collect(),
        unique: Uuid::new_v4().to_string(),
        id_required: version >= ID_REQUIRED_SINCE,
        can_skip_assignment: version >= SKIP_ASSIGNMENT_SINCE,
    }
}

fn told(joined: JoinAnswer) -> JoinGroupResponse {
    let members = joined.members.into_iter().map(|(id, instance, metadata)| {
        JoinGroupResponseMember::default()
            .with_member_id(StrBytes::from_string(id))
            .with_group_instance_id(instance.map(StrBytes::from_string))
            .with_metadata(metadata)
    });
    JoinGroupResponse::default()
        .with_generation_id(joined.generation)
        .with_protocol_type(joined.protocol_type.map(StrBytes::from_string))
        .with_protocol_name(Some(StrBytes::from_string(joined.protocol_name.unwrap_or_default())))
        .with_leader(StrBytes::from_string(joined.leader))
        .with_skip_assignment(joined.skip_assignment)
        .with_member_id(StrBytes::from_string(joined.member))
        .with_members(members.collect())
}

fn millis(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}
