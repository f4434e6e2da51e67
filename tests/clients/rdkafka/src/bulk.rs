//! One idempotent producer that writes as fast as it is fed and tells each record's fate.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use rdkafka::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};

/// Where a record went, or why it did not. The offset is negative when the broker recognised a
/// retry but no longer knew where the original went.
pub struct Fate<'a> {
    pub value: &'a [u8],
    pub partition: i32,
    pub outcome: Result<i64, RDKafkaErrorCode>,
}

struct Told<F>(F);

impl<F: Fn(Fate<'_>) + Send + Sync> ClientContext for Told<F> {}

impl<F: Fn(Fate<'_>) + Send + Sync> ProducerContext for Told<F> {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _: ()) {
        let (message, outcome) = match result {
            Ok(message) => (message, Ok(message.offset())),
            Err((error, message)) => (message, Err(error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail))),
        };
        self.0(Fate { value: message.payload().unwrap_or_default(), partition: message.partition(), outcome });
    }
}

pub struct Bulk<F: Fn(Fate<'_>) + Send + Sync + 'static> {
    producer: BaseProducer<Told<F>>,
}

impl<F: Fn(Fate<'_>) + Send + Sync + 'static> Bulk<F> {
    /// `told` is called for every record exactly once, inside `write`, `poll` and `finish`.
    pub fn new(config: &ClientConfig, told: F) -> Result<Bulk<F>> {
        Ok(Bulk { producer: config.create_with_context(Told(told))? })
    }

    /// Hands one record to the client, waiting while its queue is full.
    pub fn write(&self, topic: &str, partition: i32, key: &[u8], value: &[u8]) -> Result<()> {
        let started = Instant::now();
        let mut record = BaseRecord::to(topic).partition(partition).key(key).payload(value);
        loop {
            match self.producer.send(record) {
                Ok(()) => break,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    ensure!(
                        started.elapsed() < QUEUE_WAIT_MAX,
                        "the producer's queue stayed full for {QUEUE_WAIT_MAX:?}"
                    );
                    record = back;
                    self.producer.poll(Duration::from_millis(10));
                }
                Err((error, _)) => bail!("sending: {error}"),
            }
        }
        self.producer.poll(Duration::ZERO);
        Ok(())
    }

    pub fn poll(&self, time: Duration) {
        self.producer.poll(time);
    }

    /// Waits until the fate of every record is told.
    pub fn finish(&self) -> Result<()> {
        Ok(self.producer.flush(QUEUE_WAIT_MAX)?)
    }
}

/// Longer than message.timeout.ms of every caller: a record's fate is told before this ends.
const QUEUE_WAIT_MAX: Duration = Duration::from_secs(180);
