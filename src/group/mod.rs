//! Groups: who is a member, who reads which partition, how far each group has read.
//!
//! - **In**: the body of one request, its version, and the [`Context`] of the client.
//! - **Out**: the body of the answer. An `Err` means that the bytes do not follow the protocol: close the connection.
//! - **Promises**: a group's coordinator is the leader of the shard that carries its partition of `__consumer_offsets`;
//!   a commit or an assignment that was answered is in the log of that shard, and no coordinator of another term can
//!   add to it; committed offsets are read after a read index, so a leader that was replaced tells no old ones. A new
//!   coordinator knows every generation, member and offset that was answered; members get a fresh session.
//! - **Never does**: look at records; assign partitions of classic groups (their leaders do).
//! - **Limits**: see [`classic::Settings`], [`consumer::Settings`] and [`share::Settings`]; [`METADATA_BYTES_MAX`] with a commit.
//!
//! ```text
//! client ─▶ one file per API ─▶ Coordinators ─▶ a task per shard, while this broker leads it ─▶ classic, consumer, share (pure)
//!                                                    │ changes                                      │ answers
//!                                                    ▼                                              ▼
//!                                      sequencer ─▶ Raft ─▶ apply (shard/group)                  client
//! ```
//!
//! A heartbeat touches only the coordinator's memory. Offsets are read from applied state, past the coordinator.

mod ask;
pub mod classic;
mod command;
pub mod consumer;
mod consumer_group_describe;
mod consumer_group_heartbeat;
mod coordinators;
mod delete_groups;
mod describe_groups;
mod find_coordinator;
mod heartbeat;
mod join_group;
mod keeper;
mod kinds;
mod leave_group;
mod list_groups;
mod metrics;
mod migrants;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod place;
mod reign;
mod saving;
pub mod share;
mod share_group_describe;
mod share_group_heartbeat;
mod sync_group;
mod txn_offset_commit;
mod view;

#[cfg(test)]
mod consumer_served_test;
#[cfg(test)]
mod pending_test;
#[cfg(test)]
mod served_test;
#[cfg(test)]
mod share_served_test;

use std::sync::Arc;
use std::time::Duration;

pub use ask::{Ask, Reply};
pub use consumer_group_describe::consumer_group_describe;
pub use consumer_group_heartbeat::consumer_group_heartbeat;
pub use coordinators::Coordinators;
pub use delete_groups::delete_groups;
pub use describe_groups::describe_groups;
pub use find_coordinator::find_coordinator;
pub use heartbeat::heartbeat;
pub use join_group::join_group;
pub use leave_group::leave_group;
pub use list_groups::list_groups;
pub use metrics::Metrics;
pub use offset_commit::offset_commit;
pub use offset_delete::offset_delete;
pub use offset_fetch::offset_fetch;
pub(crate) use place::{place_in, refusal};
pub(crate) use reign::outcome;
pub use share_group_describe::{ShareGroupSeen, ShareGroupUnseen, share_group_describe};
pub use share_group_heartbeat::share_group_heartbeat;
pub use sync_group::sync_group;
pub use txn_offset_commit::txn_offset_commit;
pub use view::{Undecided, View};

use crate::admin::Admin;
pub use crate::admin::Context;
use crate::cluster::Cluster;
use crate::config::{Config, GroupMigration};
use crate::index::Shards;
use crate::produce::Verify;
use crate::protocol::ErrorCode;

/// What a client may commit along with an offset (Kafka: `offset.metadata.max.bytes`).
pub const METADATA_BYTES_MAX: usize = 4096;
/// Metadata of one group's members.
const GROUP_METADATA_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Groups with members in one shard.
const GROUPS_MAX: usize = 100_000;

#[derive(Debug, Clone)]
pub struct Settings {
    pub session_timeout_min: Duration,
    pub session_timeout_max: Duration,
    pub classic: classic::Settings,
    pub consumer: consumer::Settings,
    pub share: share::Settings,
}

