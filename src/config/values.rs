//! Settings that are more than a number or a word, as people write them.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use url::Url;

use crate::types::StorageClass;

/// More than any region has.
const ZONES_MAX: usize = 16;

/// `host:port`, the host in brackets if it is an IPv6 address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct HostPort {
    pub host: String,
    pub port: u16,
}

impl HostPort {
    pub(super) fn is_wildcard(&self) -> bool {
        self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified())
    }

    pub(super) fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

impl FromStr for HostPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (host, port) = text.rsplit_once(':').ok_or("expected host:port")?;
        let port = port.parse().map_err(|_| format!("'{port}' is not a port"))?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        let needs_brackets = host.contains(':');
        if host.is_empty() || needs_brackets != bare.is_some() || host.contains(char::is_whitespace) {
            return Err("expected host:port, or [address]:port for IPv6".to_owned());
        }
        Ok(HostPort { host: host.to_owned(), port })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// A number of bytes: `1048576`, `4MiB`, `1.5 GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "NumberOrText")]
pub struct Size(pub usize);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size: bytesize::ByteSize = text.parse()?;
        usize::try_from(size.as_u64()).map(Size).map_err(|_| format!("'{text}' is too large"))
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Number(usize),
    Text(String),
}

impl TryFrom<NumberOrText> for Size {
    type Error = String;

    fn try_from(raw: NumberOrText) -> Result<Self, String> {
        match raw {
            NumberOrText::Number(bytes) => Ok(Size(bytes)),
            NumberOrText::Text(text) => text.parse(),
        }
    }
}

/// A duration: `250ms`, `10min`, `1h 30m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Span(pub Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        humantime::parse_duration(text).map(Span).map_err(|error| error.to_string())
    }
}

/// The zone of clients whose address lies in a network: `10.1.0.0/16=az1`, `fd00:1::/32=az2`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ZoneCidr {
    pub network: IpAddr,
    pub prefix_bits: u8,
    pub zone: String,
}

impl ZoneCidr {
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.network, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                (network.to_bits() ^ address.to_bits()) & mask(32, self.prefix_bits) as u32 == 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                (network.to_bits() ^ address.to_bits()) & mask(128, self.prefix_bits) == 0
            }
            _ => false,
        }
    }
}

/// The `prefix` highest of the `width` lowest bits.
fn mask(width: u32, prefix: u8) -> u128 {
    let whole = u128::MAX >> (128 - width);
    let below = whole.checked_shr(u32::from(prefix)).unwrap_or(0);
    whole & !below
}

impl FromStr for ZoneCidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const SHAPE: &str = "expected network/bits=zone, as 10.1.0.0/16=az1";
        let (cidr, zone) = text.split_once('=').ok_or(SHAPE)?;
        let (network, bits) = cidr.split_once('/').ok_or(SHAPE)?;
        let network: IpAddr = network.trim().parse().map_err(|_| format!("'{network}' is not an address"))?;
        let width = if network.is_ipv4() { 32 } else { 128 };
        let prefix_bits: u8 = bits.trim().parse().map_err(|_| SHAPE)?;
        if prefix_bits > width {
            return Err(format!("a prefix of {prefix_bits} bits is longer than the address"));
        }
        let value = match network {
            IpAddr::V4(network) => u128::from(network.to_bits()),
            IpAddr::V6(network) => network.to_bits(),
        };
        if value & !mask(u32::from(width), prefix_bits) != 0 {
            return Err(format!("{network} has bits beyond its prefix of {prefix_bits}"));
        }
        if zone.trim().is_empty() {
            return Err("the zone has no name".to_owned());
        }
        Ok(ZoneCidr { network, prefix_bits, zone: zone.trim().to_owned() })
    }
}

/// A listener whose clients are in a zone: `az1=0.0.0.0:9094@broker-1.example:9094`. What stands behind the `@` is told
/// to clients; without it, what stands before it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ZoneListener {
    pub zone: String,
    pub listen: HostPort,
    pub advertise: HostPort,
}

