//! What clients ask about the cluster, and what they ask of it: topics, partitions, settings, brokers, producer ids.
//!
//! - **In**: the body of one request, its version, and the [`Context`] of the client; the applied root state.
//! - **Out**: the body of the answer. An `Err` means that the bytes do not follow the protocol: close the connection.
//! - **Promises**: any broker answers every request here, there is no controller to look for. A topic that was answered
//!   as created exists in every shard that carries it. All brokers name the same leader to the same client.
//! - **Never does**: touch records or objects, or decide anything itself: the root decides, this room asks.
//! - **Limits**: [`PARTITIONS_MAX`] partitions per topic and [`PARTITIONS_PER_REQUEST_MAX`] made by a request,
//!   [`CONCURRENT_MAX`] topics of a request at a time, [`WAIT_MAX`] per request.
//!
//! One file per API, or per few that belong together; `topics` is what they share.

mod acls;
mod alter_client_quotas;
mod alter_configs;
mod assignments;
pub mod configs;
mod create_partitions;
mod create_topics;
mod delete_records;
mod delete_topics;
mod describe_client_quotas;
mod describe_cluster;
mod describe_configs;
mod describe_topic_partitions;
mod elect_leaders;
mod epochs;
mod error;
pub mod features;
mod internal;
mod leaders;
mod list_config_resources;
mod log_dirs;
mod metadata;
mod mutations;
mod named;
mod names;
pub mod operations;
mod quorum;
mod reassignments;
mod resource;
mod telemetry;
mod topics;
mod unregister_broker;
mod update_features;
mod user_scram_credentials;

#[cfg(test)]
mod delete_records_test;
#[cfg(test)]
mod metadata_test;
#[cfg(test)]
mod quotas_test;
#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod served_test;
#[cfg(test)]
mod settings_test;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::protocol::StrBytes;

pub use acls::{create_acls, delete_acls, describe_acls};
pub use alter_client_quotas::alter_client_quotas;
pub use alter_configs::{alter_configs, incremental_alter_configs};
pub use configs::{Defaults, Layers, ShareReset, ShareSettings};
pub use create_partitions::create_partitions;
pub use create_topics::create_topics;
pub use delete_records::delete_records;
pub use delete_topics::delete_topics;
pub use describe_client_quotas::describe_client_quotas;
pub use describe_cluster::describe_cluster;
pub use describe_configs::describe_configs;
pub use describe_topic_partitions::describe_topic_partitions;
pub use elect_leaders::elect_leaders;
pub use error::Error;
pub use internal::{CONSUMER_OFFSETS, TRANSACTION_STATE, is_internal};
pub use list_config_resources::list_config_resources;
pub use log_dirs::{alter_replica_log_dirs, describe_log_dirs};
pub use metadata::metadata;
pub use quorum::{add_raft_voter, describe_quorum, remove_raft_voter};
pub use reassignments::{alter_partition_reassignments, list_partition_reassignments};
pub use telemetry::{Pushed, get_telemetry_subscriptions, push_telemetry};
pub use unregister_broker::unregister_broker;
pub use update_features::update_features;
pub use user_scram_credentials::describe_user_scram_credentials;

use crate::admin::named::Named;
use crate::cluster::{Cluster, RootState};
use crate::config::Config;
use crate::index::{Replicas, Shards};
use crate::quota::Quotas;
use crate::types::StorageClass;
use crate::zone::{self, Shown, Zones};

/// Partitions that one topic may have.
pub const PARTITIONS_MAX: i32 = 100_000;
/// Partitions that one request may create, as in Kafka.
pub const PARTITIONS_PER_REQUEST_MAX: i32 = 10_000;
/// Topics of one request that are worked on at a time.
pub const CONCURRENT_MAX: usize = 32;
/// The longest that a request is kept waiting, whatever it asks for.
pub const WAIT_MAX: Duration = Duration::from_secs(300);

#[derive(Debug, Clone)]
pub struct Settings {
    /// Metadata creates the topics that it is asked for, if the client wants that too.
    pub auto_create_topics: bool,
    /// For topics that are created without saying how many.
    pub num_partitions: i32,
    /// Likewise; -1 means three, or as many as there are live brokers.
    pub default_replication_factor: i16,
    /// Of the topic that groups live in.
    pub offsets_topic_partitions: i32,
    /// Of the topic that transactional ids live in.
    pub transaction_topic_partitions: i32,
    /// What this broker was started with, under Kafka's names.
    pub defaults: Defaults,
    pub zones: Zones,
    /// URLs of the object store, which never hold credentials.
    pub store: String,
    /// What topics may be: of the stores that this broker has.
    pub classes: Vec<StorageClass>,
}

impl From<&Config> for Settings {
    fn from(config: &Config) -> Settings {
        Settings {
            auto_create_topics: config.auto_create_topics,
            num_partitions: config.num_partitions,
            default_replication_factor: config.default_replication_factor,
            offsets_topic_partitions: config.offsets_topic_partitions,
            defaults: static_settings(config),
            transaction_topic_partitions: config.transaction_topic_partitions,
            zones: Zones::from(config),
            store: config.store.to_string(),
            classes: StorageClass::ALL.into_iter().filter(|class| config.store.has(*class)).collect(),
        }
    }
}

