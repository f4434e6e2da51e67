//! What a run cost: requests at the object store, bytes from broker to broker.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

const PEER_BYTES: &str = "milepost_peer_bytes_sent_total";

/// Where the counters are read.
pub struct Counters {
    /// `NAME=HOST:PORT` of each broker's metrics.
    pub brokers: Vec<String>,
    /// The S3 server's `http://HOST:PORT`.
    pub store: String,
}

#[derive(Default)]
pub struct Reading {
    /// (broker, peer, kind) to bytes sent.
    peers: BTreeMap<(String, String, String), u64>,
    /// The store's numbers by name, nested names joined with dots.
    store: BTreeMap<String, u64>,
}

impl Counters {
    pub fn read(&self) -> Result<Reading> {
        let mut reading = Reading::default();
        for broker in &self.brokers {
            let (name, address) = broker.split_once('=').context("--metrics wants NAME=HOST:PORT")?;
            for line in get(address, "/metrics")?.lines().filter(|line| line.starts_with(PEER_BYTES)) {
                let value = line.rsplit(' ').next().context("an empty line")?;
                let bytes: f64 = value.parse().with_context(|| format!("{address}: {line}"))?;
                let key = (name.to_owned(), label(line, "peer"), label(line, "kind"));
                *reading.peers.entry(key).or_default() += bytes as u64;
            }
        }
        if let Some(address) = self.store.strip_prefix("http://") {
            let stats = get(address, "/_milepost/stats")?;
            flatten("", &serde_json::from_str(&stats).context("the store's counters")?, &mut reading.store);
        }
        Ok(reading)
    }
}

/// The difference of two readings.
pub struct Bill {
    peers: BTreeMap<(String, String, String), u64>,
    store: BTreeMap<String, u64>,
}

impl Bill {
    pub fn between(before: &Reading, after: &Reading) -> Bill {
        Bill { peers: difference(&before.peers, &after.peers), store: difference(&before.store, &after.store) }
    }

    pub fn crossing_bytes(&self) -> u64 {
        self.peers.values().sum()
    }
}

fn difference<K: Ord + Clone>(before: &BTreeMap<K, u64>, after: &BTreeMap<K, u64>) -> BTreeMap<K, u64> {
    let since = |(key, value): (&K, &u64)| (key.clone(), value - before.get(key).unwrap_or(&0).min(value));
    after.iter().map(since).collect()
}

impl fmt::Display for Bill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "object store, since the topic was made:")?;
        for (name, count) in self.store.iter().filter(|(_, count)| **count > 0) {
            writeln!(f, "  {name} {count}")?;
        }
        write!(f, "bytes from broker to broker:")?;
        let mut pairs: BTreeMap<(&str, &str), (u64, Vec<String>)> = BTreeMap::new();
        for ((broker, peer, kind), bytes) in &self.peers {
            let (sum, kinds) = pairs.entry((broker, peer)).or_default();
            *sum += bytes;
            kinds.push(format!("{kind} {bytes}"));
        }
        for ((broker, peer), (sum, kinds)) in pairs {
            write!(f, "\n  {broker} -> {peer}  {sum}  ({})", kinds.join(", "))?;
        }
        Ok(())
    }
}

fn flatten(name: &str, value: &serde_json::Value, into: &mut BTreeMap<String, u64>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (field, value) in fields {
                let name = if name.is_empty() { field.clone() } else { format!("{name}.{field}") };
                flatten(&name, value, into);
            }
        }
        other => {
            if let Some(number) = other.as_u64() {
                into.insert(name.to_owned(), number);
            }
        }
    }
}

fn label(line: &str, name: &str) -> String {
    let value = line.split_once(&format!("{name}=\"")).and_then(|(_, rest)| rest.split_once('"'));
    value.map_or("-", |(value, _)| value).to_owned()
}

/// HTTP/1.0, so that the answer ends with the connection.
fn get(address: &str, path: &str) -> Result<String> {
    let mut answer = String::new();
    let mut stream = TcpStream::connect(address).with_context(|| format!("connecting to {address}"))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    stream.read_to_string(&mut answer).with_context(|| format!("reading {address}{path}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer without a head")?;
    if head.split(' ').nth(1) != Some("200") {
        bail!("{address}{path}: {}", head.lines().next().unwrap_or_default());
    }
    Ok(body.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_every_counter_and_subtracts_what_was_there() {
        let line = r#"milepost_peer_bytes_sent_total{peer="2",kind="raft"} 1.5e3"#;
        assert_eq!((label(line, "peer"), label(line, "kind")), ("2".to_owned(), "raft".to_owned()));
        let reading = |bytes| Reading {
            peers: BTreeMap::from([(("1".into(), "2".into(), "raft".into()), bytes)]),
            store: BTreeMap::new(),
        };
        assert_eq!(Bill::between(&reading(100), &reading(1500)).crossing_bytes(), 1400);
        // A broker that was started again counts from zero.
        assert_eq!(Bill::between(&reading(100), &reading(30)).crossing_bytes(), 0);
    }

    #[test]
    fn names_nested_counters_with_dots() {
        let mut flat = BTreeMap::new();
        flatten("", &serde_json::json!({"put": {"requests": 3}, "bytes": 9, "bucket": "b"}), &mut flat);
        assert_eq!(flat, BTreeMap::from([("put.requests".to_owned(), 3), ("bytes".to_owned(), 9)]));
    }
}
