//! What open connections have carried from zone to zone, by port: payload of TCP, from the kernel's own account of each
//! socket. For systems that do not tell what their bytes are for.

use anyhow::Result;

use crate::ground::{Ground, ZONES, ip};
use crate::system::BytesByKind;

/// A connection is of a kind when either of its ends has that port.
pub fn sent_by_port(ground: &Ground, kinds: &[(u16, &str)]) -> Result<BytesByKind> {
    let mut bytes = BytesByKind::new();
    for zone in 0..ZONES {
        let told = ip(&["netns", "exec", &ground.zone(zone), "ss", "-tinHO", "state", "connected"])?;
        for socket in told.lines().filter_map(Socket::parse).filter(Socket::crosses) {
            let kind = kinds.iter().find(|(port, _)| socket.ports.contains(port));
            *bytes.entry(kind.map_or("unknown", |(_, kind)| kind).to_owned()).or_default() += socket.bytes_sent;
        }
    }
    Ok(bytes)
}

struct Socket<'a> {
    hosts: [&'a str; 2],
    ports: [u16; 2],
    bytes_sent: u64,
}

impl<'a> Socket<'a> {
    /// `ESTAB 0 0 10.77.0.1:9092 [::ffff:10.77.0.2]:40000 cubic … bytes_sent:123 …`
    fn parse(line: &'a str) -> Option<Socket<'a>> {
        let mut words = line.split_whitespace();
        let (near, far) = (words.nth(3)?.rsplit_once(':')?, words.next()?.rsplit_once(':')?);
        // A socket that has sent nothing yet does not say so.
        let sent = words.find_map(|word| word.strip_prefix("bytes_sent:")).map_or(Some(0), |n| n.parse().ok())?;
        let host = |text: &'a str| text.trim_matches(['[', ']']).trim_start_matches("::ffff:");
        Some(Socket {
            hosts: [host(near.0), host(far.0)],
            ports: [near.1.parse().ok()?, far.1.parse().ok()?],
            bytes_sent: sent,
        })
    }

    fn crosses(&self) -> bool {
        self.hosts[0] != self.hosts[1]
    }
}
