use bytes::Bytes;
use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse};

use crate::batch::Segments;
use crate::protocol::{self, ErrorCode, decode, encode};
use crate::transaction::machine::{Ask, Init, Reply};
use crate::transaction::{Transactions, error_of, for_version};
use crate::types::Producer;

/// Clients know PRODUCER_FENCED from here on.
const FENCED_SINCE: i16 = 4;

/// # Errors
/// The body does not follow the protocol.
pub async fn init_producer_id(
    transactions: &Transactions,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: InitProducerIdRequest = decode(version, body)?;
    let producer = match expected(&request) {
        Ok(expected) => match &request.transactional_id {
            Some(id) => transactions.init(id, request.transaction_timeout_ms, expected).await,
            None => transactions.init_without_id().await,
        },
        Err(code) => Err(code),
    };
    let code = for_version(producer.err().unwrap_or(ErrorCode::None), version, FENCED_SINCE);
    let Producer { id, epoch } = producer.unwrap_or(Producer { id: -1, epoch: -1 });
    let response = InitProducerIdResponse::default().with_error_code(code.code());
    encode(version, &response.with_producer_id(id.into()).with_producer_epoch(epoch))
}

/// What the producer has, if it has anything (KIP-360).
fn expected(request: &InitProducerIdRequest) -> Result<Option<Producer>, ErrorCode> {
    match (request.producer_id.0, request.producer_epoch) {
        (-1, -1) => Ok(None),
        (-1, _) | (_, -1) => Err(ErrorCode::InvalidRequest),
        (id, epoch) => Ok(Some(Producer { id, epoch })),
    }
}

impl Transactions {
    async fn init(&self, id: &str, timeout_ms: i32, expected: Option<Producer>) -> Result<Producer, ErrorCode> {
        if id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        let timeout_max_ms = self.settings.timeout_max.as_millis();
        let timeout_ms = u32::try_from(timeout_ms).ok().filter(|ms| (1..=timeout_max_ms).contains(&u128::from(*ms)));
        let timeout_ms = timeout_ms.ok_or(ErrorCode::InvalidTransactionTimeout)?;
        match self.ask_with_id(id, |fresh_id| Ask::Init(Init { timeout_ms, expected, fresh_id })).await {
            Reply::Producer(producer) => Ok(producer),
            reply => Err(error_of(&reply)),
        }
    }

    /// A producer without transactions gets an id that nobody has, whatever it has had.
    async fn init_without_id(&self) -> Result<Producer, ErrorCode> {
        // Whatever kept the root from answering, the client is to ask again; an id that was issued and lost is no harm.
        let fresh = self.cluster.next_producer_id().await.map_err(|_| ErrorCode::CoordinatorLoadInProgress)?;
        Ok(Producer { id: fresh, epoch: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_producer_names_both_its_id_and_its_epoch_or_neither() {
        let ask = |id: i64, epoch: i16| {
            let request = InitProducerIdRequest::default();
            expected(&request.with_producer_id(id.into()).with_producer_epoch(epoch))
        };
        assert_eq!(ask(-1, -1), Ok(None));
        assert_eq!(ask(7, 0), Ok(Some(Producer { id: 7, epoch: 0 })));
        assert_eq!(ask(-2, -2), Ok(Some(Producer { id: -2, epoch: -2 })), "nobody's");
        for (id, epoch) in [(7, -1), (-1, 0)] {
            assert_eq!(ask(id, epoch), Err(ErrorCode::InvalidRequest));
        }
    }
}
