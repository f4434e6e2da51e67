use std::io;

use bytes::Bytes;
use futures::future::BoxFuture;

use crate::{Corrupt, GroupId, LogPosition};

/// The deterministic state of one group. The crate serialises the calls; interior mutability lets readers share the
/// `Arc`.
pub trait StateMachine: Send + Sync + 'static {
    type Response: Send + 'static;

    /// Applies one entry. Called once per entry, in log order, after a restart again from the newest snapshot on.
    ///
    /// # Errors
    /// [`Corrupt`] stops this replica (an unknown entry kind, for one): the entry is never skipped.
    fn apply(&self, at: LogPosition, payload: Bytes) -> Result<Self::Response, Corrupt>;

    /// An entry has come to this replica's log. Most are applied a little later; some never are, or twice told of. A hint
    /// to prepare for it: cheap, and never a reason to show anything. Called on the way into the log.
    fn appended(&self, _payload: &Bytes) {}

    /// Takes a consistent copy now, cheaply; the closure serialises it later, off the apply task.
    fn snapshot(&self) -> Box<dyn FnOnce() -> Bytes + Send>;

    /// Replaces the whole state.
    ///
    /// # Errors
    /// [`Corrupt`] stops this replica.
    fn restore(&self, at: LogPosition, snapshot: Bytes) -> Result<(), Corrupt>;
}

/// Where snapshot bytes live for others to fetch. Messages between nodes carry the key, length and checksum only.
/// A stored snapshot must stay readable for as long as a transfer may take.
pub trait SnapshotStore: Send + Sync + 'static {
    /// Stores the bytes and answers the key under which every node can get them.
    fn put(&self, group: GroupId, at: LogPosition, bytes: Bytes) -> BoxFuture<'_, io::Result<String>>;

    fn get(&self, key: &str) -> BoxFuture<'_, io::Result<Bytes>>;
}
