use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory, Parser};
use serde::Deserialize;

use super::values::stores;
use super::{
    ENVIRONMENT_PREFIX, Error, GroupAssignor, GroupMigration, HostPort, LogFormat, Size, Span, StoreUrl, ZoneAlias,
    ZoneCidr, ZoneListener,
};

/// Declares each setting once: field, flag and key of the file come from the same line.
macro_rules! settings {
    ($($(#[$attribute:meta])* $name:ident: $kind:ty,)*) => {
        /// One source's word on each setting; None where it is silent.
        #[derive(Debug, Clone, Default, PartialEq, Args, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Settings {
            $($(#[$attribute])* #[arg(long)] pub $name: Option<$kind>,)*
        }

        impl Settings {
            /// These settings, and where they are silent, `weaker`'s.
            pub(super) fn or(self, weaker: Settings) -> Settings {
                Settings { $($name: self.$name.or(weaker.$name),)* }
            }
        }
    };
}

settings! {
    /// Kafka's node.id of this broker [default: 0]
    broker_id: i32,
    /// Availability zone of this broker; empty for none [default: local]
    zone: String,
    /// Where clients connect [default: 127.0.0.1:9092]
    listen: HostPort,
    /// Address told to clients [default: that of listen]
    advertise: HostPort,
    /// Where other brokers connect [default: 127.0.0.1:9192]
    internal_listen: HostPort,
    /// Address told to other brokers [default: that of internal_listen]
    internal_advertise: HostPort,
    /// Internal addresses of brokers to join, separated by commas [default: none]
    #[arg(value_delimiter = ',')]
    seeds: Vec<HostPort>,
    /// Raft logs and snapshots of this broker [default: ./milepost-data]
    data_dir: PathBuf,
    /// Object store: s3://bucket/prefix, file:///dir or memory:// [default: file://<data_dir>/objects]. Said once for
    /// each zone, as az1=s3://bucket1, objects are written to the buckets of all zones
    #[arg(value_delimiter = ',')]
    #[serde(deserialize_with = "stores")]
    store: Vec<StoreUrl>,
    /// How often the buckets of zones are compared, for copies that are missing [default: 1h]
    store_compare_every: Span,
    /// PUTs per second this broker may pay for [default: 10]
    puts_per_second: f64,
    /// PUTs saved up while idle [default: 20]
    puts_burst: u32,
    /// Slow PUTs, GETs and reads in the zone that may be sent again, in percent of all; 0: none [default: 5]
    hedge_percent: f64,
    /// An object is sealed at this size [default: 4MiB]
    object_bytes: Size,
    /// Memory of all requests in progress; answers take up to 3/8 as much beside it, decoding up to 768MiB for moments [default: 1GiB]
    memory_bytes_max: Size,
    /// Memory of the read cache [default: 256MiB]
    cache_bytes: Size,
    /// Where the read cache keeps what leaves its memory; for this broker alone [default: nowhere]
    cache_disk_dir: PathBuf,
    /// How much of it; goes with cache_disk_dir [default: nothing]
    cache_disk_bytes: Size,
    /// Id of the cluster to create or expect [default: any]
    cluster_id: String,
    /// Partitions of a topic created without a count [default: 1]
    num_partitions: i32,
    /// Replicas of a topic created without a count; -1: three, or as many as there are brokers [default: -1]
    #[arg(allow_negative_numbers = true)]
    default_replication_factor: i16,
    /// Create a topic when a client first asks for it [default: true]
    auto_create_topics: bool,
    /// How long a new consumer group waits for more members [default: 3s]
    group_initial_rebalance_delay: Span,
    /// Shortest session that a member may ask for [default: 6s]
    group_min_session_timeout: Span,
    /// Longest session that a member may ask for [default: 30min]
    group_max_session_timeout: Span,
    /// Members of a consumer group [default: 10000]
    group_max_size: usize,
    /// A member of a group of the consumer protocol that is silent for longer is out [default: 45s]
    group_consumer_session_timeout: Span,
    /// How often such members are told to send heartbeats [default: 5s]
    group_consumer_heartbeat_interval: Span,
    /// Members of a group of the consumer protocol [default: 10000]
    group_consumer_max_size: usize,
    /// Assignors that such members may ask for, separated by commas; the first where none does [default: uniform,range]
    #[arg(value_delimiter = ',')]
    group_consumer_assignors: Vec<GroupAssignor>,
    /// Whether groups with members may go over from the classic to the consumer protocol and back [default: bidirectional]
    group_consumer_migration_policy: GroupMigration,
    /// A member of a share group that is silent for longer is out [default: 45s]
    group_share_session_timeout: Span,
    /// How often such members are told to send heartbeats [default: 5s]
    group_share_heartbeat_interval: Span,
    /// Members of a share group [default: 200]
    group_share_max_size: usize,
    /// How long such a member may keep a record before another gets it [default: 30s]
    group_share_record_lock_duration: Span,
    /// How often a record is delivered to a share group at most [default: 5]
    group_share_delivery_count_limit: u16,
    /// Records of one partition that a share group may have in delivery [default: 2000]
    group_share_partition_max_record_locks: usize,
    /// Committed offsets are kept so long after the group has become empty [default: 7days]
    offsets_retention: Span,
    /// Partitions of __consumer_offsets, over which groups are spread; counts when it is created [default: 50]
    offsets_topic_partitions: i32,
    /// Longest timeout that a transactional producer may ask for [default: 15min]
    transaction_max_timeout: Span,
    /// Transactional ids are kept so long after their last use [default: 7days]
    transactional_id_expiration: Span,
    /// Partitions of __transaction_state, over which transactional ids are spread; counts when it is created [default: 50]
    transaction_topic_partitions: i32,
    /// Largest record batch [default: 1048588]
    message_max_bytes: Size,
    /// Largest Produce request [default: 100MiB]
    request_bytes_max: Size,
    /// Client connections at a time [default: 20000]
    connections_max: usize,
    /// A connection without requests is closed after this [default: 10min]
    connections_max_idle: Span,
    /// Where metrics are served [default: nowhere]
    metrics_listen: HostPort,
    /// Zones of clients by address, as 10.1.0.0/16=az1, separated by commas [default: none]
    #[arg(value_delimiter = ',')]
    zone_cidrs: Vec<ZoneCidr>,
    /// More addresses where clients connect, each for one zone, as az1=0.0.0.0:9094@broker-1:9094 with the address told
    /// to clients behind the @, separated by commas; every broker needs one for the same zones [default: none]
    #[arg(value_delimiter = ',')]
    zone_listeners: Vec<ZoneListener>,
    /// Other names of zones, as use1-az4=us-east-1b, separated by commas [default: none]
    #[arg(value_delimiter = ',')]
    zone_aliases: Vec<ZoneAlias>,
    /// What is logged, as info or milepost=debug [default: info]
    log_filter: String,
    /// How it is logged [default: text]
    log_format: LogFormat,
}

/// Arguments of `milepost serve`. Every flag can also be set by a variable (--data-dir by
/// MILEPOST_DATA_DIR) or by a key of the file (data_dir).
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct ServeArgs {
    /// TOML file with settings
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub settings: Settings,
}

/// Lets one variable be read as the flag of the same name.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct AsFlag {
    #[command(flatten)]
    args: ServeArgs,
}

/// The settings of the environment, and the variables that name none.
pub(super) fn from_environment(
    variables: impl IntoIterator<Item = (String, String)>,
) -> Result<(ServeArgs, Vec<String>), Error> {
    let command = AsFlag::command();
    let known: Vec<&str> = command.get_arguments().filter_map(|argument| argument.get_long()).collect();
    let mut found = ServeArgs::default();
    let mut ignored = Vec::new();
    for (variable, value) in variables {
        let Some(name) = variable.strip_prefix(ENVIRONMENT_PREFIX) else {
            continue;
        };
        let flag = name.to_lowercase().replace('_', "-");
        if !known.contains(&flag.as_str()) {
            ignored.push(variable);
            continue;
        }
        let one = AsFlag::try_parse_from([format!("--{flag}={value}")])
            .map_err(|error| Error::Environment { variable, reason: error.to_string().trim().to_owned() })?;
        found.config = found.config.or(one.args.config);
        found.settings = found.settings.or(one.args.settings);
    }
    Ok((found, ignored))
}

/// The settings of the file.
pub(super) fn from_file(path: &Path) -> Result<Settings, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::Unreadable { path: path.to_owned(), source })?;
    toml::from_str(&text).map_err(|source| Error::File { path: path.to_owned(), source: Box::new(source) })
}
