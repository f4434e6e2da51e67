//! The settings of subscriptions to clients' metrics (KIP-714).

use crate::admin::Error;
use crate::admin::configs::rule::Rule::Any;
use crate::admin::configs::{Config, Kind, config, list, refuse_too_much};
use crate::cluster::Configs;

pub const INTERVAL: &str = "interval.ms";
pub const MATCH: &str = "match";
pub const METRICS: &str = "metrics";
pub const INTERVAL_MS: i32 = 300_000;
const INTERVAL_MS_MIN: i32 = 100;
const INTERVAL_MS_MAX: i32 = 3_600_000;

/// What a pattern may be about.
pub const SELECTORS: [&str; 6] = [
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
];

pub static CLIENT_METRICS_CONFIGS: [Config; 3] = [
    config(INTERVAL, "", Kind::Int, "300000", Any, "How often clients push."),
    config(MATCH, "", Kind::List, "", Any, "Which clients, as `client_software_name=name`."),
    config(METRICS, "", Kind::List, "", Any, "How the names of the metrics begin; a star for all."),
];

impl Config {
    pub fn of_client_metrics(name: &str) -> Option<&'static Config> {
        Config::find(&CLIENT_METRICS_CONFIGS, name)
    }
}

/// # Errors
/// The first that Kafka would refuse, in its words and with its code.
pub fn validate(configs: &Configs) -> Result<(), Error> {
    for (name, value) in configs {
        let unknown = || Error::InvalidRequest(format!("Unknown client metrics configuration: {name}"));
        Config::of_client_metrics(name).ok_or_else(unknown)?.validate(value)?;
    }
    refuse_too_much(configs)?;
    let interval = configs.get(INTERVAL).and_then(|value| value.trim().parse::<i32>().ok());
    if let Some(interval) = interval
        && !(INTERVAL_MS_MIN..=INTERVAL_MS_MAX).contains(&interval)
    {
        return Err(Error::InvalidRequest(format!(
            "Invalid value {interval} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
        )));
    }
    patterns(configs).try_for_each(|pattern| pattern.map(drop))
}

/// What clients must be like: (what it is about, what it has to be).
pub fn patterns(configs: &Configs) -> impl Iterator<Item = Result<(&str, &str), Error>> {
    list(configs.get(MATCH).map_or("", String::as_str)).map(|pattern| {
        let parts = pattern.split_once('=').map(|(about, value)| (about.trim(), value.trim()));
        let well = |(about, value): &(&str, &str)| {
            SELECTORS.contains(about)
                && !value.is_empty()
                && !value.contains('=')
                && super::pattern::Pattern::parse(value).is_some()
        };
        let illegal = || Error::InvalidConfig(format!("Illegal client matching pattern: {pattern}"));
        parts.filter(well).ok_or_else(illegal)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::ErrorCode;

    fn check(name: &str, value: &str) -> Result<(), Error> {
        validate(&Configs::from([(name.to_owned(), value.to_owned())]))
    }

    #[test]
    fn refuses_what_kafka_refuses_with_its_codes() {
        let code = |name, value| check(name, value).unwrap_err().code();
        assert_eq!(code(INTERVAL, "99"), ErrorCode::InvalidRequest);
        assert_eq!(code(INTERVAL, "x"), ErrorCode::InvalidConfig);
        assert_eq!(code("no.such", "1"), ErrorCode::InvalidRequest);
        for bad in ["x=y", "client_id", "client_id=", "client_id=a=b", "client_id=(a"] {
            assert_eq!(code(MATCH, bad), ErrorCode::InvalidConfig, "{bad}");
        }
        for (name, bad) in [(METRICS, "none,"), (METRICS, "a,,b"), (MATCH, "client_id=a,")] {
            assert_eq!(code(name, bad), ErrorCode::InvalidConfig, "{bad}");
        }
        assert!(check(METRICS, "").is_ok());
        assert!(check(MATCH, "client_software_name=apache-kafka-java,client_software_version=3.9.*").is_ok());
        assert!(check(METRICS, "org.apache.kafka.producer.,org.apache.kafka.consumer.").is_ok());
    }
}
