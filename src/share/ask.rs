//! Asks the leaders of shards, wherever they are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, timeout_at};

use crate::cluster::{Cluster, LeaderGuess};
use crate::commit::with_shard;
use crate::index::Shards;
use crate::peer;
use crate::protocol::ErrorCode;
use crate::share::Share;
use crate::share::sessions::Ended;
use crate::share::wire::{Ack, Acquired, Ask, Described, Reply, What, pack, unpack};
use crate::types::{Offset, Partition, ShardId};

/// A change of leader takes about a second; members are told to come again after this.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A leader is asked to wait for so long at most, so that one that has died is noticed.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// What there is to acquire, at most.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub records: u32,
    pub bytes: u64,
}

/// # Errors
/// Kafka's word for a leader that is not reached now.
pub(super) async fn ask_leader(
    cluster: &Cluster,
    shards: &Arc<Shards>,
    shard: ShardId,
    group: &str,
    what: What,
) -> Result<Reply, ErrorCode> {
    let body = with_shard(shard, &pack(&Ask { group: group.to_owned(), what }));
    let mut guess = LeaderGuess::new(cluster.clone(), shards.clone(), shard);
    let answer = peer::call_leader(cluster.node(), || guess.take(), peer::SHARE, body, TIMEOUT).await;
    let answer = answer.map_err(|e| {
        tracing::debug!(shard, group, error = %e, "the leader of a share group's partitions cannot be asked");
        ErrorCode::NotLeaderOrFollower
    })?;
    unpack(&answer).map_err(|e| {
        tracing::warn!(shard, error = %e, "the leader of a share group's partitions is not understood");
        ErrorCode::UnknownServerError
    })
}

impl Share {
    /// # Errors
    /// See [`ask_leader`].
    pub(super) async fn ask(&self, shard: ShardId, group: &str, what: What) -> Result<Reply, ErrorCode> {
        ask_leader(&self.cluster, &self.shards, shard, group, what).await
    }

    /// Waits until there is something to acquire, an error to tell, or no time left. The shards are asked one after
    /// another, in the order of their first partitions, so that a member does not get more than it asked for; then all
    /// at once which of them has something first.
    pub(super) async fn acquire(
        &self,
        (group, member): &(String, String),
        wanted: &[(Partition, ShardId)],
        limits: Limits,
        deadline: Instant,
    ) -> Vec<Acquired> {
        if limits.records == 0 || limits.bytes == 0 {
            return Vec::new();
        }
        let by_shard = in_order(wanted);
        loop {
            let now = Instant::now();
            let alone = by_shard.len() == 1;
            let wait = WAIT_MAX.min(deadline.saturating_duration_since(now));
            let wait_ms = if alone { wait.as_millis() as u64 } else { 0 };
            let mut left = limits;
            let mut all = Vec::with_capacity(wanted.len());
            for (shard, partitions) in &by_shard {
                if left.records == 0 || left.bytes == 0 {
                    break;
                }
                let what = What::Acquire {
                    member: member.clone(),
                    records_max: left.records,
                    bytes_max: left.bytes,
                    wait_ms,
                    partitions: partitions.clone(),
                };
                let acquired = match self.ask(*shard, group, what).await {
                    Ok(Reply::Acquired(acquired)) => acquired,
                    Ok(_) => failed(partitions, ErrorCode::UnknownServerError),
                    Err(error) => failed(partitions, error),
                };
                let records: u64 = acquired.iter().map(Acquired::records).sum();
                let bytes: u64 = acquired.iter().flat_map(|one| &one.pointers).map(|pointer| pointer.len).sum();
                left.records = left.records.saturating_sub(records.min(u32::MAX.into()) as u32);
                left.bytes = left.bytes.saturating_sub(bytes);
                all.extend(acquired);
            }
            let any = all.iter().any(|one| one.error != 0 || !one.ranges.is_empty());
            if any || Instant::now() >= deadline {
                return all;
            }
            if !alone {
                self.look(group, &by_shard, wait.as_millis() as u64, deadline).await;
            }
        }
    }

    /// Returns when one of the shards has something.
    async fn look(&self, group: &str, by_shard: &[(ShardId, Vec<Partition>)], wait_ms: u64, deadline: Instant) {
        let looks = by_shard.iter().map(async |(shard, partitions)| {
            let what = What::Look { wait_ms, partitions: partitions.clone() };
            !matches!(self.ask(*shard, group, what).await, Ok(Reply::Ready(false)))
        });
        let mut looks: FuturesUnordered<_> = looks.collect();
        while let Ok(Some(false)) = timeout_at(deadline, looks.next()).await {}
    }

