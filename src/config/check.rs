use std::path::{Path, PathBuf};
use std::time::Duration;

use url::Url;

use super::{
    CacheDisk, Config, Error, GroupAssignor, GroupMigration, HostPort, LogFormat, Settings, Size, Span, StoreUrl,
    StoreUrls, ZoneCidr,
};

const MIB: usize = 1024 * 1024;

/// The bytes of a Produce request around its one batch: header, topic name and such.
const REQUEST_OVERHEAD_BYTES: usize = 1024;

/// Four of the blocks that the disk tier is written in.
const CACHE_DISK_BYTES_MIN: usize = 64 * MIB;

/// Fills in the defaults, then refuses what cannot work.
/// Raft's own steps are of interest to its developers.
const LOG_FILTER: &str = "info,openraft=error";

pub(super) fn check(settings: Settings) -> Result<Config, Error> {
    let size = |setting: Option<Size>, default: usize| setting.map_or(default, |size| size.0);
    let span = |setting: Option<Span>, default: Duration| setting.map_or(default, |span| span.0);
    let listen = settings.listen.unwrap_or_else(|| local(9092));
    let internal_listen = settings.internal_listen.unwrap_or_else(|| local(9192));
    let advertise = advertised("advertise", settings.advertise, "listen", &listen)?;
    let internal_advertise =
        advertised("internal_advertise", settings.internal_advertise, "internal_listen", &internal_listen)?;
    let data_dir = settings.data_dir.unwrap_or_else(|| PathBuf::from("milepost-data"));
    let seeds = settings.seeds.unwrap_or_default();
    let config = Config {
        broker_id: settings.broker_id.unwrap_or(0),
        zone: Some(settings.zone.unwrap_or_else(|| "local".to_owned())).filter(|zone| !zone.is_empty()),
        listen,
        advertise,
        internal_listen,
        internal_advertise,
        store: store(settings.store, &data_dir, &seeds)?,
        store_compare_every: settings.store_compare_every.map_or(Duration::from_secs(3600), |span| span.0),
        seeds,
        data_dir,
        puts_per_second: settings.puts_per_second.unwrap_or(10.0),
        puts_burst: settings.puts_burst.unwrap_or(20),
        hedge_percent: settings.hedge_percent.unwrap_or(5.0),
        object_bytes: size(settings.object_bytes, 4 * MIB),
        memory_bytes_max: size(settings.memory_bytes_max, 1024 * MIB),
        cache_bytes: size(settings.cache_bytes, 256 * MIB),
        cache_disk: cache_disk(settings.cache_disk_dir, settings.cache_disk_bytes)?,
        cluster_id: settings.cluster_id,
        num_partitions: settings.num_partitions.unwrap_or(1),
        default_replication_factor: settings.default_replication_factor.unwrap_or(-1),
        auto_create_topics: settings.auto_create_topics.unwrap_or(true),
        group_initial_rebalance_delay: span(settings.group_initial_rebalance_delay, Duration::from_secs(3)),
        group_min_session_timeout: span(settings.group_min_session_timeout, Duration::from_secs(6)),
        group_max_session_timeout: span(settings.group_max_session_timeout, Duration::from_secs(1800)),
        group_max_size: settings.group_max_size.unwrap_or(10_000),
        group_consumer_session_timeout: span(settings.group_consumer_session_timeout, Duration::from_secs(45)),
        group_consumer_heartbeat_interval: span(settings.group_consumer_heartbeat_interval, Duration::from_secs(5)),
        group_consumer_max_size: settings.group_consumer_max_size.unwrap_or(10_000),
        group_consumer_assignors: settings
            .group_consumer_assignors
            .unwrap_or_else(|| vec![GroupAssignor::Uniform, GroupAssignor::Range]),
        group_consumer_migration_policy: settings
            .group_consumer_migration_policy
            .unwrap_or(GroupMigration::Bidirectional),
        group_share_session_timeout: span(settings.group_share_session_timeout, Duration::from_secs(45)),
        group_share_heartbeat_interval: span(settings.group_share_heartbeat_interval, Duration::from_secs(5)),
        group_share_max_size: settings.group_share_max_size.unwrap_or(200),
        group_share_record_lock_duration: span(settings.group_share_record_lock_duration, Duration::from_secs(30)),
        group_share_delivery_count_limit: settings.group_share_delivery_count_limit.unwrap_or(5),
        group_share_partition_max_record_locks: settings.group_share_partition_max_record_locks.unwrap_or(2000),
        offsets_retention: span(settings.offsets_retention, Duration::from_secs(7 * 24 * 3600)),
        offsets_topic_partitions: settings.offsets_topic_partitions.unwrap_or(50),
        transaction_max_timeout: span(settings.transaction_max_timeout, Duration::from_secs(900)),
        transactional_id_expiration: span(settings.transactional_id_expiration, Duration::from_secs(7 * 24 * 3600)),
        transaction_topic_partitions: settings.transaction_topic_partitions.unwrap_or(50),
        message_max_bytes: size(settings.message_max_bytes, MIB + 12),
        request_bytes_max: size(settings.request_bytes_max, 100 * MIB),
        connections_max: settings.connections_max.unwrap_or(20_000),
        connections_max_idle: settings.connections_max_idle.map_or(Duration::from_secs(600), |span| span.0),
        metrics_listen: settings.metrics_listen,
        zone_cidrs: settings.zone_cidrs.unwrap_or_default(),
        zone_listeners: settings.zone_listeners.unwrap_or_default(),
        zone_aliases: settings.zone_aliases.unwrap_or_default(),
        log_filter: settings.log_filter.unwrap_or_else(|| LOG_FILTER.to_owned()),
        log_format: settings.log_format.unwrap_or(LogFormat::Text),
        ignored_environment: Vec::new(),
    };
    check_numbers(&config)?;
    check_groups(&config)?;
    check_share_groups(&config)?;
    check_transactions(&config)?;
    check_sizes(&config)?;
    check_addresses(&config)?;
    check_zones(&config)?;
    Ok(config)
}

