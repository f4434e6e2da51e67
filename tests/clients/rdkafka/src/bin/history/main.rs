//! Records what stock clients were told by a cluster, and finds what a log must never do in it.
//!
//! ```text
//! history run        --bootstrap HOSTS --history FILE [--zones az1,az2] [--seconds N] [--records-per-second N]
//! history check      --history FILE [--faults FILE]
//! history self-test  [--history FILE]
//! ```
//! `run` takes --life-seconds-min too: how long a client is kept at least (5 by default); and --transactions N (6 by
//! default): workers that write and read in transactions; with any, a member in every zone of a group that copies
//! exactly once, too.
//! `run` works with Apache Kafka as with Milepost; without --seconds it ends by SIGTERM or SIGINT.

mod check;
mod clean;
mod copier;
mod event;
mod lister;
mod mutants;
mod outcome;
mod random;
mod reader;
mod record;
mod recorder;
mod recovery;
mod scan;
mod sender;
mod transaction;
mod worker;
mod workload;
mod writer;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rdkafka_cases::args::Args;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("history: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let command = words.next().context("no command: run, check or self-test")?;
    let args = Args::parse(words)?;
    match command.as_str() {
        "run" => record(args).await,
        "check" => check(args),
        "self-test" => self_test(args),
        other => bail!("unknown command {other}"),
    }
}

async fn record(args: Args) -> Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (workload, time) = workload::Workload::from_args(args)?;
    workload
        .run(async move {
            let time = time.map_or(Duration::MAX, |time| time);
            tokio::select! {
                () = tokio::time::sleep(time) => {}
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        })
        .await
}

fn check(mut args: Args) -> Result<()> {
    let (path, faults) = (args.required("history")?, args.optional("faults", String::new())?);
    args.finish()?;
    let events = event::load(&path)?;
    let began = Instant::now();
    let report = check::check(&events);
    let count = &report.count;
    println!(
        "{} lines, {} ops of {} processes: {} values sent ({} acknowledged, {} unknown, {} refused), {} read, {} ends asked",
        events.len(),
        count.ops,
        count.processes,
        count.sent,
        count.acked,
        count.unknown,
        count.refused,
        count.read,
        count.samples
    );
    let transactions = |verdict| report.transactions.get(&verdict).copied().unwrap_or(0);
    let edges = &report.edges;
    println!(
        "{} transactions committed, {} failed, {} unknown: {} reads of each other, {} writes after each other, {} copies; \
         allowed: {} circles of writes, {} of reads and writes",
        transactions(check::Verdict::Committed),
        transactions(check::Verdict::Failed),
        transactions(check::Verdict::Unknown),
        edges.reads,
        edges.writes,
        report.copies,
        edges.g0,
        edges.g1c_with_writes
    );
    println!("{} rules checked in {:.1} s", check::RULES.len(), began.elapsed().as_secs_f32());
    for (error, count) in &count.errors {
        println!("  told to a client {count} times: {error}");
    }
    if !faults.is_empty() {
        recovery::Recovery::new(&events, &faults)?.print();
    }
    for rule in check::RULES {
        let (count, kept) = report.of(rule);
        if count > 0 {
            println!("{rule}: {count} violations, the first of them:");
            kept.iter().for_each(|what| println!("  {what}"));
        }
    }
    println!("{} violations", report.violations());
    if report.violations() > 0 {
        bail!("the history breaks its rules");
    }
    if report.count.acked == 0 || report.count.read == 0 {
        bail!("nothing was written and read: the history shows nothing");
    }
    let has_begun = report.transactions.values().sum::<usize>() > 0;
    if has_begun && (transactions(check::Verdict::Committed) == 0 || report.copies == 0) {
        bail!("no transaction was committed, or nothing copied: the history shows nothing of them");
    }
    Ok(())
}

fn self_test(mut args: Args) -> Result<()> {
    let path: String = args.optional("history", String::new())?;
    args.finish()?;
    let clean = if path.is_empty() { clean::history(1) } else { event::load(&path)? };
    mutants::self_test(&clean)
}
