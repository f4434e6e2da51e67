//! When snapshots are built, and how one of another node is installed.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft::async_runtime::WatchReceiver;
use tokio::time::timeout;

use super::{CHANGE_TIMEOUT, Replica};
use crate::apply::write_frozen;
use crate::snapshot::SnapshotData;
use crate::{Error, door, messages};

/// Between looks at whether a snapshot is due.
const PAUSE: Duration = Duration::from_millis(500);

impl Replica {
    /// Builds a snapshot of what is applied now, on the local disk; entries far enough behind it leave the log.
    pub(crate) async fn snapshot_now(&self) -> Result<(), Error> {
        let _one_at_a_time = self.snapshotting.lock().await;
        let frozen = self.parts.raft.with_state_machine(|applier| Box::pin(std::future::ready(applier.freeze())));
        let frozen = frozen.await.map_err(|why| self.fatal(&why))?;
        let Some(at) = frozen.meta.last_log_id else {
            return Ok(());
        };
        if self.parts.newest.get().is_some_and(|newest| newest.meta.last_log_id >= Some(at)) {
            return Ok(());
        }
        let written = write_frozen(self.parts.group, self.parts.dir.clone(), self.parts.newest.clone(), frozen).await;
        written.map_err(Error::io(format!("writing a snapshot of group {}", self.parts.group)))?;
        self.parts.raft.trigger().snapshot().await.map_err(|why| self.fatal(&why))?;
        let mut metrics = self.parts.raft.metrics();
        let noticed = metrics.wait_until(|metrics| metrics.snapshot >= Some(at) || metrics.running_state.is_err());
        if timeout(CHANGE_TIMEOUT, noticed).await.is_err() {
            return Err(Error::Timeout("openraft has not taken note of a snapshot".into()));
        }
        // openraft keeps a number of entries; a limit on their bytes is ours.
        if let Some(upto) = self.parts.log.excess(at.index, self.parts.config.kept_log_bytes) {
            self.parts.raft.trigger().purge_log(upto).await.map_err(|why| self.fatal(&why))?;
        }
        Ok(())
    }

    /// Everything that can fail for outer reasons (the store, the disk) happens before openraft is told: what fails
    /// inside it stops the replica.
    pub(super) async fn install(&self, body: Bytes) -> Result<Bytes, String> {
        let offer = messages::take_snapshot(body).map_err(|why| why.to_string())?;
        let _one_at_a_time = self.installing.lock().await;
        let fetched = timeout(self.parts.config.install_timeout, self.parts.offers.fetch(&offer)).await;
        let bytes = fetched.map_err(|_| "fetching took too long".to_owned())?.map_err(|why| why.to_string())?;
        self.heard();
        let (dir, group, meta, copy) = (self.parts.dir.clone(), self.parts.group, offer.meta.clone(), bytes.clone());
        let prepared = door::blocking(move || dir.prepare(group, &meta, &copy)).await;
        let file = prepared.map_err(io::Error::other).flatten().map_err(|why| why.to_string())?;
        let path = file.path.clone();
        let snapshot = SnapshotData { file: Arc::new(file), bytes: Some(bytes) };
        let snapshot = openraft::Snapshot { meta: offer.meta, snapshot };
        let _inside = self.enter().await?;
        let answer =
            self.parts.raft.install_full_snapshot(offer.vote, snapshot).await.map_err(|why| why.to_string())?;
        // Still there if openraft had no use for it.
        let _ = door::blocking(move || std::fs::remove_file(path)).await;
        Ok(messages::snapshot_answer(&answer))
    }
}

/// Builds a snapshot whenever enough has been applied since the last one.
pub(super) async fn schedule_snapshots(replica: Arc<Replica>) {
    let mut applied = replica.parts.applied.clone();
    let mut bytes_at_last = 0;
    loop {
        tokio::time::sleep(PAUSE).await;
        let since = replica.parts.newest.get().and_then(|newest| newest.meta.last_log_id).map_or(0, |id| id.index + 1);
        let entries = (applied.borrow_and_update().index + 1).saturating_sub(since);
        let bytes = replica.parts.log.appended_bytes().saturating_sub(bytes_at_last);
        if entries >= replica.parts.config.snapshot_entries
            || (entries > 1 && bytes >= replica.parts.config.snapshot_log_bytes)
        {
            bytes_at_last = replica.parts.log.appended_bytes();
            if let Err(why) = replica.snapshot_now().await {
                tracing::warn!(group = replica.parts.group, %why, "no snapshot");
            }
        }
        if applied.changed().await.is_err() {
            return;
        }
    }
}
