use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesOrdered, StreamExt};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::cluster::{Cluster, Resource, RootState, Topic};
use crate::commit::{Sequencers, decode_outcome};
use crate::group::classic::Waiter;
use crate::group::coordinators::{Coordination, Request};
use crate::group::kinds::{Command, Kinds, Then};
use crate::group::{Metrics, Reply, View, classic};
use crate::index::{OpenShard, Term};
use crate::peer::Answer;
use crate::protocol::ErrorCode;
use crate::shard::group::{Change, Group, GroupCommit, GroupCommits, GroupEntry};
use crate::shard::{Entry, Outcome, Refusal, Slot};
use crate::types::TopicId;

/// Proposals of one coordinator on their way; below what a sequencer queues.
const PROPOSALS_MAX: usize = 1024;
/// How often offsets are looked at for their age (Kafka: `offsets.retention.check.interval.ms`).
const SWEEP_INTERVAL: Duration = Duration::from_secs(600);

/// Entries of commits on their way; what comes meanwhile is gathered into the next one.
const COMMIT_ENTRIES_MAX: usize = 2;
/// Commits in one entry, and their partitions.
const COMMITS_MAX: usize = 256;
const OFFSETS_MAX: usize = 4096;

/// Groups that an entry was about, what becomes of each, and whether the log has it.
struct Decided {
    of: Vec<(String, Slot, Then)>,
    is_commits: bool,
    outcome: Result<(), ErrorCode>,
}

/// This broker's time as the coordinator of a shard's groups, in one term: begun from applied state, and with its end
/// all that was not in the log is forgotten.
pub(super) struct Reign {
    shard: Arc<OpenShard>,
    cluster: Cluster,
    sequencers: Arc<Sequencers>,
    term: u64,
    groups: Kinds,
    view: Known,
    /// The shard's clock when this began, and since when it runs on.
    clock_ms: u64,
    began: Instant,
    waiting: HashMap<Waiter, oneshot::Sender<Reply>>,
    waiter_next: Waiter,
    proposals: FuturesOrdered<BoxFuture<'static, Decided>>,
    /// Commits that are not proposed yet.
    commits: Vec<(GroupCommit, Then)>,
    commit_entries: usize,
    metrics: Arc<Metrics>,
}

impl Reign {
    pub fn begin(with: &Coordination, shard: &Arc<OpenShard>, term: u64) -> Reign {
        let now = Instant::now();
        let view = Known { root: with.cluster.view(), version: 1 };
        let mut groups = Kinds::new(&with.settings);
        let (clock_ms, with_members) = shard.replica().read(|state| {
            let all = state.groups().all().filter(|(_, _, group)| group.has_members());
            let all: Vec<(Slot, String, Arc<Group>)> = all.map(|(slot, id, g)| (slot, id.clone(), g.clone())).collect();
            (state.groups().clock_ms(), all)
        });
        for (slot, id, group) in &with_members {
            groups.load(now, &view, (*slot, id, group));
        }
        Reign {
            shard: shard.clone(),
            cluster: with.cluster.clone(),
            sequencers: with.sequencers.clone(),
            term,
            groups,
            view,
            clock_ms,
            began: now,
            waiting: HashMap::new(),
            waiter_next: 0,
            proposals: FuturesOrdered::new(),
            commits: Vec::new(),
            commit_entries: 0,
            metrics: with.metrics.clone(),
        }
    }

    /// Until it ends: then those who still wait are sent elsewhere. False when nobody will ask again.
    pub async fn run(mut self, term: &mut Term<'_>, requests: &mut mpsc::Receiver<Request>) -> bool {
        let mut sweep_at = self.began + SWEEP_INTERVAL;
        let goes_on = loop {
            self.obey();
            let late_at = self.groups.deadline().map_or(sweep_at, |at| sweep_at.min(at));
            let open = self.is_open();
            tokio::select! {
                goes_on = term.over() => break goes_on,
                Some(decided) = self.proposals.next() => self.decided(decided),
                request = requests.recv(), if open => match request {
                    Some(request) => self.take_all(request, requests),
                    None => break false,
                },
                () = sleep_until(late_at), if open || requests.is_empty() => self.late(&mut sweep_at, requests),
            }
        };
        for (_, answer) in self.waiting.drain() {
            let _ = answer.send(not_here());
        }
        goes_on
    }

    /// Does what is late by now, unless there is more to be taken before.
    fn late(&mut self, sweep_at: &mut Instant, requests: &mut mpsc::Receiver<Request>) {
        if !self.catch_up(requests) {
            return;
        }
        let now = Instant::now();
        self.view.refresh(self.cluster.view());
        self.groups.tick(now, &self.view);
        if now >= *sweep_at {
            *sweep_at = now + SWEEP_INTERVAL;
            self.sweep();
        }
    }

    fn is_open(&self) -> bool {
        self.proposals.len() + self.commits.len() < PROPOSALS_MAX
    }

    /// Takes what waits already: after a stall of this broker, members are late whose heartbeats are here. False if there is
    /// more than can be taken now.
    fn catch_up(&mut self, requests: &mut mpsc::Receiver<Request>) -> bool {
        for _ in 0..requests.len() {
            if !self.is_open() {
                return false;
            }
            let Ok(request) = requests.try_recv() else { break };
            self.take(request);
            self.obey();
        }
        true
    }

    /// With all others that wait already.
    fn take_all(&mut self, first: Request, requests: &mut mpsc::Receiver<Request>) {
        self.take(first);
        for _ in 1..COMMITS_MAX {
            match requests.try_recv() {
                Ok(request) => self.take(request),
                Err(_) => return,
            }
        }
    }