fn local(port: u16) -> HostPort {
    HostPort { host: "127.0.0.1".to_owned(), port }
}

fn refuse<T>(key: &'static str, reason: impl Into<String>) -> Result<T, Error> {
    Err(Error::Invalid { key, reason: reason.into() })
}

fn require(holds: bool, key: &'static str, reason: &str) -> Result<(), Error> {
    if holds { Ok(()) } else { refuse(key, reason) }
}

/// What others are told: said outright, or the same as where we listen.
fn advertised(
    key: &'static str,
    said: Option<HostPort>,
    listen_key: &str,
    listen: &HostPort,
) -> Result<HostPort, Error> {
    match said {
        Some(address) if address.is_wildcard() => {
            refuse(key, format!("{address} is no address that others could connect to"))
        }
        Some(address) => Ok(address),
        None if listen.is_wildcard() => {
            refuse(key, format!("must be set, since {listen_key} is the wildcard {listen}"))
        }
        None => Ok(listen.clone()),
    }
}

fn cache_disk(dir: Option<PathBuf>, bytes: Option<Size>) -> Result<Option<CacheDisk>, Error> {
    match (dir, bytes) {
        (Some(dir), Some(Size(bytes))) => {
            require(bytes >= CACHE_DISK_BYTES_MIN, "cache_disk_bytes", "is too small to be of use: at least 64MiB")?;
            Ok(Some(CacheDisk { dir, bytes }))
        }
        (None, None) => Ok(None),
        (Some(_), None) => refuse("cache_disk_bytes", "must say how much of cache_disk_dir may be used"),
        (None, Some(_)) => refuse("cache_disk_dir", "must say where cache_disk_bytes are"),
    }
}

