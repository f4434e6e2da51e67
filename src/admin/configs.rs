//! The settings of topics: Kafka's names, types, defaults (4.1) and rules, in one table. A topic's own values are kept in
//! the root as text; everything that reads a setting goes through [`Defaults::value`].

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::admin::Error;
use crate::cluster::Topic;
use crate::types::StorageClass;

/// Numbers are Kafka's (`DescribeConfigsResponse.ConfigType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum Kind {
    Boolean = 1,
    String = 2,
    Int = 3,
    Long = 5,
    Double = 6,
    List = 7,
}

/// Where a value comes from. Numbers are Kafka's (`DescribeConfigsResponse.ConfigSource`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum Source {
    Topic = 1,
    Broker = 4,
    Default = 5,
}

#[derive(Debug, Clone, Copy)]
enum Rule {
    Any,
    Within(i64, i64),
    Ratio,
    OneOf(&'static [&'static str]),
    EachOf(&'static [&'static str]),
}

#[derive(Debug)]
pub struct Config {
    pub name: &'static str,
    /// The broker's setting of the same meaning; empty when there is none.
    pub broker_name: &'static str,
    pub kind: Kind,
    pub default: &'static str,
    rule: Rule,
    pub about: &'static str,
}

const fn config(
    name: &'static str,
    broker_name: &'static str,
    kind: Kind,
    default: &'static str,
    rule: Rule,
    about: &'static str,
) -> Config {
    Config { name, broker_name, kind, default, rule, about }
}

/// The one setting that Kafka does not have.
pub const STORAGE_CLASS: &str = "milepost.storage.class";

const LONG_MAX: i64 = i64::MAX;
const INT_MAX: i64 = i32::MAX as i64;
const FOREVER: &str = "9223372036854775807";
const CODECS: &[&str] = &["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"];
const TIMESTAMPS: &[&str] = &["CreateTime", "LogAppendTime"];
const CLASSES: &[&str] = &["regional", "zonal"];
const POLICIES: &[&str] = &["compact", "delete"];

use Kind::{Boolean, Double, Int, List, Long, String as Text};
use Rule::{Any, EachOf, OneOf, Ratio, Within};

