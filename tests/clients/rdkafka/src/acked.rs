//! Idempotent production while brokers die: first everything acknowledged is written down, later
//! every zone's reader is compared with it.
//!
//! ```text
//! a line of the log:  partition offset writer sequence
//! ```

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use rdkafka::message::Message;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::Args;
use crate::bulk::{Bulk, Fate};
use crate::client;
use crate::payload::{self, Stamp};

const VALUE_BYTES: usize = 1024;

/// What the delivery reports said.
struct Tally {
    log: BufWriter<File>,
    acked: u64,
    unknown: BTreeMap<String, u64>,
    last_ack: Instant,
    silence_max: Duration,
}

impl Tally {
    fn note(&mut self, fate: &Fate<'_>) -> Result<()> {
        let offset = match fate.outcome {
            Ok(offset) => offset,
            Err(code) => {
                *self.unknown.entry(code.to_string()).or_default() += 1;
                return Ok(());
            }
        };
        let stamp = payload::read(fate.value)?;
        writeln!(self.log, "{} {offset} {} {}", fate.partition, stamp.writer, stamp.sequence)?;
        self.acked += 1;
        self.silence_max = self.silence_max.max(self.last_ack.elapsed());
        self.last_ack = Instant::now();
        Ok(())
    }
}

/// Writes at a steady rate until SIGTERM or SIGINT, then waits for every record's fate.
pub async fn produce(mut args: Args) -> Result<()> {
    let bootstrap = args.required("bootstrap")?;
    let (topic, path) = (args.required("topic")?, args.required("log")?);
    let (partitions, rate) = (args.optional("partitions", 6)?, args.optional("records-per-second", 2000_u32)?);
    args.finish()?;
    client::create_topic(&client::admin(&bootstrap, "acked")?, &topic, partitions).await?;

    let tally = Arc::new(Mutex::new(Tally {
        log: BufWriter::new(File::create(&path).with_context(|| path.clone())?),
        acked: 0,
        unknown: BTreeMap::new(),
        last_ack: Instant::now(),
        silence_max: Duration::ZERO,
    }));
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&tally);
    let mut config = client::producer_config(&bootstrap, "acked");
    config.set("message.timeout.ms", "120000");
    let bulk = Bulk::new(&config, move |fate| {
        told.lock().expect("no holder panics").note(&fate).expect("the log can be written");
    })?;

    let stopped = Arc::clone(&stop);
    let writing = tokio::task::spawn_blocking(move || write(&bulk, &topic, partitions, rate, &stopped));
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut writing = writing;
    let written = tokio::select! {
        early = &mut writing => early??,
        _ = terminate.recv() => { stop.store(true, Ordering::Relaxed); writing.await?? }
        _ = interrupt.recv() => { stop.store(true, Ordering::Relaxed); writing.await?? }
    };

    let mut tally = tally.lock().expect("no holder panics");
    tally.log.flush()?;
    let unknown: u64 = tally.unknown.values().sum();
    println!("written {written}, acknowledged {}, not acknowledged {unknown} {:?}", tally.acked, tally.unknown);
    println!("longest time without an acknowledgement: {} ms", tally.silence_max.as_millis());
    ensure!(tally.acked > 0, "nothing was acknowledged");
    Ok(())
}

fn write<F>(bulk: &Bulk<F>, topic: &str, partitions: i32, rate: u32, stop: &AtomicBool) -> Result<u64>
where
    F: Fn(Fate<'_>) + Send + Sync + 'static,
{
    let (started, mut number) = (Instant::now(), 0_u64);
    while !stop.load(Ordering::Relaxed) {
        let due = (started.elapsed().as_secs_f64() * f64::from(rate)) as u64;
        while number < due {
            let stamp = Stamp { writer: 1, sequence: number };
            let partition = (number % partitions as u64) as i32;
            bulk.write(topic, partition, &number.to_be_bytes(), &payload::make(stamp, VALUE_BYTES))?;
            number += 1;
        }
        bulk.poll(Duration::from_millis(5));
    }
    bulk.finish()?;
    Ok(number)
}

/// Reads everything back once for each client id; fails on anything lost, doubled or out of order.
pub fn verify(mut args: Args) -> Result<()> {
    let bootstrap = args.required("bootstrap")?;
    let (topic, path) = (args.required("topic")?, args.required("log")?);
    let partitions = args.optional("partitions", 6)?;
    let zones = args.list("zones");
    args.finish()?;
    let acked = read_log(&path)?;
    let client_ids = match zones.as_slice() {
        [] => vec!["verify".to_owned()],
        zones => zones.iter().map(|zone| format!("verify,zone={zone}")).collect(),
    };
    let mut faults = 0;
    for client_id in client_ids {
        let found = compare(&bootstrap, &client_id, &topic, partitions, &acked)?;
        println!("{client_id}: {found:?} of {} acknowledged", acked.len());
        faults += found.lost + found.duplicates + found.out_of_order + found.moved;
    }
    if faults == 0 { Ok(()) } else { Err(anyhow!("{faults} faults")) }
}

fn read_log(path: &str) -> Result<HashMap<Stamp, (i32, i64)>> {
    let mut acked = HashMap::new();
    for line in BufReader::new(File::open(path).with_context(|| path.to_owned())?).lines() {
        let line = line?;
        let numbers: Vec<i64> =
            line.split(' ').map(str::parse).collect::<Result<_, _>>().with_context(|| line.clone())?;
        let [partition, offset, writer, sequence] = numbers[..] else {
            return Err(anyhow!("not a line of ours: {line}"));
        };
        let stamp = Stamp { writer: writer as u32, sequence: sequence as u64 };
        acked.insert(stamp, (partition as i32, offset));
    }
    Ok(acked)
}

/// What one reader saw. Moved: acknowledged at one offset, found at another.
#[derive(Debug, Default)]
struct Found {
    records: u64,
    lost: u64,
    duplicates: u64,
    out_of_order: u64,
    moved: u64,
}

fn compare(
    bootstrap: &str,
    client_id: &str,
    topic: &str,
    partitions: i32,
    acked: &HashMap<Stamp, (i32, i64)>,
) -> Result<Found> {
    let consumer = client::consumer(bootstrap, client_id)?;
    let spans = client::whole_topic(&consumer, topic, partitions)?;
    let (mut found, mut seen, mut last) = (Found::default(), HashSet::new(), HashMap::new());
    client::read_spans(&consumer, topic, &spans, |message| {
        let stamp = payload::read(message.payload().context("a null value")?)?;
        let place = (message.partition(), message.offset());
        found.records += 1;
        found.duplicates += u64::from(!seen.insert(stamp));
        if last.insert(place.0, stamp.sequence).is_some_and(|before| before > stamp.sequence) {
            found.out_of_order += 1;
        }
        if acked.get(&stamp).is_some_and(|acked| acked.1 >= 0 && *acked != place) {
            found.moved += 1;
        }
        Ok(())
    })?;
    found.lost = acked.keys().filter(|stamp| !seen.contains(stamp)).count() as u64;
    Ok(found)
}
