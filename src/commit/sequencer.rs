use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, RwLock};

use bytes::Bytes;
use futures::stream::{FuturesUnordered, StreamExt};
use milepost_raft::ProposeError;
use tokio::sync::{mpsc, oneshot};

use crate::cluster::now_ms;
use crate::commit::waits::Waits;
use crate::commit::wire::encode_outcome;
use crate::index::OpenShard;
use crate::peer::Answer;
use crate::shard::entry::append_entry;
use crate::shard::{Append, Entry, Outcome};
use crate::types::{BrokerEpoch, BrokerId, ShardId};

/// Requests waiting for one shard; more is told to come again.
const QUEUE_MAX: usize = 4096;
const PROPOSALS_IN_FLIGHT_MAX: usize = 512;

/// The one task that proposes to a shard on this broker while it leads.
///
/// It decides nothing: apply does, from applied state. It only keeps each broker's objects in turn before they cost a
/// log entry. When a proposal fails, later ones of the same pipeline may still be in the log; so nothing new is proposed
/// until all of them are decided, and what is in turn is then read from applied state again.
pub struct Sequencer {
    shard: Arc<OpenShard>,
    term: u64,
    /// Newest object proposed per broker, ahead of what is applied.
    proposed: HashMap<BrokerId, (BrokerEpoch, u64)>,
    in_flight: FuturesUnordered<Pin<Box<dyn Future<Output = bool> + Send>>>,
    failed: bool,
}

enum Request {
    Commit { packed: Bytes, append: Append, answer: oneshot::Sender<Answer> },
    Entry { payload: Bytes, answer: oneshot::Sender<Answer> },
}

/// The way to the sequencers of the shards open here.
#[derive(Default)]
pub struct Sequencers {
    queues: RwLock<HashMap<ShardId, mpsc::Sender<Request>>>,
    pub(super) waits: Arc<Waits>,
}

impl Sequencers {
    /// Starts the sequencer of a shard that was just opened.
    pub fn open(&self, shard: Arc<OpenShard>) {
        let (queue, requests) = mpsc::channel(QUEUE_MAX);
        self.queues.write().expect("no writer panics").insert(shard.id, queue);
        let sequencer =
            Sequencer { shard, term: 0, proposed: HashMap::new(), in_flight: FuturesUnordered::new(), failed: false };
        tokio::spawn(sequencer.run(requests));
    }

    /// The shard has left this broker.
    pub fn close(&self, shard: ShardId) {
        self.queues.write().expect("no writer panics").remove(&shard);
    }

    /// One object's batches. Enqueued before this returns, so calls in order are proposed in order.
    pub fn commit(&self, shard: ShardId, packed: Bytes) -> oneshot::Receiver<Answer> {
        let (answer, receiver) = oneshot::channel();
        match Append::decode(&packed) {
            Ok(append) => self.enqueue(shard, Request::Commit { packed, append, answer }),
            Err(e) => drop(answer.send(Answer::Refused(e.to_string()))),
        }
        receiver
    }

    /// Any other entry.
    pub fn entry(&self, shard: ShardId, payload: Bytes) -> oneshot::Receiver<Answer> {
        let (answer, receiver) = oneshot::channel();
        match Entry::decode(&payload) {
            Ok(Entry::Append { .. }) => drop(answer.send(Answer::Refused("appends are committed".into()))),
            Ok(_) => self.enqueue(shard, Request::Entry { payload, answer }),
            Err(e) => drop(answer.send(Answer::Refused(e.to_string()))),
        }
        receiver
    }

    fn enqueue(&self, shard: ShardId, request: Request) {
        let queues = self.queues.read().expect("no writer panics");
        let refused = match queues.get(&shard) {
            Some(queue) => queue.try_send(request).err().map(mpsc::error::TrySendError::into_inner),
            None => Some(request),
        };
        if let Some(Request::Commit { answer, .. } | Request::Entry { answer, .. }) = refused {
            let _ = answer.send(Answer::NotLeader { leader: None });
        }
    }
}

impl Sequencer {
    async fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        loop {
            let open = !self.failed && self.in_flight.len() < PROPOSALS_IN_FLIGHT_MAX;
            tokio::select! {
                Some(applied) = self.in_flight.next() => self.failed |= !applied,
                request = requests.recv(), if open => match request {
                    Some(request) => self.take(request).await,
                    None => return,
                },
            }
            if self.failed && self.in_flight.is_empty() {
                self.failed = false;
                self.proposed.clear();
            }
        }
    }

    async fn take(&mut self, request: Request) {
        let leadership = *self.shard.group.leadership().borrow();
        if leadership.term != self.term {
            self.term = leadership.term;
            self.proposed.clear();
        }
        let refusal = (!leadership.ready).then_some(Answer::NotLeader { leader: leadership.leader });
        match (request, refusal) {
            (Request::Commit { answer, .. } | Request::Entry { answer, .. }, Some(refusal)) => {
                let _ = answer.send(refusal);
            }
            (Request::Commit { packed, append, answer }, None) => {
                let object = append.object;
                if let Some(last) = self.out_of_turn(&append) {
                    let _ = answer.send(Answer::Done(encode_outcome(&Outcome::OutOfTurn { last })));
                } else if self.propose(append_entry(now_ms(), &packed), answer).await {
                    let proposed = self.proposed.entry(object.broker).or_default();
                    *proposed = (*proposed).max((object.epoch, object.sequence));
                }
            }
            (Request::Entry { payload, answer }, None) => {
                self.propose(payload, answer).await;
            }
        }
    }

    /// What the shard has, if this object is not the next one. An older object is let through: apply finds its verdicts;
    /// and so is one of an older epoch: apply fences it.
    fn out_of_turn(&self, append: &Append) -> Option<u64> {
        let object = append.object;
        let applied = self.shard.replica().read(|state| state.last_taken(object.broker, object.epoch))?;
        let last = match self.proposed.get(&object.broker) {
            Some((epoch, last)) if *epoch == object.epoch => applied.max(*last),
            _ => applied,
        };
        (append.previous != last && object.sequence > last).then_some(last)
    }

    async fn propose(&mut self, payload: Bytes, answer: oneshot::Sender<Answer>) -> bool {
        match self.shard.group.propose(payload, self.term).await {
            Ok(proposal) => {
                self.in_flight.push(Box::pin(async move {
                    let decided = proposal.await;
                    let applied = decided.is_ok();
                    // The asker may have gone; its retry finds the same verdicts.
                    let _ = answer.send(match decided {
                        Ok((_, Some(outcome))) => Answer::Done(encode_outcome(&outcome)),
                        Ok((_, None)) => Answer::Done(Bytes::new()),
                        Err(e) => answer_for(e),
                    });
                    applied
                }));
                true
            }
            Err(e) => {
                self.failed = true;
                let _ = answer.send(answer_for(e));
                false
            }
        }
    }
}

fn answer_for(e: ProposeError) -> Answer {
    match e {
        ProposeError::NotLeader { leader } => Answer::NotLeader { leader },
        ProposeError::Unknown { .. } | ProposeError::Stopped => Answer::Unknown,
        ProposeError::TooLarge { .. } => Answer::Refused(e.to_string()),
    }
}
