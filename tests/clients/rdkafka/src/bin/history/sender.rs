//! An idempotent producer that hands over runs of fresh values and tells each one's fate.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, Message as _, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext, PurgeConfig};
use rdkafka_cases::client;

use crate::event::{Fate, Isolation, Key, Outcome, Process, Value, What, value};
use crate::outcome;
use crate::record::{HEADER_NAME, Stamp};
use crate::workload::Workload;

/// The transaction that values are sent in, and of what they are copies.
#[derive(Clone, Copy)]
pub struct Within {
    pub txn: u64,
    pub copy_of: Option<(Key, Value)>,
}

/// An op whose records are not all answered.
struct Pending {
    key: Key,
    first: Value,
    fates: Vec<Option<(Fate, Option<String>)>>,
    unanswered: u64,
}

/// Hears what became of the records, inside the calls of the sender's own thread.
pub struct Hearing {
    process: Process,
    workload: Arc<Workload>,
    is_transactional: bool,
    pending: Mutex<HashMap<u64, Pending>>,
    /// Behind the acknowledged records of each key since the transaction began.
    undecided: Mutex<HashMap<Key, i64>>,
    /// Records that were answered otherwise since the transaction began.
    undelivered: AtomicU64,
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
            self.workload.acknowledged(Isolation::Uncommitted, key, offset + 1);
            if self.is_transactional {
                let mut undecided = self.undecided.lock().expect("no holder panics");
                let next = undecided.entry(key).or_default();
                *next = (*next).max(offset + 1);
            } else {
                self.workload.acknowledged(Isolation::Committed, key, offset + 1);
            }
        }
        self.answered(*place, fate, error);
    }
}

impl Hearing {
    fn answered(&self, (op, index): (u64, usize), fate: Fate, error: Option<String>) {
        if !matches!(fate, Fate::At(_) | Fate::Somewhere) {
            self.undelivered.fetch_add(1, Ordering::Relaxed);
        }
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
pub struct Sender {
    pub process: Process,
    pub producer: Arc<BaseProducer<Hearing>>,
    sequences: HashMap<Key, u64>,
}

impl Sender {
    pub fn open(workload: &Arc<Workload>, process: Process, zone: &str, settings: &[(&str, &str)]) -> Result<Sender> {
        let mut config = client::producer_config(&workload.bootstrap, &workload.client_id(zone));
        config.set("acks", "all");
        for (name, value) in settings {
            config.set(*name, *value);
        }
        let hearing = Hearing {
            process,
            workload: workload.clone(),
            is_transactional: config.get("transactional.id").is_some(),
            pending: Mutex::default(),
            undecided: Mutex::default(),
            undelivered: AtomicU64::new(0),
        };
        Ok(Sender { process, producer: Arc::new(config.create_with_context(hearing)?), sequences: HashMap::new() })
    }

    /// Hands over `count` fresh values.
    pub fn send(&mut self, key: Key, count: u64, within: Option<Within>) {
        let workload = self.producer.context().workload.clone();
        let (topic, partition) = workload.place_of(key);
        let sequence = self.sequences.entry(key).or_default();
        let first = value(self.process, *sequence);
        *sequence += count;
        let (txn, copy_of) = (within.map(|within| within.txn), within.and_then(|within| within.copy_of));
        let op = workload.recorder.invoke(self.process, What::Send { key, value: first, count, txn, copy_of });
        let fates = (0..count).map(|_| None).collect();
        let pending = Pending { key, first, fates, unanswered: count };
        self.producer.context().pending.lock().expect("no holder panics").insert(op, pending);
        for index in 0..count as usize {
            let stamp =
                Stamp { run: workload.recorder.run, process: self.process, op, key, value: first + index as u64 };
            self.send_record(&topic, partition, &stamp, index, workload.value_bytes);
        }
        self.producer.poll(Duration::ZERO);
    }

    fn send_record(&self, topic: &str, partition: i32, stamp: &Stamp, index: usize, value_bytes: usize) {
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

    pub fn unanswered(&self) -> u64 {
        let pending = self.producer.context().pending.lock().expect("no holder panics");
        pending.values().map(|pending| pending.unanswered).sum()
    }

    /// What is heard from here on is of another transaction.
    pub fn begin(&self) {
        self.producer.context().undecided.lock().expect("no holder panics").clear();
        self.producer.context().undelivered.store(0, Ordering::Relaxed);
    }

    pub fn has_undelivered(&self) -> bool {
        self.producer.context().undelivered.load(Ordering::Relaxed) > 0
    }

    /// What was acknowledged since the beginning is committed.
    pub fn committed(&self) {
        let hearing = self.producer.context();
        for (key, next) in hearing.undecided.lock().expect("no holder panics").drain() {
            hearing.workload.acknowledged(Isolation::Committed, key, next);
        }
    }

    /// Ends the client; whatever it has not answered by now is told as unknown.
    pub fn close(self, error: Option<String>) {
        self.producer.purge(PurgeConfig::default().queue().inflight());
        let _ = self.producer.flush(Duration::from_secs(1));
        let hearing = self.producer.context();
        hearing.give_up();
        let recorder = &hearing.workload.recorder;
        recorder.write(self.process, recorder.op(), What::Closed { error });
    }
}
