use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesOrdered, StreamExt};
use milepost_raft::Leadership;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use crate::cluster::Cluster;
use crate::commit::{Sequencers, decode_outcome};
use crate::group::classic::{Command, Coordinator, Reply, Then, Waiter};
use crate::group::coordinators::{Keeper, Request};
use crate::index::OpenShard;
use crate::peer::Answer;
use crate::protocol::ErrorCode;
use crate::shard::group::{Change, Group, GroupEntry};
use crate::shard::{Entry, Outcome, Refusal, Slot};
use crate::types::TopicId;

/// Proposals of one coordinator on their way; below what a sequencer queues.
const PROPOSALS_MAX: usize = 1024;
/// How often offsets are looked at for their age (Kafka: `offsets.retention.check.interval.ms`).
const SWEEP_INTERVAL: Duration = Duration::from_secs(600);

type Decided = (String, Then, Result<(), ErrorCode>);

/// This broker's time as the coordinator of a shard's groups, in one term: begun from applied state, and with its end
/// all that was not in the log is forgotten.
pub(super) struct Reign {
    shard: Arc<OpenShard>,
    cluster: Cluster,
    sequencers: Arc<Sequencers>,
    term: u64,
    groups: Coordinator,
    /// The shard's clock when this began, and since when it runs on.
    clock_ms: u64,
    began: Instant,
    waiting: HashMap<Waiter, oneshot::Sender<Reply>>,
    waiter_next: Waiter,
    proposals: FuturesOrdered<BoxFuture<'static, Decided>>,
}

impl Reign {
    pub fn begin(keeper: &Keeper, term: u64) -> Reign {
        let now = Instant::now();
        let mut groups = Coordinator::new(keeper.settings.classic.clone());
        let (clock_ms, with_members) = keeper.shard.replica().read(|state| {
            let all = state.groups().all().filter(|(_, _, group)| group.has_members());
            let all: Vec<(Slot, String, Arc<Group>)> = all.map(|(slot, id, g)| (slot, id.clone(), g.clone())).collect();
            (state.groups().clock_ms(), all)
        });
        for (slot, id, group) in with_members {
            group.classic().into_iter().for_each(|classic| groups.load(now, slot, &id, classic));
        }
        Reign {
            shard: keeper.shard.clone(),
            cluster: keeper.cluster.clone(),
            sequencers: keeper.sequencers.clone(),
            term,
            groups,
            clock_ms,
            began: now,
            waiting: HashMap::new(),
            waiter_next: 0,
            proposals: FuturesOrdered::new(),
        }
    }

    /// Until it ends: then those who still wait are sent elsewhere. False when nobody will ask again.
    pub async fn run(
        mut self,
        stop: &mut watch::Receiver<bool>,
        leadership: &mut watch::Receiver<Leadership>,
        requests: &mut mpsc::Receiver<Request>,
    ) -> bool {
        let mut sweep_at = self.began + SWEEP_INTERVAL;
        let goes_on = loop {
            self.obey();
            let late_at = self.groups.deadline().map_or(sweep_at, |at| sweep_at.min(at));
            let open = self.proposals.len() < PROPOSALS_MAX;
            tokio::select! {
                changed = leadership.changed() => {
                    let now = *leadership.borrow();
                    if changed.is_err() || now.term != self.term || !now.ready {
                        break changed.is_ok();
                    }
                }
                changed = stop.changed() => break changed.is_ok(),
                Some((id, then, decided)) = self.proposals.next() => {
                    self.groups.decided(Instant::now(), &id, then, decided);
                }
                request = requests.recv(), if open => match request {
                    Some(request) => self.take(request),
                    None => break false,
                },
                () = sleep_until(late_at) => {
                    let now = Instant::now();
                    self.groups.tick(now);
                    if now >= sweep_at {
                        sweep_at = now + SWEEP_INTERVAL;
                        self.sweep();
                    }
                }
            }
        };
        for (_, answer) in self.waiting.drain() {
            let _ = answer.send(Reply::Failed(ErrorCode::NotCoordinator));
        }
        goes_on
    }

