//! Settings: Kafka's names, types, defaults (of 4.4), rules and words, a table for each kind of thing that has some. What
//! was set is kept in the root as text; everything that reads a setting goes through [`Layers`].
//!
//! - **In**: what somebody wants to set.
//! - **Out**: whether it may be set; the value in force and where it comes from.
//! - **Never does**: change anything.

pub mod broker;
pub mod client_metrics;
mod fixed;
pub mod group;
mod layers;
pub mod pattern;
mod rule;
mod share;
pub mod topic;

pub use layers::{Defaults, Layers};
use rule::Rule;
pub use share::{ShareReset, ShareSettings};
pub use topic::{STORAGE_CLASS, TOPIC_CONFIGS};

use crate::admin::Error;
use crate::cluster::Configs;

/// Bytes of all settings of one thing, names included.
const CONFIGS_BYTES_MAX: usize = 64 * 1024;

/// Numbers are Kafka's (`DescribeConfigsResponse.ConfigType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum Kind {
    Unknown = 0,
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
    DynamicBroker = 2,
    DynamicAllBrokers = 3,
    Broker = 4,
    Default = 5,
    ClientMetrics = 7,
    Group = 8,
}

/// One line of a table.
#[derive(Debug)]
pub struct Config {
    pub name: &'static str,
    /// The broker's setting of the same meaning; empty when there is none.
    pub broker_name: &'static str,
    /// The broker's setting has no default of its own in Kafka: another one, in hours, has it.
    pub broker_unset: bool,
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
    Config { name, broker_name, broker_unset: false, kind, default, rule, about }
}

const fn broker_unset(config: Config) -> Config {
    Config { broker_unset: true, ..config }
}

impl Config {
    /// In a table, which is in order of names.
    fn find(table: &'static [Config], name: &str) -> Option<&'static Config> {
        table.binary_search_by(|config| config.name.cmp(name)).ok().map(|at| &table[at])
    }

    /// # Errors
    /// [`Error::InvalidConfig`], with what is wrong with the value in Kafka's words.
    fn validate(&self, value: &str) -> Result<(), Error> {
        self.rule.check(self.name, self.kind, value).map_err(|why| {
            Error::InvalidConfig(format!("Invalid value {} for configuration {}: {why}", value.trim(), self.name))
        })
    }
}

/// # Errors
/// [`Error::InvalidConfig`] for more than is kept of anything.
fn refuse_too_much(configs: &Configs) -> Result<(), Error> {
    match configs.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() <= CONFIGS_BYTES_MAX {
        true => Ok(()),
        false => Err(Error::InvalidConfig(format!("settings of one thing take at most {CONFIGS_BYTES_MAX} bytes"))),
    }
}

/// Kafka takes a list apart at its commas, and so do those who read it.
pub fn list(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|part| !part.is_empty())
}
