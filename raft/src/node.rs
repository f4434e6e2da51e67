use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::apply::{Applier, Typed};
use crate::beats;
use crate::data_dir::open_data_dir;
use crate::log::{GroupLog, GroupState, Log};
use crate::network::GroupNetwork;
use crate::offers::Offers;
use crate::replica::{Parts, Replica, purged_position};
use crate::serve::Serve;
use crate::snapshot::{Newest, SnapshotDir};
use crate::transport::{Lane, Limits, PeerTraffic, Peers, Traffic, listen};
use crate::types::{Raft, position};
use crate::{
    CallError, Config, Error, Group, GroupId, Identity, LogPosition, NodeId, Service, SnapshotStore, StateMachine,
    door, succession,
};

/// Ended connections of callers that wait to be looked at.
const LOST_QUEUED_MAX: usize = 64;

/// One node: its log, its listener and the groups opened on it. A cheap clone.
#[derive(Clone)]
pub struct Node {
    inner: Arc<Inner>,
}

struct Inner {
    config: Arc<Config>,
    identity: Arc<Identity>,
    listen_addr: SocketAddr,
    store: Arc<dyn SnapshotStore>,
    snapshots: SnapshotDir,
    log: Log,
    /// Recovered and not opened yet.
    unopened: Mutex<BTreeMap<GroupId, GroupState>>,
    /// Opened, or being opened.
    opened: Mutex<BTreeSet<GroupId>>,
    serve: Arc<Serve>,
    peers: Peers,
    traffic: Traffic,
    listening: AbortHandle,
    /// Why the first replica stopped by itself.
    failed: watch::Sender<Option<String>>,
    beating: AbortHandle,
    succeeding: AbortHandle,
    /// Tells apart the append streams this node sends, over all groups.
    sessions: Arc<AtomicU32>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every update leaves the value whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Node {
    /// Opens the log, reads it, and starts the listener.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::WrongIdentity`], [`Error::LogMissing`] and [`Error::Damaged`] need a person; [`Error::Io`] and
    /// [`Error::Config`] say what is wrong.
    pub async fn start(
        config: Config,
        identity: Identity,
        snapshots: Arc<dyn SnapshotStore>,
        service: Arc<dyn Service>,
    ) -> Result<Node, Error> {
        config.validate()?;
        if identity.node_id == 0 || identity.cluster_id.is_empty() || identity.cluster_id.len() > 255 {
            return Err(Error::Config("a node needs an id other than 0 and a cluster id of 1 to 255 bytes".into()));
        }
        let (config, identity) = (Arc::new(config), Arc::new(identity));
        let opening = (config.clone(), identity.clone());
        let opened = door::blocking(move || open_data_dir(&opening.0, &opening.1)).await;
        let (log, snapshot_dir, groups) =
            opened.map_err(|why| Error::Stopped(format!("opening the log panicked: {why}")))??;
        let limits = Limits::of(&config);
        let traffic = Traffic::default();
        let (lost, lost_callers) = mpsc::channel(LOST_QUEUED_MAX);
        let serve = Arc::new(Serve::new(service, lost));
        let what = format!("listening on {}", config.listen);
        let listener = listen(config.listen, identity.clone(), limits, traffic.clone(), serve.clone());
        let (listen_addr, accepting) = listener.await.map_err(Error::io(what))?;
        let listening = tokio::spawn(accepting).abort_handle();
        let beating = tokio::spawn(beats::beat(serve.clone(), config.heartbeat)).abort_handle();
        let peers = Peers::new(identity.clone(), limits, traffic.clone());
        let succeeding = succession::succeed_the_ended(lost_callers, peers.clone(), serve.clone());
        let inner = Inner {
            peers,
            succeeding: tokio::spawn(succeeding).abort_handle(),
            config,
            identity,
            listen_addr,
            store: snapshots,
            snapshots: snapshot_dir,
            log,
            unopened: Mutex::new(groups),
            opened: Mutex::default(),
            serve,
            traffic,
            listening,
            failed: watch::Sender::default(),
            beating,
            sessions: Arc::default(),
        };
        Ok(Node { inner: Arc::new(inner) })
    }

    /// The real address, also when port 0 was asked for.
    pub fn listen_addr(&self) -> SocketAddr {
        self.inner.listen_addr
    }

    /// What other nodes should dial.
    pub fn advertised(&self) -> String {
        let advertise = &self.inner.config.advertise;
        if advertise.is_empty() { self.inner.listen_addr.to_string() } else { advertise.clone() }
    }

    pub fn identity(&self) -> &Identity {
        &self.inner.identity
    }

    /// Adds to or changes the address book; open connections to another address are closed.
    pub fn set_address(&self, node: NodeId, address: String) {
        self.inner.peers.set_address(node, Some(address));
    }

    pub fn remove_address(&self, node: NodeId) {
        self.inner.peers.set_address(node, None);
    }

    /// Asks which node answers at an address and notes it in the address book: for addresses that came without a node
    /// id, such as seeds. Bounded by [`Config::connect_timeout`]; the answer may be this node itself.
    ///
    /// # Errors
    /// [`CallError::Unreachable`], also when a node of another cluster answers; asking again does no harm.
    pub async fn learn(&self, address: &str) -> Result<NodeId, CallError> {
        self.inner.peers.learn(address).await
    }

    /// Groups with anything in the log, opened or not.
    pub fn groups_on_disk(&self) -> Vec<GroupId> {
        let unopened = lock(&self.inner.unopened);
        let opened = lock(&self.inner.opened);
        unopened.keys().chain(opened.iter()).copied().collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Restores the newest local snapshot, then the log. Also for a group with nothing on disk: it then waits to be
    /// initialised, or to hear of a leader.
    ///
    /// # Errors
    /// [`Error::AlreadyOpen`]; [`Error::Damaged`] when snapshot and log do not fit; [`Error::Stopped`] when the state
    /// machine refuses what it is given.
    pub async fn open_group<S: StateMachine>(&self, id: GroupId, machine: Arc<S>) -> Result<Group<S>, Error> {
        if !lock(&self.inner.opened).insert(id) {
            return Err(Error::AlreadyOpen(id));
        }
        let erased = Arc::new(Typed(machine.clone()));
        let state = lock(&self.inner.unopened).get(&id).cloned().unwrap_or_default();
        let log = GroupLog::new(id, self.inner.log.clone(), state).telling(erased.clone());
        match self.open_erased(id, log, erased).await {
            Ok(replica) => {
                lock(&self.inner.unopened).remove(&id);
                Ok(Group::new(replica, machine, self.inner.config.body_bytes_max))
            }
            Err(why) => {
                lock(&self.inner.opened).remove(&id);
                Err(why)
            }
        }
    }

    async fn open_erased(
        &self,
        group: GroupId,
        log: GroupLog,
        machine: Arc<dyn crate::apply::ErasedMachine>,
    ) -> Result<Arc<Replica>, Error> {
        let inner = &self.inner;
        let newest = Newest::default();
        let (dir, loading) = (inner.snapshots.clone(), newest.clone());
        let loaded = door::blocking(move || dir.newest(group)).await;
        let loaded = loaded.map_err(|why| Error::Stopped(format!("reading a snapshot panicked: {why}")))??;
        let snapshot_at = loaded.as_ref().and_then(|(file, _)| file.meta.last_log_id);
        if let Some(purged) = purged_position(&log)
            && snapshot_at.as_ref().map(position) < Some(purged)
        {
            return Err(Error::Damaged {
                file: inner.config.data_dir.join("snapshots"),
                position: 0,
                why: format!("group {group}: the log begins after {purged:?}, but there is no snapshot up to there"),
            });
        }
        if let Some((file, _)) = loaded {
            loading.set(Arc::new(file));
        }
        let (progress, applied) = watch::channel(LogPosition::default());
        let applier = Applier::new(group, machine, inner.snapshots.clone(), newest.clone(), progress);
        let offers = Arc::new(Offers::new(inner.store.clone()));
        let reads_waiting = Arc::new(AtomicUsize::new(0));
        let stopping = Arc::new(AtomicBool::new(false));
        let network = GroupNetwork {
            group,
            peers: inner.peers.clone(),
            offers: offers.clone(),
            reads_waiting: reads_waiting.clone(),
            stopping: stopping.clone(),
            sessions: inner.sessions.clone(),
            append_timeout: inner.config.progress_timeout * 5,
            install_timeout: inner.config.install_timeout,
        };
        let raft_config = Arc::new(inner.config.for_openraft(group)?);
        let built = Raft::build(inner.identity.node_id, raft_config, network, log.clone(), applier).await;
        let raft = built.map_err(|why| Error::Stopped(why.to_string()))?;
        let parts = Parts {
            group,
            node: inner.identity.node_id,
            raft: raft.clone(),
            log,
            config: inner.config.clone(),
            dir: inner.snapshots.clone(),
            newest,
            offers,
            reads_waiting,
            stopping,
            applied,
            log_poisoned: inner.log.poisoned(),
            failed: inner.failed.clone(),
        };
        // Known to the listener before it can campaign: answers to its first requests find it.
        let replica = Replica::start(parts);
        inner.serve.insert(group, replica.clone());
        raft.run();
        Ok(replica)
    }

    /// Closes the group and keeps it on disk, so that it can be opened again. Handles to it see it stopped. A member that
    /// was removed has to remember it: with an empty log it would take the first members for the present ones.
    pub async fn close_group(&self, id: GroupId) {
        let Some(replica) = self.inner.serve.remove(id) else { return };
        replica.stop("group is closed on this node").await;
        lock(&self.inner.unopened).insert(id, replica.recovered());
        lock(&self.inner.opened).remove(&id);
    }

    /// Closes the group and forgets it on disk. Handles to it see it stopped.
    ///
    /// Only where this node id never comes back to the group: fed from the beginning of the log, where the members are
    /// those of old, it could elect itself. Else [`Node::close_group`].
    ///
    /// # Errors
    /// [`Error::Io`]; the group is closed all the same, and removing it again is allowed.
    pub async fn remove_group(&self, id: GroupId) -> Result<(), Error> {
        match self.inner.serve.remove(id) {
            Some(replica) => {
                replica.stop("group is removed from this node").await;
                replica.forget().await?;
            }
            None => {
                let log = GroupLog::new(id, self.inner.log.clone(), GroupState::default());
                log.remove().await.map_err(Error::io("removing a group from the log"))?;
                let dir = self.inner.snapshots.clone();
                let removed = door::blocking(move || dir.remove_group(id)).await;
                removed.map_err(std::io::Error::other).flatten().map_err(Error::io("removing snapshots"))?;
            }
        }
        lock(&self.inner.unopened).remove(&id);
        lock(&self.inner.opened).remove(&id);
        Ok(())
    }

    /// An application request. To this node itself it is answered by its own [`Service`].
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn call(&self, to: NodeId, kind: u8, body: Bytes, within: Duration) -> Result<Bytes, CallError> {
        self.call_on(Lane::Application, to, kind, body, within).await
    }

    /// As [`Node::call`], over a connection of its own: for answers so large that others would wait behind them.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn call_bulk(&self, to: NodeId, kind: u8, body: Bytes, within: Duration) -> Result<Bytes, CallError> {
        self.call_on(Lane::Bulk, to, kind, body, within).await
    }

    async fn call_on(
        &self,
        lane: Lane,
        to: NodeId,
        kind: u8,
        body: Bytes,
        within: Duration,
    ) -> Result<Bytes, CallError> {
        let inner = &self.inner;
        if kind >= crate::transport::FIRST_RAFT_KIND || body.len() > inner.config.body_bytes_max {
            return Err(CallError::Unreachable("kind or length of the request is not allowed".into()));
        }
        if to == inner.identity.node_id {
            let answer = tokio::spawn(inner.serve.service().call(to, kind, body));
            return match timeout(within, answer).await {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(why)) => Err(CallError::Unknown(why.to_string())),
                Err(_) => Err(CallError::Unknown("no answer in time".into())),
            };
        }
        let deadline = tokio::time::Instant::now() + within;
        let connecting = inner.peers.connection(to, lane);
        let connection =
            timeout(within, connecting).await.map_err(|_| CallError::Unreachable("no connection in time".into()))??;
        let mut request = connection.request(kind, body, false)?;
        request.answer(deadline.saturating_duration_since(tokio::time::Instant::now())).await
    }

