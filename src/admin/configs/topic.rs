//! The settings of topics.

use crate::admin::Error;
use crate::admin::configs::rule::Rule::{Any, AtLeast, EachOf, OneOf, Ratio, Replicas, Within, WithinOr};
use crate::admin::configs::{Config, Kind, broker_unset, config, refuse_too_much};
use crate::cluster::Configs;

use Kind::{Boolean, Double, Int, List, Long, String as Text};

/// The one setting that Kafka does not have.
pub const STORAGE_CLASS: &str = "milepost.storage.class";

const FOREVER: &str = "9223372036854775807";
const CODECS: &[&str] = &["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"];
const TIMESTAMPS: &[&str] = &["CreateTime", "LogAppendTime"];
const CLASSES: &[&str] = &["regional", "zonal"];
const POLICIES: &[&str] = &["compact", "delete"];

#[rustfmt::skip]
pub static TOPIC_CONFIGS: [Config; 38] = [
    config("cleanup.policy", "log.cleanup.policy", List, "delete", EachOf(POLICIES), "What becomes of old records: deleted, or compacted to the newest of each key."),
    config("compression.gzip.level", "compression.gzip.level", Int, "-1", WithinOr(1, 9, -1), "Level of gzip when the broker compresses."),
    config("compression.lz4.level", "compression.lz4.level", Int, "9", Within(1, 17), "Kept for clients: there is one level of lz4 here."),
    config("compression.type", "compression.type", Text, "producer", OneOf(CODECS), "Codec of stored batches; `producer` keeps what was sent."),
    config("compression.zstd.level", "compression.zstd.level", Int, "3", Within(-131_072, 22), "Level of zstd when the broker compresses."),
    config("delete.retention.ms", "log.cleaner.delete.retention.ms", Long, "86400000", AtLeast(0), "How long tombstones of a compacted topic are kept."),
    config("errors.deadletterqueue.group.enable", "", Boolean, "false", Any, "Kept for clients; share groups have no such queue here."),
    config("file.delete.delay.ms", "log.segment.delete.delay.ms", Long, "60000", AtLeast(0), "Kept for clients; objects are swept by their own rules."),
    config("flush.messages", "log.flush.interval.messages", Long, FOREVER, AtLeast(1), "Kept for clients; every acknowledged record is durable."),
    broker_unset(config("flush.ms", "log.flush.interval.ms", Long, FOREVER, AtLeast(0), "Kept for clients; every acknowledged record is durable.")),
    config("follower.replication.throttled.replicas", "", List, "", Replicas, "Kept for clients; replicas copy pointers, not records."),
    config("index.interval.bytes", "log.index.interval.bytes", Int, "4096", AtLeast(0), "Kept for clients; there are no index files."),
    config("leader.replication.throttled.replicas", "", List, "", Replicas, "Kept for clients; replicas copy pointers, not records."),
    config("local.retention.bytes", "log.local.retention.bytes", Long, "-2", AtLeast(-2), "Kept for clients; brokers hold no records but caches."),
    config("local.retention.ms", "log.local.retention.ms", Long, "-2", AtLeast(-2), "Kept for clients; brokers hold no records but caches."),
    config("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms", Long, FOREVER, AtLeast(1), "The longest that a record stays uncompacted."),
    config("max.decompressed.message.bytes", "max.decompressed.message.bytes", Int, "2147483639", Within(1, 2_147_483_639), "The most that a batch may inflate to where its records are read."),
    config("max.message.bytes", "message.max.bytes", Int, "1048588", AtLeast(0), "The largest batch that is taken, after compression."),
    config("message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms", Long, "3600000", AtLeast(0), "How far a record's time may lie in the future."),
    config("message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms", Long, FOREVER, AtLeast(0), "How far a record's time may lie in the past."),
    config("message.timestamp.type", "log.message.timestamp.type", Text, "CreateTime", OneOf(TIMESTAMPS), "Whose time records carry: the producer's, or that of the append."),
    config(STORAGE_CLASS, STORAGE_CLASS, Text, "regional", OneOf(CLASSES), "Where records are: in the regional store, or in a bucket of each zone."),
    config("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio", Double, "0.5", Ratio, "Share of uncompacted bytes from which on compaction pays."),
    config("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms", Long, "0", AtLeast(0), "The shortest that a record stays uncompacted."),
    config("min.insync.replicas", "min.insync.replicas", Int, "1", AtLeast(1), "Replicas that must be well for an append with acks=all."),
    config("preallocate", "log.preallocate", Boolean, "false", Any, "Kept for clients; there are no segment files."),
    config("remote.copy.lag.bytes", "log.remote.copy.lag.bytes", Long, "-1", AtLeast(-1), "Kept for clients; records are in the object store only."),
    config("remote.copy.lag.ms", "log.remote.copy.lag.ms", Long, "0", AtLeast(-1), "Kept for clients; records are in the object store only."),
    config("remote.log.copy.disable", "", Boolean, "false", Any, "Kept for clients; records are in the object store only."),
    config("remote.log.delete.on.disable", "", Boolean, "false", Any, "Kept for clients; records are in the object store only."),
    config("remote.storage.enable", "", Boolean, "false", Any, "Kept for clients; records are in the object store only."),
    config("retention.bytes", "log.retention.bytes", Long, "-1", Any, "Bytes a partition keeps; -1 for all."),
    broker_unset(config("retention.ms", "log.retention.ms", Long, "604800000", AtLeast(-1), "How long records are kept; -1 for ever.")),
    config("segment.bytes", "log.segment.bytes", Int, "1073741824", AtLeast(1 << 20), "Kept for clients; objects are cut by the flush budget."),
    config("segment.index.bytes", "log.index.size.max.bytes", Int, "10485760", AtLeast(4), "Kept for clients; there are no index files."),
    broker_unset(config("segment.jitter.ms", "log.roll.jitter.ms", Long, "0", AtLeast(0), "Kept for clients; there are no segment files.")),
    broker_unset(config("segment.ms", "log.roll.ms", Long, "604800000", AtLeast(1), "Kept for clients; there are no segment files.")),
    config("unclean.leader.election.enable", "unclean.leader.election.enable", Boolean, "false", Any, "Kept for clients; a leader always has every committed pointer."),
];

