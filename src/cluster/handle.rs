use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use milepost_raft::{Group, Node, NodeId, ProposeError};

use crate::cluster::addresses::Addresses;
use crate::cluster::{RootAnswer, RootEntry, RootMachine, RootRefusal, RootState};
use crate::door;
use crate::peer::{self, Answer, LeaderError};
use crate::types::varint::{self, Reader};
use crate::types::{BrokerEpoch, BrokerId};

/// Producer ids are taken from the root in blocks (Kafka: `ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE`).
const PRODUCER_ID_BLOCK: i64 = 1000;

#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Refused(#[from] RootRefusal),
    /// Nothing was changed: the root has no leader that can be reached. Try again.
    #[error("the root shard cannot be reached")]
    Unavailable,
    /// It may have been changed: look before repeating.
    #[error("the outcome is unknown")]
    Unknown,
}

/// This broker's seat in the cluster. A cheap clone.
#[derive(Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
}

struct Inner {
    node: Node,
    root: Group<RootMachine>,
    addresses: Addresses,
    me: BrokerId,
    node_id: NodeId,
    epoch: BrokerEpoch,
    cluster_id: String,
    producer_ids: Mutex<Range<i64>>,
    /// One refill at a time.
    refill: tokio::sync::Mutex<()>,
}

impl Cluster {
    pub(super) fn new(
        node: Node,
        root: Group<RootMachine>,
        addresses: Addresses,
        me: BrokerId,
        node_id: NodeId,
        epoch: BrokerEpoch,
        cluster_id: String,
    ) -> Self {
        let (producer_ids, refill) = (Mutex::new(0..0), tokio::sync::Mutex::new(()));
        Cluster {
            inner: Arc::new(Inner { node, root, addresses, me, node_id, epoch, cluster_id, producer_ids, refill }),
        }
    }

    /// The root state as applied on this broker.
    pub fn view(&self) -> Arc<RootState> {
        self.inner.root.machine().view()
    }

    pub fn broker_id(&self) -> BrokerId {
        self.inner.me
    }

    pub fn node_id(&self) -> NodeId {
        self.inner.node_id
    }

    /// This life of the broker; larger than any earlier one.
    pub fn epoch(&self) -> BrokerEpoch {
        self.inner.epoch
    }

    pub fn cluster_id(&self) -> &str {
        &self.inner.cluster_id
    }

    pub fn node(&self) -> &Node {
        &self.inner.node
    }

    pub fn root(&self) -> &Group<RootMachine> {
        &self.inner.root
    }

    pub(super) fn addresses(&self) -> &Addresses {
        &self.inner.addresses
    }

    /// The broker that leads the root shard (Kafka's controller), if known.
    pub fn controller(&self) -> Option<BrokerId> {
        let leader = self.inner.root.leadership().borrow().leader?;
        Some(self.view().broker_of(leader)?.id)
    }

    /// Has the root decide on an entry; when this returns, the decision is in [`Cluster::view`] here.
    ///
    /// # Errors
    /// [`Error::Refused`] is the root's decision; the others say whether repeating is safe.
    pub async fn propose(&self, entry: RootEntry, timeout: Duration) -> Result<RootAnswer, Error> {
        let root = &self.inner.root;
        let guess = || root.leadership().borrow().leader;
        let body = peer::call_leader(&self.inner.node, guess, peer::ROOT, entry.encode(), timeout).await;
        let body = body.map_err(|e| match e {
            LeaderError::NoLeader => Error::Unavailable,
            LeaderError::Unknown | LeaderError::Refused(_) => Error::Unknown,
        })?;
        let (index, answer) = decode_decision(&body).ok_or(Error::Unknown)?;
        root.wait_applied(index, timeout).await.map_err(|_| Error::Unknown)?;
        match answer {
            RootAnswer::Refused(refusal) => Err(refusal.into()),
            answer => Ok(answer),
        }
    }

    /// The leader's side of [`Cluster::propose`].
    pub(super) async fn decide(root: &Group<RootMachine>, entry: Bytes) -> Answer {
        if let Err(e) = RootEntry::decode(&entry) {
            return Answer::Refused(e.to_string());
        }
        let leadership = *root.leadership().borrow();
        if !leadership.ready {
            return Answer::NotLeader { leader: leadership.leader };
        }
        Self::decide_in(root, leadership.term, entry).await
    }

    /// Only while this node leads in exactly this term.
    pub(super) async fn decide_in(root: &Group<RootMachine>, term: u64, entry: Bytes) -> Answer {
        let decided = match root.propose(entry, term).await {
            Ok(proposal) => proposal.await,
            Err(e) => Err(e),
        };
        match decided {
            Ok((at, answer)) => Answer::Done(encode_decision(at.index, &answer)),
            Err(ProposeError::NotLeader { leader }) => Answer::NotLeader { leader },
            Err(ProposeError::Unknown { .. } | ProposeError::Stopped) => Answer::Unknown,
            Err(e @ ProposeError::TooLarge { .. }) => Answer::Refused(e.to_string()),
        }
    }

    /// Answers other brokers' [`peer::ROOT`].
    pub async fn answer(&self, entry: Bytes) -> Answer {
        Self::decide(&self.inner.root, entry).await
    }

    /// A producer id that nobody else has or will have (Kafka: InitProducerId).
    pub async fn next_producer_id(&self) -> Result<i64, Error> {
        loop {
            if let Some(id) = self.take_producer_id() {
                return Ok(id);
            }
            let _one = self.inner.refill.lock().await;
            if let Some(id) = self.take_producer_id() {
                return Ok(id);
            }
            let entry = RootEntry::IssueProducerIds { count: PRODUCER_ID_BLOCK };
            if let RootAnswer::FirstProducerId(first) = self.propose(entry, Duration::from_secs(5)).await? {
                *self.inner.producer_ids.lock().expect("no holder panics") = first..first + PRODUCER_ID_BLOCK;
            }
        }
    }

    fn take_producer_id(&self) -> Option<i64> {
        self.inner.producer_ids.lock().expect("no holder panics").next()
    }
}

/// Milliseconds since the epoch, for stamps that people read; never for deciding what to forget.
pub(crate) fn now_ms() -> i64 {
    door::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64)
}

fn encode_decision(index: u64, answer: &RootAnswer) -> Bytes {
    let mut out = BytesMut::new();
    varint::put(&mut out, index);
    out.extend_from_slice(&rmp_serde::to_vec(answer).expect("writing to memory does not fail"));
    out.freeze()
}

pub(super) fn decode_decision(bytes: &[u8]) -> Option<(u64, RootAnswer)> {
    let mut r = Reader::new(bytes);
    let index = r.u64().ok()?;
    let answer = r.take(r.remaining()).ok()?;
    Some((index, rmp_serde::from_slice(answer).ok()?))
}
