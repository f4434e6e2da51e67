//! Zones as network namespaces, and what crossed between them, counted by the kernel.
//!
//! ```text
//!   az1 ──cross──┐            each zone's `cross` ends in one bridge: 10.77.0.1, .2, .3
//!   az2 ──cross──┤ bridge
//!   az3 ──cross──┘
//!   az1 ──store── store       each zone has a link of its own to the store, 10.78.0.1
//! ```
//! - **Promises**: a byte that leaves a zone for another zone leaves through `cross`, and nothing else does. The bytes
//!   across zones are the sum of what the zones' `cross` interfaces *sent*: each byte once, where it leaves, with its
//!   Ethernet, IP and TCP headers. (It is received once more at the other end; that is no other byte.)
//! - Namespaces carry the process id of the run, and go with the value. What a killed run left is swept by the next.
//! - **Needs**: root and iproute2.
//!
//! # Decisions
//! **Bytes across zones are counted by the kernel, where they leave.** The harness (`benches/cross_zone`) gives each
//! zone a namespace with one link to the other zones and another to the store; what the zones' links sent is what
//! crossed, each byte once, with Ethernet, IP and TCP headers. Counting on both ends would double it, our own metrics
//! would forget headers (at rest, nine tenths of all bytes). Links take one segment per packet: a bundle of them
//! would be counted with one header. The kinds come from the system's metrics, or, for Kafka, from the kernel's
//! account of each socket by port.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::process;

pub const ZONES: usize = 3;
pub const STORE_ADDRESS: &str = "10.78.0.1";
const PREFIX: &str = "milepost-zones-";
/// Jumbo frames, as between zones of a cloud: headers weigh least, for bulk traffic in particular.
const MTU: &str = "9001";

/// A zone, counted from 0; its name counts from 1.
pub type Zone = usize;

pub fn zone_name(zone: Zone) -> String {
    format!("az{}", zone + 1)
}

pub fn address(zone: Zone) -> String {
    format!("10.77.0.{}", zone + 1)
}

pub struct Ground {
    /// Begins the name of every namespace.
    prefix: String,
}

/// What one zone's link to the others carried since the run began.
#[derive(Clone, Copy, Debug, Default)]
pub struct Link {
    pub sent_bytes: u64,
    pub sent_packets: u64,
}

impl Ground {
    pub fn new() -> Result<Ground> {
        sweep()?;
        let ground = Ground { prefix: format!("{PREFIX}{}-", std::process::id()) };
        for name in ground.namespaces() {
            ip(&["netns", "add", &name])?;
            ip(&["-n", &name, "link", "set", "lo", "up"])?;
        }
        let (bridge, store) = (ground.named("bridge"), ground.store());
        ip(&["-n", &bridge, "link", "add", "bridge", "type", "bridge", "mcast_snooping", "0"])?;
        ip(&["-n", &bridge, "link", "set", "bridge", "up", "addrgenmode", "none"])?;
        ip(&["-n", &store, "address", "add", &format!("{STORE_ADDRESS}/32"), "dev", "lo"])?;
        for zone in 0..ZONES {
            let (name, here) = (zone_name(zone), ground.zone(zone));
            link(&here, "cross", &bridge, &name)?;
            ip(&["-n", &bridge, "link", "set", &name, "master", "bridge"])?;
            ip(&["-n", &here, "address", "add", &format!("{}/24", address(zone)), "dev", "cross"])?;
            link(&here, "store", &store, &name)?;
            let near = format!("{}/24", Ground::store_side_address(zone));
            let far = format!("10.78.{}.1", zone + 1);
            ip(&["-n", &here, "address", "add", &near, "dev", "store"])?;
            ip(&["-n", &store, "address", "add", &format!("{far}/24"), "dev", &name])?;
            ip(&["-n", &here, "route", "add", STORE_ADDRESS, "via", &far])?;
        }
        Ok(ground)
    }

    pub fn zone(&self, zone: Zone) -> String {
        self.named(&zone_name(zone))
    }