    fn take(&mut self, request: Request) {
        let (partition, id, ask, answer) = match request {
            Request::Ask { partition, group, ask, answer } => (partition, group, ask, answer),
            Request::List { answer } => {
                let all = self.applied_groups();
                let _ = answer.send(Ok(self.groups.list(all.iter().map(|(_, id, group)| (id, group.as_ref())))));
                return;
            }
        };
        let found = self.shard.replica().read(|state| {
            let slot = state.partition(&partition)?.slot;
            Some((slot, state.groups().get(slot, &id).cloned()))
        });
        let Some((slot, applied)) = found else {
            let _ = answer.send(Reply::Failed(ErrorCode::NotCoordinator));
            return;
        };
        self.waiter_next += 1;
        self.waiting.insert(self.waiter_next, answer);
        self.groups.ask(Instant::now(), slot, &id, applied.as_deref(), *ask, self.waiter_next);
    }

    fn obey(&mut self) {
        for command in self.groups.take_commands() {
            match command {
                Command::Answer(waiter, reply) => {
                    // Whoever asked may have gone.
                    if let Some(answer) = self.waiting.remove(&waiter) {
                        let _ = answer.send(reply);
                    }
                }
                Command::Propose { slot, group, change, then } => self.propose(slot, group, change, then),
            }
        }
    }

    fn propose(&mut self, slot: Slot, group: String, change: Change, then: Then) {
        let entry = GroupEntry { slot, term: self.term, clock_ms: self.now_ms(), group: group.clone(), change };
        let decided = self.sequencers.entry(self.shard.id, Entry::Group(entry).encode());
        let decided = async move { (group, then, outcome(decided.await.unwrap_or(Answer::Unknown))) };
        self.proposals.push_back(decided.boxed());
    }

    fn sweep(&mut self) {
        let all = self.applied_groups();
        if all.is_empty() {
            return;
        }
        let clock_ms = self.now_ms();
        let names: HashMap<TopicId, String> =
            self.cluster.view().topics().map(|topic| (topic.id, topic.name.clone())).collect();
        self.groups.sweep(clock_ms, all.iter().map(|(slot, id, group)| (*slot, id, group.as_ref())), &names);
        // The next coordinator goes on from here.
        let entry = Entry::GroupClock { term: self.term, clock_ms }.encode();
        drop(self.sequencers.entry(self.shard.id, entry));
    }

    fn applied_groups(&self) -> Vec<(Slot, String, Arc<Group>)> {
        let groups = self.shard.replica().read(|state| state.groups().clone());
        groups.all().map(|(slot, id, group)| (slot, id.clone(), group.clone())).collect()
    }

    fn now_ms(&self) -> u64 {
        self.clock_ms + self.began.elapsed().as_millis() as u64
    }
}

/// What members can be told of a proposal's end (Kafka: `appendGroupMetadataErrorToResponseError`).
pub(crate) fn outcome(answer: Answer) -> Result<(), ErrorCode> {
    match answer {
        Answer::Done(body) if body.is_empty() => Ok(()),
        Answer::Done(body) => Err(match decode_outcome(&body) {
            // Of a commit within a transaction.
            Ok(Outcome::Refused(Refusal::StaleProducerEpoch)) => ErrorCode::InvalidProducerEpoch,
            Ok(Outcome::Refused(_)) => ErrorCode::InvalidTxnState,
            outcome => {
                tracing::debug!(?outcome, "decided in another term");
                ErrorCode::NotCoordinator
            }
        }),
        Answer::NotLeader { .. } => Err(ErrorCode::NotCoordinator),
        Answer::Unknown => Err(ErrorCode::CoordinatorNotAvailable),
        Answer::Refused(why) => {
            tracing::warn!(why, "a change of a group cannot be written");
            Err(ErrorCode::UnknownServerError)
        }
    }
}