    /// An error for each partition, in their order.
    pub(super) async fn acknowledge(
        &self,
        (group, member): &(String, String),
        acks: Vec<(Partition, ShardId, Vec<Ack>)>,
    ) -> Vec<(Partition, ErrorCode)> {
        let mut by_shard: BTreeMap<ShardId, Vec<(Partition, Vec<Ack>)>> = BTreeMap::new();
        for (partition, shard, acks) in acks {
            by_shard.entry(shard).or_default().push((partition, acks));
        }
        let asked = by_shard.into_iter().map(async |(shard, partitions)| {
            let of: Vec<Partition> = partitions.iter().map(|one| one.0).collect();
            let what = What::Acknowledge { member: member.clone(), partitions };
            self.each(shard, group, what, of).await
        });
        join_all(asked).await.concat()
    }

    /// The member holds nothing of these any more. What cannot be told now is told by the end of the locks.
    pub(super) async fn release(&self, ended: Ended) {
        let Ended { group, member, partitions } = ended;
        let view = self.cluster.view();
        let placed = |partition: &Partition| {
            let topic = view.topic(partition.topic)?;
            Some((*partition, *topic.placement.get(usize::try_from(partition.index).ok()?)?))
        };
        let placed: Vec<(Partition, ShardId)> = partitions.iter().filter_map(placed).collect();
        let asked = in_order(&placed).into_iter().map(|(shard, partitions)| {
            let what = What::Release { member: member.clone(), partitions: partitions.clone() };
            self.each(shard, &group, what, partitions)
        });
        for (partition, error) in join_all(asked).await.concat() {
            if error != ErrorCode::None {
                tracing::debug!(?partition, group, member, ?error, "records are held until their locks run out");
            }
        }
    }

    /// For what is answered with an error for each partition.
    pub(super) async fn each(
        &self,
        shard: ShardId,
        group: &str,
        what: What,
        partitions: Vec<Partition>,
    ) -> Vec<(Partition, ErrorCode)> {
        let codes = match self.ask(shard, group, what).await {
            Ok(Reply::Each(codes)) if codes.len() == partitions.len() => codes.into_iter().map(code_of).collect(),
            Ok(_) => vec![ErrorCode::UnknownServerError; partitions.len()],
            Err(error) => vec![error; partitions.len()],
        };
        partitions.into_iter().zip(codes).collect()
    }

    /// # Errors
    /// The leader of a shard is not reached.
    pub(super) async fn describe(
        &self,
        shard: ShardId,
        group: &str,
        partitions: Option<Vec<Partition>>,
    ) -> Result<Vec<Described>, ErrorCode> {
        match self.ask(shard, group, What::Describe { partitions }).await? {
            Reply::Described(described) => Ok(described),
            _ => Err(ErrorCode::UnknownServerError),
        }
    }

    /// Delivery of these begins anew.
    pub(super) async fn begin(
        &self,
        shard: ShardId,
        group: &str,
        starts: Vec<(Partition, Offset)>,
    ) -> Vec<(Partition, ErrorCode)> {
        let of = starts.iter().map(|one| one.0).collect();
        self.each(shard, group, What::Begin { starts }, of).await
    }
}

fn failed(partitions: &[Partition], error: ErrorCode) -> Vec<Acquired> {
    partitions.iter().map(|at| Acquired { error: error.code(), ..Acquired::none(*at) }).collect()
}

/// The shards in the order of their first partitions.
fn in_order(wanted: &[(Partition, ShardId)]) -> Vec<(ShardId, Vec<Partition>)> {
    let mut by_shard: Vec<(ShardId, Vec<Partition>)> = Vec::new();
    for (partition, shard) in wanted {
        match by_shard.iter_mut().find(|(of, _)| of == shard) {
            Some((_, partitions)) => partitions.push(*partition),
            None => by_shard.push((*shard, vec![*partition])),
        }
    }
    by_shard
}

/// What a leader says of partitions.
pub(super) fn code_of(code: i16) -> ErrorCode {
    const LEADERS: [ErrorCode; 9] = [
        ErrorCode::None,
        ErrorCode::UnknownTopicOrPartition,
        ErrorCode::NotLeaderOrFollower,
        ErrorCode::CoordinatorLoadInProgress,
        ErrorCode::CoordinatorNotAvailable,
        ErrorCode::InvalidRequest,
        ErrorCode::InvalidRecordState,
        ErrorCode::FencedStateEpoch,
        ErrorCode::UnknownServerError,
    ];
    LEADERS.into_iter().find(|known| known.code() == code).unwrap_or(ErrorCode::UnknownServerError)
}
