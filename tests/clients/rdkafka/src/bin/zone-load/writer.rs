//! One producer at a steady rate, record after record to the next partition. Time counts from when a record was due,
//! so a producer that cannot keep up does not look fast.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use rdkafka::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};

use crate::tally::{self, Tally};

/// Longer than message.timeout.ms: every fate is told before.
const FLUSH_MAX: Duration = Duration::from_secs(90);

/// How long the writer sleeps between two looks at what is due.
const STEP: Duration = Duration::from_millis(1);

const STAMP_BYTES: usize = 8;

pub struct Plan {
    pub topic: String,
    pub partitions: i32,
    /// Of values. 0 writes nothing.
    pub bytes_per_second: u64,
    pub value_bytes: usize,
}

struct Told(Arc<Tally>);

impl ClientContext for Told {}

impl ProducerContext for Told {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _: ()) {
        match result {
            Ok(message) => self.0.acked(message.payload().unwrap_or_default()),
            Err((error, _)) => self.0.failed(&error.to_string()),
        }
    }
}

pub struct Writer {
    phase: Arc<AtomicU8>,
    thread: Mutex<Option<JoinHandle<Result<()>>>>,
}

const WAITING: u8 = 0;
const WRITING: u8 = 1;
const HALTED: u8 = 2;

impl Writer {
    pub fn new(config: &ClientConfig, plan: Plan, tally: Arc<Tally>) -> Result<Writer> {
        ensure!(plan.value_bytes >= STAMP_BYTES && plan.partitions > 0, "values of {} bytes", plan.value_bytes);
        let phase = Arc::new(AtomicU8::new(WAITING));
        let thread = if plan.bytes_per_second > 0 {
            let producer = config.create_with_context(Told(Arc::clone(&tally)))?;
            let phase = Arc::clone(&phase);
            Some(std::thread::spawn(move || write(&producer, &plan, &phase, &tally)))
        } else {
            None
        };
        Ok(Writer { phase, thread: Mutex::new(thread) })
    }

    pub fn begin(&self) {
        self.phase.store(WRITING, Ordering::Release);
    }

    /// Returns when the fate of every record is known.
    pub fn halt(&self) -> Result<()> {
        self.phase.store(HALTED, Ordering::Release);
        match self.thread.lock().expect("nothing panics under this lock").take() {
            Some(thread) => thread.join().map_err(|_| anyhow!("the writer panicked"))?,
            None => Ok(()),
        }
    }
}

fn write(producer: &BaseProducer<Told>, plan: &Plan, phase: &AtomicU8, tally: &Tally) -> Result<()> {
    while phase.load(Ordering::Acquire) == WAITING {
        producer.poll(STEP);
    }
    let mut value = noise(plan.value_bytes);
    let (started, began_at) = (Instant::now(), tally::now());
    let mut number: u64 = 0;
    while phase.load(Ordering::Acquire) == WRITING {
        let due = (started.elapsed().as_secs_f64() * plan.bytes_per_second as f64) as u64 / plan.value_bytes as u64;
        while number < due {
            let bytes_before = (number + 1) * plan.value_bytes as u64;
            let due_after = Duration::from_secs_f64(bytes_before as f64 / plan.bytes_per_second as f64);
            tally::stamp(&mut value, began_at + due_after);
            let partition = (number % plan.partitions as u64) as i32;
            let record: BaseRecord<'_, (), [u8]> = BaseRecord::to(&plan.topic).partition(partition).payload(&value);
            match producer.send(record) {
                Ok(()) => tally.sent(),
                // What is due stays due: the client makes room while it is polled.
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => break,
                Err((error, _)) => return Err(error.into()),
            }
            number += 1;
        }
        producer.poll(STEP);
    }
    Ok(producer.flush(FLUSH_MAX)?)
}

/// Bytes that no compression shortens (splitmix64).
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x6d69_6c65_u64;
    let words = (0..len.div_ceil(8)).flat_map(|_| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)).to_le_bytes()
    });
    words.take(len).collect()
}
