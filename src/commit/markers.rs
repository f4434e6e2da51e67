use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};

use crate::admin::CONSUMER_OFFSETS;
use crate::cluster::{Cluster, LeaderGuess, now_ms};
use crate::commit::Sequencers;
use crate::commit::wire::{decode_outcome, encode_outcome, with_shard};
use crate::index::{OpenShard, Shards};
use crate::peer::{self, Answer, LeaderError};
use crate::shard::{Entry, Markers, Outcome, Refusal, Target};
use crate::types::varint::{self, Malformed, Reader};
use crate::types::{Partition, Producer, ShardId, TopicId};

/// The end of a transaction, as its coordinator decided it: see [`Markers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    pub producer: Producer,
    pub txn_no: u64,
    pub commit: bool,
    pub coordinator_epoch: i32,
}

/// Ends transactions in partitions, wherever their shards are led.
pub struct Endings {
    cluster: Cluster,
    shards: Arc<Shards>,
}

impl Endings {
    pub fn new(cluster: Cluster, shards: Arc<Shards>) -> Self {
        Endings { cluster, shards }
    }

    /// Asks the shard's leader, with one request for all partitions, and answers when it is applied: for each partition,
    /// in their order, that the transaction is over there or why it cannot be ended. Harmless to repeat, however late,
    /// as long as the transaction is named by its number.
    ///
    /// # Errors
    /// No leader was reached, or nobody knows whether it was done: ask again.
    pub async fn end(
        &self,
        shard: ShardId,
        ending: &Ending,
        partitions: &[Partition],
        timeout: Duration,
    ) -> Result<Vec<Result<(), Refusal>>, LeaderError> {
        let body = with_shard(shard, &encode(ending, partitions));
        let mut guess = LeaderGuess::new(self.cluster.clone(), self.shards.clone(), shard);
        let answer = peer::call_leader(self.cluster.node(), || guess.take(), peer::MARKERS, body, timeout).await?;
        match decode_outcome(&answer) {
            Ok(Outcome::Marked(results)) if results.len() == partitions.len() => Ok(results),
            Ok(_) | Err(Malformed) => Err(LeaderError::Unknown),
        }
    }
}

impl Sequencers {
    /// The leader's side.
    pub async fn end_transaction(&self, shard: &OpenShard, cluster: &Cluster, body: Bytes) -> Answer {
        let leadership = *shard.group.leadership().borrow();
        if !leadership.ready {
            return Answer::NotLeader { leader: leadership.leader };
        }
        let Ok((ending, partitions)) = decode(&body) else { return Answer::Refused("malformed markers".into()) };
        let view = cluster.view();
        let groups_in = view.topic_named(CONSUMER_OFFSETS).map(|topic| topic.id);
        // A view that is older than one of these topics cannot tell groups from records: a moment later it can.
        let unseen = |at: &Partition| view.topic(at.topic).is_none();
        if shard.replica().read(|state| partitions.iter().any(|at| unseen(at) && state.partition(at).is_some())) {
            return Answer::Unknown;
        }
        let targets: Vec<Option<Target>> = shard.replica().read(|state| {
            let target = |at: &Partition| {
                let slot = state.partition(at)?.slot;
                Some(Target { slot, groups: Some(at.topic) == groups_in })
            };
            partitions.iter().map(target).collect()
        });
        let Ending { producer, txn_no, commit, coordinator_epoch } = ending;
        let known = targets.iter().flatten().copied().collect();
        let markers = Markers { append_time: now_ms(), producer, txn_no, commit, coordinator_epoch, targets: known };
        let body = match self.entry(shard.id, Entry::Markers(markers).encode()).await {
            Ok(Answer::Done(body)) => body,
            Ok(other) => return other,
            Err(_) => return Answer::Unknown,
        };
        let Ok(Outcome::Marked(results)) = decode_outcome(&body) else { return Answer::Unknown };
        let mut results = results.into_iter();
        // A partition that is not here was deleted: a leader has applied every creation.
        let unknown = Err(Refusal::UnknownPartition);
        let all = targets.iter().map(|target| target.and_then(|_| results.next()).unwrap_or(unknown));
        Answer::Done(encode_outcome(&Outcome::Marked(all.collect())))
    }
}

fn encode(ending: &Ending, partitions: &[Partition]) -> Bytes {
    let mut out = BytesMut::with_capacity(32 + partitions.len() * 4);
    varint::put_signed(&mut out, ending.producer.id);
    varint::put_signed(&mut out, ending.producer.epoch.into());
    varint::put(&mut out, ending.txn_no);
    out.put_u8(ending.commit.into());
    varint::put_signed(&mut out, ending.coordinator_epoch.into());
    let runs: Vec<&[Partition]> = partitions.chunk_by(|a, b| a.topic == b.topic).collect();
    varint::put(&mut out, runs.len() as u64);
    for run in runs {
        out.put_slice(run[0].topic.as_bytes());
        varint::put(&mut out, run.len() as u64);
        run.iter().for_each(|partition| varint::put_signed(&mut out, partition.index.into()));
    }
    out.freeze()
}

pub(crate) fn decode(bytes: &[u8]) -> Result<(Ending, Vec<Partition>), Malformed> {
    let mut r = Reader::new(bytes);
    let small = |number: i64| i32::try_from(number).map_err(|_| Malformed);
    let (id, epoch) = (r.signed()?, i16::try_from(r.signed()?).map_err(|_| Malformed)?);
    let (txn_no, commit, coordinator_epoch) = (r.u64()?, r.byte()? != 0, small(r.signed()?)?);
    let mut partitions = Vec::new();
    for _ in 0..r.count(17)? {
        let topic = TopicId::from_bytes(r.array()?);
        for _ in 0..r.count(1)? {
            partitions.push(Partition { topic, index: small(r.signed()?)? });
        }
    }
    r.finish()?;
    Ok((Ending { producer: Producer { id, epoch }, txn_no, commit, coordinator_epoch }, partitions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_read_back_as_written() {
        let at = |topic: u8, index| Partition { topic: TopicId::from_bytes([topic; 16]), index };
        let partitions = vec![at(1, 0), at(1, 300), at(2, 7), at(1, -1)];
        let producer = Producer { id: i64::MAX, epoch: -1 };
        let ending = Ending { producer, txn_no: 1 << 40, commit: true, coordinator_epoch: i32::MAX };
        let bytes = encode(&ending, &partitions);
        assert_eq!(decode(&bytes), Ok((ending, partitions)));
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }
}