    pub fn store(&self) -> String {
        self.named("store")
    }

    /// From where a zone reaches the store, as the store sees it.
    pub fn store_side_address(zone: Zone) -> String {
        format!("10.78.{}.2", zone + 1)
    }

    fn named(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn namespaces(&self) -> Vec<String> {
        let zones = (0..ZONES).map(|zone| self.zone(zone));
        zones.chain([self.store(), self.named("bridge")]).collect()
    }

    /// What each zone sent to the others.
    pub fn links(&self) -> Result<Vec<Link>> {
        (0..ZONES).map(|zone| sent(&self.zone(zone), "cross")).collect()
    }

    pub fn cross_bytes(&self) -> Result<u64> {
        Ok(self.links()?.iter().map(|link| link.sent_bytes).sum())
    }

    /// Runs this program again inside a namespace, to ask something over HTTP there: no byte of ours crosses.
    pub fn http_get(&self, namespace: &str, url: &str) -> Result<String> {
        let output =
            process::command(namespace, std::env::current_exe()?).args([process::GET_COMMAND, url]).output()?;
        ensure!(output.status.success(), "{url}: {}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(String::from_utf8(output.stdout)?)
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        for name in self.namespaces() {
            remove(&name);
        }
    }
}

fn link(near: &str, near_name: &str, far: &str, far_name: &str) -> Result<()> {
    ip(&["link", "add", near_name, "netns", near, "type", "veth", "peer", "name", far_name, "netns", far])?;
    for (namespace, name) in [(near, near_name), (far, far_name)] {
        // One packet for each segment: a packet that is cut later would be counted with one header instead of many.
        // No IPv6 addresses: their neighbour discovery is no traffic of any system.
        ip(&["-n", namespace, "link", "set", name, "mtu", MTU, "gso_max_segs", "1", "addrgenmode", "none"])?;
        ip(&["-n", namespace, "link", "set", name, "up"])?;
    }
    Ok(())
}

fn sent(namespace: &str, interface: &str) -> Result<Link> {
    let told = ip(&["-n", namespace, "-s", "-j", "link", "show", "dev", interface])?;
    let told: serde_json::Value = serde_json::from_str(&told)?;
    let count = |name| told[0]["stats64"]["tx"][name].as_u64().context("no counters in what ip says");
    Ok(Link { sent_bytes: count("bytes")?, sent_packets: count("packets")? })
}

/// A folder for a system's data. It goes with the value, or with what a killed run left.
pub fn folder() -> Result<tempfile::TempDir> {
    Ok(tempfile::Builder::new().prefix(&format!("{PREFIX}{}-", std::process::id())).tempdir()?)
}

/// Removes what runs that are gone have left: processes, namespaces, data.
fn sweep() -> Result<()> {
    let namespaces = ip(&["netns", "list"])?;
    let names = namespaces.lines().filter_map(|line| line.split_whitespace().next());
    for name in names.filter(|name| is_left(name)) {
        println!("removing {name}, left by a run that is gone");
        remove(name);
    }
    for entry in fs::read_dir(std::env::temp_dir())?.filter_map(Result::ok) {
        if entry.file_name().to_str().is_some_and(is_left) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// Named by a run that does not run any more.
fn is_left(name: &str) -> bool {
    let Some(run) = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()) else { return false };
    // The id of a dead run may belong to another program by now.
    !fs::read_to_string(format!("/proc/{run}/cmdline")).unwrap_or_default().contains("cross_zone")
}

fn remove(name: &str) {
    for pid in ip(&["netns", "pids", name]).unwrap_or_default().split_whitespace() {
        let _ = Command::new("kill").args(["-9", pid]).status();
    }
    if let Err(error) = ip(&["netns", "delete", name]) {
        eprintln!("{error:#}");
    }
}

pub fn ip(arguments: &[&str]) -> Result<String> {
    let output = Command::new("ip").args(arguments).output().context("iproute2 is needed")?;
    if !output.status.success() {
        bail!("ip {}: {} (root is needed)", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}
