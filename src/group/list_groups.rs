use bytes::Bytes;
use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::{ListGroupsRequest, ListGroupsResponse};

use crate::batch::Segments;
use crate::group::Groups;
use crate::protocol::{self, StrBytes, decode, encode};

/// Groups of the shards that this broker leads: clients ask every broker.
///
/// # Errors
/// The body does not follow the protocol.
pub async fn list_groups(groups: &Groups, version: i16, body: Bytes) -> Result<Segments, protocol::Error> {
    let request: ListGroupsRequest = decode(version, body)?;
    let is_among = |filter: &[StrBytes], word: &str| {
        filter.is_empty() || filter.iter().any(|wanted| wanted.trim().eq_ignore_ascii_case(word))
    };
    let answer = ListGroupsResponse::default();
    let listed = match groups.coordinators.list().await {
        Ok(listed) => listed,
        Err(error) => return encode(version, &answer.with_error_code(error.code())),
    };
    let wanted = listed.into_iter().filter(|group| {
        is_among(&request.states_filter, group.state) && is_among(&request.types_filter, group.group_type)
    });
    let told = wanted.map(|group| {
        ListedGroup::default()
            .with_group_id(StrBytes::from_string(group.id).into())
            .with_protocol_type(StrBytes::from_string(group.protocol_type))
            .with_group_state(StrBytes::from_static_str(group.state))
            .with_group_type(StrBytes::from_static_str(group.group_type))
    });
    encode(version, &answer.with_groups(told.collect()))
}
