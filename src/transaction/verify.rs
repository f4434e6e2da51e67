//! ▲ What a broker that takes transactional batches asks the coordinator of their transaction, and the way there.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{BufMut, Bytes, BytesMut};

use crate::admin::TRANSACTION_STATE;
use crate::cluster::{Cluster, LeaderGuess};
use crate::commit::with_shard;
use crate::group::place_in;
use crate::index::{OpenShard, Shards};
use crate::peer::{self, Answer};
use crate::produce::Verify;
use crate::protocol::ErrorCode;
use crate::shard::transaction::{put_partitions, read_partitions};
use crate::transaction::Coordinators;
use crate::transaction::machine::{Add, Ask, Reply};
use crate::types::varint::{self, Malformed, Reader};
use crate::types::{Partition, Producer, ShardId, TopicId};

/// A change of coordinator takes about a second; a producer is told to come again after this.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Asks the coordinators of transactions, wherever they are.
pub struct Verifier {
    cluster: Cluster,
    shards: Arc<Shards>,
}

/// Are these partitions part of the producer's transaction, or shall they be?
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// Of `__transaction_state`.
    pub at: Partition,
    pub id: String,
    pub producer: Producer,
    pub add: bool,
    pub partitions: Vec<(Partition, ShardId)>,
}

impl Verifier {
    pub fn new(cluster: Cluster, shards: Arc<Shards>) -> Self {
        Verifier { cluster, shards }
    }

    async fn ask(
        &self,
        id: &str,
        producer: Producer,
        partitions: &[Partition],
        add: bool,
    ) -> Result<Vec<Result<u64, ErrorCode>>, ErrorCode> {
        let view = self.cluster.view();
        let topic = view.topic_named(TRANSACTION_STATE).filter(|topic| topic.is_live());
        let place = topic.and_then(|topic| place_in(topic, id));
        let (shard, at) = place.ok_or(ErrorCode::CoordinatorNotAvailable)?;
        let placed = |at: &Partition| {
            let shard = view.topic(at.topic)?.placement.get(usize::try_from(at.index).ok()?)?;
            Some((*at, *shard))
        };
        let placed: Option<Vec<_>> = partitions.iter().map(placed).collect();
        let partitions = placed.ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let question = Question { at, id: id.to_owned(), producer, add, partitions };
        let body = with_shard(shard, &question.encode());
        let mut guess = LeaderGuess::new(self.cluster.clone(), self.shards.clone(), shard);
        let answer = peer::call_leader(self.cluster.node(), || guess.take(), peer::VERIFY, body, TIMEOUT).await;
        let answer = answer.map_err(|e| {
            tracing::debug!(shard, id, error = %e, "the coordinator of a transaction cannot be asked");
            ErrorCode::CoordinatorNotAvailable
        })?;
        let each = decode_results(&answer).map_err(|Malformed| ErrorCode::CoordinatorNotAvailable)?;
        let complete = each.len() == question.partitions.len();
        if complete { Ok(each) } else { Err(ErrorCode::CoordinatorNotAvailable) }
    }
}

#[async_trait]
impl Verify for Verifier {
    async fn verify(
        &self,
        transactional_id: &str,
        producer: Producer,
        partitions: &[Partition],
        add: bool,
    ) -> Vec<Result<u64, ErrorCode>> {
        let answer = match transactional_id.is_empty() {
            true => Err(ErrorCode::InvalidRequest),
            false => self.ask(transactional_id, producer, partitions, add).await,
        };
        answer.unwrap_or_else(|error| vec![Err(error); partitions.len()])
    }
}

/// The leader's side.
pub async fn answer_verify(coordinators: &Coordinators, shard: &OpenShard, body: Bytes) -> Answer {
    let Ok(Question { at, id, producer, add, partitions }) = Question::decode(&body) else {
        return Answer::Refused("malformed question about a transaction".into());
    };
    let count = partitions.len();
    let ask = match add {
        true => Ask::Add(Add { producer, partitions }),
        false => Ask::Verify { producer, partitions: partitions.into_iter().map(|one| one.0).collect() },
    };
    let each = match coordinators.ask(shard.id, at, &id, ask).await {
        Reply::Failed(ErrorCode::NotCoordinator | ErrorCode::CoordinatorLoadInProgress) => {
            return Answer::NotLeader { leader: shard.leader() };
        }
        Reply::Failed(error) => vec![Err(error); count],
        Reply::Added { txn_no } => vec![Ok(txn_no); count],
        Reply::Verified(each) => each,
        Reply::Producer(_) | Reply::NeedsProducerId => return Answer::Unknown,
    };
    Answer::Done(encode_results(&each))
}

