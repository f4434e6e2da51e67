//! openraft's own suite for log storage and state machines.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use tempfile::TempDir;
use tokio::sync::watch;

use super::disk::FileDisk;
use super::recover::GroupState;
use super::*;
use crate::apply::{Applier, Typed};
use crate::snapshot::{Newest, SnapshotDir};
use crate::types::TypeConfig;
use crate::{Corrupt, Identity, LogPosition, StateMachine};

/// Counts its entries.
#[derive(Default)]
struct Counter(AtomicUsize);

impl StateMachine for Counter {
    type Response = usize;

    fn apply(&self, _at: LogPosition, _payload: Bytes) -> Result<usize, Corrupt> {
        Ok(self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn snapshot(&self) -> Box<dyn FnOnce() -> Bytes + Send> {
        let count = self.0.load(Ordering::Relaxed);
        Box::new(move || Bytes::from(count.to_string()))
    }

    fn restore(&self, _at: LogPosition, snapshot: Bytes) -> Result<(), Corrupt> {
        let count = std::str::from_utf8(&snapshot).ok().and_then(|text| text.parse().ok());
        self.0.store(count.ok_or_else(|| Corrupt("not a count".into()))?, Ordering::Relaxed);
        Ok(())
    }
}

struct Builder;

impl StoreBuilder<TypeConfig, GroupLog, Applier, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, GroupLog, Applier), StorageError<TypeConfig>> {
        let dir = tempfile::tempdir().expect("a directory");
        let identity = Identity { cluster_id: "suite".into(), node_id: 1 };
        let disk = FileDisk::open(&dir.path().join("log")).expect("a directory");
        let recovered = recover(&disk, &identity).expect("an empty directory");
        let config = LogConfig { identity, segment_bytes: 1 << 20, queue_bytes_max: 1 << 20 };
        let log = Log::start(Arc::new(disk), config, recovered, Box::new(())).expect("room");
        let snapshots = SnapshotDir::open(&dir.path().join("snapshots")).expect("a directory");
        let (progress, _) = watch::channel(LogPosition::default());
        let machine = Arc::new(Typed(Arc::new(Counter::default())));
        let applier = Applier::new(1, machine, snapshots, Newest::default(), progress);
        Ok((dir, GroupLog::new(1, log, GroupState::default()), applier))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passes_the_storage_suite_of_openraft() {
    Suite::test_all(Builder).await.expect("the suite passes");
}
