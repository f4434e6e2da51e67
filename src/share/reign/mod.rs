mod deal;
mod keep;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesOrdered, StreamExt};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::admin::Defaults;
use crate::cluster::Cluster;
use crate::commit::{Sequencers, decode_outcome};
use crate::index::{OpenShard, Term, Waiter};
use crate::peer::Answer;
use crate::protocol::ErrorCode;
use crate::shard::share::{Change, ShareEntry, ShareUpdate};
use crate::shard::{Entry, Outcome, Refusal, Slot};
use crate::share::delivery::Delivery;
use crate::share::leaders::{Dealing, Request};
use crate::share::wire::{Ask, Reply, What};

/// Entries on their way; what is decided meanwhile is gathered into the next one.
const ENTRIES_MAX: usize = 2;
/// Updates in one entry, and their runs.
const UPDATES_MAX: usize = 256;
const RUNS_MAX: usize = 16 * 1024;
/// Updates that wait for an entry; nothing is asked meanwhile.
const QUEUED_MAX: usize = 4096;
/// Asks that wait for records; more are answered with what there is.
const WAITING_MAX: usize = 1024;
/// Groups and partitions in memory. Those of whom nothing is known but what is applied make room for others.
const DELIVERIES_MAX: usize = 100_000;

/// A group in a partition.
type Key = (Slot, Arc<str>);

/// This broker's time as the leader of a shard's share groups, in one term: begun from applied state. With its end all
/// locks are forgotten.
pub(super) struct Reign {
    shard: Arc<OpenShard>,
    cluster: Cluster,
    sequencers: Arc<Sequencers>,
    defaults: Defaults,
    term: u64,
    deliveries: HashMap<Key, Kept>,
    /// When locks run out.
    due: BTreeSet<(Instant, Key)>,
    waiting: Vec<Waiting>,
    /// Records may have become available: those who wait look again.
    news: bool,
    waiter: Waiter,
    updates: Vec<(ShareUpdate, Then)>,
    proposals: FuturesOrdered<BoxFuture<'static, Decided>>,
    /// Asks that are answered when all that they are about is decided.
    pending: HashMap<u64, Pending>,
    pending_next: u64,
}

/// What became of an entry: a code for each of its updates, or one for all.
struct Decided {
    thens: Vec<Then>,
    outcome: Result<Vec<ErrorCode>, ErrorCode>,
}

#[derive(Default)]
struct Kept {
    /// None while delivery begins, or ends.
    live: Option<Delivery>,
    due: Option<Instant>,
}

struct Waiting {
    ask: Ask,
    until: Instant,
    answer: oneshot::Sender<Reply>,
}

struct Pending {
    left: usize,
    codes: Vec<ErrorCode>,
    answer: oneshot::Sender<Reply>,
}

/// What a decision's end is to bring.
struct Then {
    key: Key,
    what: Of,
    /// Who is told, and in which place.
    pending: Option<(u64, usize)>,
}

enum Of {
    /// Delivery begins: it is loaded from what is applied then.
    Begin,
    Decision(u64),
    /// Nothing waits for it.
    LetGo,
    Forget,
}

impl Reign {
    pub fn begin(dealing: &Dealing, shard: &Arc<OpenShard>, term: u64) -> Reign {
        Reign {
            shard: shard.clone(),
            cluster: dealing.cluster.clone(),
            sequencers: dealing.sequencers.clone(),
            defaults: dealing.defaults.clone(),
            term,
            deliveries: HashMap::new(),
            due: BTreeSet::new(),
            waiting: Vec::new(),
            news: false,
            waiter: Waiter::default(),
            updates: Vec::new(),
            proposals: FuturesOrdered::new(),
            pending: HashMap::new(),
            pending_next: 0,
        }
    }

