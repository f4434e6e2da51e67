//! This node's part of one group, without the state machine's type.

mod members;
mod reads;
mod snapshots;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::Fatal;
use openraft::raft::AppendEntriesResponse;
use openraft::{RaftMetrics, ServerState};
use tokio::sync::{RwLock, RwLockReadGuard, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

use crate::log::{GroupLog, GroupState};
use crate::messages;
use crate::offers::Offers;
use crate::snapshot::{Newest, SnapshotDir};
use crate::transport::kind;
use crate::types::{Raft, TypeConfig, term_of};
use crate::{Config, Error, GroupId, Leadership, LogPosition, NodeId};

/// How long a commit of this module's own (membership, first configuration) may take.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a replica that stops waits for the requests of other nodes that openraft has already.
const LAST_ANSWERS_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) struct Replica {
    parts: Parts,
    leadership: watch::Sender<Leadership>,
    stopped: watch::Sender<Option<String>>,
    heard: Mutex<Option<Instant>>,
    snapshotting: tokio::sync::Mutex<()>,
    installing: tokio::sync::Mutex<()>,
    /// Read by every request of another node while openraft has it.
    inside: RwLock<()>,
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
    pub(crate) stopping: Arc<AtomicBool>,
    pub(crate) applied: watch::Receiver<LogPosition>,
    pub(crate) log_poisoned: watch::Receiver<Option<String>>,
    /// Why the first replica of the node stopped by itself.
    pub(crate) failed: watch::Sender<Option<String>>,
}

impl Replica {
    /// Starts the tasks that watch the group.
    pub(crate) fn start(parts: Parts) -> Arc<Replica> {
        let log_poisoned = parts.log_poisoned.clone();
        let replica = Arc::new(Replica {
            parts,
            leadership: watch::Sender::default(),
            stopped: watch::Sender::default(),
            heard: Mutex::default(),
            snapshotting: tokio::sync::Mutex::default(),
            installing: tokio::sync::Mutex::default(),
            inside: RwLock::default(),
            tasks: Mutex::default(),
        });
        let watching = tokio::spawn(watch_group(replica.clone(), log_poisoned)).abort_handle();
        let scheduling = tokio::spawn(snapshots::schedule_snapshots(replica.clone())).abort_handle();
        *lock(&replica.tasks) = vec![watching, scheduling];
        replica
    }

    pub(crate) fn group(&self) -> GroupId {
        self.parts.group
    }

    pub(crate) fn raft(&self) -> &Raft {
        &self.parts.raft
    }

