use bytes::Bytes;
use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse};

use crate::admin::{Admin, Context};
use crate::batch::Segments;
use crate::protocol::{self, ErrorCode, decode, encode};
use crate::types::Producer;

/// What a producer without transactions asks for.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    /// An id that nobody has.
    New,
    /// Its own id with the next epoch, which fences what it has sent before (KIP-360).
    Bumped(Producer),
}

/// # Errors
/// The body does not follow the protocol.
pub async fn init_producer_id(
    admin: &Admin,
    _context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let producer = match asked(&decode(version, body)?) {
        Ok(Asked::Bumped(producer)) => Ok(producer),
        // Whatever kept the root from answering, the client is to ask again; an id that was issued and lost is no harm.
        Ok(Asked::New) => match admin.cluster.next_producer_id().await {
            Ok(id) => Ok(Producer { id, epoch: 0 }),
            Err(_) => Err(ErrorCode::CoordinatorLoadInProgress),
        },
        Err(code) => Err(code),
    };
    let code = producer.err().unwrap_or(ErrorCode::None);
    let Producer { id, epoch } = producer.unwrap_or(Producer { id: -1, epoch: -1 });
    let response = InitProducerIdResponse::default().with_error_code(code.code());
    encode(version, &response.with_producer_id(id.into()).with_producer_epoch(epoch))
}

/// There are no transactions yet. Clients find that out from ApiVersions, which lists no FindCoordinator; for one that
/// asks nevertheless, of all codes only this is taken as final by Java, librdkafka and franz-go alike: the coordinator's
/// codes, and UNSUPPORTED_VERSION in librdkafka, are retried for ever.
fn asked(request: &InitProducerIdRequest) -> Result<Asked, ErrorCode> {
    if request.transactional_id.is_some() {
        return Err(ErrorCode::TransactionalIdAuthorizationFailed);
    }
    match (request.producer_id.0, request.producer_epoch) {
        (-1, -1) => Ok(Asked::New),
        // The last epoch is never given out: a producer at it could not be fenced.
        (0.., epoch) if epoch >= i16::MAX - 1 => Ok(Asked::New),
        (id @ 0.., epoch @ 0..) => Ok(Asked::Bumped(Producer { id, epoch: epoch + 1 })),
        _ => Err(ErrorCode::InvalidRequest),
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::protocol::StrBytes;

    use super::*;

    fn ask(id: i64, epoch: i16) -> Result<Asked, ErrorCode> {
        let request = InitProducerIdRequest::default().with_transactional_id(None);
        asked(&request.with_producer_id(id.into()).with_producer_epoch(epoch))
    }

    #[test]
    fn an_id_comes_back_with_the_next_epoch_until_epochs_are_used_up() {
        assert_eq!(ask(-1, -1), Ok(Asked::New));
        assert_eq!(ask(7, 0), Ok(Asked::Bumped(Producer { id: 7, epoch: 1 })));
        assert_eq!(ask(7, i16::MAX - 1), Ok(Asked::New));
        assert_eq!(ask(7, i16::MAX), Ok(Asked::New));
        for (id, epoch) in [(7, -1), (-1, 0), (-2, -2), (i64::MIN, 3)] {
            assert_eq!(ask(id, epoch), Err(ErrorCode::InvalidRequest));
        }
    }

    #[test]
    fn transactions_are_refused_for_good() {
        let request = InitProducerIdRequest::default();
        let request = request.with_transactional_id(Some(StrBytes::from_static_str("t").into()));
        assert_eq!(asked(&request), Err(ErrorCode::TransactionalIdAuthorizationFailed));
    }
}
