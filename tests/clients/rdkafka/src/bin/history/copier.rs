//! Copiers: members of one group that read the input and write copies and the group's offsets in transactions. They come
//! and go, so the group is balanced again and again; each input value must come out exactly once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Result;
use rdkafka::ClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext, ConsumerGroupMetadata, Rebalance};
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka_cases::client;

use crate::event::{Isolation, Key, Process, Role, Run, What};
use crate::random::Random;
use crate::reader::{level, note};
use crate::sender::Within;
use crate::transaction::{After, Producer};
use crate::workload::Workload;

const POLL_TIME: Duration = Duration::from_millis(100);
const POLL_RECORDS_MAX: usize = 500;
const ABORT_ONE_IN: u64 = 32;
const CRASH_ONE_IN: u64 = 64;
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
const DRAIN_TIME_MAX: Duration = Duration::from_secs(90);
/// Nothing more comes after so long without a record.
const SILENCE: Duration = Duration::from_secs(3);

/// Hears of the group, inside the polls.
#[derive(Default)]
struct Balance {
    was_rebalanced: AtomicBool,
    /// As of the assignment: were it asked for later, a client that has lost its place would say that it is no member,
    /// and nobody's offsets are refused to nobody.
    member: Mutex<Option<Arc<ConsumerGroupMetadata>>>,
}

impl ClientContext for Balance {}

impl ConsumerContext for Balance {
    fn post_rebalance(&self, consumer: &BaseConsumer<Balance>, rebalance: &Rebalance<'_>) {
        let is_assigned = matches!(rebalance, Rebalance::Assign(_));
        let member = if is_assigned { consumer.group_metadata().map(Arc::new) } else { None };
        *self.member.lock().expect("no holder panics") = member;
        self.was_rebalanced.store(true, Ordering::Relaxed);
    }
}

struct Copier {
    process: Process,
    workload: Arc<Workload>,
    producer: Producer,
    consumer: BaseConsumer<Balance>,
}

/// Why a client was given up.
enum Left {
    Stopped,
    Crashed,
    Failed(String),
}

/// Copies until the workload stops.
pub fn run(workload: &Arc<Workload>, zone: &str, number: u64, seed: u64) -> Result<()> {
    let mut random = Random(seed);
    while !workload.stop.load(Ordering::Relaxed) {
        if let Some(mut copier) = Copier::open(workload, zone, number)? {
            let left = copier.copy(&mut random)?;
            copier.close(left);
        }
    }
    Ok(())
}

/// Copies what is left when nobody writes any more.
pub fn drain(workload: &Arc<Workload>, zone: &str) -> Result<()> {
    let (began, mut heard) = (Instant::now(), Instant::now());
    let mut copier = None;
    while began.elapsed() < DRAIN_TIME_MAX {
        let Some(open) = &mut copier else {
            copier = Copier::open(workload, zone, 0)?;
            continue;
        };
        let runs = open.poll();
        if !runs.is_empty() {
            heard = Instant::now();
            match open.transact(&runs, false)? {
                After::Committed => {}
                After::Aborted => open.rewind(&runs)?,
                After::GiveUp(why) => copier.take().expect("it is open").close(Left::Failed(why)),
            }
        } else if heard.elapsed() > SILENCE && open.is_drained()? {
            break;
        }
    }
    copier.into_iter().for_each(|copier| copier.close(Left::Stopped));
    Ok(())
}

impl Copier {
    fn open(workload: &Arc<Workload>, zone: &str, number: u64) -> Result<Option<Copier>> {
        let process = workload.recorder.open(Role::Copier, zone, Isolation::Committed);
        let id = workload.transactional_id("copier", number);
        let Some(producer) = Producer::open(workload, process, zone, &id)? else { return Ok(None) };
        let mut config = client::consumer_config(&workload.bootstrap, &workload.client_id(zone));
        config
            .set("group.id", workload.transactional_id("copiers", 0))
            .set("isolation.level", level(Isolation::Committed))
            .set("auto.offset.reset", "earliest")
            .set("enable.auto.offset.store", "false")
            .set("session.timeout.ms", "10000")
            .set("heartbeat.interval.ms", "1000")
            .set("fetch.wait.max.ms", "100");
        let consumer = config.create_with_context::<_, BaseConsumer<Balance>>(Balance::default())?;
        consumer.subscribe(&[&workload.input_topic()])?;
        Ok(Some(Copier { process, workload: workload.clone(), producer, consumer }))
    }

    fn copy(&mut self, random: &mut Random) -> Result<Left> {
        while !self.workload.stop.load(Ordering::Relaxed) {
            let runs = self.poll();
            if runs.is_empty() {
                continue;
            }
            if random.one_in(CRASH_ONE_IN) {
                return self.crash(&runs);
            }
            match self.transact(&runs, random.one_in(ABORT_ONE_IN))? {
                After::Committed => {}
                After::Aborted => self.rewind(&runs)?,
                After::GiveUp(why) => return Ok(Left::Failed(why)),
            }
        }
        Ok(Left::Stopped)
    }

