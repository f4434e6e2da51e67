//! The check across zones: every zone's broker takes records, every zone's broker gives all of them
//! back, and next to nothing crosses between brokers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use rdkafka::consumer::Consumer;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::Message;

use crate::args::Args;
use crate::bulk::{Bulk, Fate};
use crate::client::{self, ANSWER_TIMEOUT};
use crate::payload::{self, Stamp};
use crate::report::{Bill, Counters};
use crate::zones::Zone;

pub struct Check {
    bootstrap: String,
    /// Empty against a broker without zones: one writer and one reader then, led as any client is.
    zones: Vec<Zone>,
    bytes_per_zone: u64,
    value_bytes: usize,
    partitions: i32,
    counters: Counters,
    /// Bytes between brokers for each payload byte.
    crossing_ratio_max: f64,
}

impl Check {
    pub fn from_args(mut args: Args) -> Result<Check> {
        let check = Check {
            bootstrap: args.required("bootstrap")?,
            zones: args.list("zones").iter().map(|text| Zone::parse(text)).collect::<Result<_>>()?,
            bytes_per_zone: args.optional("bytes-per-zone", 100_000_000)?,
            value_bytes: args.optional("value-bytes", 1024)?,
            partitions: args.optional("partitions", 12)?,
            counters: Counters { brokers: args.list("metrics"), store: args.optional("s3", String::new())? },
            crossing_ratio_max: args.optional("crossing-ratio-max", 0.01)?,
        };
        args.finish()?;
        Ok(check)
    }

    pub async fn run(&self) -> Result<()> {
        let topic = format!("check-{}", SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis());
        client::create_topic(&client::admin(&self.bootstrap, "check")?, &topic, self.partitions).await?;
        let before = self.counters.read()?;
        let records = self.bytes_per_zone.div_ceil(self.value_bytes as u64);

        let started = Instant::now();
        self.in_every_zone(|writer, zone| self.write(&topic, writer, zone, records))?;
        let zones = self.zones.len().max(1) as u64;
        let payload_bytes = records * zones * self.value_bytes as u64;
        say("wrote", records * zones, payload_bytes, started);

        let started = Instant::now();
        self.in_every_zone(|_, zone| self.read(&topic, zone, records))?;
        say("read", records * zones * zones, payload_bytes * zones, started);

        if self.counters.brokers.is_empty() {
            return Ok(());
        }
        let bill = Bill::between(&before, &self.counters.read()?);
        println!("{bill}");
        let ratio = bill.crossing_bytes() as f64 / payload_bytes as f64;
        println!(
            "between brokers: {} bytes = {:.3} % of {payload_bytes} bytes produced",
            bill.crossing_bytes(),
            ratio * 100.0
        );
        ensure!(
            ratio < self.crossing_ratio_max,
            "more than {} % crossed between brokers",
            self.crossing_ratio_max * 100.0
        );
        Ok(())
    }

    fn in_every_zone(&self, work: impl Fn(u32, Option<&Zone>) -> Result<()> + Sync) -> Result<()> {
        if self.zones.is_empty() {
            return work(0, None);
        }
        thread::scope(|scope| {
            let threads: Vec<_> = (0..)
                .zip(&self.zones)
                .map(|(writer, zone)| {
                    let work = &work;
                    (zone, scope.spawn(move || work(writer, Some(zone))))
                })
                .collect();
            for (zone, thread) in threads {
                let outcome = thread.join().map_err(|_| anyhow!("the thread of {} panicked", zone.name))?;
                outcome.with_context(|| format!("in {}", zone.name))?;
            }
            Ok(())
        })
    }

    /// Records go round the partitions, so that each partition gets this writer's sequence densely.
    fn write(&self, topic: &str, writer: u32, zone: Option<&Zone>, records: u64) -> Result<()> {
        self.led(topic, zone)?;
        let refused: Arc<Mutex<Option<RDKafkaErrorCode>>> = Arc::default();
        let refused_by = Arc::clone(&refused);
        let mut config = client::producer_config(&self.bootstrap, &client_id(zone));
        config.set("linger.ms", "20").set("message.timeout.ms", "120000");
        let bulk = Bulk::new(&config, move |fate: Fate<'_>| {
            if let Err(code) = fate.outcome {
                *refused_by.lock().expect("no holder panics") = Some(code);
            }
        })?;
        let partitions = self.partitions as u64;
        for number in 0..records {
            let stamp = Stamp { writer, sequence: number / partitions };
            let value = payload::make(stamp, self.value_bytes);
            bulk.write(topic, (number % partitions) as i32, &number.to_be_bytes(), &value)?;
        }
        bulk.finish()?;
        let refused = *refused.lock().expect("no holder panics");
        match refused {
            None => Ok(()),
            Some(code) => bail!("a record was refused: {code}"),
        }
    }

    fn read(&self, topic: &str, zone: Option<&Zone>, records: u64) -> Result<()> {
        self.led(topic, zone)?;
        let consumer = client::consumer(&self.bootstrap, &client_id(zone))?;
        let spans = client::whole_topic(&consumer, topic, self.partitions)?;
        let mut due: BTreeMap<(i32, u32), u64> = BTreeMap::new();
        client::read_spans(&consumer, topic, &spans, |message| {
            let stamp = payload::read(message.payload().context("a null value")?)?;
            let sequence = due.entry((message.partition(), stamp.writer)).or_default();
            ensure!(stamp.sequence == *sequence, "{stamp:?} where sequence {sequence} was due");
            *sequence += 1;
            Ok(())
        })?;
        for writer in 0..self.zones.len().max(1) as u32 {
            let read: u64 = due.iter().filter(|((_, by), _)| *by == writer).map(|(_, count)| count).sum();
            ensure!(read == records, "read {read} of the {records} records of writer {writer}");
        }
        Ok(())
    }

    fn led(&self, topic: &str, zone: Option<&Zone>) -> Result<()> {
        let Some(zone) = zone else { return Ok(()) };
        let consumer = client::consumer(&self.bootstrap, &client_id(Some(zone)))?;
        zone.leads(&consumer.fetch_metadata(Some(topic), ANSWER_TIMEOUT)?, topic)
    }
}

fn client_id(zone: Option<&Zone>) -> String {
    zone.map_or("check".to_owned(), |zone| zone.client_id("check"))
}

fn say(did: &str, records: u64, bytes: u64, since: Instant) {
    let seconds = since.elapsed().as_secs_f64();
    println!("{did} {records} records, {bytes} bytes in {seconds:.1} s ({:.1} MB/s)", bytes as f64 / 1e6 / seconds);
}
