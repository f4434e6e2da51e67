//! Settings: from flags, environment and one file to a [`Config`] that is known to make sense.
//!
//! In: [`ServeArgs`] (flags), `MILEPOST_*` variables, the TOML file named by `config`. A setting has
//! one name in all three: `--data-dir`, `MILEPOST_DATA_DIR`, `data_dir`. A flag beats the environment,
//! the environment beats the file, the file beats the default.
//!
//! Promises: a `Config` has been checked as a whole; what is impossible is refused with the key and the
//! reason. Unknown keys in the file are refused; unknown variables are reported, since orchestrators
//! invent variables of their own (`MILEPOST_SERVICE_HOST`).
//!
//! Never: components, sockets, defaults that depend on other brokers.

mod check;
mod cli;
mod settings;
mod values;

#[cfg(test)]
mod config_test;

use std::path::PathBuf;
use std::time::Duration;

pub use cli::{Cli, Command, Inspect};
pub use settings::{ServeArgs, Settings};
pub use values::{
    GroupAssignor, GroupMigration, HostPort, LogFormat, Size, Span, StoreUrl, StoreUrls, ZoneAlias, ZoneCidr,
    ZoneListener,
};

use crate::types::BrokerId;

/// The prefix of our environment variables.
const ENVIRONMENT_PREFIX: &str = "MILEPOST_";

/// Everything `milepost serve` needs to know, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub broker_id: BrokerId,
    /// None for a broker without a zone.
    pub zone: Option<String>,
    pub listen: HostPort,
    pub advertise: HostPort,
    pub internal_listen: HostPort,
    pub internal_advertise: HostPort,
    /// Internal addresses of brokers to join; empty for the first.
    pub seeds: Vec<HostPort>,
    pub data_dir: PathBuf,
    pub store: StoreUrls,
    pub store_compare_every: Duration,
    pub puts_per_second: f64,
    pub puts_burst: u32,
    pub hedge_percent: f64,
    pub object_bytes: usize,
    pub memory_bytes_max: usize,
    pub cache_bytes: usize,
    pub cache_disk: Option<CacheDisk>,
    pub cluster_id: Option<String>,
    pub num_partitions: i32,
    /// -1 stands for three, or as many as there are brokers.
    pub default_replication_factor: i16,
    pub auto_create_topics: bool,
    pub message_max_bytes: usize,
    pub group_initial_rebalance_delay: Duration,
    pub group_min_session_timeout: Duration,
    pub group_max_session_timeout: Duration,
    pub group_max_size: usize,
    pub group_consumer_session_timeout: Duration,
    pub group_consumer_heartbeat_interval: Duration,
    pub group_consumer_max_size: usize,
    pub group_consumer_assignors: Vec<GroupAssignor>,
    pub group_consumer_migration_policy: GroupMigration,
    pub group_share_session_timeout: Duration,
    pub group_share_heartbeat_interval: Duration,
    pub group_share_max_size: usize,
    pub group_share_record_lock_duration: Duration,
    pub group_share_delivery_count_limit: u16,
    pub group_share_partition_max_record_locks: usize,
    pub offsets_retention: Duration,
    pub offsets_topic_partitions: i32,
    pub transaction_max_timeout: Duration,
    pub transactional_id_expiration: Duration,
    pub transaction_topic_partitions: i32,
    pub request_bytes_max: usize,
    pub connections_max: usize,
    pub connections_max_idle: Duration,
    pub metrics_listen: Option<HostPort>,
    pub zone_cidrs: Vec<ZoneCidr>,
    pub zone_listeners: Vec<ZoneListener>,
    pub zone_aliases: Vec<ZoneAlias>,
    pub log_filter: String,
    pub log_format: LogFormat,
    /// Variables with our prefix that name no setting.
    pub ignored_environment: Vec<String>,
}

/// The disk tier of the read cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheDisk {
    pub dir: PathBuf,
    pub bytes: usize,
}

impl Config {
    /// Reads the three sources of this process.
    ///
    /// # Errors
    /// See [`Error`]; the message tells the operator what to change.
    pub fn load(args: ServeArgs) -> Result<Config, Error> {
        Config::load_from(args, environment())
    }

    /// As [`Config::load`], with the environment handed in.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn load_from(
        args: ServeArgs,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Config, Error> {
        let (from_environment, ignored) = settings::from_environment(environment)?;
        let path = args.config.or(from_environment.config);
        let from_file = path.map_or_else(|| Ok(Settings::default()), |path| settings::from_file(&path))?;
        let mut config = check::check(args.settings.or(from_environment.settings).or(from_file))?;
        config.ignored_environment = ignored;
        Ok(config)
    }
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {path}: {source}")]
    Unreadable { path: PathBuf, source: std::io::Error },
    /// The source names the line and the key.
    #[error("{path}: {source}")]
    File { path: PathBuf, source: Box<toml::de::Error> },
    #[error("{variable}: {reason}")]
    Environment { variable: String, reason: String },
    #[error("{key}: {reason}")]
    Invalid { key: &'static str, reason: String },
}

/// Our variables. One that is not Unicode can't be a setting of ours.
fn environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name.starts_with(ENVIRONMENT_PREFIX))
        .collect()
}
