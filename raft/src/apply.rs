//! openraft's state machine on top of ours: erased, so that openraft is compiled once for all of them.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{OptionalSend, RaftSnapshotBuilder};
use tokio::sync::watch;

use crate::snapshot::{Newest, SnapshotData, SnapshotDir, SnapshotFile};
use crate::types::{Answer, EntryPayload, LogId, SnapshotMeta, StoredMembership, TypeConfig, position};
use crate::{Corrupt, GroupId, LogPosition, StateMachine};

type Snapshot = openraft::alias::SnapshotOf<TypeConfig, SnapshotData>;
type Serialise = Box<dyn FnOnce() -> Bytes + Send>;

/// A [`StateMachine`] without its response type.
pub(crate) trait ErasedMachine: Send + Sync + 'static {
    /// The response is only made when somebody waits for it.
    fn apply(&self, at: LogPosition, payload: Bytes, wanted: bool) -> Result<Answer, Corrupt>;
    fn appended(&self, payload: &Bytes);
    fn snapshot(&self) -> Serialise;
    fn restore(&self, at: LogPosition, snapshot: Bytes) -> Result<(), Corrupt>;
}

pub(crate) struct Typed<S>(pub(crate) Arc<S>);

impl<S: StateMachine> ErasedMachine for Typed<S> {
    fn apply(&self, at: LogPosition, payload: Bytes, wanted: bool) -> Result<Answer, Corrupt> {
        let response = self.0.apply(at, payload)?;
        Ok(if wanted { Answer::new(Box::new(response)) } else { Answer::none() })
    }

    fn appended(&self, payload: &Bytes) {
        self.0.appended(payload);
    }

    fn snapshot(&self) -> Serialise {
        self.0.snapshot()
    }

    fn restore(&self, at: LogPosition, snapshot: Bytes) -> Result<(), Corrupt> {
        self.0.restore(at, snapshot)
    }
}

/// A consistent copy of the state, not serialised yet.
pub(crate) struct Frozen {
    pub(crate) meta: SnapshotMeta,
    pub(crate) serialise: Serialise,
}

pub struct Applier {
    group: GroupId,
    machine: Arc<dyn ErasedMachine>,
    dir: SnapshotDir,
    newest: Newest,
    applied: Option<LogId>,
    membership: StoredMembership,
    progress: watch::Sender<LogPosition>,
}

impl Applier {
    pub(crate) fn new(
        group: GroupId,
        machine: Arc<dyn ErasedMachine>,
        dir: SnapshotDir,
        newest: Newest,
        progress: watch::Sender<LogPosition>,
    ) -> Self {
        Applier { group, machine, dir, newest, applied: None, membership: StoredMembership::default(), progress }
    }

    pub(crate) fn freeze(&self) -> Frozen {
        let meta = SnapshotMeta { last_log_id: self.applied, last_membership: self.membership.clone() };
        Frozen { meta, serialise: self.machine.snapshot() }
    }

    fn builder(&self, frozen: Option<Frozen>) -> Builder {
        let frozen = Mutex::new(frozen);
        Builder { group: self.group, dir: self.dir.clone(), newest: self.newest.clone(), frozen }
    }

    fn publish(&self) {
        if let Some(id) = &self.applied {
            self.progress.send_replace(position(id));
        }
    }
}

fn stop(why: Corrupt) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

impl RaftStateMachine<TypeConfig> for Applier {
    type SnapshotData = SnapshotData;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<Entries>(&mut self, mut entries: Entries) -> io::Result<()>
    where
        Entries: Stream<Item = io::Result<EntryResponder<TypeConfig>>> + Unpin + OptionalSend,
    {
        while let Some(next) = entries.next().await {
            let (entry, responder) = next?;
            let at = entry.log_id;
            let answer = match entry.payload {
                EntryPayload::Blank => Answer::none(),
                EntryPayload::Normal(payload) => {
                    self.machine.apply(position(&at), payload.0, responder.is_some()).map_err(stop)?
                }
                EntryPayload::Membership(membership) => {
                    self.membership = StoredMembership::new(Some(at), membership);
                    Answer::none()
                }
            };
            self.applied = Some(at);
            if let Some(responder) = responder {
                responder.send(answer);
            }
        }
        self.publish();
        Ok(())
    }

    /// Snapshots are written by our own scheduler, which then has openraft take note of the newest. `force` asks for
    /// one of the present state whatever there is.
    async fn try_create_snapshot_builder(&mut self, force: bool) -> Option<Builder> {
        let fresh = force || self.newest.get().is_none();
        Some(self.builder(fresh.then(|| self.freeze())))
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        self.builder(Some(self.freeze()))
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: SnapshotData) -> io::Result<()> {
        let bytes = match snapshot.bytes {
            Some(bytes) => bytes,
            None => crate::snapshot::load(&snapshot.file.path, None).map_err(io::Error::other)?.1,
        };
        let at = meta.last_log_id.as_ref().map(position).unwrap_or_default();
        self.machine.restore(at, bytes.clone()).map_err(stop)?;
        if self.dir.contains(&snapshot.file) {
            self.newest.adopt(&self.dir, self.group, &snapshot.file)?;
        } else {
            let prepared = self.dir.prepare(self.group, meta, &bytes)?;
            self.newest.adopt(&self.dir, self.group, &prepared)?;
        }
        self.applied = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        self.publish();
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        Ok(self.newest.get().map(hand_out))
    }
}

fn hand_out(file: Arc<SnapshotFile>) -> Snapshot {
    Snapshot { meta: file.meta.clone(), snapshot: SnapshotData { file, bytes: None } }
}

pub struct Builder {
    group: GroupId,
    dir: SnapshotDir,
    newest: Newest,
    /// The mutex only makes it `Sync`, as openraft asks.
    frozen: Mutex<Option<Frozen>>,
}

impl RaftSnapshotBuilder<TypeConfig> for Builder {
    type SnapshotData = SnapshotData;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let frozen = self.frozen.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(frozen) = frozen {
            write_frozen(self.group, self.dir.clone(), self.newest.clone(), frozen).await?;
        }
        self.newest.get().map(hand_out).ok_or_else(|| io::Error::other("no snapshot was written"))
    }
}

/// Serialises, writes and syncs off the async threads, then makes the file the newest.
pub(crate) async fn write_frozen(
    group: GroupId,
    dir: SnapshotDir,
    newest: Newest,
    frozen: Frozen,
) -> io::Result<Arc<SnapshotFile>> {
    let write = move || {
        let bytes = (frozen.serialise)();
        let prepared = dir.prepare(group, &frozen.meta, &bytes)?;
        newest.adopt(&dir, group, &prepared)
    };
    crate::door::blocking(write).await.map_err(io::Error::other)?
}
