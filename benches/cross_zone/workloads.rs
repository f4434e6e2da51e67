//! What is done to a system, and the rows that come of it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::ground::{Ground, ZONES, Zone};
use crate::load::{self, Clients, Plan, Read, Seen};
use crate::measure::{Snapshot, Window};
use crate::report::Row;
use crate::system::{Role, System};

/// After the topic is made, until its making is over.
const SETTLE: Duration = Duration::from_secs(5);
const PROGRESS_EVERY: Duration = Duration::from_secs(10);
const CATCH_UP_MAX: Duration = Duration::from_secs(180);
/// Where the catching up reader is, and the broker that is replaced.
const LATE_ZONE: Zone = 1;
const REPLACED_ZONE: Zone = 2;
const SERVING_MAX: Duration = Duration::from_secs(120);
/// A replaced broker is let be until less than this crosses in each step, or for `REFILL_MAX`.
const REFILL_STEP: Duration = Duration::from_secs(3);
const REFILL_MAX: Duration = Duration::from_secs(180);
const REFILLED_BYTES_PER_S: f64 = 100_000.0;

/// Clients of every zone write and read at a steady rate.
#[derive(Clone, Debug)]
pub struct Workload {
    pub name: String,
    pub partitions: u32,
    /// Of each zone's producer.
    pub bytes_per_second: u64,
    pub linger_ms: u32,
    /// Of each zone, each in a group with one reader of each other zone.
    pub readers: u32,
    /// Then a reader in another zone catches up, and a broker is replaced.
    pub and_later: bool,
}

#[derive(Clone, Copy)]
pub struct Times {
    pub idle: Duration,
    pub warm: Duration,
    pub measured: Duration,
}

/// One workload on one system.
pub struct Run<'a> {
    pub ground: &'a Ground,
    pub clients: PathBuf,
    pub times: Times,
    pub workload: Workload,
    pub system: Box<dyn System>,
}

