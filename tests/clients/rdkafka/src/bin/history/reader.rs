//! Readers: one in every zone, reading every partition from the beginning, now and then starting anew a little earlier.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Result;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka_cases::client;

use crate::event::{Bad, BadKind, Isolation, Key, Process, Role, Run, What};
use crate::random::Random;
use crate::record;
use crate::workload::Workload;

const POLL_TIME: Duration = Duration::from_millis(100);
/// A line of the history tells at most so many records.
const POLL_RECORDS_MAX: usize = 2000;
const REOPEN_ONE_IN: u64 = 400;
/// An assertion of librdkafka 2.12 fails when partitions are assigned again while they are still being stopped: a fresh
/// client is used when the last assignment was made so short a time ago.
const ASSIGN_PAUSE: Duration = Duration::from_secs(2);
/// A reader that starts anew reads all records then, committed or not.
const UNCOMMITTED_ONE_IN: u64 = 3;
const STEP_BACK_RECORDS_MAX: u64 = 3000;

/// One consumer from its opening to its end.
pub struct Reader {
    process: Process,
    workload: Arc<Workload>,
    zone: String,
    isolation: Isolation,
    consumer: BaseConsumer,
    assigned: Option<Instant>,
    /// What is read next of each assigned key.
    pub next: HashMap<Key, i64>,
    /// The partitions, of whatever topic, that were read to their ends; see `scan`.
    pub ended: HashSet<i32>,
}

/// Reads until the workload stops.
pub fn run(workload: &Arc<Workload>, zone: &str, seed: u64) -> Result<()> {
    let mut random = Random(seed);
    let mut reader = Reader::open(workload, zone, Role::Reader, Isolation::Committed)?;
    while !workload.stop.load(Ordering::Relaxed) {
        let keys = workload.keys();
        if keys.len() > reader.next.len() {
            let mut next = reader.next.clone();
            for key in keys {
                next.entry(key).or_insert(0);
            }
            reader.assign(next)?;
        }
        reader.poll(POLL_TIME, None);
        if random.one_in(REOPEN_ONE_IN) {
            let mut next = std::mem::take(&mut reader.next);
            next.values_mut().for_each(|next| *next = (*next - random.below(STEP_BACK_RECORDS_MAX) as i64).max(0));
            reader.close();
            let isolation =
                if random.one_in(UNCOMMITTED_ONE_IN) { Isolation::Uncommitted } else { Isolation::Committed };
            reader = Reader::open(workload, zone, Role::Reader, isolation)?;
            reader.assign(next)?;
        }
    }
    reader.close();
    Ok(())
}

impl Reader {
    pub fn open(workload: &Arc<Workload>, zone: &str, role: Role, isolation: Isolation) -> Result<Reader> {
        Reader::of(workload, workload.recorder.open(role, zone, isolation), zone, isolation)
    }

    /// Reads for a process that does other things too.
    pub fn of(workload: &Arc<Workload>, process: Process, zone: &str, isolation: Isolation) -> Result<Reader> {
        let consumer = consumer(workload, zone, isolation)?;
        let (workload, zone) = (workload.clone(), zone.to_owned());
        let (assigned, next, ended) = (None, HashMap::new(), HashSet::new());
        Ok(Reader { process, workload, zone, isolation, consumer, assigned, next, ended })
    }

    /// Goes on with a fresh client where the old one stood.
    pub fn renew(&mut self) -> Result<()> {
        self.consumer = consumer(&self.workload, &self.zone, self.isolation)?;
        self.assigned = None;
        let next = std::mem::take(&mut self.next);
        self.assign(next)
    }

