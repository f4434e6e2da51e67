use bytes::Bytes;
use kafka_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use kafka_protocol::messages::{DescribeGroupsRequest, DescribeGroupsResponse, GroupId};

use crate::admin::operations::ON_A_GROUP;
use crate::batch::Segments;
use crate::group::classic::{Ask, Described, Reply};
use crate::group::{Groups, error_of};
use crate::protocol::{self, ErrorCode, StrBytes, decode, encode};

/// Since this version a group that is not there is an error (KIP-1043), before it was a dead one.
const NOT_FOUND_SINCE: i16 = 6;

/// # Errors
/// The body does not follow the protocol.
pub async fn describe_groups(groups: &Groups, version: i16, body: Bytes) -> Result<Segments, protocol::Error> {
    let request: DescribeGroupsRequest = decode(version, body)?;
    let mut answers = Vec::with_capacity(request.groups.len());
    for id in request.groups {
        let reply = groups.ask(&id, Ask::Describe).await;
        let group = told(id, reply, version);
        answers.push(match request.include_authorized_operations && group.error_code == ErrorCode::None.code() {
            true => group.with_authorized_operations(ON_A_GROUP),
            false => group,
        });
    }
    encode(version, &DescribeGroupsResponse::default().with_groups(answers))
}

fn told(id: GroupId, reply: Reply, version: i16) -> DescribedGroup {
    let answer = DescribedGroup::default();
    let described = match reply {
        Reply::Described(Some(described)) => described,
        reply @ (Reply::Described(None) | Reply::NotClassic) => {
            let what = if reply == Reply::NotClassic { "is not a classic group" } else { "not found" };
            let why = StrBytes::from_string(format!("Group {} {what}.", id.as_str()));
            let dead = answer.with_group_id(id).with_group_state(StrBytes::from_static_str("Dead"));
            return match version >= NOT_FOUND_SINCE {
                true => dead.with_error_code(ErrorCode::GroupIdNotFound.code()).with_error_message(Some(why)),
                false => dead,
            };
        }
        other => return answer.with_group_id(id).with_error_code(error_of(other).code()),
    };
    let Described { state, protocol_type, protocol_name, members } = described;
    let members = members.into_iter().map(|member| {
        DescribedGroupMember::default()
            .with_member_id(StrBytes::from_string(member.id))
            .with_group_instance_id(member.instance.map(StrBytes::from_string))
            .with_client_id(StrBytes::from_string(member.client_id))
            .with_client_host(StrBytes::from_string(member.client_host))
            .with_member_metadata(member.metadata)
            .with_member_assignment(member.assignment)
    });
    answer
        .with_group_id(id)
        .with_group_state(StrBytes::from_static_str(state))
        .with_protocol_type(StrBytes::from_string(protocol_type))
        .with_protocol_data(StrBytes::from_string(protocol_name))
        .with_members(members.collect())
}
