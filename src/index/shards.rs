use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use milepost_raft::{Group, NodeId};
use tokio::time::Instant;

use crate::index::Replica;
use crate::types::ShardId;

/// A replica older than this is silent: it may have been cut off, so readers are sent elsewhere (two election timeouts).
const SILENCE_MAX: Duration = Duration::from_millis(1000);

/// A shard that this broker replicates.
pub struct OpenShard {
    pub id: ShardId,
    pub group: Group<Replica>,
    caught_up: AtomicBool,
}

impl OpenShard {
    pub fn new(id: ShardId, group: Group<Replica>) -> Self {
        OpenShard { id, group, caught_up: AtomicBool::new(false) }
    }

    pub fn replica(&self) -> &Replica {
        self.group.machine()
    }

    pub fn leader(&self) -> Option<NodeId> {
        self.group.leadership().borrow().leader
    }

    /// May readers be answered from this replica? After a start only once it has applied what was committed then, so
    /// that no watermark steps back; and only while a leader is heard, so that no reader waits at a dead end.
    pub fn serving(&self) -> bool {
        self.is_caught_up() && self.group.last_heard().is_some_and(is_recent)
    }

    /// The caller has applied a read index of a leader since the start.
    pub fn mark_caught_up(&self) {
        self.caught_up.store(true, Ordering::Release);
    }

    /// A leader that has applied an entry of its own term has applied all that was committed before: it asks nobody.
    pub fn is_caught_up(&self) -> bool {
        if !self.caught_up.load(Ordering::Acquire) && self.group.leadership().borrow().ready {
            self.mark_caught_up();
        }
        self.caught_up.load(Ordering::Acquire)
    }
}

fn is_recent(at: Instant) -> bool {
    at.elapsed() <= SILENCE_MAX
}

/// The shards open on this broker.
#[derive(Default)]
pub struct Shards {
    open: RwLock<HashMap<ShardId, Arc<OpenShard>>>,
}

impl Shards {
    pub fn get(&self, id: ShardId) -> Option<Arc<OpenShard>> {
        self.open.read().expect("no writer panics").get(&id).cloned()
    }

    pub fn all(&self) -> Vec<Arc<OpenShard>> {
        self.open.read().expect("no writer panics").values().cloned().collect()
    }

    pub fn remove(&self, id: ShardId) {
        self.open.write().expect("no writer panics").remove(&id);
    }

    pub fn insert(&self, shard: Arc<OpenShard>) {
        self.open.write().expect("no writer panics").insert(shard.id, shard);
    }
}