/// Kafka's names for what this broker was started with.
pub fn static_settings(config: &Config) -> Defaults {
    let listener = |address: &crate::config::HostPort| format!("PLAINTEXT://{address}");
    fn named<V: clap::ValueEnum>(values: &[V]) -> String {
        let names = values.iter().filter_map(|value| Some(value.to_possible_value()?.get_name().to_owned()));
        names.collect::<Vec<_>>().join(",")
    }
    let minutes = config.offsets_retention.as_secs() / 60;
    let settings = [
        ("advertised.listeners", listener(&config.advertise)),
        ("auto.create.topics.enable", config.auto_create_topics.to_string()),
        ("broker.id", config.broker_id.to_string()),
        ("broker.rack", config.zone.clone().unwrap_or_default()),
        ("connections.max.idle.ms", config.connections_max_idle.as_millis().to_string()),
        ("default.replication.factor", config.default_replication_factor.to_string()),
        ("group.consumer.assignors", named(&config.group_consumer_assignors)),
        ("group.consumer.heartbeat.interval.ms", config.group_consumer_heartbeat_interval.as_millis().to_string()),
        ("group.consumer.max.size", config.group_consumer_max_size.to_string()),
        ("group.consumer.migration.policy", named(&[config.group_consumer_migration_policy])),
        ("group.consumer.session.timeout.ms", config.group_consumer_session_timeout.as_millis().to_string()),
        ("group.initial.rebalance.delay.ms", config.group_initial_rebalance_delay.as_millis().to_string()),
        ("group.max.session.timeout.ms", config.group_max_session_timeout.as_millis().to_string()),
        ("group.max.size", config.group_max_size.to_string()),
        ("group.min.session.timeout.ms", config.group_min_session_timeout.as_millis().to_string()),
        ("group.share.delivery.count.limit", config.group_share_delivery_count_limit.to_string()),
        ("group.share.heartbeat.interval.ms", config.group_share_heartbeat_interval.as_millis().to_string()),
        ("group.share.max.size", config.group_share_max_size.to_string()),
        ("group.share.partition.max.record.locks", config.group_share_partition_max_record_locks.to_string()),
        ("group.share.record.lock.duration.ms", config.group_share_record_lock_duration.as_millis().to_string()),
        ("group.share.session.timeout.ms", config.group_share_session_timeout.as_millis().to_string()),
        ("listeners", listener(&config.listen)),
        ("log.dirs", config.data_dir.display().to_string()),
        ("max.connections", config.connections_max.to_string()),
        ("message.max.bytes", config.message_max_bytes.to_string()),
        ("milepost.internal.listener", config.internal_advertise.to_string()),
        ("milepost.store", config.store.to_string()),
        (configs::STORAGE_CLASS, config.store.default_class().name().to_owned()),
        ("node.id", config.broker_id.to_string()),
        ("num.partitions", config.num_partitions.to_string()),
        ("offsets.retention.minutes", minutes.to_string()),
        ("offsets.topic.num.partitions", config.offsets_topic_partitions.to_string()),
        ("process.roles", "broker,controller".to_owned()),
        ("socket.request.max.bytes", config.request_bytes_max.to_string()),
        ("transaction.max.timeout.ms", config.transaction_max_timeout.as_millis().to_string()),
        ("transaction.state.log.num.partitions", config.transaction_topic_partitions.to_string()),
        ("transactional.id.expiration.ms", config.transactional_id_expiration.as_millis().to_string()),
    ];
    // As in Kafka a default that was said aloud is a setting; flags do not tell us which were.
    let differs = |(name, value): &(&'static str, String)| {
        configs::broker::find(name).is_none_or(|(line, _)| line.broker_unset || line.default != value)
    };
    Defaults::new(settings.into_iter().filter(differs))
}

impl Settings {
    /// Of an internal topic.
    fn partitions_of(&self, name: &str) -> Option<i32> {
        match name {
            CONSUMER_OFFSETS => Some(self.offsets_topic_partitions),
            TRANSACTION_STATE => Some(self.transaction_topic_partitions),
            _ => None,
        }
    }
}

/// Who asks.
#[derive(Debug, Clone)]
pub struct Context {
    pub client_id: Option<StrBytes>,
    pub address: SocketAddr,
    /// The zone of the listener it came by, if that has one.
    pub listener: Option<Arc<str>>,
    /// What it is, and of which version, if it has said so.
    pub software: Option<Arc<(String, String)>>,
}

/// The room's handle. A cheap clone.
#[derive(Clone)]
pub struct Admin {
    cluster: Cluster,
    shards: Arc<Shards>,
    replicas: Arc<Replicas>,
    settings: Arc<Settings>,
    quotas: Arc<Quotas>,
    pushed: Arc<Pushed>,
    named: Arc<Named>,
}

impl Admin {
    pub fn new(
        cluster: Cluster,
        shards: Arc<Shards>,
        replicas: Arc<Replicas>,
        quotas: Arc<Quotas>,
        settings: Settings,
    ) -> Self {
        let (pushed, named) = (Arc::default(), Arc::default());
        Admin { cluster, shards, replicas, settings: Arc::new(settings), quotas, pushed, named }
    }

    /// What clients have pushed of their metrics.
    pub fn pushed(&self) -> &Pushed {
        &self.pushed
    }

    /// What is in force for a share group's deliveries.
    pub fn share_settings(&self, group: &str) -> ShareSettings {
        let view = self.cluster.view();
        ShareSettings::of(group, &view, self.layers(&view))
    }

    /// Where settings come from on this broker.
    fn layers<'a>(&'a self, view: &'a RootState) -> Layers<'a> {
        self.settings.defaults.layers(view, self.cluster.broker_id())
    }
}

impl Context {
    /// The client's zone, one that brokers of this cluster are in.
    fn zone<'v>(&self, view: &'v RootState, zones: &Zones) -> Option<&'v str> {
        let client_id = self.client_id.as_deref().unwrap_or("");
        let shown = Shown { client_id, listener: self.listener.as_deref(), address: self.address.ip() };
        zone::zone_of(shown, zones, &zone::known(view))
    }
}
