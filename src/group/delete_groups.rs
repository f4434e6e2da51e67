use std::collections::HashSet;

use bytes::Bytes;
use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::{DeleteGroupsRequest, DeleteGroupsResponse};

use crate::batch::Segments;
use crate::group::classic::Ask;
use crate::group::{Groups, error_of};
use crate::protocol::{self, ErrorCode, decode, encode};
use crate::share;

/// # Errors
/// The body does not follow the protocol.
pub async fn delete_groups(groups: &Groups, version: i16, body: Bytes) -> Result<Segments, protocol::Error> {
    let request: DeleteGroupsRequest = decode(version, body)?;
    let mut results = Vec::with_capacity(request.groups_names.len());
    let mut seen = HashSet::new();
    // Whoever is named twice is answered once.
    for id in request.groups_names.into_iter().filter(|id| seen.insert(id.clone())) {
        let error = match groups.forget_shares(&id).await {
            Ok(()) => error_of(groups.ask(&id, Ask::DeleteGroup).await),
            Err(error) => error,
        };
        results.push(DeletableGroupResult::default().with_group_id(id).with_error_code(error.code()));
    }
    encode(version, &DeleteGroupsResponse::default().with_results(results))
}

impl Groups {
    /// Of a share group without members: first what its partitions know of it, so that it is asked again if that fails.
    ///
    /// # Errors
    /// A leader is not reached.
    async fn forget_shares(&self, group: &str) -> Result<(), ErrorCode> {
        match self.share_group(group).await {
            Ok(seen) if seen.members == 0 => share::forget_group(&self.cluster, &self.shards, group).await,
            Ok(_) | Err(_) => Ok(()),
        }
    }
}
