use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use milepost_raft::{NodeId, Service, StateMachine};

use crate::cache::Cache;
use crate::cluster::{self, Cluster};
use crate::commit::{Sequencers, Underway, answer_slots, split_shard};
use crate::index::{OpenShard, Shards, answer_questions, answer_read_index};
use crate::peer::{self, Answer};
use crate::share;
use crate::survey::told;
use crate::transaction::{self, answer_verify};
use crate::types::{ROOT_SHARD, ShardId, varint};

/// Answers other brokers. Until this broker has its seat it sends everybody elsewhere.
#[derive(Default)]
pub(super) struct Peers {
    seat: OnceLock<Seat>,
    cache: OnceLock<Arc<Cache>>,
}

pub(super) struct Seat {
    pub cluster: Cluster,
    pub shards: Arc<Shards>,
    pub sequencers: Arc<Sequencers>,
    pub underway: Arc<Underway>,
    pub transactions: Arc<transaction::Coordinators>,
    pub shares: Arc<share::Leaders>,
}

impl Peers {
    pub fn seat(&self, seat: Seat) {
        if self.seat.set(seat).is_err() {
            tracing::error!("this broker was seated twice");
        }
    }

    /// From here on neighbours may read from this broker's cache.
    pub fn share(&self, cache: Arc<Cache>) {
        if self.cache.set(cache).is_err() {
            tracing::error!("this broker has two caches");
        }
    }
}

const ELSEWHERE: Answer = Answer::NotLeader { leader: None };

impl Service for Peers {
    /// What must keep its order is enqueued before the future is returned: frames of one connection come in order.
    fn call(&self, from: NodeId, kind: u8, body: Bytes) -> BoxFuture<'static, Bytes> {
        let Some(seat) = self.seat.get() else { return ready(ELSEWHERE.encode()).boxed() };
        match kind {
            peer::READ => {
                let cache = self.cache.get().cloned();
                async move {
                    let Some(cache) = cache else { return ELSEWHERE.encode() };
                    cache.answer(from, body).await.encode()
                }
                .boxed()
            }
            peer::ROOT => {
                let cluster = seat.cluster.clone();
                async move {
                    let answer = cluster.answer(body.clone()).await;
                    cluster.or_pass_on(from, kind, body, answer).await.encode()
                }
                .boxed()
            }
            peer::STATUS => {
                let cache = self.cache.get().map(|cache| cache.metrics());
                ready(told::answer_status(&seat.cluster, &seat.shards, cache).encode()).boxed()
            }
            peer::SETTLE => {
                let settled = seat.underway.settled();
                async move {
                    settled.await;
                    Answer::Done(Bytes::new()).encode()
                }
                .boxed()
            }
            peer::QUORUM => ready(seat.cluster.answer_quorum().encode()).boxed(),
            peer::JOIN => {
                let cluster = seat.cluster.clone();
                async move {
                    let answer = cluster.let_in(body.clone()).await;
                    cluster.or_pass_on(from, kind, body, answer).await.encode()
                }
                .boxed()
            }
            _ => match split_shard(body) {
                Ok((shard, body)) => seat.of_shard(kind, shard, body),
                Err(e) => ready(Answer::Refused(e.to_string()).encode()).boxed(),
            },
        }
    }
}

impl Seat {
    fn of_shard(&self, kind: u8, id: ShardId, body: Bytes) -> BoxFuture<'static, Bytes> {
        if (kind, id) == (peer::STATE, ROOT_SHARD) {
            let root = self.cluster.root();
            let applied = root.applied().borrow().index;
            return ready(state(applied, &root.machine().snapshot()())).boxed();
        }
        let Some(shard) = self.shards.get(id) else { return ready(ELSEWHERE.encode()).boxed() };
        match kind {
            peer::COMMIT => answered(self.sequencers.commit(id, body)),
            peer::SHARD_ENTRY => answered(self.sequencers.entry(id, body)),
            peer::READ_INDEX => async move { answer_read_index(&shard).await.encode() }.boxed(),
            peer::SLOTS => ready(answer_slots(&shard, &body).encode()).boxed(),
            peer::STATE => async move {
                let (index, applied) = shard.replica().applied();
                state(index, &applied.to_snapshot())
            }
            .boxed(),
            peer::AWAIT_HELD => self.await_held(shard, body),
            peer::TOPIC => async move { told::answer_topic(&shard, &body).encode() }.boxed(),
            peer::ELECT => {
                let cluster = self.cluster.clone();
                async move { cluster::answer_election(&cluster, &shard, &body).await.encode() }.boxed()
            }
            peer::TRIM => {
                let sequencers = self.sequencers.clone();
                async move { sequencers.trim(&shard, body).await.encode() }.boxed()
            }
            peer::MARKERS => {
                let (sequencers, cluster) = (self.sequencers.clone(), self.cluster.clone());
                async move { sequencers.end_transaction(&shard, &cluster, body).await.encode() }.boxed()
            }
            peer::VERIFY => {
                let transactions = self.transactions.clone();
                async move { answer_verify(&transactions, &shard, body).await.encode() }.boxed()
            }
            peer::SHARE => {
                let shares = self.shares.clone();
                async move { shares.answer(&shard, body).await.encode() }.boxed()
            }
            peer::QUESTIONS => {
                let node = self.cluster.node().clone();
                async move { answer_questions(&node, &shard, body).await.encode() }.boxed()
            }
            _ => ready(Answer::Refused(format!("kind {kind} is not known to this build")).encode()).boxed(),
        }
    }

    fn await_held(&self, shard: Arc<OpenShard>, body: Bytes) -> BoxFuture<'static, Bytes> {
        let (sequencers, cluster) = (self.sequencers.clone(), self.cluster.clone());
        async move { sequencers.await_held(&shard, &cluster, body).await.encode() }.boxed()
    }
}

fn answered(answer: tokio::sync::oneshot::Receiver<Answer>) -> BoxFuture<'static, Bytes> {
    async move { answer.await.unwrap_or(Answer::Unknown).encode() }.boxed()
}

fn state(applied: u64, snapshot: &[u8]) -> Bytes {
    let mut body = BytesMut::with_capacity(snapshot.len() + 10);
    varint::put(&mut body, applied);
    body.extend_from_slice(snapshot);
    Answer::Done(body.freeze()).encode()
}