fn store(said: Option<Vec<StoreUrl>>, data_dir: &Path, seeds: &[HostPort]) -> Result<StoreUrls, Error> {
    let Some(said) = said else {
        require(
            seeds.is_empty(),
            "store",
            "must be set where there are seeds: by default it is a directory of this broker alone",
        )?;
        let directory = std::path::absolute(data_dir.join("objects")).ok();
        return match directory.and_then(|directory| Url::from_directory_path(directory).ok()) {
            Some(url) => Ok(StoreUrls { regional: Some(url), ..StoreUrls::default() }),
            None => refuse("data_dir", format!("{} is no usable path", data_dir.display())),
        };
    };
    for StoreUrl { url, .. } in &said {
        match url.scheme() {
            "s3" | "file" => {}
            "memory" if seeds.is_empty() => {}
            "memory" => return refuse("store", "memory:// cannot be shared by several brokers"),
            other => return refuse("store", format!("'{other}' is not one of s3, file, memory")),
        }
    }
    StoreUrls::new(said).or_else(|reason| refuse("store", reason))
}

fn check_numbers(config: &Config) -> Result<(), Error> {
    require(config.broker_id >= 0, "broker_id", "must not be negative")?;
    require(
        config.puts_per_second.is_finite() && config.puts_per_second > 0.0,
        "puts_per_second",
        "must be more than 0: without PUTs nothing is ever acknowledged",
    )?;
    require(
        (0.0..=100.0).contains(&config.hedge_percent),
        "hedge_percent",
        "must be from 0 to 100: no request is sent more than twice",
    )?;
    require(config.puts_burst >= 1, "puts_burst", "must be at least 1")?;
    require(config.connections_max >= 1, "connections_max", "must be at least 1")?;
    require(config.store_compare_every >= Duration::from_secs(1), "store_compare_every", "must be at least a second")?;
    require(!config.connections_max_idle.is_zero(), "connections_max_idle", "must be more than 0")?;
    require((1..=100_000).contains(&config.num_partitions), "num_partitions", "must be from 1 to 100000")?;
    require(
        config.default_replication_factor == -1 || config.default_replication_factor >= 1,
        "default_replication_factor",
        "must be -1 or at least 1",
    )?;
    let in_alphabet = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    require(
        config.cluster_id.as_ref().is_none_or(|id| (1..=64).contains(&id.len()) && id.chars().all(in_alphabet)),
        "cluster_id",
        "must be 1 to 64 letters, digits, '_' or '-', since object keys contain it",
    )
}

fn check_groups(config: &Config) -> Result<(), Error> {
    require(
        config.group_min_session_timeout <= config.group_max_session_timeout,
        "group_min_session_timeout",
        "is longer than group_max_session_timeout",
    )?;
    require(config.group_max_size >= 1, "group_max_size", "must be at least 1")?;
    require(config.group_consumer_max_size >= 1, "group_consumer_max_size", "must be at least 1")?;
    require(
        config.group_consumer_heartbeat_interval < config.group_consumer_session_timeout,
        "group_consumer_heartbeat_interval",
        "is not shorter than group_consumer_session_timeout",
    )?;
    require(!config.group_consumer_heartbeat_interval.is_zero(), "group_consumer_heartbeat_interval", "must not be 0")?;
    require(!config.group_consumer_assignors.is_empty(), "group_consumer_assignors", "names none")?;
    require((1..=1000).contains(&config.offsets_topic_partitions), "offsets_topic_partitions", "must be from 1 to 1000")
}

fn check_share_groups(config: &Config) -> Result<(), Error> {
    require(config.group_share_max_size >= 1, "group_share_max_size", "must be at least 1")?;
    require(
        config.group_share_heartbeat_interval < config.group_share_session_timeout,
        "group_share_heartbeat_interval",
        "is not shorter than group_share_session_timeout",
    )?;
    require(!config.group_share_heartbeat_interval.is_zero(), "group_share_heartbeat_interval", "must not be 0")?;
    require(!config.group_share_record_lock_duration.is_zero(), "group_share_record_lock_duration", "must not be 0")?;
    let deliveries = 1..=10;
    require(
        deliveries.contains(&config.group_share_delivery_count_limit),
        "group_share_delivery_count_limit",
        "must be from 1 to 10",
    )?;
    let locks = 1..=4000;
    require(
        locks.contains(&config.group_share_partition_max_record_locks),
        "group_share_partition_max_record_locks",
        "must be from 1 to 4000",
    )
}

