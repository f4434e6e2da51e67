//! The settings of brokers: what topics and groups inherit, and what a broker was started with. The first can be set
//! while brokers run, for one of them or for all; the second is shown.

use crate::admin::Error;
use crate::admin::configs::fixed::is_fixed;
use crate::admin::configs::rule::Rule::{Any, AtLeast};
use crate::admin::configs::{Config, Kind, TOPIC_CONFIGS, broker_unset, config, refuse_too_much};
use crate::cluster::Configs;

use Kind::{Boolean, Double, Int, List, Long, String as Text};

/// A setting of brokers that is none of topics.
#[derive(Debug)]
pub struct BrokerConfig {
    pub config: Config,
    /// Can be set while brokers run.
    pub dynamic: bool,
}

const fn fixed(name: &'static str, kind: Kind, default: &'static str, about: &'static str) -> BrokerConfig {
    BrokerConfig { config: config(name, name, kind, default, Any, about), dynamic: false }
}

/// Has no default.
const fn given(name: &'static str, kind: Kind, about: &'static str) -> BrokerConfig {
    BrokerConfig { config: broker_unset(config(name, name, kind, "", Any, about)), dynamic: false }
}

/// Kafka's brokers can be tuned so; tools set it, and read it back.
const fn kept(name: &'static str, kind: Kind, default: &'static str) -> BrokerConfig {
    let rule = if matches!(kind, Int | Long) { AtLeast(0) } else { Any };
    let about = "Kept for clients; brokers here have no such part.";
    BrokerConfig { config: config(name, name, kind, default, rule, about), dynamic: true }
}

/// Likewise, with a least value.
const fn kept_from(least: i64, name: &'static str, kind: Kind, default: &'static str) -> BrokerConfig {
    let kept = kept(name, kind, default);
    BrokerConfig { config: Config { rule: AtLeast(least), ..kept.config }, dynamic: kept.dynamic }
}

const INT_MAX: &str = "2147483647";
const LONG_MAX: &str = "9223372036854775807";