    pub fn assign(&mut self, next: HashMap<Key, i64>) -> Result<()> {
        let mut list = TopicPartitionList::new();
        for (key, offset) in &next {
            let (topic, partition) = self.workload.place_of(*key);
            list.add_partition_offset(&topic, partition, Offset::Offset(*offset))?;
        }
        if self.assigned.is_some_and(|assigned| assigned.elapsed() < ASSIGN_PAUSE) {
            self.consumer = consumer(&self.workload, &self.zone, self.isolation)?;
        }
        self.assigned = Some(Instant::now());
        let mut told: Vec<(Key, i64)> = next.iter().map(|(key, next)| (*key, *next)).collect();
        told.sort_unstable();
        self.workload.recorder.invoke(self.process, What::Assign { next: told });
        self.next = next;
        self.ended.clear();
        Ok(self.consumer.assign(&list)?)
    }

    /// One line of the history; whether anything came.
    pub fn poll(&mut self, time: Duration, txn: Option<u64>) -> bool {
        let op = self.workload.recorder.invoke(self.process, What::Poll { txn });
        let (mut runs, mut bad, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        let (deadline, mut records) = (Instant::now() + time, 0);
        while records < POLL_RECORDS_MAX {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.consumer.poll(left) {
                Some(Ok(message)) => {
                    records += 1;
                    if let Some(key) = note(&self.workload, &message, &mut runs, &mut bad) {
                        self.next.insert(key, message.offset() + 1);
                    }
                }
                Some(Err(error)) if is_about_position(&error) => {
                    // The client does not say which partition; the whole reader stands still then.
                    bad.push(Bad { key: 0, offset: -1, kind: BadKind::Position, why: error.to_string() });
                }
                Some(Err(KafkaError::PartitionEOF(partition))) => drop(self.ended.insert(partition)),
                Some(Err(error)) => errors.push(error.to_string()),
                None if left.is_zero() => break,
                None => {}
            }
        }
        self.workload.recorder.write(self.process, op, What::Polled { runs, bad, errors });
        records > 0
    }

    /// The first and the next offset, as a broker of this zone tells them.
    pub fn list(&self, key: Key, timeout: Duration) -> Option<(i64, i64)> {
        let (topic, partition) = self.workload.place_of(key);
        let op = self.workload.recorder.invoke(self.process, What::List { key });
        let answer = self.consumer.fetch_watermarks(&topic, partition, timeout);
        let what = match &answer {
            Ok((earliest, latest)) => What::Listed { key, earliest: *earliest, latest: *latest },
            Err(error) => What::Failed { error: error.to_string() },
        };
        self.workload.recorder.write(self.process, op, what);
        answer.ok()
    }

    pub fn close(self) {
        self.workload.recorder.write(self.process, self.workload.recorder.op(), What::Closed { error: None });
    }
}

fn consumer(workload: &Workload, zone: &str, isolation: Isolation) -> Result<BaseConsumer> {
    let mut config = client::consumer_config(&workload.bootstrap, &workload.client_id(zone));
    config.set("fetch.wait.max.ms", "200").set("enable.partition.eof", "true").set("isolation.level", level(isolation));
    Ok(config.create()?)
}

pub fn level(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::Committed => "read_committed",
        Isolation::Uncommitted => "read_uncommitted",
    }
}

/// Adds a record to what a poll gave; its key.
pub fn note(
    workload: &Workload,
    message: &BorrowedMessage<'_>,
    runs: &mut Vec<(Key, Run)>,
    bad: &mut Vec<Bad>,
) -> Option<Key> {
    let key = workload.key_of(message.topic(), message.partition())?;
    let offset = message.offset();
    match record::read(message, workload.recorder.run, key) {
        Ok(value) => match runs.last_mut() {
            Some((of, run))
                if *of == key && run.offset + run.count as i64 == offset && run.value + run.count == value =>
            {
                run.count += 1;
            }
            _ => runs.push((key, Run { offset, value, count: 1 })),
        },
        Err(why) => bad.push(Bad { key, offset, kind: BadKind::Record, why: format!("{why:#}") }),
    }
    Some(key)
}

/// The broker said that an offset does not exist which was read or handed out before.
fn is_about_position(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{AutoOffsetReset, LogTruncation, OffsetOutOfRange};
    matches!(error, KafkaError::MessageConsumption(AutoOffsetReset | LogTruncation | OffsetOutOfRange))
}
