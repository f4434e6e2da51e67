//! The settings of groups (KIP-848, KIP-932): what differs from the brokers' for one group.

use crate::admin::Error;
use crate::admin::configs::rule::Rule::{Any, OneOf, ShareReset, Within};
use crate::admin::configs::{Config, Kind, config, refuse_too_much};
use crate::cluster::Configs;

use Kind::{Boolean, Int, String as Text};

const ISOLATION: &[&str] = &["read_committed", "read_uncommitted"];

#[rustfmt::skip]
pub static GROUP_CONFIGS: [Config; 14] = [
    config("consumer.assignment.interval.ms", "group.consumer.assignment.interval.ms", Int, "1000", Within(0, 15_000), "The shortest time between two assignments."),
    config("consumer.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms", Int, "5000", Within(5_000, 15_000), "How often members say that they are there."),
    config("consumer.session.timeout.ms", "group.consumer.session.timeout.ms", Int, "45000", Within(45_000, 60_000), "A member that is silent for longer is gone."),
    config("errors.deadletterqueue.copy.record.enable", "errors.deadletterqueue.copy.record.enable", Boolean, "false", Any, "Kept for clients; there is no such queue here."),
    config("errors.deadletterqueue.topic.name", "errors.deadletterqueue.topic.name", Text, "", Any, "Kept for clients; there is no such queue here."),
    config("share.assignment.interval.ms", "group.share.assignment.interval.ms", Int, "1000", Within(0, 15_000), "The shortest time between two assignments."),
    config("share.auto.offset.reset", "share.auto.offset.reset", Text, "latest", ShareReset, "Where a share group begins that has read nothing."),
    config("share.delivery.count.limit", "group.share.delivery.count.limit", Int, "5", Within(2, 10), "A record is delivered at most so often."),
    config("share.heartbeat.interval.ms", "group.share.heartbeat.interval.ms", Int, "5000", Within(5_000, 15_000), "How often members say that they are there."),
    config("share.isolation.level", "share.isolation.level", Text, "read_uncommitted", OneOf(ISOLATION), "Whether records of open transactions are delivered."),
    config("share.partition.max.record.locks", "group.share.partition.max.record.locks", Int, "2000", Within(100, 4_000), "Records of a partition that may be in delivery."),
    config("share.record.lock.duration.ms", "group.share.record.lock.duration.ms", Int, "30000", Within(15_000, 60_000), "How long a member may keep a record."),
    config("share.renew.acknowledge.enable", "share.renew.acknowledge.enable", Boolean, "true", Any, "Whether a member may ask for more time with a record."),
    config("share.session.timeout.ms", "group.share.session.timeout.ms", Int, "45000", Within(45_000, 60_000), "A member that is silent for longer is gone."),
];

impl Config {
    pub fn of_group(name: &str) -> Option<&'static Config> {
        Config::find(&GROUP_CONFIGS, name)
    }
}

/// # Errors
/// [`Error::InvalidConfig`], for the first that Kafka would refuse, in its words.
pub fn validate(configs: &Configs) -> Result<(), Error> {
    for (name, value) in configs {
        let unknown = || Error::InvalidConfig(format!("Unknown group config name: {name}"));
        let config = Config::of_group(name).ok_or_else(unknown)?;
        match (config.rule, value.trim().parse::<i32>()) {
            // A range is that of the brokers' settings, and Kafka says so in other words.
            (Within(low, high), Ok(number)) if !(low..=high).contains(&number.into()) => {
                return Err(Error::InvalidConfig(format!("{name} must be in the range {low} to {high} inclusive.")));
            }
            _ => config.validate(value)?,
        }
    }
    refuse_too_much(configs)?;
    let number = |name: &str| {
        let config = Config::of_group(name).expect("in the table");
        configs.get(name).map_or(config.default, String::as_str).trim().parse::<i64>().unwrap_or(0)
    };
    for kind in ["consumer", "share"] {
        let (session, heartbeat) = (format!("{kind}.session.timeout.ms"), format!("{kind}.heartbeat.interval.ms"));
        if number(&session) <= number(&heartbeat) {
            return Err(Error::InvalidConfig(format!("{session} must be greater than {heartbeat}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, value: &str) -> Result<(), Error> {
        validate(&Configs::from([(name.to_owned(), value.to_owned())]))
    }

    #[test]
    fn the_table_is_in_order_and_its_defaults_are_possible() {
        assert!(GROUP_CONFIGS.is_sorted_by_key(|config| config.name));
        assert!(GROUP_CONFIGS.iter().all(|config| check(config.name, config.default).is_ok()));
    }

    #[test]
    fn refuses_what_kafka_refuses_in_its_words() {
        let said = |name, value| check(name, value).unwrap_err().to_string();
        let range = "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive.";
        assert_eq!(said("consumer.session.timeout.ms", "10"), range);
        assert_eq!(said("no.such", "1"), "Unknown group config name: no.such");
        assert!(said("share.auto.offset.reset", "x").ends_with("'by_duration:<PnDTnHnMn.nS>'."));
        assert!(check("share.isolation.level", "read_committed").is_ok());
    }
}
