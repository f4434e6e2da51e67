//! The stock clients of one zone: a producer that writes to all partitions of a topic at a steady rate, and consumers
//! that read some of them: assigned by hand, or as members of a group. Made for the cross-zone harness, which runs one of
//! these in each zone.
//!
//! ```text
//! zone-load wait    --bootstrap HOSTS --brokers N
//! zone-load create  --bootstrap HOSTS --topic T --partitions N
//! zone-load run     --bootstrap HOSTS --consumer-bootstrap HOSTS --zone az1 --topic T --partitions N
//!                   --bytes-per-second N [--read 0,3,6 | --group G] [--readers N] [--from end] [--linger-ms N] [--value-bytes N]
//! ```
//! Each of several readers of a zone is in a group of its own. `run` says `ready` when its readers have partitions, and begins to write on the line `begin`. On `mark` it
//! prints what happened up to then as one line of JSON, on `halt` it stops writing and prints the same once every
//! record's fate is known. It ends when its input does, so it never outlives whoever started it.

mod reader;
mod tally;
mod writer;

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rdkafka_cases::args::Args;
use rdkafka_cases::client;

use crate::reader::Share;
use crate::tally::Tally;

const READY_MAX: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("zone-load: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let command = words.next().context("no command: wait, create or run")?;
    let args = Args::parse(words)?;
    match command.as_str() {
        "create" => create(args),
        "wait" => wait(args),
        "run" => serve(args),
        other => bail!("unknown command {other}"),
    }
}

/// Until the broker that is asked names so many brokers.
fn wait(mut args: Args) -> Result<()> {
    let (bootstrap, brokers) = (args.required("bootstrap")?, args.optional("brokers", 1)?);
    args.finish()?;
    let (admin, started) = (client::admin(&bootstrap, "zone-load")?, Instant::now());
    loop {
        let metadata = admin.inner().fetch_metadata(None, Duration::from_secs(2));
        if metadata.is_ok_and(|metadata| metadata.brokers().len() >= brokers) {
            return Ok(());
        }
        ensure!(started.elapsed() < READY_MAX, "{bootstrap} does not name {brokers} brokers after {READY_MAX:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn create(mut args: Args) -> Result<()> {
    let (bootstrap, topic) = (args.required("bootstrap")?, args.required("topic")?);
    let partitions = args.optional("partitions", 1)?;
    args.finish()?;
    let admin = client::admin(&bootstrap, "zone-load")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(client::create_topic(&admin, &topic, partitions))
}

fn serve(mut args: Args) -> Result<()> {
    let (bootstrap, topic, zone) = (args.required("bootstrap")?, args.required("topic")?, args.required("zone")?);
    let plan = writer::Plan {
        topic: topic.clone(),
        partitions: args.optional("partitions", 1)?,
        bytes_per_second: args.optional("bytes-per-second", 0)?,
        value_bytes: args.optional("value-bytes", 1000)?,
    };
    let linger_ms: u32 = args.optional("linger-ms", 5)?;
    let consumer_bootstrap = args.optional("consumer-bootstrap", bootstrap.clone())?;
    let from = reader::parse(&args.optional("from", "end".to_owned())?)?;
    let readers = args.optional("readers", 1)?;
    let read: Vec<i32> = args.list("read").iter().map(|word| word.parse()).collect::<Result<_, _>>()?;
    let group: String = args.optional("group", String::new())?;
    args.finish()?;

    let tally = Arc::new(Tally::default());
    let client_id = format!("zone-load,zone={zone}");
    let mut config = client::consumer_config(&consumer_bootstrap, &client_id);
    config.set("client.rack", &zone);
    for reader in 0..readers {
        let of_group = format!("{group}-{reader}");
        let share = match group.is_empty() {
            false => Share::Group(&of_group),
            true if read.is_empty() => break,
            true => Share::Partitions(&read, from),
        };
        reader::start(&config, &topic, &share, READY_MAX, Arc::clone(&tally))?;
    }
    let mut config = client::config(&bootstrap, &client_id);
    config.set("acks", "all").set("linger.ms", linger_ms.to_string()).set("message.timeout.ms", "60000");
    let writer = writer::Writer::new(&config, plan, Arc::clone(&tally))?;
    answer(&writer, &tally)
}

/// Does what the lines of the input say, until there are no more.
fn answer(writer: &writer::Writer, tally: &Tally) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "ready")?;
    out.flush()?;
    for line in std::io::stdin().lock().lines() {
        match line?.as_str() {
            "begin" => writer.begin(),
            "mark" => writeln!(out, "{}", tally.told())?,
            "halt" => {
                writer.halt()?;
                writeln!(out, "{}", tally.told())?;
            }
            other => bail!("no order is called {other}"),
        }
        out.flush()?;
    }
    Ok(())
}