impl Config {
    pub fn of_topic(name: &str) -> Option<&'static Config> {
        Config::find(&TOPIC_CONFIGS, name)
    }
}

/// Refuses names and values that Kafka would refuse; returns what is to be kept.
///
/// # Errors
/// [`Error::InvalidConfig`], for the first that is wrong.
pub fn validate<'a>(configs: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> Result<Configs, Error> {
    let checked = configs.map(|(name, value)| {
        let unknown = || Error::InvalidConfig(format!("Unknown topic config name: {name}"));
        let config = Config::of_topic(name).ok_or_else(unknown)?;
        let nothing = || Error::InvalidConfig(format!("Null value not supported for topic configs: {name}"));
        let value = value.ok_or_else(nothing)?;
        config.validate(value)?;
        Ok((name.to_string(), value.trim().to_string()))
    });
    let configs: Configs = checked.collect::<Result<_, Error>>()?;
    refuse_too_much(&configs)?;
    let number = |name: &str| configs.get(name).and_then(|value| value.parse::<i64>().ok());
    if let (Some(min), Some(max)) = (number("min.compaction.lag.ms"), number("max.compaction.lag.ms"))
        && min > max
    {
        return Err(Error::InvalidConfig(format!(
            "conflict topic config setting min.compaction.lag.ms ({min}) > max.compaction.lag.ms ({max})"
        )));
    }
    if configs.get("remote.storage.enable").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Err(Error::InvalidConfig(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
                .into(),
        ));
    }
    Ok(configs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, value: &str) -> Result<Configs, Error> {
        validate([(name, Some(value))].into_iter())
    }

    #[test]
    fn every_default_follows_its_own_rule() {
        for config in &TOPIC_CONFIGS {
            assert!(config.validate(config.default).is_ok(), "{}", config.name);
        }
        assert!(TOPIC_CONFIGS.is_sorted_by_key(|config| config.name));
    }

    #[test]
    fn takes_what_kafka_takes_and_refuses_the_rest() {
        let good = [
            ("cleanup.policy", "compact, delete"),
            ("cleanup.policy", ""),
            ("retention.ms", "-1"),
            ("retention.ms", " 5 "),
            ("preallocate", "TRUE"),
            ("compression.type", "zstd"),
            ("min.cleanable.dirty.ratio", "1"),
            ("max.message.bytes", "0"),
            ("leader.replication.throttled.replicas", "*"),
            ("leader.replication.throttled.replicas", "0:1,2:3"),
        ];
        for (name, value) in good {
            assert_eq!(check(name, value).unwrap()[name], value.trim(), "{name}");
        }
        let bad = [
            ("retention.ms", "-2"),
            ("retention.ms", "x"),
            ("retention.ms", ""),
            ("retention.ms", "9223372036854775808"),
            ("cleanup.policy", "keep"),
            ("preallocate", "yes"),
            ("compression.type", "brotli"),
            ("compression.gzip.level", "0"),
            ("min.cleanable.dirty.ratio", "NaN"),
            ("segment.bytes", "100"),
            ("message.timestamp.type", "logappendtime"),
            ("min.insync.replicas", "0"),
            ("remote.storage.enable", "true"),
            ("remote.copy.lag.bytes", "-2"),
            ("remote.copy.lag.ms", "-2"),
            ("max.decompressed.message.bytes", "2147483640"),
            ("cleanup.policy", "delete,"),
            ("no.such.config", "1"),
        ];
        for (name, value) in bad {
            assert!(matches!(check(name, value), Err(Error::InvalidConfig(_))), "{name}={value}");
        }
        assert!(validate([("retention.ms", None)].into_iter()).is_err());
    }

    #[test]
    fn says_what_kafka_says() {
        let said = |name, value| check(name, value).unwrap_err().to_string();
        assert_eq!(
            said("retention.ms", "-2"),
            "Invalid value -2 for configuration retention.ms: Value must be at least -1"
        );
        assert_eq!(said("no.such", "1"), "Unknown topic config name: no.such");
        let lags = [("min.compaction.lag.ms", Some("9")), ("max.compaction.lag.ms", Some("8"))];
        assert!(validate(lags.into_iter()).is_err_and(|e| e.to_string().starts_with("conflict topic config setting")));
    }
}
