//! Bytes between zones, counted by the kernel: Milepost beside Apache Kafka, under the same clients, in one run.
//!
//! ```text
//! # cargo bench --bench cross_zone                     about half an hour; needs root, iproute2, Java and Maven
//! # cargo bench --bench cross_zone -- --quick          less than eight minutes, both systems
//!       --system NAME      milepost, kafka or kafka-follower-fetching alone
//!       --workload LETTER  of a, b, c and d; e and f follow a
//!       --seconds N        how long each workload is measured
//!       --rate N           MB/s of each zone's producer [default: 5]
//!       --latency-ms N     added by the object store to each request [default: 0]
//!       --binary PATH      Milepost's brokers of another build
//!       --chart FILE       where the chart goes too
//! ```
//! Each zone is a network namespace with one link to the other zones and another to the store (`ground.rs`). Clients
//! are librdkafka's (`tests/clients/rdkafka`, `zone-load`), the same for all systems: they name their zone in
//! `client.id` and `client.rack`, and write with `acks=all`. Writes `target/cross_zone/report.json` and `chart.svg`.
//!
//! | workload | partitions | clients of each zone |
//! |---|---|---|
//! | a | 16 | a producer to all of them, a consumer in a group with the other zones' |
//! | b | 100, objects of 300 KB | the same |
//! | c | 1,000 | the same |
//! | d | 16 | a producer, three consumers, each in such a group |
//! | e | after a | one zone reads all of it from the beginning |
//! | f | after e | a broker ends and loses its disk, an empty one comes |
//!
//! Another system is another file beside `kafka.rs` and a line in `suite.rs`.

mod aims;
mod chart;
mod ground;
mod kafka;
mod load;
mod measure;
mod milepost;
#[path = "../prices.rs"]
mod prices;
mod process;
mod report;
#[path = "../../tests/s3/mod.rs"]
mod s3;
mod sockets;
mod store;
mod suite;
mod system;
#[path = "../load/usage.rs"]
#[allow(dead_code)]
mod usage;
mod workloads;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::signal::unix::{SignalKind, signal};

use crate::ground::Ground;
use crate::prices::Prices;
use crate::workloads::{Run, Times};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [command, url] if command == process::GET_COMMAND => return process::http_get(url),
        [command, latency_ms] if command == store::COMMAND => return store::serve(latency_ms).await,
        _ => {}
    }
    let options = Options::parse(arguments)?;
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    // Whoever stops us stops what we started, too: it all goes with the future.
    tokio::select! {
        done = run(&options) => done,
        _ = terminate.recv() => bail!("terminated"),
        _ = interrupt.recv() => bail!("interrupted"),
    }
}

struct Options {
    is_quick: bool,
    system: Option<String>,
    workload: Option<String>,
    seconds: Option<u64>,
    rate: u64,
    latency: Duration,
    binary: PathBuf,
    chart: Option<PathBuf>,
}

impl Options {
    fn parse(arguments: Vec<String>) -> Result<Options> {
        let mut options = Options {
            is_quick: false,
            system: None,
            workload: None,
            seconds: None,
            rate: 5_000_000,
            latency: Duration::ZERO,
            binary: env!("CARGO_BIN_EXE_milepost").into(),
            chart: None,
        };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut next = || arguments.next().with_context(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--quick" => options.is_quick = true,
                "--system" => options.system = Some(next()?),
                "--workload" => options.workload = Some(next()?),
                "--seconds" => options.seconds = Some(next()?.parse::<u64>()?.max(1)),
                "--rate" => options.rate = next()?.parse::<u64>()?.max(1) * 1_000_000,
                "--latency-ms" => options.latency = Duration::from_millis(next()?.parse()?),
                "--binary" => options.binary = next()?.into(),
                "--chart" => options.chart = Some(next()?.into()),
                // cargo says this to every bench.
                "--bench" => {}
                other => bail!("unknown argument {other}"),
            }
        }
        Ok(options)
    }

    fn times(&self) -> Times {
        let times = suite::times(self.is_quick);
        Times { measured: self.seconds.map_or(times.measured, Duration::from_secs), ..times }
    }
}

async fn run(options: &Options) -> Result<()> {
    let (clients, prices, started) = (load::build()?, Prices::load()?, Instant::now());
    let mut rows = Vec::new();
    for item in suite::items(options.is_quick, options.rate, options.latency) {
        let is_wanted = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|wanted| name == wanted);
        let letter = item.workload.name.split(':').next().unwrap_or_default();
        if !is_wanted(&options.system, item.which.name()) || !is_wanted(&options.workload, letter) {
            continue;
        }
        // Nothing of one run reaches into the next, counters included.
        let ground = Ground::new()?;
        let run = Run {
            ground: &ground,
            clients: clients.clone(),
            times: options.times(),
            workload: item.workload.clone(),
            system: item.system(&options.binary, clients.clone())?,
        };
        let about = format!("{}, {}", item.which.name(), item.workload.name);
        for row in run.rows().await.context(about)? {
            rows.push(row.priced(&prices)?);
        }
        println!("\n{}", report::table(&rows));
    }
    ensure!(!rows.is_empty(), "no such system or workload");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/cross_zone");
    report::write(&folder.join("report.json"), &rows)?;
    let chart = chart::draw(&rows);
    std::fs::write(folder.join("chart.svg"), &chart)?;
    if let Some(path) = &options.chart {
        std::fs::write(path, &chart).with_context(|| path.display().to_string())?;
    }
    println!("{}", aims::told(&rows));
    println!("{} after {:.0} s", folder.join("report.json").display(), started.elapsed().as_secs_f64());
    Ok(())
}