    /// Until it ends: then those who still wait are sent elsewhere. False when nobody will ask again.
    pub async fn run(mut self, term: &mut Term<'_>, requests: &mut mpsc::Receiver<Request>) -> bool {
        loop {
            self.propose();
            if std::mem::take(&mut self.news) {
                self.look_again();
                continue;
            }
            let open = self.updates.len() < QUEUED_MAX;
            let due = self.due.first().map(|(at, _)| *at);
            let patience = self.waiting.iter().map(|waiting| waiting.until).min();
            let wake_at = due.into_iter().chain(patience).min();
            tokio::select! {
                goes_on = term.over() => return goes_on,
                Some(decided) = self.proposals.next() => self.decided(decided),
                () = self.waiter.notified() => self.news = true,
                () = sleep_until(wake_at.unwrap_or_else(Instant::now)), if wake_at.is_some() => {
                    self.expire();
                    self.news = true;
                }
                request = requests.recv(), if open => match request {
                    Some(Request { ask, answer }) => self.take(ask, answer),
                    None => return false,
                },
            }
        }
    }

    fn take(&mut self, ask: Ask, answer: oneshot::Sender<Reply>) {
        let group: Arc<str> = ask.group.as_str().into();
        match &ask.what {
            What::Acquire { wait_ms, .. } | What::Look { wait_ms, .. } => {
                let until = Instant::now() + Duration::from_millis(*wait_ms);
                self.wait(Waiting { ask, until, answer });
            }
            What::Acknowledge { member, partitions } => {
                let settings = self.settings(&group);
                let until = Instant::now() + settings.lock_duration;
                let id = self.pend(partitions.len(), answer);
                for (at, (partition, acks)) in partitions.iter().enumerate() {
                    let ends = self.live(&group, partition).and_then(|(key, live)| {
                        let decision = live.acknowledge(member, acks, settings.deliveries_max, until);
                        Ok((key, decision.map_err(|_| ErrorCode::InvalidRecordState)?))
                    });
                    match ends {
                        Ok((key, Some((decision, runs)))) => {
                            self.moved(key, runs, Of::Decision(decision), Some((id, at)));
                        }
                        Ok((key, None)) => {
                            self.reschedule(&key);
                            self.news = true;
                            self.settle(id, at, ErrorCode::None);
                        }
                        Err(error) => self.settle(id, at, error),
                    }
                }
            }
            What::Release { member, partitions } => {
                self.dismiss(&group, member);
                let settings = self.settings(&group);
                for partition in partitions {
                    let Ok((key, live)) = self.live(&group, partition) else { continue };
                    let runs = live.release(member, settings.deliveries_max);
                    self.let_go(key, runs);
                }
                let _ = answer.send(Reply::Each(vec![0; partitions.len()]));
            }
            What::Describe { partitions } => {
                let _ = answer.send(Reply::Described(self.describe(&group, partitions.as_deref())));
            }
            What::Begin { starts } => {
                let id = self.pend(starts.len(), answer);
                for (at, (partition, start)) in starts.iter().enumerate() {
                    match self.slot(partition) {
                        Ok(slot) => self.start(&(slot, group.clone()), *start, Some((id, at))),
                        Err(error) => self.settle(id, at, error),
                    }
                }
            }
            What::Forget { partitions } => {
                let slots: Vec<Result<Slot, ErrorCode>> = match partitions {
                    Some(partitions) => partitions.iter().map(|partition| self.slot(partition)).collect(),
                    None => self.slots_of(&group).into_iter().map(Ok).collect(),
                };
                let id = self.pend(slots.len(), answer);
                for (at, slot) in slots.into_iter().enumerate() {
                    match slot {
                        Ok(slot) => {
                            let key = (slot, group.clone());
                            self.suspend(&key);
                            self.update(key, Change::Forget, Of::Forget, Some((id, at)));
                        }
                        Err(error) => self.settle(id, at, error),
                    }
                }
            }
        }
    }

