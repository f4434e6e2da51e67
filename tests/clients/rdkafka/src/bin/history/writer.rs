//! Writers: idempotent producers that hand over batches of fresh values and tell each one's fate.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Result;
use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, Message as _, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext};
use rdkafka_cases::client;

use crate::event::{Fate, Key, Outcome, Process, Role, Value, What, value};
use crate::outcome;
use crate::random::Random;
use crate::record::{HEADER_NAME, Stamp};
use crate::workload::Workload;

/// Records handed over and not yet answered.
const IN_FLIGHT_MAX: u64 = 20_000;
/// Clients live for up to so much longer than the least.
const LIFE_SECONDS_MORE: u64 = 25;
/// Longer than message.timeout.ms: every fate is told before this ends.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(90);
const MESSAGE_TIMEOUT_MS: &str = "60000";

/// An op whose records are not all answered.
struct Pending {
    key: Key,
    first: Value,
    fates: Vec<Option<(Fate, Option<String>)>>,
    unanswered: u64,
}

/// Hears what became of the records, inside the calls of the writer's own thread.
struct Hearing {
    process: Process,
    workload: Arc<Workload>,
    pending: Mutex<HashMap<u64, Pending>>,
}

/// Where the record is: its op and its place in it.
type Place = Box<(u64, usize)>;

impl ClientContext for Hearing {}

impl ProducerContext for Hearing {
    type DeliveryOpaque = Place;

    fn delivery(&self, result: &DeliveryResult<'_>, place: Place) {
        let key = match result {
            Ok(message) => self.workload.key_of(message.topic(), message.partition()),
            Err((_, message)) => self.workload.key_of(message.topic(), message.partition()),
        };
        let (fate, error) = outcome::of(result);
        if let (Some(key), Fate::At(offset)) = (key, fate) {
            self.workload.acknowledged(key, offset);
        }
        self.answered(*place, fate, error);
    }
}

impl Hearing {
    fn answered(&self, (op, index): (u64, usize), fate: Fate, error: Option<String>) {
        let mut all = self.pending.lock().expect("no holder panics");
        let Some(pending) = all.get_mut(&op) else {
            return;
        };
        pending.fates[index] = Some((fate, error));
        pending.unanswered -= 1;
        if pending.unanswered == 0 {
            let pending = all.remove(&op).expect("it was there");
            drop(all);
            self.tell(op, pending);
        }
    }

    fn tell(&self, op: u64, pending: Pending) {
        let unheard = || (Fate::Unknown, Some("never answered".to_owned()));
        let mut outcomes: Vec<Outcome> = Vec::new();
        for (value, fate) in (pending.first..).zip(pending.fates) {
            let (fate, error) = fate.unwrap_or_else(unheard);
            match outcomes.last_mut() {
                Some(last) if last.error == error && continues(last.fate, last.count, fate) => last.count += 1,
                _ => outcomes.push(Outcome { value, count: 1, fate, error }),
            }
        }
        self.workload.recorder.write(self.process, op, What::Sent { key: pending.key, outcomes });
    }

    fn unanswered(&self) -> u64 {
        self.pending.lock().expect("no holder panics").values().map(|pending| pending.unanswered).sum()
    }

    /// The client is gone: whatever it did not answer has an unknown end.
    fn give_up(&self) {
        let left = std::mem::take(&mut *self.pending.lock().expect("no holder panics"));
        left.into_iter().for_each(|(op, pending)| self.tell(op, pending));
    }
}

fn continues(before: Fate, count: u64, fate: Fate) -> bool {
    match (before, fate) {
        (Fate::At(first), Fate::At(offset)) => first + count as i64 == offset,
        (before, fate) => before == fate,
    }
}

/// One client from its opening to its end.
struct Writer {
    process: Process,
    producer: BaseProducer<Hearing>,
    sequences: HashMap<Key, u64>,
}

/// Writes until the workload stops, with one client after another.
pub fn run(workload: &Arc<Workload>, zone: &str, seed: u64) -> Result<()> {
    let mut random = Random(seed);
    let (began, mut written) = (Instant::now(), 0);
    while !workload.stop.load(Ordering::Relaxed) {
        let mut writer = Writer::open(workload, zone)?;
        let ended = writer.write(workload, &mut random, began, &mut written)?;
        writer.close(workload, ended);
    }
    Ok(())
}

