//! An end-to-end load on a real cluster: three brokers in three zones over an S3 server, each a process of its own.
//!
//! ```text
//! $ cargo bench --bench load                      all of it, about ten minutes
//! $ cargo bench --bench load -- paced single      some of it: paced, throughput, single, transactional, partitions
//!       --runs N      runs of which the median is told [default: 3]
//!       --seconds N   how long paced load lasts, and idling [default: 10]
//!       --rate N      MB/s of paced load [default: 5]
//!       --binary PATH brokers of another build, to compare with
//!       --mb N        how much is written and read at full rate [default: 1000]
//! ```
//! Processor time is the operating system's account of each process, so what clients and the S3 server use is apart. On
//! loopback a sender pays for much of the receiver's work in the kernel. On a busy machine times grow and processor
//! seconds do so less: compare those, within one run.

mod cluster;
mod consumer;
mod figures;
mod frame;
mod producer;
#[path = "../../tests/s3/mod.rs"]
mod s3;
mod scenarios;
mod topics;
mod transactions;
mod usage;
mod wire;

use anyhow::{Context as _, Result, bail};
use tokio::signal::unix::{SignalKind, signal};

use crate::scenarios::Options;

const ALL: [&str; 5] = ["paced", "throughput", "single", "transactional", "partitions"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [command, latency_ms] = &arguments[..]
        && command == cluster::STORE_COMMAND
    {
        return cluster::serve_store(latency_ms).await;
    }
    let (options, wanted) = parse(arguments)?;
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    // Whoever stops us stops the processes we started, too.
    tokio::select! {
        done = run(&options, wanted) => done,
        _ = terminate.recv() => bail!("terminated"),
        _ = interrupt.recv() => bail!("interrupted"),
    }
}

async fn run(options: &Options, wanted: Vec<String>) -> Result<()> {
    for scenario in wanted {
        match scenario.as_str() {
            "paced" => scenarios::paced(options).await,
            "throughput" => scenarios::throughput(options).await,
            "single" => scenarios::single(options).await,
            "transactional" => scenarios::transactional(options).await,
            "partitions" => scenarios::partitions(options).await,
            other => bail!("no scenario is called {other}; there are {ALL:?}"),
        }
        .with_context(|| format!("scenario {scenario}"))?;
    }
    Ok(())
}

fn parse(arguments: Vec<String>) -> Result<(Options, Vec<String>)> {
    let binary = env!("CARGO_BIN_EXE_milepost").to_owned();
    let mut options = Options { binary, runs: 3, seconds: 10, rate: 5_000_000, bytes: 1_000_000_000 };
    let mut wanted = Vec::new();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let mut next = || arguments.next().context("a value is missing");
        match argument.as_str() {
            "--runs" => options.runs = next()?.parse::<usize>()?.max(1),
            "--seconds" => options.seconds = next()?.parse::<u64>()?.max(1),
            "--mb" => options.bytes = next()?.parse::<u64>()? * 1_000_000,
            "--rate" => options.rate = next()?.parse::<u64>()?.max(1) * 1_000_000,
            "--binary" => options.binary = next()?,
            // cargo says this to every bench.
            "--bench" => {}
            other => wanted.push(other.to_owned()),
        }
    }
    if wanted.is_empty() {
        wanted = ALL.map(str::to_owned).to_vec();
    }
    Ok((options, wanted))
}
