//! Share groups (KIP-932): records of a partition are dealt out to the members one by one, each to be acknowledged.
//!
//! - **In**: ShareFetch, ShareAcknowledge and the administration of share groups' offsets, at any broker; what brokers ask
//!   the leader of a shard for them ([`Leaders`]).
//! - **Out**: records, and which of them the member has acquired.
//! - **Promises**: at its leader a record is held by one member at a time; an acknowledgement that was answered is in the
//!   log of the shard; what was accepted or rejected is never delivered again, whoever leads; what was held when a leader
//!   was lost, or whose lock ran out, is delivered again. A group that reads what is committed never sees records of
//!   transactions that are open or were aborted.
//! - **Never does**: know who is a member (`src/group/share`), or carry record bytes between brokers: the leader tells
//!   where they are, and the broker that was asked reads them in its own zone.
//! - **Limits**: the records of a partition in delivery ([`ShareSettings::locks_max`]), sessions and their
//!   partitions, asks that wait, what is kept in memory per shard (see the files).
//!
//! ```text
//! member ─▶ fetch, acknowledge (any broker; sessions) ══RPC══▶ Leaders ─▶ Reign (a task per shard and term)
//!              ▲       │                                                   │ delivery (pure): who holds what
//!              │       ▼                                                   ▼
//!              └──── read ◀─ cache                            sequencer ─▶ Raft ─▶ apply (shard/share)
//! ```
//!
//! # Decisions
//! **As many records as were asked for, not whole batches.** Kafka hands out whole batches, since its leader reads them.
//! Here the leader knows spans of several batches and never sees their bytes; a batch that is dealt out to two members is
//! read by both, from the cache.
//!
//! **Locks are in memory, as in Kafka**: an acquisition costs no entry, and what is decided together is one entry. A new
//! leader makes available what was held; the deliveries that nobody answered for are not counted then.

mod acknowledge;
mod ask;
mod delivery;
mod fetch;
mod gather;
mod leaders;
mod offsets;
mod read;
mod reign;
mod request;
mod sessions;
mod wire;

#[cfg(test)]
mod delivery_test;
#[cfg(test)]
mod offsets_served_test;
#[cfg(test)]
mod served_test;

use std::sync::Arc;

pub use acknowledge::share_acknowledge;
pub use fetch::share_fetch;
pub use leaders::Leaders;
pub use offsets::{alter_share_group_offsets, delete_share_group_offsets, describe_share_group_offsets, forget_group};

#[cfg(test)]
pub(crate) use wire::{Ask, Reply, What, pack, unpack};

use crate::admin::{Defaults, ShareSettings};
use crate::cache::Cache;
use crate::cluster::Cluster;
use crate::index::Shards;
use crate::protocol::ErrorCode;
use crate::share::request::Key;
use crate::share::sessions::Sessions;
use crate::types::Partition;

/// The room's handle.
pub struct Share {
    cluster: Cluster,
    shards: Arc<Shards>,
    cache: Arc<Cache>,
    defaults: Defaults,
    sessions: Sessions,
}

impl Share {
    pub fn new(cluster: Cluster, shards: Arc<Shards>, cache: Arc<Cache>, defaults: Defaults) -> Self {
        Share { cluster, shards, cache, defaults, sessions: Sessions::default() }
    }

    /// A connection is closed: what was acquired through it is for others.
    pub fn connection_ended(self: &Arc<Self>, connection: u64) {
        for ended in self.sessions.of_connection(connection) {
            let share = self.clone();
            tokio::spawn(async move { share.release(ended).await });
        }
    }

    /// A member that begins anew has forgotten what it held.
    async fn open_session(
        &self,
        key: &Key,
        partitions: Vec<Partition>,
        connection: u64,
    ) -> Result<Vec<Partition>, ErrorCode> {
        if let Ok(ended) = self.sessions.close(key) {
            self.release(ended).await;
        }
        self.sessions.open(key, partitions, connection)
    }

    /// How long an acquired record is held.
    fn lock_ms(&self, group: &str) -> i32 {
        i32::try_from(self.settings(group).lock_duration.as_millis()).unwrap_or(i32::MAX)
    }

    fn settings(&self, group: &str) -> ShareSettings {
        let view = self.cluster.view();
        ShareSettings::of(group, &view, self.defaults.layers(&view, self.cluster.broker_id()))
    }
}