impl Run<'_> {
    pub async fn rows(mut self) -> Result<Vec<Row>> {
        let (system, workload) = (self.system.name(), self.workload.name.clone());
        self.say("starting");
        self.system.start(self.ground).await.context("starting")?;
        let bootstrap = self.system.bootstrap(0, Role::Producer);
        load::create_topic(&self.clients, self.ground, 0, &bootstrap, &self.plan()).await?;
        tokio::time::sleep(SETTLE).await;
        let before = self.snapshot(&mut []).await?;
        self.wait(self.times.idle, "idle").await;
        let idle = self.snapshot(&mut []).await?.since(before);

        let mut clients = self.start_clients().await?;
        let (begun, hedged) = (self.system.store_requests(self.ground)?, self.system.get_hedges(self.ground)?);
        clients.iter_mut().try_for_each(Clients::begin)?;
        self.wait(self.times.warm, "warming up").await;
        let before = self.snapshot(&mut clients).await?;
        self.wait(self.times.measured, "measured").await;
        let mut load = self.snapshot(&mut clients).await?.since(before);
        let now = self.system.store_requests(self.ground)?;
        load.requests_since_begin = now.into_iter().zip(begun).map(|(now, then)| now.since(then)).collect();
        load.get_hedges_since_begin = self.system.get_hedges(self.ground)? - hedged;
        let mut rows = vec![Row::new(&system, &workload, &idle, &load, load.all_seen().acked_bytes)];
        if self.workload.and_later {
            let mut written = Seen::default();
            for zone in &mut clients {
                written.add(&zone.halt().await?);
            }
            drop(clients);
            rows.push(self.catch_up(&idle, written.acked_bytes).await?);
            rows.push(self.replace(&idle).await?);
        }
        Ok(rows)
    }

    /// (e): everything is read again from the beginning, in one zone.
    async fn catch_up(&mut self, idle: &Window, written: u64) -> Result<Row> {
        self.say("a reader catches up");
        let plan = self.late_plan((0..self.workload.partitions).collect());
        let before = self.snapshot(&mut []).await?;
        let mut clients = self.start_in(LATE_ZONE, &plan).await?;
        let started = Instant::now();
        let seen = loop {
            let seen = clients.mark().await?;
            if seen.read_bytes >= written {
                break seen;
            }
            ensure!(started.elapsed() < CATCH_UP_MAX, "{} of {written} bytes were read", seen.read_bytes);
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        let mut load = self.snapshot(&mut []).await?.since(before);
        let read = seen.read_bytes;
        // How late a record from long ago is says nothing.
        load.seen.clear();
        Ok(Row::new(&self.system.name(), "e: catch-up", idle, &load, read))
    }

    /// (f): a broker is replaced by an empty one.
    async fn replace(&mut self, idle: &Window) -> Result<Row> {
        self.say("a broker is replaced");
        let third = (0..self.workload.partitions).filter(|partition| *partition as usize % ZONES == REPLACED_ZONE);
        let plan = self.late_plan(third.collect());
        let (cross_before, started) = (self.ground.links()?, Instant::now());
        self.system.replace_broker(self.ground, REPLACED_ZONE).await?;
        let bootstrap = self.system.bootstrap(REPLACED_ZONE, Role::Producer);
        load::wait_brokers(&self.clients, self.ground, REPLACED_ZONE, &bootstrap, ZONES).await?;
        let mut clients = self.start_in(REPLACED_ZONE, &plan).await?;
        while clients.mark().await?.read_records == 0 {
            ensure!(started.elapsed() < SERVING_MAX, "nothing is read after {SERVING_MAX:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let serving = started.elapsed();
        drop(clients);
        loop {
            let before = self.ground.cross_bytes()?;
            self.wait(REFILL_STEP, "the new broker is filled").await;
            let rate = (self.ground.cross_bytes()? - before) as f64 / REFILL_STEP.as_secs_f64();
            if rate < REFILLED_BYTES_PER_S || started.elapsed() > REFILL_MAX {
                break;
            }
        }
        let load = Window::of_links(&cross_before, &self.ground.links()?, started.elapsed());
        let row = Row::new(&self.system.name(), "f: replaced broker", idle, &load, 0);
        Ok(Row { serving_after_s: Some(serving.as_secs_f64()), ..row })
    }

    fn plan(&self) -> Plan {
        let workload = &self.workload;
        Plan {
            topic: "zones".to_owned(),
            partitions: workload.partitions,
            bytes_per_second: workload.bytes_per_second,
            linger_ms: workload.linger_ms,
            read: Read::OfGroup,
            readers: workload.readers,
            from_beginning: false,
        }
    }

    /// Reads only, from the beginning.
    fn late_plan(&self, partitions: Vec<u32>) -> Plan {
        let read = Read::Partitions(partitions);
        Plan { bytes_per_second: 0, readers: 1, from_beginning: true, read, ..self.plan() }
    }

    /// At once: a group is complete when its last member has come.
    async fn start_clients(&self) -> Result<Vec<Clients>> {
        let plan = self.plan();
        futures::future::try_join_all((0..ZONES).map(|zone| self.start_in(zone, &plan))).await
    }

    async fn start_in(&self, zone: Zone, plan: &Plan) -> Result<Clients> {
        let (write, read) = (self.system.bootstrap(zone, Role::Producer), self.system.bootstrap(zone, Role::Consumer));
        Clients::start(&self.clients, self.ground, zone, (&write, &read), plan).await
    }

    async fn snapshot(&self, clients: &mut [Clients]) -> Result<Snapshot> {
        Snapshot::take(self.ground, self.system.as_ref(), clients).await
    }

    /// Waits and says so now and then.
    async fn wait(&self, time: Duration, what: &str) {
        let mut left = time;
        while !left.is_zero() {
            self.say(&format!("{what}, {} s to go", left.as_secs()));
            let step = left.min(PROGRESS_EVERY);
            tokio::time::sleep(step).await;
            left -= step;
        }
    }

    fn say(&self, what: &str) {
        eprintln!("  {}, {}: {what}", self.system.name(), self.workload.name);
    }
}
