use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesOrdered, FuturesUnordered, StreamExt};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use crate::cluster::now_ms;
use crate::commit::{Endings, Sequencers};
use crate::group::outcome;
use crate::index::{OpenShard, Term};
use crate::peer::Answer;
use crate::protocol::ErrorCode;
use crate::shard::transaction::{Change, Transaction, TransactionEntry};
use crate::shard::{Entry, Slot};
use crate::transaction::coordinators::{Coordination, Request};
use crate::transaction::machine::{Applied, Command, Coordinator, Ending, Moment, Reply, Waiter};
use crate::transaction::mark::mark;
use crate::types::LeaderEpoch;

/// Proposals of one coordinator on their way; below what a sequencer queues.
const PROPOSALS_MAX: usize = 1024;
/// How often transactions are looked at for their age (Kafka: every 10 s); a look at 100,000 ids takes milliseconds.
const SWEEP_INTERVAL: Duration = Duration::from_secs(2);
/// How often the shard's clock is kept, for the next coordinator to go on from, where nothing else does.
const CLOCK_INTERVAL: Duration = Duration::from_secs(600);

/// Markers take a round trip and a sync of their shards. What takes longer, however often it is tried, is no longer counted
/// among what is marked at a time.
const HELD_UP: Duration = Duration::from_secs(1);

type Decided = (String, Result<(), ErrorCode>);
/// An id, and what is left to do before all its markers are written.
type Marked = (String, Option<BoxFuture<'static, ()>>);

/// This broker's time as the coordinator of a shard's transactional ids, in one term: begun from applied state, and with
/// its end all that was not in the log is forgotten. Markers on their way are, too: the next coordinator sends them again.
pub(super) struct Reign {
    shard: Arc<OpenShard>,
    sequencers: Arc<Sequencers>,
    endings: Arc<Endings>,
    term: u64,
    machine: Coordinator,
    /// The shard's clock when this began, and since when it runs on.
    clock_ms: u64,
    began: Instant,
    clock_kept: Instant,
    waiting: HashMap<Waiter, oneshot::Sender<Reply>>,
    waiter_next: Waiter,
    proposals: FuturesOrdered<BoxFuture<'static, Decided>>,
    marking: FuturesUnordered<BoxFuture<'static, Marked>>,
}

impl Applied for Arc<OpenShard> {
    fn get(&self, slot: Slot, id: &str) -> Option<Arc<Transaction>> {
        self.replica().read(|state| state.transactions().get(slot, id).cloned())
    }
}

impl Reign {
    pub fn begin(with: &Coordination, shard: &Arc<OpenShard>, term: u64) -> Reign {
        let now = Instant::now();
        Reign {
            shard: shard.clone(),
            sequencers: with.sequencers.clone(),
            endings: with.endings.clone(),
            term,
            machine: Coordinator::new(with.settings.machine.clone()),
            clock_ms: shard.replica().read(|state| state.groups().clock_ms()),
            began: now,
            clock_kept: now,
            waiting: HashMap::new(),
            waiter_next: 0,
            proposals: FuturesOrdered::new(),
            marking: FuturesUnordered::new(),
        }
    }

    /// Until it ends: then those who still wait are sent elsewhere. False when nobody will ask again.
    pub async fn run(mut self, term: &mut Term<'_>, requests: &mut mpsc::Receiver<Request>) -> bool {
        // At once: what the coordinator before has left unfinished.
        let mut sweep_at = self.began;
        let goes_on = loop {
            self.obey();
            let late_at = self.machine.deadline().map_or(sweep_at, |at| sweep_at.min(at));
            let open = self.proposals.len() < PROPOSALS_MAX;
            tokio::select! {
                goes_on = term.over() => break goes_on,
                Some((id, decided)) = self.proposals.next() => {
                    self.machine.decided(self.now(), &id, decided, &self.shard);
                }
                Some((id, left)) = self.marking.next() => self.marked(id, left),
                request = requests.recv(), if open => match request {
                    Some(request) => self.take(request),
                    None => break false,
                },
                () = sleep_until(late_at) => {
                    self.machine.tick(self.now());
                    if self.now().at >= sweep_at {
                        sweep_at = self.now().at + SWEEP_INTERVAL;
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
        let slot = self.shard.replica().read(|state| Some(state.partition(&request.partition)?.slot));
        let Some(slot) = slot else {
            let _ = request.answer.send(Reply::Failed(ErrorCode::NotCoordinator));
            return;
        };
        self.waiter_next += 1;
        self.waiting.insert(self.waiter_next, request.answer);
        self.machine.ask(self.now(), slot, &request.id, request.ask, self.waiter_next, &self.shard);
    }

    fn obey(&mut self) {
        for command in self.machine.take_commands() {
            match command {
                Command::Answer(waiter, reply) => {
                    // Whoever asked may have gone.
                    if let Some(answer) = self.waiting.remove(&waiter) {
                        let _ = answer.send(reply);
                    }
                }
                Command::Propose { slot, id, revision, change } => self.propose(slot, id, revision, change),
                Command::Mark { slot, id, ending } => self.mark(slot, id, ending),
            }
        }
    }

    fn propose(&mut self, slot: Slot, id: String, revision: u64, change: Change) {
        let clock_ms = self.now().clock_ms;
        let entry = TransactionEntry { slot, term: self.term, clock_ms, id: id.clone(), revision, change };
        let decided = self.sequencers.entry(self.shard.id, Entry::Transaction(entry).encode());
        let decided = async move { (id, outcome(decided.await.unwrap_or(Answer::Unknown))) };
        self.proposals.push_back(decided.boxed());
    }

    fn mark(&self, slot: Slot, id: String, ending: Ending) {
        let (endings, epoch) = (self.endings.clone(), self.coordinator_epoch(slot));
        let mut all = async move { mark(&endings, ending, epoch).await }.boxed();
        let marked = async move {
            let is_over = timeout(HELD_UP, &mut all).await.is_ok();
            (id, (!is_over).then_some(all))
        };
        self.marking.push(marked.boxed());
    }

    fn marked(&mut self, id: String, left: Option<BoxFuture<'static, ()>>) {
        let Some(left) = left else { return self.machine.marked(self.now(), &id, &self.shard) };
        self.machine.held_up(&id, &self.shard);
        self.marking.push(left.map(|()| (id, None)).boxed());
    }

    /// The leader epoch of the id's partition of `__transaction_state`.
    fn coordinator_epoch(&self, slot: Slot) -> LeaderEpoch {
        let epoch = self.shard.replica().read(|state| state.slot(slot).map(|p| p.leader_epoch(self.term)));
        epoch.unwrap_or_default()
    }

    fn sweep(&mut self) {
        let all = self.shard.replica().read(|state| state.transactions().clone());
        if all.is_empty() {
            return;
        }
        let now = self.now();
        self.machine.sweep(now, all.all(), &self.shard);
        if now.at - self.clock_kept >= CLOCK_INTERVAL {
            self.clock_kept = now.at;
            let entry = Entry::GroupClock { term: self.term, clock_ms: now.clock_ms }.encode();
            drop(self.sequencers.entry(self.shard.id, entry));
        }
    }

    fn now(&self) -> Moment {
        let at = Instant::now();
        let clock_ms = self.clock_ms + (at - self.began).as_millis() as u64;
        Moment { at, clock_ms, wall_ms: now_ms() }
    }
}
