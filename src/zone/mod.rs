//! Which zone a client is in.
//!
//! - **In**: the client's id, the listener and the address it came by, the operator's [`Zones`], the cluster's zones.
//! - **Out**: one of those zones, or none; which of a zone's brokers serves a partition ([`pick`]).
//! - **Promises**: pure and the same at every broker, so that all brokers tell a client one story. First match wins: a
//!   token in `client.id`, then the listener's zone, then the narrowest network that holds the address.
//! - **Never does**: guess. A token that names no zone of this cluster counts as no token.
//! - **Limits**: linear in the length of the id, the networks and the zones.
//!
//! ```text
//! client.id   orders,zone=us-east-1a-StreamThread-1-consumer
//!                    └─key─┘└─ zone ──┘└ what the client's tool appended
//! ```

mod spread;
mod token;

pub use spread::pick;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::cluster::RootState;
use crate::config::{Config, ZoneCidr};

/// What the operator says of zones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Zones {
    pub cidrs: Vec<ZoneCidr>,
    /// Another name → the name that brokers use.
    pub aliases: BTreeMap<String, String>,
}

impl From<&Config> for Zones {
    fn from(config: &Config) -> Zones {
        let aliases = config.zone_aliases.iter().map(|one| (one.alias.clone(), one.zone.clone()));
        Zones { cidrs: config.zone_cidrs.clone(), aliases: aliases.collect() }
    }
}

/// The zones that brokers of this cluster are in, also those that are down.
pub fn known(view: &RootState) -> Vec<&str> {
    let mut known: Vec<&str> = view.brokers().map(|b| b.zone.as_str()).filter(|zone| !zone.is_empty()).collect();
    known.sort_unstable();
    known.dedup();
    known
}

impl Zones {
    /// The zone of `known` that `name` means, itself or as an alias.
    pub fn resolve<'k>(&self, name: &str, known: &[&'k str]) -> Option<&'k str> {
        let find = |name: &str| known.iter().copied().find(|zone| *zone == name);
        find(name).or_else(|| find(self.aliases.get(name)?))
    }

    fn of_address<'k>(&self, address: IpAddr, known: &[&'k str]) -> Option<&'k str> {
        let holding = self.cidrs.iter().filter(|cidr| cidr.contains(address));
        self.resolve(&holding.max_by_key(|cidr| cidr.prefix_bits)?.zone, known)
    }
}

/// What a client shows of itself with every connection.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    /// Empty when the client has none.
    pub client_id: &'a str,
    /// The zone of the listener it came by, if that has one.
    pub listener: Option<&'a str>,
    pub address: IpAddr,
}

/// The zone of a client, one of `known`.
pub fn zone_of<'k>(client: Shown, zones: &Zones, known: &[&'k str]) -> Option<&'k str> {
    let by_token = token::named(client.client_id, zones, known).find_map(|zone| zone);
    let by_listener = || zones.resolve(client.listener?, known);
    by_token.or_else(by_listener).or_else(|| zones.of_address(client.address, known))
}

