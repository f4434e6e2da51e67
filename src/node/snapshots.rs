use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use milepost_raft::{GroupId, LogPosition, SnapshotStore};
use tokio::time::Instant;

use crate::object::{Key, Name, Paths, Store, put_own};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Raft snapshots as objects under `snap/`.
pub(super) struct Snapshots {
    pub store: Arc<dyn Store>,
    pub paths: Paths,
}

impl SnapshotStore for Snapshots {
    fn put(&self, group: GroupId, at: LogPosition, bytes: Bytes) -> BoxFuture<'_, io::Result<String>> {
        async move {
            let name = Name::Snapshot { shard: group, log_index: at.index, unique: rand::random() };
            let key = self.paths.key(name);
            put_own(&*self.store, &key, bytes, Instant::now() + TIMEOUT).await.map_err(io::Error::other)?;
            Ok(key.as_str().to_owned())
        }
        .boxed()
    }

    fn get(&self, key: &str) -> BoxFuture<'_, io::Result<Bytes>> {
        let key = Key::parse(key);
        async move { self.store.get(&key.map_err(io::Error::other)?).await.map_err(io::Error::other) }.boxed()
    }
}
