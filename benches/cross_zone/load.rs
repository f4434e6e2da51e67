//! The stock clients: one process of `zone-load` (tests/clients/rdkafka) in each zone, told what to do by lines.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::ground::{Ground, Zone, zone_name};
use crate::process::{self, Owned};

const READY_MAX: Duration = Duration::from_secs(120);
const ANSWER_MAX: Duration = Duration::from_secs(120);

pub const VALUE_BYTES: u32 = 1000;

/// What the clients of a zone do.
#[derive(Clone, Debug)]
pub struct Plan {
    pub topic: String,
    pub partitions: u32,
    /// Of record values, from the zone's one producer.
    pub bytes_per_second: u64,
    pub linger_ms: u32,
    /// What each reader of the zone reads.
    pub read: Read,
    pub readers: u32,
    pub from_beginning: bool,
}

#[derive(Clone, Debug)]
pub enum Read {
    Partitions(Vec<u32>),
    /// The share that its group gives it: one member in each zone.
    OfGroup,
}

pub struct Clients {
    _process: Owned,
    orders: ChildStdin,
    answers: mpsc::Receiver<String>,
}

/// What one zone's clients saw since they began, or between two marks.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Seen {
    pub sent_records: u64,
    pub acked_records: u64,
    pub acked_bytes: u64,
    pub failed_records: u64,
    pub read_records: u64,
    pub read_bytes: u64,
    pub ack_us: Times,
    pub end_to_end_us: Times,
    pub errors: BTreeMap<String, u64>,
}

/// A histogram: microseconds and how many took up to that.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Vec<(u64, u64)>")]
pub struct Times(BTreeMap<u64, u64>);

/// The program, built when its sources are newer.
pub fn build() -> Result<PathBuf> {
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    let script = ". ./build.sh && build_rdkafka_cases && echo \"$RDKAFKA_ZONE_LOAD\"";
    let output = Command::new("bash").args(["-c", script]).current_dir(clients).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "the clients do not build");
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

/// Creates a topic from inside `zone`.
pub async fn create_topic(program: &Path, ground: &Ground, zone: Zone, bootstrap: &str, plan: &Plan) -> Result<()> {
    let mut command = process::command(&ground.zone(zone), program);
    command.args(["create", "--bootstrap", bootstrap, "--topic", &plan.topic]);
    command.args(["--partitions", &plan.partitions.to_string()]);
    Owned::spawn(command)?.finish().await.context("the topic could not be created")
}

/// Waits until the broker behind `bootstrap` names so many brokers.
pub async fn wait_brokers(program: &Path, ground: &Ground, zone: Zone, bootstrap: &str, brokers: usize) -> Result<()> {
    let mut command = process::command(&ground.zone(zone), program);
    command.args(["wait", "--bootstrap", bootstrap, "--brokers", &brokers.to_string()]);
    Owned::spawn(command)?.finish().await.with_context(|| format!("{bootstrap} does not name {brokers} brokers"))
}