impl Question {
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(64 + self.id.len());
        out.put_slice(self.at.topic.as_bytes());
        varint::put(&mut out, self.at.index as u64);
        varint::put_bytes(&mut out, self.id.as_bytes());
        varint::put_signed(&mut out, self.producer.id);
        varint::put_signed(&mut out, self.producer.epoch.into());
        out.put_u8(self.add.into());
        put_partitions(&mut out, &self.partitions);
        out.freeze()
    }

    pub fn decode(bytes: &[u8]) -> Result<Question, Malformed> {
        let mut r = Reader::new(bytes);
        let at = Partition { topic: TopicId::from_bytes(r.array()?), index: r.int()? };
        let id = String::from_utf8(r.bytes()?.to_vec()).map_err(|_| Malformed)?;
        let producer = Producer { id: r.signed()?, epoch: i16::try_from(r.signed()?).map_err(|_| Malformed)? };
        let question = Question { at, id, producer, add: r.byte()? != 0, partitions: read_partitions(&mut r)? };
        r.finish()?;
        Ok(question)
    }
}

/// The error's number, or 0 and the transaction's.
fn encode_results(each: &[Result<u64, ErrorCode>]) -> Bytes {
    let mut out = BytesMut::with_capacity(2 + each.len() * 4);
    varint::put(&mut out, each.len() as u64);
    for one in each {
        match one {
            Ok(txn_no) => {
                varint::put_signed(&mut out, 0);
                varint::put(&mut out, *txn_no);
            }
            Err(error) => varint::put_signed(&mut out, error.code().into()),
        }
    }
    out.freeze()
}

pub(crate) fn decode_results(bytes: &[u8]) -> Result<Vec<Result<u64, ErrorCode>>, Malformed> {
    let mut r = Reader::new(bytes);
    let one = |r: &mut Reader| {
        let code = i16::try_from(r.signed()?).map_err(|_| Malformed)?;
        match code {
            0 => Ok(Ok(r.u64()?)),
            code => COORDINATORS.into_iter().find(|known| known.code() == code).map(Err).ok_or(Malformed),
        }
    };
    let each = (0..r.count(1)?).map(|_| one(&mut r)).collect::<Result<_, _>>()?;
    r.finish()?;
    Ok(each)
}

/// What a coordinator says of partitions.
const COORDINATORS: [ErrorCode; 7] = [
    ErrorCode::InvalidProducerIdMapping,
    ErrorCode::ProducerFenced,
    ErrorCode::ConcurrentTransactions,
    ErrorCode::TransactionAbortable,
    ErrorCode::CoordinatorNotAvailable,
    ErrorCode::NotCoordinator,
    ErrorCode::UnknownServerError,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_read_back_as_written() {
        let at = |topic: u8, index| Partition { topic: TopicId::from_bytes([topic; 16]), index };
        let question = Question {
            at: at(1, 49),
            id: "id ä".into(),
            producer: Producer { id: 1 << 40, epoch: 3 },
            add: true,
            partitions: vec![(at(2, 0), 1), (at(2, 7), 300), (at(3, 1), 2)],
        };
        let bytes = question.encode();
        for cut in 0..bytes.len() {
            assert!(Question::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        assert_eq!(Question::decode(&bytes), Ok(question));
        let each: Vec<_> = [Ok(1), Ok(1 << 40)].into_iter().chain(COORDINATORS.map(Err)).collect();
        assert_eq!(decode_results(&encode_results(&each)), Ok(each));
        assert!(decode_results(&[1, 2]).is_err(), "no coordinator says that");
        assert!(decode_results(&[]).is_err());
    }
}
