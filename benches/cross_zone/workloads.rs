//! What is done to a system, and the row that comes of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::ground::{Ground, ZONES};
use crate::load::{self, Clients, Plan};
use crate::measure::{Snapshot, Window};
use crate::milepost::Settings;
use crate::system::{Role, System};

/// After the topic is made, until its making is over.
const SETTLE: Duration = Duration::from_secs(5);
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// Clients of every zone write and read at a steady rate.
#[derive(Clone)]
pub struct Steady {
    pub name: &'static str,
    pub partitions: u32,
    /// Of each zone's producer.
    pub bytes_per_second: u64,
    pub linger_ms: u32,
    /// Of each zone, all reading the same third of the partitions.
    pub readers: u32,
    /// How Milepost is set: others have no such settings.
    pub settings: Settings,
}

#[derive(Clone, Copy)]
pub struct Times {
    pub idle: Duration,
    pub warm: Duration,
    pub measured: Duration,
}

/// What a run needs besides the system.
pub struct Run<'a> {
    pub ground: &'a Ground,
    pub clients: PathBuf,
    pub times: Times,
}

pub struct Measured {
    pub idle: Window,
    pub load: Window,
}

impl Steady {
    pub fn plan(&self, zone: usize) -> Plan {
        Plan {
            topic: "zones".to_owned(),
            partitions: self.partitions,
            bytes_per_second: self.bytes_per_second,
            value_bytes: 1000,
            linger_ms: self.linger_ms,
            read: (0..self.partitions).filter(|partition| *partition as usize % ZONES == zone).collect(),
            readers: self.readers,
            from_beginning: false,
        }
    }

    pub async fn run(&self, run: &Run<'_>, system: &mut dyn System) -> Result<Measured> {
        let ground = run.ground;
        say(&system.name(), self.name, "starting");
        system.start(ground).await.context("starting")?;
        load::create_topic(&run.clients, ground, 0, &system.bootstrap(0, Role::Producer), &self.plan(0))?;
        tokio::time::sleep(SETTLE).await;
        let before = Snapshot::take(ground, system, &mut []).await?;
        wait(run.times.idle, &system.name(), self.name, "idle").await;
        let idle = Snapshot::take(ground, system, &mut []).await?.since(before);

        let mut clients = start_clients(&run.clients, ground, system, |zone| self.plan(zone)).await?;
        clients.iter_mut().try_for_each(Clients::begin)?;
        wait(run.times.warm, &system.name(), self.name, "warming up").await;
        let before = Snapshot::take(ground, system, &mut clients).await?;
        wait(run.times.measured, &system.name(), self.name, "measured").await;
        let load = Snapshot::take(ground, system, &mut clients).await?.since(before);
        Ok(Measured { idle, load })
    }
}

pub async fn start_clients(
    program: &Path,
    ground: &Ground,
    system: &dyn System,
    plan: impl Fn(usize) -> Plan,
) -> Result<Vec<Clients>> {
    let mut clients = Vec::with_capacity(ZONES);
    for zone in 0..ZONES {
        let (write, read) = (system.bootstrap(zone, Role::Producer), system.bootstrap(zone, Role::Consumer));
        clients.push(Clients::start(program, ground, zone, (&write, &read), &plan(zone)).await?);
    }
    Ok(clients)
}

/// Waits and says so now and then.
pub async fn wait(time: Duration, system: &str, workload: &str, what: &str) {
    let mut left = time;
    while !left.is_zero() {
        say(system, workload, &format!("{what}, {} s to go", left.as_secs()));
        let step = left.min(PROGRESS_EVERY);
        tokio::time::sleep(step).await;
        left -= step;
    }
}

pub fn say(system: &str, workload: &str, what: &str) {
    eprintln!("  {system} ({workload}): {what}");
}