    /// The node's process has ended and no other took its place: its machine refuses connections. A node that is merely
    /// silent has not. Suspected of nodes that this one dials, such as the followers of a leader, and of leaders lost;
    /// tried anew before it is said, for at most [`Config::connect_timeout`].
    pub async fn has_ended(&self, node: NodeId) -> bool {
        self.inner.peers.has_ended(node).await
    }

    /// Per peer and kind, since the start.
    pub fn traffic(&self) -> Vec<PeerTraffic> {
        self.inner.traffic.report()
    }

    /// Syncs of the log since the start, and the operations they made durable.
    pub fn log_syncs(&self) -> LogSyncs {
        let stats = self.inner.log.stats();
        LogSyncs {
            operations: stats.operations.load(std::sync::atomic::Ordering::Relaxed),
            syncs: stats.syncs.load(std::sync::atomic::Ordering::Relaxed),
        }
    }

    /// Returns when a replica has stopped by itself, and says why: a disk that is full or broken, a payload that its
    /// state machine cannot read. It does not come back in this process.
    pub async fn failed(&self) -> String {
        let mut failed = self.inner.failed.subscribe();
        let why = failed.wait_for(Option::is_some).await.expect("the sender is in this node");
        why.clone().unwrap_or_default()
    }

    /// Hands leadership over to followers with equal logs, bounded in time, then stops everything.
    pub async fn shutdown(&self) {
        let replicas = self.inner.serve.all();
        let leaving = join_all(replicas.iter().map(|replica| replica.leave()));
        if timeout(self.inner.config.shutdown_timeout, leaving).await.is_err() {
            tracing::warn!("groups did not leave in time");
            join_all(replicas.iter().map(|replica| replica.stop("node is shut down"))).await;
        }
        for replica in replicas {
            self.inner.serve.remove(replica.group());
        }
        self.inner.listening.abort();
        self.inner.beating.abort();
        self.inner.succeeding.abort();
        self.inner.peers.close_all();
        self.inner.log.close().await;
    }

    #[cfg(test)]
    pub(crate) fn attempts(&self, node: NodeId) -> u64 {
        self.inner.peers.attempts(node)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.listening.abort();
        self.beating.abort();
        self.succeeding.abort();
    }
}

/// How well the groups of a node share the syncs of its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSyncs {
    pub operations: u64,
    pub syncs: u64,
}
