//! What all workers share: the topics now written, what was acknowledged, the history's file.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use rdkafka::metadata::Metadata;
use rdkafka_cases::args::Args;
use rdkafka_cases::client;

use crate::event::{Isolation, Key};
use crate::random::Random;
use crate::recorder::Recorder;
use crate::{copier, lister, reader, scan, worker, writer};

/// The group of copiers reads this topic …
const INPUT: u32 = 0;
/// … and writes into this one.
const OUTPUT: u32 = 1;
/// All further topics are written for a while: those of even number by transactions too.
const TOPICS_KEPT: u32 = 2;
/// Topics that are written at a time; the oldest is retired when a fresh one is there.
const TOPICS_WRITTEN: u32 = 4;
/// Writers without transactions write so rarely where transactions are, that these do not drown.
const SHARED_ONE_IN: u64 = 8;
const BATCH_RECORDS_MAX: u64 = 100;

pub struct Workload {
    pub bootstrap: String,
    pub recorder: Recorder,
    /// Set once; the workers end by themselves.
    pub stop: AtomicBool,
    pub value_bytes: usize,
    /// A client lives for at least so long, then ends in the middle of its work.
    pub life_seconds_min: u64,
    zones: Vec<String>,
    partitions: u32,
    records_per_second: u64,
    topic_seconds: u64,
    seed: u64,
    /// Topics 0..topics exist.
    topics: AtomicU32,
    /// Workers in transactions; with any there is a copier in every zone too.
    transactions: u64,
    acknowledged_next: Mutex<HashMap<(Isolation, Key), i64>>,
}

impl Workload {
    pub fn from_args(mut args: Args) -> Result<(Arc<Workload>, Option<Duration>)> {
        let mut zones = args.list("zones");
        if zones.is_empty() {
            // Brokers without zones: as many clients, led as any client is.
            zones = vec![String::new(); 3];
        }
        let partitions = args.optional("partitions", 4)?;
        let seconds: u64 = args.optional("seconds", 0)?;
        let workload = Workload {
            bootstrap: args.required("bootstrap")?,
            recorder: Recorder::create(&args.required("history")?, partitions)?,
            stop: AtomicBool::new(false),
            value_bytes: args.optional("value-bytes", 200)?,
            life_seconds_min: args.optional("life-seconds-min", 5)?,
            zones,
            partitions,
            records_per_second: args.optional("records-per-second", 2000)?,
            topic_seconds: args.optional("topic-seconds", 20)?.max(1),
            seed: args.optional("seed", 1)?,
            topics: AtomicU32::new(0),
            transactions: args.optional("transactions", 6)?,
            acknowledged_next: Mutex::default(),
        };
        args.finish()?;
        Ok((Arc::new(workload), (seconds > 0).then(|| Duration::from_secs(seconds))))
    }

    /// Runs the workers until `stopped` comes, then reads everything once more in every zone.
    pub async fn run(self: &Arc<Workload>, stopped: impl Future<Output = ()>) -> Result<()> {
        let admin = client::admin(&self.bootstrap, "history")?;
        for _ in 0..TOPICS_KEPT + TOPICS_WRITTEN {
            self.add_topic(&admin).await?;
        }
        let mut workers = Vec::new();
        for (number, zone) in (0..).zip(self.zones.clone()) {
            workers.push(self.spawn(&zone, move |w, zone| writer::run(w, zone, w.seed.wrapping_add(number))));
            workers.push(self.spawn(&zone, move |w, zone| reader::run(w, zone, w.seed.wrapping_add(100 + number))));
            workers.push(self.spawn(&zone, lister::run));
        }
        for (number, zone) in (0..self.transactions).zip(self.zones.clone().iter().cycle()) {
            let seed = self.seed.wrapping_add(200 + number);
            workers.push(self.spawn(zone, move |w, zone| worker::run(w, zone, number, seed)));
        }
        for (number, zone) in (0..).zip(self.zones.iter().filter(|_| self.transactions > 0)) {
            let seed = self.seed.wrapping_add(300 + number);
            workers.push(self.spawn(zone, move |w, zone| copier::run(w, zone, number, seed)));
        }
        let mut stopped = std::pin::pin!(stopped);
        loop {
            let pause = tokio::time::sleep(Duration::from_secs(self.topic_seconds));
            tokio::select! {
                () = &mut stopped => break,
                () = pause => {
                    // While the cluster is hurt a topic may not come: the next turn tries again.
                    if let Err(error) = self.add_topic(&admin).await {
                        eprintln!("history: a fresh topic did not come: {error:#}");
                    }
                    anyhow::ensure!(!workers.iter().any(|worker| worker.is_finished()), "a worker ended early");
                }
            }
        }
        self.stop.store(true, Ordering::Relaxed);
        join(workers)?;
        let zones = self.zones.clone();
        join(zones.iter().map(|zone| self.spawn(zone, scan::settle)).collect())?;
        if self.transactions > 0 {
            join(vec![self.spawn(&zones[0], copier::drain)])?;
            join(zones.iter().map(|zone| self.spawn(zone, scan::settle)).collect())?;
        }
        for isolation in [Isolation::Committed, Isolation::Uncommitted] {
            join(zones.iter().map(|zone| self.spawn(zone, move |w, zone| scan::run(w, zone, isolation))).collect())?;
        }
        Ok(())
    }