impl From<&Config> for Settings {
    fn from(config: &Config) -> Settings {
        let policy = config.group_consumer_migration_policy;
        Settings {
            session_timeout_min: config.group_min_session_timeout,
            session_timeout_max: config.group_max_session_timeout,
            classic: classic::Settings {
                initial_rebalance_delay: config.group_initial_rebalance_delay,
                members_max: config.group_max_size,
                metadata_bytes_max: GROUP_METADATA_BYTES_MAX,
                groups_max: GROUPS_MAX,
                offsets_retention: config.offsets_retention,
            },
            consumer: consumer::Settings {
                session_timeout: config.group_consumer_session_timeout,
                heartbeat_interval: config.group_consumer_heartbeat_interval,
                members_max: config.group_consumer_max_size,
                groups_max: GROUPS_MAX,
                assignors: config.group_consumer_assignors.iter().map(|assignor| (*assignor).into()).collect(),
                upgrades: matches!(policy, GroupMigration::Bidirectional | GroupMigration::Upgrade),
                downgrades: matches!(policy, GroupMigration::Bidirectional | GroupMigration::Downgrade),
                classic_members_max: config.group_max_size,
                metadata_bytes_max: GROUP_METADATA_BYTES_MAX,
                offsets_retention: config.offsets_retention,
            },
            share: share::Settings {
                session_timeout: config.group_share_session_timeout,
                heartbeat_interval: config.group_share_heartbeat_interval,
                members_max: config.group_share_max_size,
                groups_max: GROUPS_MAX,
            },
        }
    }
}

/// The room's handle.
pub struct Groups {
    cluster: Cluster,
    shards: Arc<Shards>,
    admin: Arc<Admin>,
    coordinators: Arc<Coordinators>,
    /// The coordinators of transactions: asked for offsets that are committed within one.
    verify: Arc<dyn Verify>,
    settings: Settings,
}

impl Groups {
    pub fn new(
        cluster: Cluster,
        shards: Arc<Shards>,
        admin: Arc<Admin>,
        coordinators: Arc<Coordinators>,
        verify: Arc<dyn Verify>,
        settings: Settings,
    ) -> Self {
        Groups { cluster, shards, admin, coordinators, verify, settings }
    }

    /// Asks the group's coordinator, if it is this broker.
    async fn ask(&self, group: &str, ask: classic::Ask) -> classic::Reply {
        match self.place(group) {
            Ok((shard, partition)) => self.coordinators.ask(shard, partition, group, ask.into()).await.into_classic(),
            Err(error) => classic::Reply::Failed(error),
        }
    }

    /// As [`Groups::ask`], for those that need a group by name.
    async fn ask_named(&self, group: &str, ask: classic::Ask) -> classic::Reply {
        match group.is_empty() {
            true => classic::Reply::Failed(ErrorCode::InvalidGroupId),
            false => self.ask(group, ask).await,
        }
    }

    /// As [`Groups::ask`], in the words of the consumer protocol.
    async fn ask_consumer(&self, group: &str, ask: consumer::Ask) -> consumer::Reply {
        match self.place(group) {
            Ok((shard, partition)) => self.coordinators.ask(shard, partition, group, ask.into()).await.into_consumer(),
            Err(error) => consumer::Reply::failed(error, String::new()),
        }
    }

    /// As [`Groups::ask`], of share groups.
    async fn ask_share(&self, group: &str, ask: share::Ask) -> share::Reply {
        match self.place(group) {
            Ok((shard, partition)) => self.coordinators.ask(shard, partition, group, ask.into()).await.into_share(),
            Err(error) => share::Reply::failed(error, String::new()),
        }
    }
}

/// The error of a reply that brings nothing else.
fn error_of(reply: classic::Reply) -> ErrorCode {
    use classic::Reply;
    match reply {
        Reply::Failed(error) | Reply::JoinFailed { error, .. } => error,
        Reply::NotClassic => ErrorCode::GroupIdNotFound,
        Reply::Done | Reply::Joined(_) | Reply::Synced { .. } | Reply::Each(_) | Reply::Described(_) => ErrorCode::None,
    }
}