#[rustfmt::skip]
pub static TOPIC_CONFIGS: [Config; 34] = [
    config("cleanup.policy", "log.cleanup.policy", List, "delete", EachOf(POLICIES), "What becomes of old records: deleted, or compacted to the newest of each key."),
    config("compression.gzip.level", "compression.gzip.level", Int, "-1", Within(-1, 9), "Level of gzip when the broker compresses."),
    config("compression.lz4.level", "compression.lz4.level", Int, "9", Within(1, 17), "Level of lz4 when the broker compresses."),
    config("compression.type", "compression.type", Text, "producer", OneOf(CODECS), "Codec of stored batches; `producer` keeps what was sent."),
    config("compression.zstd.level", "compression.zstd.level", Int, "3", Within(-131_072, 22), "Level of zstd when the broker compresses."),
    config("delete.retention.ms", "log.cleaner.delete.retention.ms", Long, "86400000", Within(0, LONG_MAX), "How long tombstones of a compacted topic are kept."),
    config("file.delete.delay.ms", "log.segment.delete.delay.ms", Long, "60000", Within(0, LONG_MAX), "Kept for clients; objects are swept by their own rules."),
    config("flush.messages", "log.flush.interval.messages", Long, FOREVER, Within(1, LONG_MAX), "Kept for clients; every acknowledged record is durable."),
    config("flush.ms", "log.flush.interval.ms", Long, FOREVER, Within(0, LONG_MAX), "Kept for clients; every acknowledged record is durable."),
    config("follower.replication.throttled.replicas", "", List, "", Any, "Kept for clients; replicas copy pointers, not records."),
    config("index.interval.bytes", "log.index.interval.bytes", Int, "4096", Within(0, INT_MAX), "Kept for clients; there are no index files."),
    config("leader.replication.throttled.replicas", "", List, "", Any, "Kept for clients; replicas copy pointers, not records."),
    config("local.retention.bytes", "log.local.retention.bytes", Long, "-2", Within(-2, LONG_MAX), "Kept for clients; brokers hold no records but caches."),
    config("local.retention.ms", "log.local.retention.ms", Long, "-2", Within(-2, LONG_MAX), "Kept for clients; brokers hold no records but caches."),
    config("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms", Long, FOREVER, Within(1, LONG_MAX), "The longest that a record stays uncompacted."),
    config("max.message.bytes", "message.max.bytes", Int, "1048588", Within(0, INT_MAX), "The largest batch that is taken, as sent (after compression)."),
    config("message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms", Long, "3600000", Within(0, LONG_MAX), "How far a record's time may lie in the future."),
    config("message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms", Long, FOREVER, Within(0, LONG_MAX), "How far a record's time may lie in the past."),
    config("message.timestamp.type", "log.message.timestamp.type", Text, "CreateTime", OneOf(TIMESTAMPS), "Whose time records carry: the producer's, or that of the append."),
    config(STORAGE_CLASS, "", Text, "regional", OneOf(CLASSES), "Where records are: in the regional store, or in a bucket of each zone."),
    config("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio", Double, "0.5", Ratio, "Share of uncompacted bytes from which on compaction pays."),
    config("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms", Long, "0", Within(0, LONG_MAX), "The shortest that a record stays uncompacted."),
    config("min.insync.replicas", "min.insync.replicas", Int, "1", Within(1, INT_MAX), "Replicas that must be well for an append with acks=all."),
    config("preallocate", "log.preallocate", Boolean, "false", Any, "Kept for clients; there are no segment files."),
    config("remote.log.copy.disable", "", Boolean, "false", Any, "Kept for clients; records are in the object store only."),
    config("remote.log.delete.on.disable", "", Boolean, "false", Any, "Kept for clients; records are in the object store only."),
    config("remote.storage.enable", "", Boolean, "false", Any, "Kept for clients; records are in the object store only."),
    config("retention.bytes", "log.retention.bytes", Long, "-1", Within(-1, LONG_MAX), "Bytes a partition keeps; -1 for all."),
    config("retention.ms", "log.retention.ms", Long, "604800000", Within(-1, LONG_MAX), "How long records are kept; -1 for ever."),
    config("segment.bytes", "log.segment.bytes", Int, "1073741824", Within(1 << 20, INT_MAX), "Kept for clients; objects are cut by the flush budget."),
    config("segment.index.bytes", "log.index.size.max.bytes", Int, "10485760", Within(4, INT_MAX), "Kept for clients; there are no index files."),
    config("segment.jitter.ms", "log.roll.jitter.ms", Long, "0", Within(0, LONG_MAX), "Kept for clients; there are no segment files."),
    config("segment.ms", "log.roll.ms", Long, "604800000", Within(1, LONG_MAX), "Kept for clients; there are no segment files."),
    config("unclean.leader.election.enable", "unclean.leader.election.enable", Boolean, "false", Any, "Kept for clients; a leader always has every committed pointer."),
];

impl Config {
    pub fn of(name: &str) -> Option<&'static Config> {
        TOPIC_CONFIGS.iter().find(|config| config.name == name)
    }

    /// # Errors
    /// [`Error::InvalidConfig`], with what is wrong with the value.
    fn validate(&self, value: &str) -> Result<(), Error> {
        let within = |low: i64, high: i64| value.trim().parse().is_ok_and(|number: i64| (low..=high).contains(&number));
        let each_of = |allowed: &[&str]| value.split(',').all(|part| allowed.contains(&part.trim()));
        let valid = match (self.kind, self.rule) {
            (Boolean, _) => matches!(value.trim().to_ascii_lowercase().as_str(), "true" | "false"),
            (_, Within(low, high)) => within(low, high),
            (_, Ratio) => value.trim().parse().is_ok_and(|ratio: f64| (0.0..=1.0).contains(&ratio)),
            (_, OneOf(allowed)) => allowed.contains(&value.trim()),
            (_, EachOf(allowed)) => each_of(allowed),
            (_, Any) => true,
        };
        let expected = || match self.rule {
            Within(low, high) => format!("a number from {low} to {high}"),
            Ratio => "a number from 0 to 1".to_string(),
            OneOf(allowed) => format!("one of {}", allowed.join(", ")),
            EachOf(allowed) => format!("a list of {}", allowed.join(", ")),
            Any => "true or false".to_string(),
        };
        valid.then_some(()).ok_or_else(|| {
            Error::InvalidConfig(format!("invalid value {value:?} for {}: expected {}", self.name, expected()))
        })
    }
}