impl FromStr for ZoneListener {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shape = "expected zone=host:port or zone=host:port@host:port";
        let (zone, addresses) = text.split_once('=').ok_or(shape)?;
        let (listen, advertise) = addresses.split_once('@').unwrap_or((addresses, addresses));
        if zone.trim().is_empty() {
            return Err("the zone has no name".to_owned());
        }
        let (listen, advertise): (HostPort, HostPort) = (listen.trim().parse()?, advertise.trim().parse()?);
        if advertise.is_wildcard() {
            return Err(format!("clients cannot connect to {advertise}: say @ and an address that they can"));
        }
        Ok(ZoneListener { zone: zone.trim().to_owned(), listen, advertise })
    }
}

/// Another name of a zone: `use1-az4=us-east-1b`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ZoneAlias {
    pub alias: String,
    pub zone: String,
}

impl FromStr for ZoneAlias {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (alias, zone) = text.split_once('=').ok_or("expected alias=zone, as use1-az4=us-east-1b")?;
        let (alias, zone) = (alias.trim().to_owned(), zone.trim().to_owned());
        match alias.is_empty() || zone.is_empty() {
            true => Err("neither the alias nor the zone may be empty".to_owned()),
            false => Ok(ZoneAlias { alias, zone }),
        }
    }
}

/// One `store`: a URL, or that of a zone's bucket: `az1=s3://bucket1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreUrl {
    pub zone: Option<String>,
    pub url: Url,
}

impl FromStr for StoreUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A URL has an equals sign behind its scheme only.
        let (zone, url) = match text.split_once('=') {
            Some((zone, url)) if !zone.contains([':', '/']) => (Some(zone.trim()), url),
            _ => (None, text),
        };
        if zone.is_some_and(str::is_empty) {
            return Err("the zone has no name".to_owned());
        }
        let url = url.trim().parse().map_err(|error| format!("'{url}' is no URL: {error}"))?;
        Ok(StoreUrl { zone: zone.map(str::to_owned), url })
    }
}

/// Where a cluster's objects are: a regional store, a bucket in each of three zones or more, or both.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreUrls {
    pub regional: Option<Url>,
    pub zonal: BTreeMap<String, Url>,
}

impl StoreUrls {
    /// # Errors
    /// They do not make a store; the text says why.
    pub fn new(urls: impl IntoIterator<Item = StoreUrl>) -> Result<StoreUrls, String> {
        let mut stores = StoreUrls::default();
        for StoreUrl { zone, url } in urls {
            if stores.all().any(|known| *known == url) {
                return Err(format!("{url} stands there twice"));
            }
            let (name, before) = match zone {
                None => ("the region".to_owned(), stores.regional.replace(url)),
                Some(zone) => (format!("zone {zone}"), stores.zonal.insert(zone, url)),
            };
            if before.is_some() {
                return Err(format!("there are two stores of {name}"));
            }
        }
        match stores.zonal.len() {
            0 if stores.regional.is_none() => Err("there is none".to_owned()),
            1 | 2 => Err("buckets of zones must be three or more: writes go on while a majority is there".to_owned()),
            zones if zones > ZONES_MAX => Err(format!("more than {ZONES_MAX} zones")),
            _ => Ok(stores),
        }
    }

    /// Whether objects can have this class.
    pub fn has(&self, class: StorageClass) -> bool {
        match class {
            StorageClass::Regional => self.regional.is_some(),
            StorageClass::Zonal => !self.zonal.is_empty(),
        }
    }

    /// That of topics which do not say.
    pub fn default_class(&self) -> StorageClass {
        let regional = self.regional.is_some();
        if regional { StorageClass::Regional } else { StorageClass::Zonal }
    }

    pub fn all(&self) -> impl Iterator<Item = &Url> {
        self.regional.iter().chain(self.zonal.values())
    }
}

impl fmt::Display for StoreUrls {
    /// As it is written on a command line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let regional = self.regional.iter().map(Url::to_string);
        let zonal = self.zonal.iter().map(|(zone, url)| format!("{zone}={url}"));
        f.write_str(&regional.chain(zonal).collect::<Vec<_>>().join(","))
    }
}

/// One, several, or a table by zone, as a file may say it.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoresInFile {
    One(String),
    Several(Vec<String>),
    ByZone(BTreeMap<String, String>),
}