    fn take(&mut self, request: Request) {
        let (partition, id, ask, answer) = match request {
            Request::Ask { partition, group, ask, answer } => (partition, group, ask, answer),
            Request::List { answer } => {
                let all = self.applied_groups();
                let all: Vec<_> = all.iter().map(|(slot, id, group)| (*slot, id, group.as_ref())).collect();
                let _ = answer.send(Ok(self.groups.list(&all)));
                return;
            }
        };
        let found = self.shard.replica().read(|state| {
            let slot = state.partition(&partition)?.slot;
            Some((slot, state.groups().get(slot, &id).cloned()))
        });
        let Some((slot, applied)) = found else {
            let _ = answer.send(not_here());
            return;
        };
        self.waiter_next += 1;
        self.waiting.insert(self.waiter_next, answer);
        self.view.refresh(self.cluster.view());
        let waiter = self.waiter_next;
        self.groups.ask(Instant::now(), &self.view, (slot, &id), applied.as_deref(), *ask, waiter);
    }

    fn decided(&mut self, decided: Decided) {
        self.view.refresh(self.cluster.view());
        self.commit_entries -= usize::from(decided.is_commits);
        let failed = decided.outcome.is_err();
        for (id, slot, then) in decided.of {
            // What went wrong begins again from what the log has.
            let applied = self.shard.replica().read(|state| state.groups().get(slot, &id).filter(|_| failed).cloned());
            let applied = applied.as_deref().map(|group| (slot, group));
            self.groups.decided(Instant::now(), &self.view, &id, (then, applied), decided.outcome);
        }
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
        while !self.commits.is_empty() && self.commit_entries < COMMIT_ENTRIES_MAX {
            self.propose_commits();
        }
    }

    fn propose(&mut self, slot: Slot, group: String, change: Change, then: Then) {
        if let Change::Commit { retention_ms, offsets } = change {
            self.commits.push((GroupCommit { slot, group, retention_ms, offsets }, then));
            return;
        }
        // In the order in which they were decided: what follows a commit may be the end of its group.
        while !self.commits.is_empty() {
            self.propose_commits();
        }
        let entry = GroupEntry { slot, term: self.term, clock_ms: self.now_ms(), group: group.clone(), change };
        self.send(Entry::Group(entry), vec![(group, slot, then)], false);
    }

    /// As many as one entry may have.
    fn propose_commits(&mut self) {
        let mut offsets = 0;
        let fits = |(commit, _): &&(GroupCommit, Then)| {
            offsets += commit.offsets.len();
            offsets <= OFFSETS_MAX
        };
        let count = self.commits.iter().take(COMMITS_MAX).take_while(fits).count().max(1);
        let (mut commits, mut of) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for (commit, then) in self.commits.drain(..count.min(self.commits.len())) {
            of.push((commit.group.clone(), commit.slot, then));
            commits.push(commit);
        }
        self.metrics.committed(commits.len() as u64);
        let (term, clock_ms) = (self.term, self.now_ms());
        self.send(Entry::GroupCommits(GroupCommits { term, clock_ms, commits }), of, true);
    }

    fn send(&mut self, entry: Entry, of: Vec<(String, Slot, Then)>, is_commits: bool) {
        let decided = self.sequencers.entry(self.shard.id, entry.encode());
        self.commit_entries += usize::from(is_commits);
        let decided = async move {
            let outcome = outcome(decided.await.unwrap_or(Answer::Unknown));
            Decided { of, is_commits, outcome }
        };
        self.proposals.push_back(decided.boxed());
    }

    fn sweep(&mut self) {
        let groups = self.shard.replica().read(|state| state.groups().clone());
        let all: Vec<_> = groups.all().map(|(slot, id, group)| (slot, id, group.as_ref())).collect();
        if all.is_empty() {
            return;
        }
        let clock_ms = self.now_ms();
        let names: HashMap<TopicId, String> =
            self.cluster.view().topics().map(|topic| (topic.id, topic.name.clone())).collect();
        let undecided = |slot: Slot, id: &str| groups.pending(slot, id).copied().collect::<Vec<_>>();
        self.groups.sweep(clock_ms, &all, &names, &undecided);
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

fn not_here() -> Reply {
    Reply::Classic(classic::Reply::Failed(ErrorCode::NotCoordinator))
}

/// The root's newest state here.
struct Known {
    root: Arc<RootState>,
    version: u64,
}

impl Known {
    fn refresh(&mut self, root: Arc<RootState>) {
        if !Arc::ptr_eq(&root, &self.root) {
            // Most of what the root is told is not about topics, and what subscriptions mean is costly to look up.
            let is_other = !readable(&root).eq(readable(&self.root));
            self.root = root;
            self.version += u64::from(is_other);
        }
    }
}

/// Topics that have partitions, and how many. A topic never changes its name.
fn readable(root: &RootState) -> impl Iterator<Item = (TopicId, i32)> {
    root.topics().filter(|topic| is_readable(topic)).map(|topic| (topic.id, topic.live))
}

fn is_readable(topic: &Topic) -> bool {
    !topic.deleting && topic.live > 0
}

impl View for Known {
    fn version(&self) -> u64 {
        self.version
    }

    fn topic(&self, name: &str) -> Option<(TopicId, i32)> {
        let topic = self.root.topic_named(name).filter(|topic| is_readable(topic))?;
        Some((topic.id, topic.live))
    }

    fn each_topic(&self, see: &mut dyn FnMut(&str)) {
        self.root.topics().filter(|topic| is_readable(topic)).for_each(|topic| see(&topic.name));
    }

    fn own_time(&self, group: &str, setting: &str) -> Option<Duration> {
        let own = self.root.configs(&Resource::Group(group.to_owned()))?.get(setting)?;
        own.trim().parse().ok().map(Duration::from_millis)
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

#[cfg(test)]
#[path = "reign_test.rs"]
mod test;