impl Clients {
    /// Starts the clients of a zone and waits until they say so.
    pub async fn start(
        program: &Path,
        ground: &Ground,
        zone: Zone,
        (bootstrap, consumer_bootstrap): (&str, &str),
        plan: &Plan,
    ) -> Result<Clients> {
        let mut command = process::command(&ground.zone(zone), program);
        command.args(["run", "--bootstrap", bootstrap, "--consumer-bootstrap", consumer_bootstrap]);
        command.args(["--zone", &zone_name(zone), "--topic", &plan.topic]);
        match &plan.read {
            Read::Partitions(partitions) => {
                let partitions: Vec<String> = partitions.iter().map(u32::to_string).collect();
                command.args(["--read", &partitions.join(",")]);
            }
            Read::OfGroup => {
                command.args(["--group", &plan.topic]);
            }
        }
        let numbers = [
            ("--partitions", u64::from(plan.partitions)),
            ("--bytes-per-second", plan.bytes_per_second),
            ("--value-bytes", u64::from(VALUE_BYTES)),
            ("--linger-ms", u64::from(plan.linger_ms)),
            ("--readers", u64::from(plan.readers)),
        ];
        for (name, number) in numbers {
            command.args([name, &number.to_string()]);
        }
        command.args(["--from", if plan.from_beginning { "beginning" } else { "end" }]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Owned::spawn(command)?;
        let orders = process.child().stdin.take().context("no input")?;
        let output = BufReader::new(process.child().stdout.take().context("no output")?);
        let (tell, answers) = mpsc::channel(4);
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if tell.blocking_send(line).is_err() {
                    return;
                }
            }
        });
        let mut clients = Clients { _process: process, orders, answers };
        let ready = clients.answer(READY_MAX).await?;
        ensure!(ready == "ready", "the clients said {ready}");
        Ok(clients)
    }

    pub fn begin(&mut self) -> Result<()> {
        self.order("begin")
    }

    /// What was seen up to now.
    pub async fn mark(&mut self) -> Result<Seen> {
        self.order("mark")?;
        Ok(serde_json::from_str(&self.answer(ANSWER_MAX).await?)?)
    }

    /// Stops the producer; returns when the fate of every record is known.
    pub async fn halt(&mut self) -> Result<Seen> {
        self.order("halt")?;
        Ok(serde_json::from_str(&self.answer(ANSWER_MAX).await?)?)
    }

    fn order(&mut self, word: &str) -> Result<()> {
        writeln!(self.orders, "{word}").context("the clients are gone")
    }

    async fn answer(&mut self, time: Duration) -> Result<String> {
        let answer = tokio::time::timeout(time, self.answers.recv()).await;
        answer.with_context(|| format!("the clients say nothing for {time:?}"))?.context("the clients are gone")
    }
}

impl Seen {
    pub fn since(mut self, before: &Seen) -> Seen {
        self.sent_records -= before.sent_records;
        self.acked_records -= before.acked_records;
        self.acked_bytes -= before.acked_bytes;
        self.failed_records -= before.failed_records;
        self.read_records -= before.read_records;
        self.read_bytes -= before.read_bytes;
        self.ack_us.subtract(&before.ack_us);
        self.end_to_end_us.subtract(&before.end_to_end_us);
        self.errors.iter_mut().for_each(|(error, count)| *count -= before.errors.get(error).unwrap_or(&0));
        self
    }

    pub fn add(&mut self, other: &Seen) {
        self.sent_records += other.sent_records;
        self.acked_records += other.acked_records;
        self.acked_bytes += other.acked_bytes;
        self.failed_records += other.failed_records;
        self.read_records += other.read_records;
        self.read_bytes += other.read_bytes;
        self.ack_us.add(&other.ack_us);
        self.end_to_end_us.add(&other.end_to_end_us);
        for (error, count) in &other.errors {
            *self.errors.entry(error.clone()).or_default() += count;
        }
    }
}

impl From<Vec<(u64, u64)>> for Times {
    fn from(buckets: Vec<(u64, u64)>) -> Times {
        let mut times = Times::default();
        for (up_to, count) in buckets {
            *times.0.entry(up_to).or_default() += count;
        }
        times
    }
}

impl Times {
    /// In milliseconds, what `share` of them do not exceed; none where there are none.
    pub fn ms(&self, share: f64) -> Option<f64> {
        let wanted = (self.0.values().sum::<u64>() as f64 * share).ceil().max(1.0) as u64;
        let mut passed = 0;
        let reached = self.0.iter().find(|(_, count)| {
            passed += **count;
            passed >= wanted
        });
        reached.map(|(up_to_us, _)| *up_to_us as f64 / 1e3)
    }

    fn add(&mut self, other: &Times) {
        other.0.iter().for_each(|(up_to, count)| *self.0.entry(*up_to).or_default() += count);
    }

    fn subtract(&mut self, before: &Times) {
        before.0.iter().for_each(|(up_to, count)| *self.0.entry(*up_to).or_default() -= count);
        self.0.retain(|_, count| *count > 0);
    }
}
