use bytes::Bytes;
use kafka_protocol::messages::describe_user_scram_credentials_response::DescribeUserScramCredentialsResult;
use kafka_protocol::messages::{DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse};
use kafka_protocol::protocol::StrBytes;

use crate::admin::{Admin, Context, names};
use crate::batch::Segments;
use crate::protocol::{self, ErrorCode, decode, encode};

/// Nobody has a password here, so nobody's is told of: what a Kafka without SASL answers. Its tools ask for it wherever
/// they describe users.
///
/// # Errors
/// The body does not follow the protocol.
pub async fn describe_user_scram_credentials(
    _admin: &Admin,
    _context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: DescribeUserScramCredentialsRequest = decode(version, body)?;
    encode(version, &answer(request))
}

fn answer(request: DescribeUserScramCredentialsRequest) -> DescribeUserScramCredentialsResponse {
    let named = names::counted(request.users.unwrap_or_default(), |user| user.name.clone());
    let results = named.into_iter().map(|(user, repeated)| {
        let name = user.name.as_str();
        let (code, why) = match repeated {
            true => (
                ErrorCode::DuplicateResource,
                format!("Cannot describe SCRAM credentials for the same user twice in a single request: {name}"),
            ),
            false => (
                ErrorCode::ResourceNotFound,
                format!("Attempt to describe a user credential that does not exist: {name}"),
            ),
        };
        let result = DescribeUserScramCredentialsResult::default().with_error_code(code.code());
        result.with_error_message(Some(StrBytes::from_string(why))).with_user(user.name)
    });
    DescribeUserScramCredentialsResponse::default().with_results(results.collect())
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::describe_user_scram_credentials_request::UserName;

    use super::*;

    #[test]
    fn nobody_has_credentials() {
        let ask = |users| answer(DescribeUserScramCredentialsRequest::default().with_users(users));
        for everybody in [None, Some(vec![])] {
            let told = ask(everybody);
            assert_eq!((told.error_code, told.results.len()), (0, 0));
        }
        let user = |name| UserName::default().with_name(StrBytes::from_static_str(name));
        let told = ask(Some(vec![user("a"), user("b"), user("a")]));
        let told: Vec<_> = told.results.iter().map(|result| (result.user.as_str(), result.error_code)).collect();
        assert_eq!(told, [("a", 92), ("b", 91)]);
    }
}