/// The `store` of a file.
pub(super) fn stores<'de, D: Deserializer<'de>>(file: D) -> Result<Option<Vec<StoreUrl>>, D::Error> {
    let said = match StoresInFile::deserialize(file)? {
        StoresInFile::One(one) => one.split(',').map(str::to_owned).collect(),
        StoresInFile::Several(several) => several,
        StoresInFile::ByZone(by_zone) => by_zone.into_iter().map(|(zone, url)| format!("{zone}={url}")).collect(),
    };
    let parsed = said.iter().map(|text| text.parse()).collect::<Result<_, _>>();
    parsed.map(Some).map_err(serde::de::Error::custom)
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Text,
    Json,
}

/// Who makes the assignments of groups of the consumer protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum GroupAssignor {
    Uniform,
    Range,
}

/// Whether groups with members may go from one protocol to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum GroupMigration {
    Bidirectional,
    Upgrade,
    Downgrade,
    Disabled,
}

macro_rules! try_from_string {
    ($($kind:ty),*) => {
        $(impl TryFrom<String> for $kind {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        })*
    };
}

try_from_string!(HostPort, Span, ZoneCidr, ZoneListener, ZoneAlias);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_printed_alike() {
        for text in ["127.0.0.1:9092", "broker-1.local:0", "[::1]:9092"] {
            assert_eq!(text.parse::<HostPort>().unwrap().to_string(), text);
        }
        for text in ["", "host", ":9092", "host:", "host:70000", "::1:9092", "[host]:1", "a b:1"] {
            assert!(text.parse::<HostPort>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_and_spans_are_read_as_people_write_them() {
        assert_eq!("4MiB".parse(), Ok(Size(4 << 20)));
        assert_eq!("1048588".parse(), Ok(Size(1_048_588)));
        assert_eq!("1.5 GiB".parse(), Ok(Size(3 << 29)));
        assert_eq!("250ms".parse(), Ok(Span(Duration::from_millis(250))));
        assert!("four".parse::<Size>().is_err());
        assert!("-1".parse::<Size>().is_err());
        assert!("10".parse::<Span>().is_err(), "a duration needs its unit");
    }

    #[test]
    fn a_network_holds_its_addresses_and_no_others() {
        let holds = |cidr: &str, address: &str| cidr.parse::<ZoneCidr>().unwrap().contains(address.parse().unwrap());
        assert!(holds("10.1.0.0/16=az1", "10.1.255.255"));
        assert!(holds("10.1.0.0/16=az1", "::ffff:10.1.0.9"));
        assert!(!holds("10.1.0.0/16=az1", "10.2.0.0"));
        assert!(!holds("10.1.0.0/16=az1", "fd00::1"));
        assert!(holds("0.0.0.0/0=az1", "255.1.2.3"));
        assert!(holds("::/0=az1", "fd00::1"));
        assert!(holds("1.2.3.4/32=az1", "1.2.3.4") && !holds("1.2.3.4/32=az1", "1.2.3.5"));
        assert!(holds("fd00:1::/32=az1", "fd00:1:2::3") && !holds("fd00:1::/32=az1", "fd00:2::"));
    }

    #[test]
    fn a_listener_of_a_zone_has_an_address_for_itself_and_one_for_clients() {
        let read = |text: &str| text.parse::<ZoneListener>();
        let both = read("az1=0.0.0.0:9094@broker-1:19094").unwrap();
        assert_eq!((both.zone.as_str(), both.listen.port, both.advertise.port), ("az1", 9094, 19094));
        let one = read("az1=10.0.0.7:9094").unwrap();
        assert_eq!(one.listen, one.advertise);
        for text in ["", "az1", "=10.0.0.7:1", "az1=0.0.0.0:9094", "az1=10.0.0.7", "az1=h:1@", "az1=h:1@0.0.0.0:1"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_alias_names_another_name_and_a_zone() {
        let alias: ZoneAlias = "use1-az4=us-east-1b".parse().unwrap();
        assert_eq!((alias.alias.as_str(), alias.zone.as_str()), ("use1-az4", "us-east-1b"));
        for text in ["", "a", "=b", "a="] {
            assert!(text.parse::<ZoneAlias>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_malformed_network_is_refused() {
        for text in ["", "10.0.0.0=az1", "10.0.0.0/8", "10.0.0.0/33=a", "10.1.0.0/8=a", "10.0.0.0/8= ", "x/8=a"] {
            assert!(text.parse::<ZoneCidr>().is_err(), "{text}");
        }
    }
}