    pub(crate) fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.subscribe()
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.is_led_by(self.parts.node)
    }

    pub(crate) fn is_led_by(&self, node: NodeId) -> bool {
        self.leadership.borrow().leader == Some(node)
    }

    pub(crate) fn applied(&self) -> watch::Receiver<LogPosition> {
        self.parts.applied.clone()
    }

    pub(crate) fn stopped(&self) -> Option<String> {
        self.stopped.borrow().clone()
    }

    fn metrics(&self) -> RaftMetrics<TypeConfig> {
        self.parts.raft.metrics().borrow_watched().clone()
    }

    fn fatal(&self, why: &Fatal<TypeConfig>) -> Error {
        Error::Stopped(self.stopped().unwrap_or_else(|| why.to_string()))
    }

    /// For a request of another node: openraft does not stop in good order while the guard is held.
    pub(crate) async fn enter(&self) -> Result<RwLockReadGuard<'_, ()>, String> {
        let inside = self.inside.read().await;
        self.stopped().map_or(Ok(inside), Err)
    }

    /// Ends with the replica.
    pub(crate) async fn until_stopped(&self) {
        // An error would say that the replica is gone, but it is here.
        let _ = self.stopped.subscribe().wait_for(Option::is_some).await;
    }

    /// Ends the replica; handles to it see why.
    pub(crate) async fn stop(&self, why: &str) {
        self.mark_stopped(why);
        self.parts.stopping.store(true, Ordering::Relaxed);
        // openraft takes a request that it can no longer answer for a fault, and says so loudly.
        let _ = timeout(LAST_ANSWERS_TIMEOUT, self.inside.write()).await;
        lock(&self.tasks).drain(..).for_each(|task| task.abort());
        if let Err(why) = self.parts.raft.shutdown().await {
            tracing::warn!(group = self.parts.group, %why, "a group ended badly");
        }
        self.parts.log.note_committed();
    }

    /// After [`Replica::stop`].
    pub(crate) fn recovered(&self) -> GroupState {
        self.parts.log.recovered()
    }

    pub(crate) async fn forget(&self) -> Result<(), Error> {
        self.parts.log.remove().await.map_err(Error::io("removing a group from the log"))?;
        let (dir, group) = (self.parts.dir.clone(), self.parts.group);
        let removed = crate::door::blocking(move || dir.remove_group(group)).await;
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

    /// Answers one of Raft's own requests.
    pub(crate) async fn answer(&self, kind: u8, body: Bytes) -> Result<Bytes, String> {
        let text = |why: &dyn std::fmt::Display| why.to_string();
        if kind == kind::SNAPSHOT {
            return self.install(body).await;
        }
        let _inside = self.enter().await?;
        match kind {
            kind::BEAT | kind::URGENT_BEAT => {
                let (_, request) = messages::take_append(body).map_err(|why| text(&why))?;
                let answer = self.parts.raft.append_entries(request).await.map_err(|why| text(&why))?;
                if !matches!(answer, AppendEntriesResponse::HigherVote(_)) {
                    self.heard();
                }
                Ok(messages::append_answer(&answer))
            }
            kind::VOTE => {
                let request = messages::take_vote_request(body).map_err(|why| text(&why))?;
                Ok(messages::vote_answer(&self.parts.raft.vote(request).await.map_err(|why| text(&why))?))
            }
            kind::PRE_VOTE => {
                let request = messages::take_vote_request(body).map_err(|why| text(&why))?;
                Ok(messages::vote_answer(&self.parts.raft.pre_vote(request).await.map_err(|why| text(&why))?))
            }
            kind::TRANSFER => {
                let request = messages::take_transfer(body).map_err(|why| text(&why))?;
                let answer = self.parts.raft.handle_transfer_leader(request).await.map_err(|why| text(&why))?;
                Ok(messages::transfer_answer(&answer))
            }
            _ => Err(format!("unknown kind {kind}")),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Every update leaves the value whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Publishes who leads, and notices when the replica stops.
async fn watch_group(replica: Arc<Replica>, mut log_poisoned: watch::Receiver<Option<String>>) {
    let mut server = replica.parts.raft.server_metrics();
    let mut applied = replica.parts.applied.clone();
    let why = loop {
        let now = leadership_of(&replica, &server.borrow_and_update(), *applied.borrow_and_update());
        let before = *replica.leadership.borrow();
        if before != now {
            replica.leadership.send_replace(now);
            tell_of(replica.parts.group, replica.parts.node, before, now);
        }
        let unready = now.leader == Some(replica.parts.node) && !now.ready;
        tokio::select! {
            changed = server.changed() => if changed.is_err() { break end_of(&replica) },
            changed = applied.changed(), if unready => if changed.is_err() { break "state machine is gone".to_owned() },
            Ok(reason) = log_poisoned.wait_for(Option::is_some) => break reason.clone().unwrap_or_default(),
        }
    };
    tracing::error!(group = replica.parts.group, %why, "a replica has stopped");
    replica.mark_stopped(&why);
    replica.parts.failed.send_if_modified(|failed| {
        let first = failed.is_none();
        failed.get_or_insert_with(|| format!("group {}: {why}", replica.parts.group));
        first
    });
    if let Err(why) = replica.parts.raft.shutdown().await {
        tracing::warn!(group = replica.parts.group, %why, "a group ended badly");
    }
}

/// Why clients are sent elsewhere is looked for in the log first.
fn tell_of(group: GroupId, node: NodeId, before: Leadership, now: Leadership) {
    let (led, leads) = (before.leader == Some(node), now.leader == Some(node));
    match (led, leads) {
        (false, true) => tracing::info!(group, term = now.term, "leads"),
        (true, false) => tracing::info!(group, term = now.term, leader = now.leader, "leads no longer"),
        _ => {}
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
    let ready = leader == Some(replica.parts.node) && server.state == ServerState::Leader && applied.term == term;
    Leadership { term, leader, ready }
}

/// Term of the newest entry the log has forgotten, for messages.
pub(crate) fn purged_position(log: &GroupLog) -> Option<LogPosition> {
    log.purged().map(|id| LogPosition { index: id.index, term: term_of(&id) })
}