    fn propose(&mut self) {
        while !self.updates.is_empty() && self.proposals.len() < ENTRIES_MAX {
            let mut runs = 0;
            let fits = |(update, _): &&(ShareUpdate, Then)| {
                runs += if let Change::Move { runs, .. } = &update.change { runs.len() } else { 0 };
                runs <= RUNS_MAX
            };
            let count = self.updates.iter().take(UPDATES_MAX).take_while(fits).count().max(1);
            let (updates, thens): (Vec<_>, Vec<_>) = self.updates.drain(..count).unzip();
            let entry = Entry::Share(ShareEntry { term: self.term, updates }).encode();
            let decided = self.sequencers.entry(self.shard.id, entry);
            let decided = async move { Decided { thens, outcome: outcome(decided.await.unwrap_or(Answer::Unknown)) } };
            self.proposals.push_back(decided.boxed());
        }
    }

    fn decided(&mut self, Decided { thens, outcome }: Decided) {
        self.news = true;
        for (i, Then { key, what, pending }) in thens.into_iter().enumerate() {
            let code = match &outcome {
                Ok(each) => each.get(i).copied().unwrap_or(ErrorCode::UnknownServerError),
                Err(error) => *error,
            };
            // A decision that belongs to another epoch, or to a partition that is gone: what is applied counts.
            let refused = matches!(code, ErrorCode::FencedStateEpoch | ErrorCode::UnknownTopicOrPartition);
            match what {
                Of::Decision(decision) if !refused => {
                    if let Some(live) = self.deliveries.get_mut(&key).and_then(|kept| kept.live.as_mut()) {
                        live.decided(decision, code == ErrorCode::None);
                    }
                    self.reschedule(&key);
                }
                Of::LetGo if !refused => {}
                Of::Begin | Of::Forget | Of::Decision(_) | Of::LetGo => {
                    self.suspend(&key);
                    self.deliveries.remove(&key);
                    if code != ErrorCode::None && pending.is_none() {
                        self.refuse_waiting(&key, code);
                    }
                }
            }
            if let Some((id, at)) = pending {
                self.settle(id, at, code);
            }
        }
    }

    /// An answer with so many places.
    fn pend(&mut self, count: usize, answer: oneshot::Sender<Reply>) -> u64 {
        if count == 0 {
            let _ = answer.send(Reply::Each(Vec::new()));
            return 0;
        }
        self.pending_next += 1;
        self.pending.insert(self.pending_next, Pending { left: count, codes: vec![ErrorCode::None; count], answer });
        self.pending_next
    }

    fn settle(&mut self, id: u64, at: usize, code: ErrorCode) {
        let Some(pending) = self.pending.get_mut(&id) else { return };
        pending.codes[at] = code;
        pending.left -= 1;
        if pending.left == 0
            && let Some(Pending { codes, answer, .. }) = self.pending.remove(&id)
        {
            let _ = answer.send(Reply::Each(codes.into_iter().map(ErrorCode::code).collect()));
        }
    }
}

/// What came of an entry: a code for each of its updates.
fn outcome(answer: Answer) -> Result<Vec<ErrorCode>, ErrorCode> {
    match answer {
        Answer::Done(body) => match decode_outcome(&body) {
            Ok(Outcome::Marked(each)) => Ok(each.into_iter().map(code_of).collect()),
            outcome => {
                tracing::debug!(?outcome, "decided in another term");
                Err(ErrorCode::NotLeaderOrFollower)
            }
        },
        Answer::NotLeader { .. } => Err(ErrorCode::NotLeaderOrFollower),
        Answer::Unknown => Err(ErrorCode::CoordinatorNotAvailable),
        Answer::Refused(why) => {
            tracing::warn!(why, "what share groups did cannot be written");
            Err(ErrorCode::UnknownServerError)
        }
    }
}

fn code_of(result: Result<(), Refusal>) -> ErrorCode {
    match result {
        Ok(()) => ErrorCode::None,
        Err(Refusal::UnknownPartition) => ErrorCode::UnknownTopicOrPartition,
        Err(_) => ErrorCode::FencedStateEpoch,
    }
}