#[rustfmt::skip]
pub static BROKER_CONFIGS: [BrokerConfig; 88] = [
    given("advertised.listeners", Text, "Where clients reach this broker."),
    fixed("auto.create.topics.enable", Boolean, "true", "Metadata creates topics."),
    fixed("auto.leader.rebalance.enable", Boolean, "true", "Leadership goes back to the preferred voter by itself."),
    kept_from(1, "background.threads", Int, "10"),
    fixed("broker.id", Int, "-1", "This broker's id."),
    given("broker.rack", Text, "This broker's zone."),
    fixed("connections.max.idle.ms", Long, "600000", "A connection without requests is closed after this."),
    fixed("controlled.shutdown.enable", Boolean, "true", "A broker that stops hands its leadership over."),
    fixed("default.replication.factor", Int, "1", "For topics that do not say; -1 for three if possible."),
    fixed("delete.topic.enable", Boolean, "true", "Topics can be deleted."),
    kept("follower.replication.throttled.rate", Long, LONG_MAX),
    fixed("group.consumer.assignment.interval.ms", Int, "1000", "The shortest time between two assignments."),
    fixed("group.consumer.assignors", List, "uniform,range", "How partitions are given to the members of consumer groups."),
    fixed("group.consumer.heartbeat.interval.ms", Int, "5000", "How often members of consumer groups say that they are there."),
    fixed("group.consumer.max.heartbeat.interval.ms", Int, "15000", "The most that a group may have."),
    fixed("group.consumer.max.session.timeout.ms", Int, "60000", "The most that a group may have."),
    fixed("group.consumer.max.size", Int, INT_MAX, "Members of a group of the consumer protocol."),
    fixed("group.consumer.migration.policy", Text, "bidirectional", "Whether groups may go from one protocol to the other."),
    fixed("group.consumer.min.heartbeat.interval.ms", Int, "5000", "The least that a group may have."),
    fixed("group.consumer.min.session.timeout.ms", Int, "45000", "The least that a group may have."),
    fixed("group.consumer.session.timeout.ms", Int, "45000", "A member that is silent for longer is gone."),
    fixed("group.initial.rebalance.delay.ms", Int, "3000", "How long a new group waits for more members."),
    fixed("group.max.session.timeout.ms", Int, "1800000", "Longest session that a member may ask for."),
    fixed("group.max.size", Int, INT_MAX, "Members of a consumer group."),
    fixed("group.min.session.timeout.ms", Int, "6000", "Shortest session that a member may ask for."),
    fixed("group.share.assignment.interval.ms", Int, "1000", "The shortest time between two assignments."),
    fixed("group.share.assignors", List, "simple", "How partitions are given to the members of share groups."),
    fixed("group.share.delivery.count.limit", Int, "5", "A record is delivered at most so often."),
    fixed("group.share.heartbeat.interval.ms", Int, "5000", "How often members of share groups say that they are there."),
    fixed("group.share.max.delivery.count.limit", Int, "10", "The most that a group may have."),
    fixed("group.share.max.heartbeat.interval.ms", Int, "15000", "The most that a group may have."),
    fixed("group.share.max.partition.max.record.locks", Int, "4000", "The most that a group may have."),
    fixed("group.share.max.record.lock.duration.ms", Int, "60000", "The most that a group may have."),
    fixed("group.share.max.session.timeout.ms", Int, "60000", "The most that a group may have."),
    fixed("group.share.max.size", Int, "200", "Members of a share group."),
    fixed("group.share.min.delivery.count.limit", Int, "2", "The least that a group may have."),
    fixed("group.share.min.heartbeat.interval.ms", Int, "5000", "The least that a group may have."),
    fixed("group.share.min.partition.max.record.locks", Int, "100", "The least that a group may have."),
    fixed("group.share.min.record.lock.duration.ms", Int, "15000", "The least that a group may have."),
    fixed("group.share.min.session.timeout.ms", Int, "45000", "The least that a group may have."),
    fixed("group.share.partition.max.record.locks", Int, "2000", "Records of a partition that may be in delivery."),
    fixed("group.share.record.lock.duration.ms", Int, "30000", "How long a member may keep a record."),
    fixed("group.share.session.timeout.ms", Int, "45000", "A member that is silent for longer is gone."),
    kept("leader.replication.throttled.rate", Long, LONG_MAX),
    given("listeners", List, "Where clients reach this broker."),
    kept("log.cleaner.backoff.ms", Long, "15000"),
    kept_from(1 << 20, "log.cleaner.dedupe.buffer.size", Long, "134217728"),
    kept("log.cleaner.io.buffer.load.factor", Double, "0.9"),
    kept("log.cleaner.io.buffer.size", Int, "524288"),
    kept("log.cleaner.io.max.bytes.per.second", Double, "1.7976931348623157E308"),
    kept_from(1, "log.cleaner.threads", Int, "1"),
    given("log.dirs", Text, "Where this broker's Raft logs are."),
    fixed("log.retention.hours", Int, "168", "As log.retention.ms, which comes before it."),
    given("log.retention.minutes", Int, "As log.retention.ms, which comes before it."),
    fixed("log.roll.hours", Int, "168", "As log.roll.ms, which comes before it."),
    fixed("log.roll.jitter.hours", Int, "0", "As log.roll.jitter.ms, which comes before it."),
    kept("max.connection.creation.rate", Int, INT_MAX),
    fixed("max.connections", Int, INT_MAX, "Client connections at a time."),
    kept("max.connections.per.ip", Int, INT_MAX),
    kept("max.connections.per.ip.overrides", Text, ""),
    kept("metric.reporters", List, ""),
    given("milepost.internal.listener", Text, "Where other brokers, and the audit, reach it."),
    given("milepost.store", Text, "The cluster's object store."),
    given("node.id", Int, "This broker's id."),
    kept_from(1, "num.io.threads", Int, "8"),
    kept_from(1, "num.network.threads", Int, "3"),
    fixed("num.partitions", Int, "1", "For topics that do not say."),
    kept_from(1, "num.recovery.threads.per.data.dir", Int, "2"),
    kept_from(1, "num.replica.fetchers", Int, "1"),
    fixed("offset.metadata.max.bytes", Int, "4096", "What a client may commit along with an offset."),
    fixed("offsets.retention.minutes", Int, "10080", "Offsets are kept so long after their group has become empty."),
    fixed("offsets.topic.num.partitions", Int, "50", "Over which groups are spread; counts when the first group comes."),
    given("process.roles", List, "Every broker may also vote in the root shard."),
    kept_from(1, "producer.id.expiration.ms", Int, "86400000"),
    fixed("quota.window.num", Int, "11", "Windows that a client's rate is taken over."),
    fixed("quota.window.size.seconds", Int, "1", "Length of each."),
    kept_from(1, "remote.log.manager.copy.max.bytes.per.second", Long, LONG_MAX),
    kept_from(1, "remote.log.manager.fetch.max.bytes.per.second", Long, LONG_MAX),
    kept("replica.alter.log.dirs.io.max.bytes.per.second", Long, LONG_MAX),
    fixed("security.inter.broker.protocol", Text, "PLAINTEXT", "How brokers talk to each other."),
    fixed("share.auto.offset.reset", Text, "latest", "Where a share group begins that has read nothing."),
    fixed("share.isolation.level", Text, "read_uncommitted", "Whether records of open transactions are delivered."),
    fixed("socket.request.max.bytes", Int, "104857600", "Largest Produce request."),
    fixed("telemetry.max.bytes", Int, "1048576", "Largest push of a client's metrics."),
    fixed("transaction.max.timeout.ms", Int, "900000", "Longest timeout that a transactional producer may ask for."),
    kept("transaction.partition.verification.enable", Boolean, "true"),
    fixed("transaction.state.log.num.partitions", Int, "50", "Over which transactional ids are spread; counts when the first comes."),
    fixed("transactional.id.expiration.ms", Int, "604800000", "A transactional id that is idle for longer is forgotten."),
];

