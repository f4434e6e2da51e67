use std::net::IpAddr;
use std::str::FromStr;

use crate::zone::Error;

/// A range of addresses, v4 or v6 (`10.1.0.0/16`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix_bits: u8,
}

impl Network {
    pub fn prefix_bits(&self) -> u8 {
        self.prefix_bits
    }

    /// A v4 address that comes mapped into v6 is the v4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (width_bits, mine) = to_bits(self.address);
        let (other_width_bits, other) = to_bits(address.to_canonical());
        let differing = mine ^ other;
        width_bits == other_width_bits && differing.checked_shr(u32::from(width_bits - self.prefix_bits)).unwrap_or(0) == 0
    }
}

fn to_bits(address: IpAddr) -> (u8, u128) {
    match address {
        IpAddr::V4(address) => (32, address.to_bits().into()),
        IpAddr::V6(address) => (128, address.to_bits()),
    }
}

impl FromStr for Network {
    type Err = Error;

    fn from_str(text: &str) -> Result<Network, Error> {
        let not_a_network = || Error::NotANetwork(text.to_string());
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|_| not_a_network())?;
        let (width_bits, _) = to_bits(address);
        let prefix_bits = prefix.map_or(Ok(width_bits), u8::from_str).map_err(|_| not_a_network())?;
        (prefix_bits <= width_bits).then_some(Network { address, prefix_bits }).ok_or_else(not_a_network)
    }
}
