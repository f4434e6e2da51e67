//! Milepost: brokers over one S3 server, which stands in a namespace of its own.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result};
use async_trait::async_trait;

use crate::ground::{self, Ground, ZONES, Zone, address, zone_name};
use crate::load;
use crate::process::{self, Owned};
use crate::store::{self, Requests, Store};
use crate::suite::Which;
use crate::system::{BytesByKind, Role, System};

const CLIENT_PORT: u16 = 9100;
const INTERNAL_PORT: u16 = 9200;
const METRICS_PORT: u16 = 9300;

#[derive(Clone, Debug)]
pub struct Settings {
    pub brokers_per_zone: usize,
    pub puts_per_second: Option<f64>,
    pub puts_burst: Option<u32>,
    pub object_bytes: Option<u64>,
    /// Added by the store to each request.
    pub store_latency: Duration,
}

pub struct Milepost {
    binary: PathBuf,
    clients: PathBuf,
    settings: Settings,
    data: tempfile::TempDir,
    /// Emptied brokers so far: each gets another directory.
    replaced: usize,
    // Brokers go before the store does.
    brokers: Vec<Owned>,
    store: Option<Store>,
}

impl Milepost {
    pub fn new(binary: PathBuf, clients: PathBuf, settings: Settings) -> Result<Milepost> {
        let data = ground::folder()?;
        Ok(Milepost { binary, clients, settings, data, replaced: 0, brokers: Vec::new(), store: None })
    }

    fn count(&self) -> usize {
        ZONES * self.settings.brokers_per_zone
    }

    fn zone_of(&self, broker: usize) -> Zone {
        broker % ZONES
    }

    fn launch(&self, ground: &Ground, broker: usize) -> Result<Owned> {
        let zone = self.zone_of(broker);
        let url = self.store.as_ref().context("the store runs before the brokers do")?.url();
        let at = |port: u16, broker: usize| format!("{}:{}", address(self.zone_of(broker)), port + broker as u16);
        let seeds: Vec<String> = (0..self.count()).map(|broker| at(INTERNAL_PORT, broker)).collect();
        let name = format!("broker-{}-{}", broker + 1, self.replaced);
        let mut command = process::command(&ground.zone(zone), &self.binary);
        command.args(["serve", "--broker-id", &(broker + 1).to_string(), "--zone", &zone_name(zone)]);
        command.args(["--listen", &at(CLIENT_PORT, broker), "--internal-listen", &at(INTERNAL_PORT, broker)]);
        command.args(["--seeds", &seeds.join(","), "--metrics-listen", &metrics_address(broker)]);
        command.args(["--store", &format!("s3://{}/zones?endpoint={url}&region=us-east-1", store::BUCKET)]);
        command.arg("--data-dir").arg(self.data.path().join(&name));
        if let Some(puts) = self.settings.puts_per_second {
            command.args(["--puts-per-second", &puts.to_string()]);
        }
        if let Some(burst) = self.settings.puts_burst {
            command.args(["--puts-burst", &burst.to_string()]);
        }
        if let Some(bytes) = self.settings.object_bytes {
            command.args(["--object-bytes", &bytes.to_string()]);
        }
        command.env("AWS_ACCESS_KEY_ID", store::ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", store::SECRET_KEY);
        let log = fs::File::create(self.data.path().join(format!("{name}.log")))?;
        command.stdout(log.try_clone()?).stderr(log).stdin(Stdio::null());
        Owned::spawn(command)
    }

    fn metrics(&self, ground: &Ground, broker: usize) -> Result<String> {
        ground.http_get(&ground.zone(self.zone_of(broker)), &format!("http://{}/metrics", metrics_address(broker)))
    }

    /// Of a counter, over all brokers.
    fn sum(&self, ground: &Ground, counter: &str) -> Result<u64> {
        let mut sum = 0;
        for broker in 0..self.count() {
            let text = self.metrics(ground, broker)?;
            let samples = text.lines().filter_map(|line| Sample::parse(line, counter));
            sum += samples.map(|sample| sample.value).sum::<u64>();
        }
        Ok(sum)
    }

    async fn wait_ready(&self, ground: &Ground) -> Result<()> {
        for broker in 0..self.count() {
            let bootstrap = format!("{}:{}", address(self.zone_of(broker)), CLIENT_PORT + broker as u16);
            load::wait_brokers(&self.clients, ground, self.zone_of(broker), &bootstrap, self.count()).await?;
        }
        Ok(())
    }
}

#[async_trait(?Send)]
impl System for Milepost {
    fn name(&self) -> String {
        Which::Milepost.name().to_owned()
    }

    async fn start(&mut self, ground: &Ground) -> Result<()> {
        self.store = Some(Store::start(ground, self.settings.store_latency)?);
        for broker in 0..self.count() {
            self.brokers.push(self.launch(ground, broker)?);
        }
        self.wait_ready(ground).await
    }

    fn bootstrap(&self, zone: Zone, _: Role) -> String {
        let here = (0..self.count()).filter(|broker| self.zone_of(*broker) == zone);
        let hosts: Vec<String> = here.map(|b| format!("{}:{}", address(zone), CLIENT_PORT + b as u16)).collect();
        hosts.join(",")
    }

    fn pids(&self) -> Vec<u32> {
        self.brokers.iter().map(Owned::pid).collect()
    }

    fn bytes_by_kind(&self, ground: &Ground) -> Result<BytesByKind> {
        let mut bytes = BytesByKind::new();
        for broker in 0..self.count() {
            let zone = self.zone_of(broker);
            for line in self.metrics(ground, broker)?.lines() {
                let Some(sample) = Sample::parse(line, "milepost_peer_bytes_sent_total") else { continue };
                if sample.label("zone") != Some(&zone_name(zone)) {
                    let kind = sample.label("kind").unwrap_or("unknown").to_owned();
                    *bytes.entry(kind).or_default() += sample.value;
                }
            }
        }
        Ok(bytes)
    }

    fn batches(&self, ground: &Ground) -> Result<Option<u64>> {
        self.sum(ground, "milepost_upload_batches_total").map(Some)
    }

    fn get_hedges(&self, ground: &Ground) -> Result<u64> {
        self.sum(ground, "milepost_get_hedges_sent_total")
    }

    fn store_requests(&self, ground: &Ground) -> Result<Vec<Requests>> {
        self.store.as_ref().map_or_else(|| Ok(Vec::new()), |store| store.requests(ground))
    }

    async fn replace_broker(&mut self, ground: &Ground, zone: Zone) -> Result<()> {
        self.replaced += 1;
        // The old one has to end before the new one can have its addresses.
        drop(self.brokers.remove(zone));
        let fresh = self.launch(ground, zone)?;
        self.brokers.insert(zone, fresh);
        Ok(())
    }
}

fn metrics_address(broker: usize) -> String {
    format!("127.0.0.1:{}", METRICS_PORT + broker as u16)
}

/// A line of the Prometheus text format.
struct Sample<'a> {
    labels: &'a str,
    value: u64,
}

impl<'a> Sample<'a> {
    fn parse(line: &'a str, name: &str) -> Option<Sample<'a>> {
        let (labels, value) = line.strip_prefix(name)?.rsplit_once(' ')?;
        let labels = labels.trim_start_matches('{').trim_end_matches('}');
        Some(Sample { labels, value: value.trim().parse::<f64>().ok()? as u64 })
    }

    /// Labels of ours hold no commas.
    fn label(&self, name: &str) -> Option<&'a str> {
        let mut pairs = self.labels.split(',').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value.trim_matches('"'))
    }
}