/// What a client calls itself beside its zone: clients that differ in that alone are one to quotas.
pub fn without_zone<'a>(client_id: &'a str, zones: &Zones, known: &[&str]) -> Cow<'a, str> {
    match client_id.contains('=') {
        true => Cow::Owned(token::without(client_id, zones, known)),
        false => Cow::Borrowed(client_id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 4] = ["us-east-1a", "us-east-1b", "az-1", "az-1-b"];

    fn zones() -> Zones {
        let cidrs = ["10.1.0.0/16=us-east-1a", "10.0.0.0/8=us-east-1b", "fd00:1::/32=az-1", "0.0.0.0/0=nowhere"];
        let aliases = [("use1-az4", "us-east-1b"), ("old", "gone")];
        Zones {
            cidrs: cidrs.map(|cidr| cidr.parse().unwrap()).into(),
            aliases: aliases.map(|(alias, zone)| (alias.into(), zone.into())).into(),
        }
    }

    fn of(client_id: &str, address: &str) -> Option<&'static str> {
        by(client_id, None, address)
    }

    fn by(client_id: &str, listener: Option<&str>, address: &str) -> Option<&'static str> {
        zone_of(Shown { client_id, listener, address: address.parse().unwrap() }, &zones(), &KNOWN)
    }

    #[test]
    fn clients_of_all_zones_are_called_the_same() {
        let cases = [
            ("orders", "orders"),
            ("zone=us-east-1a", ""),
            ("zone=us-east-1a,orders", "orders"),
            ("orders,zone=us-east-1a", "orders"),
            ("orders,zone=us-east-1a,fast", "orders,fast"),
            ("app,zone=us-east-1a-producer-1", "app-producer-1"),
            ("timezone=us-east-1a", "timezone=us-east-1a"),
            ("a=b,ws_az=nowhere,c", "a=b,c"),
        ];
        for (client_id, name) in cases {
            assert_eq!(without_zone(client_id, &zones(), &KNOWN), name, "{client_id}");
        }
    }

    #[test]
    fn finds_the_zone_in_client_ids_of_real_tools() {
        let cases = [
            ("zone=us-east-1a", "us-east-1a"),
            ("orders,zone=us-east-1a", "us-east-1a"),
            ("zone=us-east-1a,orders", "us-east-1a"),
            ("app,diskless_az=us-east-1b", "us-east-1b"),
            ("app,ws_az=us-east-1a,ws_si=on", "us-east-1a"),
            ("warpstream_az=us-east-1a&warpstream_x=1", "us-east-1a"),
            ("automq_type=producer&automq_az=us-east-1b", "us-east-1b"),
            ("a b|zone=us-east-1a|c", "us-east-1a"),
            ("a;zone=us-east-1a;c", "us-east-1a"),
            ("a zone=us-east-1a b", "us-east-1a"),
            ("zone=us-east-1a|rdkafka", "us-east-1a"),
            ("automq_type=consumer&automq_az=us-east-1b-0|admin", "us-east-1b"),
            // what Kafka Streams, Spring, Flink and Connect append
            ("app,zone=us-east-1a-StreamThread-1-consumer", "us-east-1a"),
            ("app,zone=us-east-1a-StreamThread-12-restore-consumer", "us-east-1a"),
            ("app,zone=us-east-1a-0", "us-east-1a"),
            ("zone=us-east-1b-producer-1", "us-east-1b"),
            ("zone=us-east-1b-enumerator-admin-client", "us-east-1b"),
            ("connector-producer-s3-zone=us-east-1a-3", "us-east-1a"),
            ("zone=us-east-1a.admin", "us-east-1a"),
            // zones with a number at their end, and one that begins like another
            ("zone=az-1-0", "az-1"),
            ("zone=az-1-b-0", "az-1-b"),
            // by another name; the first that names a zone of ours counts
            ("zone=use1-az4-7", "us-east-1b"),
            ("zone=mars,ws_az=us-east-1a", "us-east-1a"),
        ];
        for (client_id, zone) in cases {
            assert_eq!(of(client_id, "192.0.2.1"), Some(zone), "{client_id}");
        }
    }

    #[test]
    fn says_nothing_of_clients_that_name_no_zone_of_ours() {
        let ids = [
            "",
            "rdkafka",
            "zone",
            "zone=",
            "zone=us-east-1",
            "zone=us-east-1abc",
            "timezone=us-east-1a",
            "my_zone=us-east-1a",
            "ZONE=us-east-1a",
            "zone=old",
            "zone=é",
            "é=zone",
            "automq_az=,x",
        ];
        for client_id in ids {
            assert_eq!(of(client_id, "192.0.2.1"), None, "{client_id}");
        }
    }

    #[test]
    fn the_listener_decides_when_the_id_does_not() {
        assert_eq!(by("app", Some("az-1"), "10.1.2.3"), Some("az-1"));
        assert_eq!(by("app", Some("use1-az4"), "10.1.2.3"), Some("us-east-1b"));
        assert_eq!(by("app,zone=us-east-1b", Some("az-1"), "10.1.2.3"), Some("us-east-1b"));
        assert_eq!(by("app", Some("mars"), "10.1.2.3"), Some("us-east-1a"));
    }

    #[test]
    fn the_narrowest_network_decides_when_the_id_does_not() {
        assert_eq!(of("app", "10.1.2.3"), Some("us-east-1a"));
        assert_eq!(of("app", "10.2.2.3"), Some("us-east-1b"));
        assert_eq!(of("app", "::ffff:10.1.2.3"), Some("us-east-1a"));
        assert_eq!(of("app", "fd00:1::7"), Some("az-1"));
        assert_eq!(of("app", "fd00:2::7"), None);
        assert_eq!(of("app,zone=us-east-1b", "10.1.2.3"), Some("us-east-1b"));
        assert_eq!(of("app,zone=mars", "10.1.2.3"), Some("us-east-1a"));
    }
}
