//! This node's part of one group, without the state machine's type.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use openraft::errors::{ClientWriteError, Fatal, InitializeError, LinearizableReadError, RaftError};
use openraft::async_runtime::WatchReceiver;
use openraft::raft::AppendEntriesResponse;
use openraft::{ChangeMembers, Instant as _, EmptyNode, RaftMetrics, ReadPolicy, ServerState};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::apply::write_frozen;
use crate::log::GroupLog;
use crate::messages;
use crate::offers::Offers;
use crate::snapshot::{Newest, SnapshotData, SnapshotDir};
use crate::transport::kind;
use crate::types::{Raft, TypeConfig, term_of};
use crate::{Config, Error, GroupId, Leadership, LogPosition, NodeId, ReadError, WaitError};

/// How long a commit of this module's own (membership, first configuration) may take.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(30);

/// Between looks at whether a snapshot is due.
const SNAPSHOT_PAUSE: Duration = Duration::from_millis(500);

pub(crate) struct Replica {
    pub(crate) group: GroupId,
    node: NodeId,
    raft: Raft,
    log: GroupLog,
    config: Arc<Config>,
    dir: SnapshotDir,
    newest: Newest,
    offers: Arc<Offers>,
    reads_waiting: Arc<AtomicUsize>,
    applied: watch::Receiver<LogPosition>,
    leadership: watch::Sender<Leadership>,
    stopped: watch::Sender<Option<String>>,
    heard: Mutex<Option<Instant>>,
    snapshotting: tokio::sync::Mutex<()>,
    installing: tokio::sync::Mutex<()>,
    tasks: Mutex<Vec<AbortHandle>>,
}

/// What a replica is made of.
pub(crate) struct Parts {
    pub(crate) group: GroupId,
    pub(crate) node: NodeId,
    pub(crate) raft: Raft,
    pub(crate) log: GroupLog,
    pub(crate) config: Arc<Config>,
    pub(crate) dir: SnapshotDir,
    pub(crate) newest: Newest,
    pub(crate) offers: Arc<Offers>,
    pub(crate) reads_waiting: Arc<AtomicUsize>,
    pub(crate) applied: watch::Receiver<LogPosition>,
    pub(crate) log_poisoned: watch::Receiver<Option<String>>,
}

impl Replica {
    /// Starts the tasks that watch the group.
    pub(crate) fn start(parts: Parts) -> Arc<Replica> {
        let replica = Arc::new(Replica {
            group: parts.group,
            node: parts.node,
            raft: parts.raft,
            log: parts.log,
            config: parts.config,
            dir: parts.dir,
            newest: parts.newest,
            offers: parts.offers,
            reads_waiting: parts.reads_waiting,
            applied: parts.applied,
            leadership: watch::Sender::default(),
            stopped: watch::Sender::default(),
            heard: Mutex::default(),
            snapshotting: tokio::sync::Mutex::default(),
            installing: tokio::sync::Mutex::default(),
            tasks: Mutex::default(),
        });
        let watching = tokio::spawn(watch_group(replica.clone(), parts.log_poisoned)).abort_handle();
        let scheduling = tokio::spawn(schedule_snapshots(replica.clone())).abort_handle();
        *lock(&replica.tasks) = vec![watching, scheduling];
        replica
    }

    pub(crate) fn raft(&self) -> &Raft {
        &self.raft
    }