fn check_transactions(config: &Config) -> Result<(), Error> {
    let timeouts = Duration::from_millis(1)..=Duration::from_millis(i32::MAX as u64);
    require(
        timeouts.contains(&config.transaction_max_timeout),
        "transaction_max_timeout",
        "must be from 1ms to 24days",
    )?;
    require(
        config.transactional_id_expiration >= Duration::from_millis(1),
        "transactional_id_expiration",
        "must be at least 1ms",
    )?;
    let partitions = (1..=1000).contains(&config.transaction_topic_partitions);
    require(partitions, "transaction_topic_partitions", "must be from 1 to 1000")
}

fn check_sizes(config: &Config) -> Result<(), Error> {
    require(config.message_max_bytes >= 61, "message_max_bytes", "is smaller than an empty batch")?;
    require(config.object_bytes >= 1, "object_bytes", "must be more than 0")?;
    require(
        config.request_bytes_max <= i32::MAX as usize,
        "request_bytes_max",
        "must fit a size prefix: less than 2GiB",
    )?;
    require(
        config.message_max_bytes.saturating_add(REQUEST_OVERHEAD_BYTES) <= config.request_bytes_max,
        "message_max_bytes",
        "a batch of this size does not fit a request of request_bytes_max",
    )?;
    require(
        config.memory_bytes_max >= config.request_bytes_max,
        "memory_bytes_max",
        "a request of request_bytes_max would never be read",
    )?;
    require(config.cache_bytes >= config.object_bytes, "cache_bytes", "must hold at least one object of object_bytes")
}

fn check_addresses(config: &Config) -> Result<(), Error> {
    require(
        !clash(&config.listen, &config.internal_listen),
        "internal_listen",
        "is the address of listen: clients and brokers need their own",
    )?;
    if let Some(metrics) = &config.metrics_listen {
        require(
            !clash(metrics, &config.listen) && !clash(metrics, &config.internal_listen),
            "metrics_listen",
            "is the address of another listener",
        )?;
    }
    require(
        !config.internal_advertise.is_loopback() || config.seeds.iter().all(HostPort::is_loopback),
        "internal_advertise",
        "is a loopback address, which brokers on other machines (seeds) cannot reach",
    )
}

/// Port 0 takes any free port, so two of them never meet.
fn clash(one: &HostPort, other: &HostPort) -> bool {
    one.port != 0 && one.port == other.port && (one.host == other.host || one.is_wildcard() || other.is_wildcard())
}

fn check_zones(config: &Config) -> Result<(), Error> {
    for (index, cidr) in config.zone_cidrs.iter().enumerate() {
        let same = |other: &ZoneCidr| other.network == cidr.network && other.prefix_bits == cidr.prefix_bits;
        if config.zone_cidrs[..index].iter().any(same) {
            return refuse("zone_cidrs", format!("{}/{} stands there twice", cidr.network, cidr.prefix_bits));
        }
    }
    for (index, listener) in config.zone_listeners.iter().enumerate() {
        let earlier = &config.zone_listeners[..index];
        let taken = [&config.listen, &config.internal_listen].into_iter().chain(&config.metrics_listen);
        let mut taken = taken.chain(earlier.iter().map(|other| &other.listen));
        if taken.any(|other| clash(&listener.listen, other)) {
            return refuse("zone_listeners", format!("{} is the address of another listener", listener.listen));
        }
        if earlier.iter().any(|other| other.zone == listener.zone) {
            return refuse("zone_listeners", format!("{} has two", listener.zone));
        }
    }
    for (index, one) in config.zone_aliases.iter().enumerate() {
        if config.zone_aliases[..index].iter().any(|other| other.alias == one.alias) {
            return refuse("zone_aliases", format!("{} stands there twice", one.alias));
        }
    }
    Ok(())
}
