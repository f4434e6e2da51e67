use bytes::Bytes;
use kafka_protocol::messages::create_acls_response::AclCreationResult;
use kafka_protocol::messages::delete_acls_response::DeleteAclsFilterResult;
use kafka_protocol::messages::{CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse};
use kafka_protocol::messages::{DescribeAclsRequest, DescribeAclsResponse};
use kafka_protocol::protocol::StrBytes;

use crate::admin::{Admin, Context};
use crate::batch::Segments;
use crate::protocol::{self, ErrorCode, decode, encode};

// What a Kafka without an authorizer answers (`AclApis`). Clients that copy a cluster ask for its rules, and take this for
// an answer where an API that is not there is an error.
const DISABLED: ErrorCode = ErrorCode::SecurityDisabled;
const NO_AUTHORIZER: &str = "No Authorizer is configured.";
const NO_AUTHORIZER_TO_ASK: &str = "No Authorizer is configured on the broker";

/// # Errors
/// The body does not follow the protocol.
pub async fn describe_acls(_: &Admin, _: &Context, version: i16, body: Bytes) -> Result<Segments, protocol::Error> {
    decode::<DescribeAclsRequest>(version, body)?;
    let why = Some(StrBytes::from_static_str(NO_AUTHORIZER_TO_ASK));
    encode(version, &DescribeAclsResponse::default().with_error_code(DISABLED.code()).with_error_message(why))
}

/// # Errors
/// The body does not follow the protocol.
pub async fn create_acls(_: &Admin, _: &Context, version: i16, body: Bytes) -> Result<Segments, protocol::Error> {
    let request: CreateAclsRequest = decode(version, body)?;
    let why = Some(StrBytes::from_static_str(NO_AUTHORIZER));
    let refused = AclCreationResult::default().with_error_code(DISABLED.code()).with_error_message(why);
    encode(version, &CreateAclsResponse::default().with_results(vec![refused; request.creations.len()]))
}

/// # Errors
/// The body does not follow the protocol.
pub async fn delete_acls(_: &Admin, _: &Context, version: i16, body: Bytes) -> Result<Segments, protocol::Error> {
    let request: DeleteAclsRequest = decode(version, body)?;
    let why = Some(StrBytes::from_static_str(NO_AUTHORIZER));
    let refused = DeleteAclsFilterResult::default().with_error_code(DISABLED.code()).with_error_message(why);
    encode(version, &DeleteAclsResponse::default().with_filter_results(vec![refused; request.filters.len()]))
}