/// The setting of brokers of this name, and whether it can be set while they run.
pub fn find(name: &str) -> Option<(&'static Config, bool)> {
    let own = BROKER_CONFIGS.binary_search_by(|line| line.config.name.cmp(name)).ok().map(|at| &BROKER_CONFIGS[at]);
    let own = own.map(|line| (&line.config, line.dynamic));
    let inherited = || TOPIC_CONFIGS.iter().find(|config| config.broker_name == name).map(|config| (config, true));
    own.or_else(inherited)
}

/// Every setting of brokers: (its name, the line, whether it can be set).
pub fn all() -> impl Iterator<Item = (&'static str, &'static Config, bool)> {
    let own = BROKER_CONFIGS.iter().map(|line| (line.config.name, &line.config, line.dynamic));
    let inherited = TOPIC_CONFIGS.iter().filter(|config| !config.broker_name.is_empty());
    own.chain(inherited.map(|config| (config.broker_name, config, true)))
}

/// Unknown names are taken as Kafka takes them: a plugin may know them. Their values are never shown.
///
/// # Errors
/// [`Error::InvalidRequest`], which is what Kafka answers of brokers' settings.
pub fn validate(configs: &Configs) -> Result<(), Error> {
    let fixed = |name: &&String| find(name).map_or_else(|| is_fixed(name), |(_, dynamic)| !dynamic);
    let fixed: Vec<&str> = configs.keys().filter(fixed).map(String::as_str).collect();
    if !fixed.is_empty() {
        return Err(Error::InvalidRequest(format!("Cannot update these configs dynamically: [{}]", fixed.join(", "))));
    }
    refuse_too_much(configs)?;
    configs.iter().try_for_each(|(name, value)| match find(name) {
        Some((config, _)) => config
            .rule
            .check(name, config.kind, value)
            .map_err(|why| Error::InvalidRequest(format!("Invalid value {value} for configuration {name}: {why}"))),
        None => Ok(()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, value: &str) -> Result<(), Error> {
        validate(&Configs::from([(name.to_owned(), value.to_owned())]))
    }

    #[test]
    fn the_table_is_in_order_and_no_name_is_told_twice() {
        assert!(BROKER_CONFIGS.is_sorted_by_key(|line| line.config.name));
        let mut names: Vec<&str> = all().map(|(name, ..)| name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn what_a_broker_was_started_with_stays_as_it_is() {
        let refused = check("broker.id", "4").unwrap_err();
        assert_eq!(refused.to_string(), "Cannot update these configs dynamically: [broker.id]");
        assert!(matches!(refused, Error::InvalidRequest(_)));
        assert!(check("log.flush.interval.messages", "5").is_ok());
        assert!(check("log.retention.ms", "x").is_err());
        assert!(check("group.consumer.assignors", "x").is_err() && check("replica.lag.time.max.ms", "5").is_err());
        for (name, _, _) in all().filter(|(name, _, dynamic)| *dynamic && name.contains("threads")) {
            assert!(check(name, "0").is_err() && check(name, "1").is_ok(), "{name}");
        }
        let refused = check("num.io.threads", "0").unwrap_err().to_string();
        assert_eq!(refused, "Invalid value 0 for configuration num.io.threads: Value must be at least 1");
        assert!(check("no.such", "1").is_ok());
    }
}