    pub(crate) fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.subscribe()
    }

    pub(crate) fn applied(&self) -> watch::Receiver<LogPosition> {
        self.applied.clone()
    }

    pub(crate) fn stopped(&self) -> Option<String> {
        self.stopped.borrow().clone()
    }

    fn metrics(&self) -> RaftMetrics<TypeConfig> {
        self.raft.metrics().borrow_watched().clone()
    }

    /// Something of a leader was accepted.
    pub(crate) fn heard(&self) {
        *lock(&self.heard) = Some(Instant::now());
    }

    pub(crate) fn last_heard(&self) -> Option<Instant> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        if metrics.state != ServerState::Leader {
            return *lock(&self.heard);
        }
        if metrics.membership_config.voter_ids().eq([self.node]) {
            return Some(Instant::now());
        }
        metrics.last_quorum_acked.and_then(|acked| Instant::now().checked_sub(acked.into_inner().elapsed()))
    }

    pub(crate) fn heard_within(&self, window: Duration) -> BTreeMap<NodeId, bool> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let Some(beats) = metrics.heartbeat.as_ref().filter(|_| metrics.state == ServerState::Leader) else {
            return BTreeMap::new();
        };
        let nodes = metrics.membership_config.nodes().map(|(node, _)| *node);
        nodes
            .map(|node| {
                let acked = beats.get(&node).copied().flatten();
                let lately = acked.is_some_and(|at| at.into_inner().elapsed() <= window);
                (node, node == self.node || lately)
            })
            .collect()
    }

    pub(crate) fn voters(&self) -> BTreeSet<NodeId> {
        self.raft.voter_ids().collect()
    }

    pub(crate) fn learners(&self) -> BTreeSet<NodeId> {
        self.raft.learner_ids().collect()
    }

    pub(crate) fn caught_up(&self, node: NodeId) -> bool {
        let metrics = self.metrics();
        let last = metrics.last_log_index.unwrap_or(0);
        match metrics.replication.as_ref().and_then(|progress| progress.get(&node)) {
            Some(Some(matched)) => matched.index + self.config.caught_up_entries >= last,
            _ => node == self.node && metrics.state == ServerState::Leader,
        }
    }

    pub(crate) async fn wait_applied(&self, index: u64, within: Duration) -> Result<(), WaitError> {
        let (mut applied, mut stopped) = (self.applied.clone(), self.stopped.subscribe());
        let reached = async {
            tokio::select! {
                biased;
                reached = applied.wait_for(|at| at.index >= index) => reached.map(|_| ()).map_err(|_| WaitError::Stopped),
                _ = stopped.wait_for(Option::is_some) => Err(WaitError::Stopped),
            }
        };
        timeout(within, reached).await.map_err(|_| WaitError::Timeout)?
    }

    pub(crate) async fn read_index(&self) -> Result<u64, ReadError> {
        if self.stopped().is_some() {
            return Err(ReadError::Stopped);
        }
        self.reads_waiting.fetch_add(1, Ordering::Relaxed);
        let read = self.raft.get_read_log_id(ReadPolicy::ReadIndex).await;
        self.reads_waiting.fetch_sub(1, Ordering::Relaxed);
        match read {
            Ok((read, _)) => Ok(read.log_id().index),
            Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(to))) => {
                Err(ReadError::NotLeader { leader: to.leader_id })
            }
            Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_))) => Err(ReadError::NoQuorum),
            Err(RaftError::Fatal(_)) => Err(ReadError::Stopped),
        }
    }

    pub(crate) async fn initialize(&self, voters: BTreeSet<NodeId>) -> Result<(), Error> {
        match self.raft.initialize(voters).await {
            Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Ok(()),
            Err(RaftError::APIError(why @ InitializeError::NotInMembers(_))) => Err(Error::Refused(why.to_string())),
            Err(RaftError::Fatal(why)) => Err(self.fatal(&why)),
        }
    }

    pub(crate) async fn change(&self, members: ChangeMembers<NodeId, EmptyNode>, retain: bool) -> Result<(), Error> {
        let change = self.raft.change_membership(members, retain);
        match timeout(CHANGE_TIMEOUT, change).await {
            Err(_) => Err(Error::Timeout("a membership change is not committed; it may still be".into())),
            Ok(result) => self.changed(result.map(|_| ())),
        }
    }

    pub(crate) async fn add_learner(&self, node: NodeId) -> Result<(), Error> {
        match timeout(CHANGE_TIMEOUT, self.raft.add_learner(node, EmptyNode {}, false)).await {
            Err(_) => Err(Error::Timeout("a learner is not committed; it may still be".into())),
            Ok(result) => self.changed(result.map(|_| ())),
        }
    }

    fn changed(&self, result: Result<(), RaftError<TypeConfig, ClientWriteError<TypeConfig>>>) -> Result<(), Error> {
        match result {
            Ok(()) => Ok(()),
            Err(RaftError::APIError(ClientWriteError::ForwardToLeader(to))) => Err(Error::NotLeader { leader: to.leader_id }),
            Err(RaftError::APIError(ClientWriteError::LogEntryDiscarded(_))) => {
                Err(Error::Timeout("leadership ended before the change was committed; it may still be".into()))
            }
            Err(RaftError::APIError(why)) => Err(Error::Refused(why.to_string())),
            Err(RaftError::Fatal(why)) => Err(self.fatal(&why)),
        }
    }

    fn fatal(&self, why: &Fatal<TypeConfig>) -> Error {
        Error::Stopped(self.stopped().unwrap_or_else(|| why.to_string()))
    }

    /// Waits for a voter's log to equal ours, hands over, and waits for the other to lead.
    pub(crate) async fn transfer_leader(&self, to: NodeId) -> Result<(), Error> {
        let leadership = *self.leadership.borrow();
        if leadership.leader != Some(self.node) {
            return Err(Error::NotLeader { leader: leadership.leader });
        }
        if to == self.node {
            return Ok(());
        }
        if !self.voters().contains(&to) {
            return Err(Error::Refused(format!("node {to} is no voter")));
        }
        let patience = self.config.election_max * 2;
        let equal = |metrics: &RaftMetrics<TypeConfig>| {
            let matched = metrics.replication.as_ref().and_then(|progress| progress.get(&to).copied().flatten());
            metrics.state != ServerState::Leader || matched.map(|id| id.index) == metrics.last_log_index
        };
        let mut metrics = self.raft.metrics();
        match timeout(patience, metrics.wait_until(equal)).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) => return Err(Error::Stopped("replica is gone".into())),
            Err(_) => return Err(Error::Refused(format!("the log of node {to} is not equal"))),
        }
        self.raft.trigger().transfer_leader(to).await.map_err(|why| self.fatal(&why))?;
        let mut leading = self.leadership.subscribe();
        let handed_over = leading.wait_for(|now| now.term > leadership.term && now.leader.is_some());
        match timeout(patience * 2, handed_over).await {
            Ok(Ok(now)) if now.leader == Some(to) => Ok(()),
            Ok(Ok(now)) => Err(Error::Refused(format!("node {:?} won instead", now.leader))),
            Ok(Err(_)) => Err(Error::Stopped("replica is gone".into())),
            Err(_) => Err(Error::Timeout(format!("node {to} does not lead yet"))),
        }
    }

    /// The voter that should lead when this node goes: heard of lately, and with the longest log.
    fn successor(&self) -> Option<NodeId> {
        let metrics = self.metrics();
        if metrics.state != ServerState::Leader {
            return None;
        }
        let heard = self.heard_within(self.config.election_max);
        let progress = metrics.replication?;
        let voters = metrics.membership_config.voter_ids().filter(|node| *node != self.node);
        voters
            .filter(|node| heard.get(node) == Some(&true))
            .max_by_key(|node| progress.get(node).copied().flatten().map(|id| id.index))
    }

    /// Leaves in good order: leadership first.
    pub(crate) async fn leave(&self) {
        if let Some(successor) = self.successor()
            && let Err(why) = self.transfer_leader(successor).await
        {
            tracing::warn!(group = self.group, successor, %why, "leadership was not handed over");
        }
        self.stop("node is shut down").await;
    }

    /// Ends the replica; handles to it see why.
    pub(crate) async fn stop(&self, why: &str) {
        self.mark_stopped(why);
        lock(&self.tasks).drain(..).for_each(|task| task.abort());
        if let Err(why) = self.raft.shutdown().await {
            tracing::warn!(group = self.group, %why, "a group ended badly");
        }
        self.log.note_committed();
    }

    pub(crate) async fn forget(&self) -> Result<(), Error> {
        self.log.remove().await.map_err(Error::io("removing a group from the log"))?;
        let (dir, group) = (self.dir.clone(), self.group);
        let removed = tokio::task::spawn_blocking(move || dir.remove_group(group)).await;
        removed.map_err(std::io::Error::other).flatten().map_err(Error::io("removing snapshots"))
    }

    fn mark_stopped(&self, why: &str) {
        self.stopped.send_if_modified(|stopped| {
            let first = stopped.is_none();
            stopped.get_or_insert_with(|| why.to_owned());
            first
        });
        self.leadership.send_if_modified(|leadership| {
            let led = leadership.leader.is_some() || leadership.ready;
            *leadership = Leadership { term: leadership.term, leader: None, ready: false };
            led
        });
    }

    /// Builds a snapshot of what is applied now, on the local disk; entries far enough behind it leave the log.
    pub(crate) async fn snapshot_now(&self) -> Result<(), Error> {
        let _one_at_a_time = self.snapshotting.lock().await;
        let frozen = self.raft.with_state_machine(|applier| Box::pin(std::future::ready(applier.freeze())));
        let frozen = frozen.await.map_err(|why| self.fatal(&why))?;
        let Some(at) = frozen.meta.last_log_id else { return Ok(()) };
        if self.newest.get().is_some_and(|newest| newest.meta.last_log_id >= Some(at)) {
            return Ok(());
        }
        let written = write_frozen(self.group, self.dir.clone(), self.newest.clone(), frozen).await;
        written.map_err(Error::io(format!("writing a snapshot of group {}", self.group)))?;
        self.raft.trigger().snapshot().await.map_err(|why| self.fatal(&why))?;
        let mut metrics = self.raft.metrics();
        let noticed = metrics.wait_until(|metrics| metrics.snapshot >= Some(at) || metrics.running_state.is_err());
        if timeout(CHANGE_TIMEOUT, noticed).await.is_err() {
            return Err(Error::Timeout("openraft has not taken note of a snapshot".into()));
        }
        // openraft keeps a number of entries; a limit on their bytes is ours.
        if let Some(upto) = self.log.excess(at.index, self.config.kept_log_bytes) {
            self.raft.trigger().purge_log(upto).await.map_err(|why| self.fatal(&why))?;
        }
        Ok(())
    }

    /// Answers one of Raft's own requests.
    pub(crate) async fn answer(&self, kind: u8, body: Bytes) -> Result<Bytes, String> {
        let text = |why: &dyn std::fmt::Display| why.to_string();
        match kind {
            kind::BEAT | kind::URGENT_BEAT => {
                let (_, request) = messages::take_append(body).map_err(|why| text(&why))?;
                let answer = self.raft.append_entries(request).await.map_err(|why| text(&why))?;
                if !matches!(answer, AppendEntriesResponse::HigherVote(_)) {
                    self.heard();
                }
                Ok(messages::append_answer(&answer))
            }
            kind::VOTE => {
                let request = messages::take_vote_request(body).map_err(|why| text(&why))?;
                Ok(messages::vote_answer(&self.raft.vote(request).await.map_err(|why| text(&why))?))
            }
            kind::PRE_VOTE => {
                let request = messages::take_vote_request(body).map_err(|why| text(&why))?;
                Ok(messages::vote_answer(&self.raft.pre_vote(request).await.map_err(|why| text(&why))?))
            }
            kind::TRANSFER => {
                let request = messages::take_transfer(body).map_err(|why| text(&why))?;
                let answer = self.raft.handle_transfer_leader(request).await.map_err(|why| text(&why))?;
                Ok(messages::transfer_answer(&answer))
            }
            kind::SNAPSHOT => self.install(body).await,
            _ => Err(format!("unknown kind {kind}")),
        }
    }

    /// Everything that can fail for outer reasons (the store, the disk) happens before openraft is told: what fails
    /// inside it stops the replica.
    async fn install(&self, body: Bytes) -> Result<Bytes, String> {
        let offer = messages::take_snapshot(body).map_err(|why| why.to_string())?;
        let _one_at_a_time = self.installing.lock().await;
        let fetched = timeout(self.config.install_timeout, self.offers.fetch(&offer)).await;
        let bytes = fetched.map_err(|_| "fetching took too long".to_owned())?.map_err(|why| why.to_string())?;
        self.heard();
        let (dir, group, meta, copy) = (self.dir.clone(), self.group, offer.meta.clone(), bytes.clone());
        let prepared = tokio::task::spawn_blocking(move || dir.prepare(group, &meta, &copy)).await;
        let file = prepared.map_err(std::io::Error::other).flatten().map_err(|why| why.to_string())?;
        let path = file.path.clone();
        let snapshot = SnapshotData { file: Arc::new(file), bytes: Some(bytes) };
        let snapshot = openraft::Snapshot { meta: offer.meta, snapshot };
        let answer = self.raft.install_full_snapshot(offer.vote, snapshot).await.map_err(|why| why.to_string())?;
        // Still there if openraft had no use for it.
        let _ = tokio::fs::remove_file(path).await;
        Ok(messages::snapshot_answer(&answer))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Every update leaves the value whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Publishes who leads, and notices when the replica stops.
async fn watch_group(replica: Arc<Replica>, mut log_poisoned: watch::Receiver<Option<String>>) {
    let mut server = replica.raft.server_metrics();
    let mut applied = replica.applied.clone();
    let why = loop {
        let now = leadership_of(&replica, &server.borrow_and_update(), *applied.borrow_and_update());
        replica.leadership.send_if_modified(|known| std::mem::replace(known, now) != now);
        let unready = now.leader == Some(replica.node) && !now.ready;
        tokio::select! {
            changed = server.changed() => if changed.is_err() { break end_of(&replica) },
            changed = applied.changed(), if unready => if changed.is_err() { break "state machine is gone".to_owned() },
            Ok(reason) = log_poisoned.wait_for(Option::is_some) => break reason.clone().unwrap_or_default(),
        }
    };
    tracing::error!(group = replica.group, %why, "a replica has stopped");
    replica.mark_stopped(&why);
    if let Err(why) = replica.raft.shutdown().await {
        tracing::warn!(group = replica.group, %why, "a group ended badly");
    }
}

/// What openraft said last.
fn end_of(replica: &Replica) -> String {
    let state = replica.metrics().running_state;
    state.err().map_or_else(|| "openraft is gone".to_owned(), |why| why.to_string())
}

fn leadership_of(
    replica: &Replica,
    server: &openraft::metrics::RaftServerMetrics<TypeConfig>,
    applied: LogPosition,
) -> Leadership {
    let term = server.vote.leader_id.term;
    // A vote that is not committed yet is a candidate's.
    let leader = server.current_leader.filter(|_| server.vote.committed);
    let ready = leader == Some(replica.node) && server.state == ServerState::Leader && applied.term == term;
    Leadership { term, leader, ready }
}

/// Builds a snapshot whenever enough has been applied since the last one.
async fn schedule_snapshots(replica: Arc<Replica>) {
    let mut applied = replica.applied.clone();
    let mut bytes_at_last = 0;
    loop {
        tokio::time::sleep(SNAPSHOT_PAUSE).await;
        let since = replica.newest.get().and_then(|newest| newest.meta.last_log_id).map_or(0, |id| id.index + 1);
        let entries = (applied.borrow_and_update().index + 1).saturating_sub(since);
        let bytes = replica.log.appended_bytes().saturating_sub(bytes_at_last);
        if entries >= replica.config.snapshot_entries || (entries > 1 && bytes >= replica.config.snapshot_log_bytes) {
            bytes_at_last = replica.log.appended_bytes();
            if let Err(why) = replica.snapshot_now().await {
                tracing::warn!(group = replica.group, %why, "no snapshot");
            }
        }
        if applied.changed().await.is_err() {
            return;
        }
    }
}

/// Term of the newest entry the log has forgotten, for messages.
pub(crate) fn purged_position(log: &GroupLog) -> Option<LogPosition> {
    log.purged().map(|id| LogPosition { index: id.index, term: term_of(&id) })
}
