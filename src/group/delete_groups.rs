use bytes::Bytes;
use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::{DeleteGroupsRequest, DeleteGroupsResponse};

use crate::batch::Segments;
use crate::group::classic::Ask;
use crate::group::{Groups, error_of};
use crate::protocol::{self, decode, encode};

/// # Errors
/// The body does not follow the protocol.
pub async fn delete_groups(groups: &Groups, version: i16, body: Bytes) -> Result<Segments, protocol::Error> {
    let request: DeleteGroupsRequest = decode(version, body)?;
    let mut results = Vec::with_capacity(request.groups_names.len());
    for id in request.groups_names {
        let error = error_of(groups.ask(&id, Ask::DeleteGroup).await);
        results.push(DeletableGroupResult::default().with_group_id(id).with_error_code(error.code()));
    }
    encode(version, &DeleteGroupsResponse::default().with_results(results))
}