    /// What came, if it is still this member's: after a rebalance the group's offsets say where reading goes on.
    fn poll(&self) -> Vec<(Key, Run)> {
        let op = self.workload.recorder.invoke(self.process, What::Poll { txn: None });
        let (mut runs, mut bad, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        let (deadline, mut records) = (Instant::now() + POLL_TIME, 0);
        let balance = self.consumer.context();
        while records < POLL_RECORDS_MAX && !balance.was_rebalanced.load(Ordering::Relaxed) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.consumer.poll(left) {
                Some(Ok(message)) => {
                    records += 1;
                    note(&self.workload, &message, &mut runs, &mut bad);
                }
                Some(Err(error)) => errors.push(error.to_string()),
                None if left.is_zero() => break,
                None => {}
            }
        }
        let polled = What::Polled { runs: runs.clone(), bad, errors };
        self.workload.recorder.write(self.process, op, polled);
        if balance.was_rebalanced.swap(false, Ordering::Relaxed) {
            self.workload.recorder.invoke(self.process, What::Rebalanced { keys: self.workload.input_keys() });
            runs.clear();
        }
        runs
    }

    fn begin(&mut self, runs: &[(Key, Run)]) -> Result<u64, String> {
        let txn = self.producer.begin()?;
        for (key, run) in runs {
            let within = Within { txn, copy_of: Some((*key, run.value)) };
            self.producer.sender.send(self.workload.output_of(*key), run.count, Some(within));
        }
        Ok(txn)
    }

    fn transact(&mut self, runs: &[(Key, Run)], is_abort: bool) -> Result<After> {
        let member = self.consumer.context().member.lock().expect("no holder panics").clone();
        let txn = match self.begin(runs) {
            Ok(txn) => txn,
            Err(why) => return Ok(After::GiveUp(why)),
        };
        let Some(member) = member else {
            return Ok(self.producer.abort(txn, Some("no member of the group".to_owned())));
        };
        let next = runs.iter().map(|(key, run)| (*key, run.offset + run.count as i64)).collect();
        if let Err(after) = self.producer.send_offsets(txn, self.list(&next)?, member) {
            return Ok(after);
        }
        Ok(if is_abort { self.producer.abort(txn, None) } else { self.producer.commit(txn) })
    }

    /// The client is dropped in the middle of a transaction.
    fn crash(&mut self, runs: &[(Key, Run)]) -> Result<Left> {
        match self.begin(runs) {
            Ok(txn) => self.producer.leave(txn),
            Err(why) => return Ok(Left::Failed(why)),
        }
        Ok(Left::Crashed)
    }

    /// Goes back to before what was polled.
    fn rewind(&self, runs: &[(Key, Run)]) -> Result<()> {
        let first: BTreeMap<Key, i64> = runs.iter().rev().map(|(key, run)| (*key, run.offset)).collect();
        let next = first.iter().map(|(key, offset)| (*key, *offset)).collect();
        self.workload.recorder.invoke(self.process, What::Assign { next });
        self.consumer.seek_partitions(self.list(&first)?, ANSWER_TIME_MAX)?;
        Ok(())
    }

    fn list(&self, next: &BTreeMap<Key, i64>) -> Result<TopicPartitionList> {
        let mut list = TopicPartitionList::new();
        for (key, offset) in next {
            let (topic, partition) = self.workload.place_of(*key);
            list.add_partition_offset(&topic, partition, Offset::Offset(*offset))?;
        }
        Ok(list)
    }

    /// The group has committed all that was ever acknowledged in the input.
    fn is_drained(&self) -> Result<bool> {
        let keys = self.workload.input_keys();
        let mut asked = TopicPartitionList::new();
        for key in &keys {
            let (topic, partition) = self.workload.place_of(*key);
            asked.add_partition(&topic, partition);
        }
        let found = match self.consumer.committed_offsets(asked, ANSWER_TIME_MAX) {
            Ok(found) => found,
            Err(KafkaError::MetadataFetch(_) | KafkaError::OffsetFetch(_)) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        Ok(keys.iter().all(|key| {
            let (topic, partition) = self.workload.place_of(*key);
            let committed = found.find_partition(&topic, partition).and_then(|found| found.offset().to_raw());
            committed.unwrap_or(0).max(0) >= self.workload.acknowledged_next(Isolation::Committed, *key)
        }))
    }

    fn close(self, left: Left) {
        self.producer.sender.close(match left {
            Left::Failed(why) => Some(why),
            Left::Stopped | Left::Crashed => None,
        });
    }
}
