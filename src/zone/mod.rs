//! Which zone a client is in.
//!
//! - **In**: the client's id and address, the operator's [`Zones`], the names of the cluster's zones.
//! - **Out**: one of those names, or none.
//! - **Promises**: pure and the same at every broker, so that all brokers tell a client one story. First match wins: a
//!   token in `client.id`, then the narrowest network that holds the address.
//! - **Never does**: guess. A token that names no zone of this cluster counts as no token.
//! - **Limits**: linear in the length of the id, the networks and the zones.
//!
//! ```text
//! client.id   orders,zone=us-east-1a-StreamThread-1-consumer
//!                    └─key─┘└─ zone ──┘└ what the client's tool appended
//! ```

mod token;

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::config::ZoneCidr;

/// What the operator says of zones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Zones {
    pub cidrs: Vec<ZoneCidr>,
    /// Another name → the name that brokers use.
    pub aliases: BTreeMap<String, String>,
}

impl Zones {
    /// The zone of `known` that `name` means, itself or as an alias.
    fn resolve<'k>(&self, name: &str, known: &[&'k str]) -> Option<&'k str> {
        let find = |name: &str| known.iter().copied().find(|zone| *zone == name);
        find(name).or_else(|| find(self.aliases.get(name)?))
    }

    fn of_address<'k>(&self, address: IpAddr, known: &[&'k str]) -> Option<&'k str> {
        let holding = self.cidrs.iter().filter(|cidr| cidr.contains(address));
        self.resolve(&holding.max_by_key(|cidr| cidr.prefix_bits)?.zone, known)
    }
}

/// The zone of a client, one of `known`. `client_id` is empty when the client has none.
pub fn zone_of<'k>(client_id: &str, address: IpAddr, zones: &Zones, known: &[&'k str]) -> Option<&'k str> {
    let named = token::tokens(client_id, zones, known).find_map(|token| token.zone);
    named.or_else(|| zones.of_address(address, known))
}

/// The client id without its zone tokens, for quotas and metrics: moving a client changes neither.
pub fn strip_tokens(client_id: &str, zones: &Zones, known: &[&str]) -> String {
    let mut stripped = String::with_capacity(client_id.len());
    let mut from = 0;
    for token in token::tokens(client_id, zones, known) {
        stripped.push_str(&client_id[from..token.range.start]);
        from = token.range.end;
        // One of the joiners around the token goes with it.
        if stripped.ends_with(token::is_joiner) {
            stripped.pop();
        } else if stripped.is_empty() && client_id[from..].starts_with(token::is_joiner) {
            from += 1;
        }
    }
    stripped.push_str(&client_id[from..]);
    stripped
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
        zone_of(client_id, address.parse().unwrap(), &zones(), &KNOWN)
    }

    #[test]
    fn finds_the_zone_in_client_ids_of_real_tools() {
        let cases = [
            ("zone=us-east-1a", "us-east-1a", ""),
            ("orders,zone=us-east-1a", "us-east-1a", "orders"),
            ("zone=us-east-1a,orders", "us-east-1a", "orders"),
            ("app,diskless_az=us-east-1b", "us-east-1b", "app"),
            ("app,ws_az=us-east-1a,ws_si=on", "us-east-1a", "app,ws_si=on"),
            ("warpstream_az=us-east-1a&warpstream_x=1", "us-east-1a", "warpstream_x=1"),
            ("automq_type=producer&automq_az=us-east-1b", "us-east-1b", "automq_type=producer"),
            ("a b|zone=us-east-1a|c", "us-east-1a", "a b|c"),
            ("a;zone=us-east-1a;c", "us-east-1a", "a;c"),
            // what Kafka Streams, Spring, Flink and Connect append
            ("app,zone=us-east-1a-StreamThread-1-consumer", "us-east-1a", "app-StreamThread-1-consumer"),
            (
                "app,zone=us-east-1a-StreamThread-12-restore-consumer",
                "us-east-1a",
                "app-StreamThread-12-restore-consumer",
            ),
            ("app,zone=us-east-1a-0", "us-east-1a", "app-0"),
            ("zone=us-east-1b-producer-1", "us-east-1b", "producer-1"),
            ("zone=us-east-1b-enumerator-admin-client", "us-east-1b", "enumerator-admin-client"),
            ("connector-producer-s3-zone=us-east-1a-3", "us-east-1a", "connector-producer-s3-3"),
            ("zone=us-east-1a.admin", "us-east-1a", "admin"),
            // zones with a number at their end, and one that begins like another
            ("zone=az-1-0", "az-1", "0"),
            ("zone=az-1-b-0", "az-1-b", "0"),
            // by another name; the first that names a zone of ours counts
            ("zone=use1-az4-7", "us-east-1b", "7"),
            ("zone=mars,ws_az=us-east-1a", "us-east-1a", ""),
        ];
        for (client_id, zone, rest) in cases {
            assert_eq!(of(client_id, "192.0.2.1"), Some(zone), "{client_id}");
            assert_eq!(strip_tokens(client_id, &zones(), &KNOWN), rest, "{client_id}");
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
        assert_eq!(strip_tokens("timezone=us-east-1a", &zones(), &KNOWN), "timezone=us-east-1a");
        assert_eq!(strip_tokens("a,zone=mars,b", &zones(), &KNOWN), "a,b");
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