/// Why a client was given up.
enum End {
    Stopped,
    Crashed,
    Fatal(String),
}

impl Writer {
    fn open(workload: &Arc<Workload>, zone: &str) -> Result<Writer> {
        let process = workload.recorder.open(Role::Writer, zone);
        let mut config = client::producer_config(&workload.bootstrap, &workload.client_id(zone));
        config.set("message.timeout.ms", MESSAGE_TIMEOUT_MS).set("acks", "all");
        let hearing = Hearing { process, workload: workload.clone(), pending: Mutex::default() };
        Ok(Writer { process, producer: config.create_with_context(hearing)?, sequences: HashMap::new() })
    }

    fn write(&mut self, workload: &Workload, random: &mut Random, began: Instant, written: &mut u64) -> Result<End> {
        let life = workload.life_seconds_min + random.below(LIFE_SECONDS_MORE);
        let ends = Instant::now() + Duration::from_secs(life);
        while !workload.stop.load(Ordering::Relaxed) {
            let due = workload.records_due(began);
            if *written >= due || self.producer.context().unanswered() >= IN_FLIGHT_MAX {
                self.producer.poll(Duration::from_millis(5));
            } else {
                *written += self.send_batch(workload, random)?;
            }
            if Instant::now() > ends {
                return Ok(End::Crashed);
            }
            if let Some((code, why)) = self.producer.client().fatal_error() {
                return Ok(End::Fatal(format!("{code:?}: {why}")));
            }
        }
        Ok(End::Stopped)
    }

    fn send_batch(&mut self, workload: &Workload, random: &mut Random) -> Result<u64> {
        let keys = workload.keys_written();
        let key = keys[random.below(keys.len() as u64) as usize];
        let (topic, partition) = workload.place_of(key);
        let count = 1 + random.below(workload.batch_records_max());
        let sequence = self.sequences.entry(key).or_default();
        let first = value(self.process, *sequence);
        *sequence += count;
        let op = workload.recorder.invoke(self.process, What::Send { key, value: first, count });
        let fates = (0..count).map(|_| None).collect();
        let pending = Pending { key, first, fates, unanswered: count };
        self.producer.context().pending.lock().expect("no holder panics").insert(op, pending);
        for index in 0..count as usize {
            let stamp =
                Stamp { run: workload.recorder.run, process: self.process, op, key, value: first + index as u64 };
            self.send(&topic, partition, &stamp, index, workload.value_bytes);
        }
        self.producer.poll(Duration::ZERO);
        Ok(count)
    }

    fn send(&self, topic: &str, partition: i32, stamp: &Stamp, index: usize, value_bytes: usize) {
        let (key, payload) = (stamp.value.to_be_bytes(), stamp.payload(value_bytes));
        let headers = OwnedHeaders::new().insert(Header { key: HEADER_NAME, value: Some(&key) });
        let mut record = BaseRecord::with_opaque_to(topic, Box::new((stamp.op, index)))
            .partition(partition)
            .key(&key[..])
            .payload(&payload[..])
            .timestamp(stamp.timestamp())
            .headers(headers);
        loop {
            match self.producer.send(record) {
                Ok(()) => return,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    record = back;
                    self.producer.poll(Duration::from_millis(5));
                }
                // The client did not take it: it is nowhere.
                Err((error, back)) => {
                    return self.producer.context().answered(
                        *back.delivery_opaque,
                        Fate::Refused,
                        Some(error.to_string()),
                    );
                }
            }
        }
    }

    fn close(self, workload: &Workload, end: End) {
        if matches!(end, End::Stopped) {
            // What is not answered by then is told as unknown below.
            let _ = self.producer.flush(FLUSH_TIME_MAX);
        }
        self.producer.purge(rdkafka::producer::PurgeConfig::default().queue().inflight());
        let _ = self.producer.flush(Duration::from_secs(1));
        self.producer.context().give_up();
        let error = match end {
            End::Fatal(why) => Some(why),
            End::Stopped | End::Crashed => None,
        };
        workload.recorder.write(self.process, workload.recorder.op(), What::Closed { error });
    }
}