/// Refuses names and values that Kafka would refuse; returns what is to be kept.
///
/// # Errors
/// [`Error::InvalidConfig`], for the first that is wrong.
pub fn validate<'a>(
    configs: impl Iterator<Item = (&'a str, Option<&'a str>)>,
) -> Result<BTreeMap<String, String>, Error> {
    let checked = configs.map(|(name, value)| {
        let config =
            Config::of(name).ok_or_else(|| Error::InvalidConfig(format!("unknown topic config name: {name}")))?;
        let value = value.ok_or_else(|| Error::InvalidConfig(format!("{name} has no value")))?;
        config.validate(value)?;
        Ok((name.to_string(), value.trim().to_string()))
    });
    checked.collect()
}

/// What this broker sets for all topics that do not say otherwise: Kafka's `log.*` and `message.max.bytes`, under the
/// topics' names for them. A cheap clone.
#[derive(Debug, Clone, Default)]
pub struct Defaults {
    set: Arc<BTreeMap<String, String>>,
}

impl Defaults {
    /// What may differ from the defaults in the table.
    pub fn new(message_max_bytes: usize, class: StorageClass) -> Defaults {
        let set = [("max.message.bytes", message_max_bytes.to_string()), (STORAGE_CLASS, class.name().to_owned())];
        let differs = |(name, value): &(&str, String)| Config::of(name).is_some_and(|config| config.default != value);
        Defaults { set: Arc::new(set.into_iter().filter(differs).map(|(name, value)| (name.into(), value)).collect()) }
    }

    /// The values of a setting and where they come from, the one in force first. `own` are the topic's.
    pub(super) fn values<'a>(
        &'a self,
        own: &'a BTreeMap<String, String>,
        config: &Config,
    ) -> impl Iterator<Item = (&'a str, Source)> {
        let own = own.get(config.name).map(|value| (value.as_str(), Source::Topic));
        let set = self.set.get(config.name).map(|value| (value.as_str(), Source::Broker));
        own.into_iter().chain(set).chain([(config.default, Source::Default)])
    }

    /// What is in force for a topic; `None` for a name that Kafka does not have.
    pub fn topic_value<'a>(&'a self, topic: &'a Topic, name: &str) -> Option<&'a str> {
        self.values(&topic.configs, Config::of(name)?).next().map(|(value, _)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::sample;

    fn check(name: &str, value: &str) -> Result<BTreeMap<String, String>, Error> {
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
            ("retention.ms", "-1"),
            ("retention.ms", " 5 "),
            ("preallocate", "TRUE"),
            ("compression.type", "zstd"),
            ("min.cleanable.dirty.ratio", "1"),
            ("max.message.bytes", "0"),
            ("leader.replication.throttled.replicas", "*"),
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
            ("cleanup.policy", ""),
            ("cleanup.policy", "delete,"),
            ("preallocate", "yes"),
            ("compression.type", "brotli"),
            ("min.cleanable.dirty.ratio", "NaN"),
            ("segment.bytes", "100"),
            ("message.timestamp.type", "logappendtime"),
            ("min.insync.replicas", "0"),
            ("no.such.config", "1"),
        ];
        for (name, value) in bad {
            assert!(matches!(check(name, value), Err(Error::InvalidConfig(_))), "{name}={value}");
        }
        assert!(validate([("retention.ms", None)].into_iter()).is_err());
    }

    #[test]
    fn a_topics_own_value_comes_before_the_brokers_and_that_before_kafkas() {
        let defaults = Defaults::new(5000, StorageClass::Regional);
        let mut view = sample::cluster(&["a"]);
        let id = sample::topic(&mut view, "t", 1, 1, 1);
        let mut topic = view.topic(id).unwrap().as_ref().clone();
        assert_eq!(defaults.topic_value(&topic, "max.message.bytes"), Some("5000"));
        assert_eq!(Defaults::default().topic_value(&topic, "max.message.bytes"), Some("1048588"));
        topic.configs.insert("max.message.bytes".into(), "7".into());
        assert_eq!(defaults.topic_value(&topic, "max.message.bytes"), Some("7"));
        assert_eq!(defaults.topic_value(&topic, "no.such.config"), None);
    }
}