    fn spawn(
        self: &Arc<Workload>,
        zone: &str,
        work: impl FnOnce(&Arc<Workload>, &str) -> Result<()> + Send + 'static,
    ) -> thread::JoinHandle<Result<()>> {
        let (workload, zone) = (self.clone(), zone.to_owned());
        thread::spawn(move || work(&workload, &zone))
    }

    async fn add_topic(&self, admin: &client::Admin) -> Result<()> {
        let topic = self.topic(self.topics.load(Ordering::Relaxed));
        // A creation that was not answered may have taken place, and then counts when its leaders are seen.
        if let Err(error) = client::create_topic(admin, &topic, self.partitions as i32).await {
            let all = self.partitions as usize;
            let led = |metadata: &Metadata| client::leaders(metadata, &topic).is_ok_and(|leaders| leaders.len() == all);
            client::wait_metadata(admin, &topic, led).await.map_err(|_| error)?;
        }
        self.topics.fetch_add(1, Ordering::Release);
        Ok(())
    }

    fn topic(&self, number: u32) -> String {
        format!("history-{}-{number}", self.recorder.run)
    }

    pub fn client_id(&self, zone: &str) -> String {
        if zone.is_empty() { "history".to_owned() } else { format!("history,zone={zone}") }
    }

    pub fn place_of(&self, key: Key) -> (String, i32) {
        (self.topic(key / self.partitions), (key % self.partitions) as i32)
    }

    pub fn key_of(&self, topic: &str, partition: i32) -> Option<Key> {
        let number: u32 = topic.rsplit('-').next()?.parse().ok()?;
        let partition = u32::try_from(partition).ok().filter(|partition| *partition < self.partitions)?;
        Some(number * self.partitions + partition)
    }

    pub fn keys(&self) -> Vec<Key> {
        (0..self.topics.load(Ordering::Acquire) * self.partitions).collect()
    }

    pub fn keys_by_topic(&self) -> Vec<Vec<Key>> {
        (0..self.topics.load(Ordering::Acquire)).map(|topic| self.keys_of(topic)).collect()
    }

    fn keys_of(&self, topic: u32) -> Vec<Key> {
        (topic * self.partitions..(topic + 1) * self.partitions).collect()
    }

    fn topics_written(&self) -> std::ops::Range<u32> {
        let topics = self.topics.load(Ordering::Acquire);
        topics.saturating_sub(TOPICS_WRITTEN).max(TOPICS_KEPT)..topics
    }

    pub fn keys_written(&self) -> Vec<Key> {
        [INPUT, OUTPUT].into_iter().chain(self.topics_written()).flat_map(|topic| self.keys_of(topic)).collect()
    }

    pub fn keys_in_transactions(&self) -> Vec<Key> {
        let shared = self.topics_written().filter(|topic| topic % 2 == 0);
        [INPUT].into_iter().chain(shared).flat_map(|topic| self.keys_of(topic)).collect()
    }

    /// Where a writer without transactions writes next.
    pub fn key_to_write(&self, random: &mut Random) -> Key {
        let keys = if random.one_in(SHARED_ONE_IN) {
            self.keys_in_transactions()
        } else {
            self.topics_written().filter(|topic| topic % 2 == 1).flat_map(|topic| self.keys_of(topic)).collect()
        };
        keys[random.below(keys.len() as u64) as usize]
    }

    pub fn input_topic(&self) -> String {
        self.topic(INPUT)
    }

    pub fn input_keys(&self) -> Vec<Key> {
        self.keys_of(INPUT)
    }

    /// Where the copies of an input key's values are.
    pub fn output_of(&self, input: Key) -> Key {
        input + (OUTPUT - INPUT) * self.partitions
    }

    pub fn transactional_id(&self, kind: &str, number: u64) -> String {
        format!("history-{}-{kind}-{number}", self.recorder.run)
    }

    /// How many records one writer should have handed over by now.
    pub fn records_due(&self, began: Instant) -> u64 {
        match self.records_per_second {
            0 => u64::MAX,
            rate => (began.elapsed().as_secs_f64() * rate as f64) as u64,
        }
    }

    /// Slow writers write small batches, so that every key is written often: the history then tells finely when it could
    /// be written again.
    pub fn batch_records_max(&self) -> u64 {
        match self.records_per_second {
            0 => BATCH_RECORDS_MAX,
            rate => (rate / 100).clamp(1, BATCH_RECORDS_MAX),
        }
    }

    /// A writer was told that all before `next` is in the log, and will be shown to such readers.
    pub fn acknowledged(&self, isolation: Isolation, key: Key, next: i64) {
        let mut all = self.acknowledged_next.lock().expect("no holder panics");
        let known = all.entry((isolation, key)).or_default();
        *known = next.max(*known);
    }

    /// Behind the last offset that any writer was given.
    pub fn acknowledged_next(&self, isolation: Isolation, key: Key) -> i64 {
        self.acknowledged_next.lock().expect("no holder panics").get(&(isolation, key)).copied().unwrap_or(0)
    }
}

fn join(workers: Vec<thread::JoinHandle<Result<()>>>) -> Result<()> {
    workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| anyhow!("a worker panicked"))?)
}
