use bytes::Bytes;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::{LeaveGroupRequest, LeaveGroupResponse};

use crate::batch::Segments;
use crate::group::classic::{Ask, Leaver, Reply};
use crate::group::{Groups, error_of};
use crate::protocol::{self, ErrorCode, decode, encode};

/// Since this version several members leave at once.
const BATCHED_SINCE: i16 = 3;

/// # Errors
/// The body does not follow the protocol.
pub async fn leave_group(groups: &Groups, version: i16, body: Bytes) -> Result<Segments, protocol::Error> {
    let request: LeaveGroupRequest = decode(version, body)?;
    let members = match version >= BATCHED_SINCE {
        true => request.members,
        false => vec![MemberIdentity::default().with_member_id(request.member_id)],
    };
    let leavers = members.iter().map(|member| Leaver {
        member: member.member_id.to_string(),
        instance: member.group_instance_id.as_ref().map(|instance| instance.to_string()),
    });
    let leavers = leavers.collect();
    let answer = LeaveGroupResponse::default();
    let answer = match groups.ask_named(&request.group_id, Ask::Leave(leavers)).await {
        Reply::Each(each) if version < BATCHED_SINCE => {
            answer.with_error_code(each.first().copied().unwrap_or(ErrorCode::None).code())
        }
        Reply::Each(each) => {
            let each = members.into_iter().zip(each).map(|(member, error)| {
                MemberResponse::default()
                    .with_member_id(member.member_id)
                    .with_group_instance_id(member.group_instance_id)
                    .with_error_code(error.code())
            });
            answer.with_members(each.collect())
        }
        other => answer.with_error_code(error_of(other).code()),
    };
    encode(version, &answer)
}
