//! Writing stamped records, and the comparison with what is read back.

use anyhow::{Context as _, Result, ensure};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{FutureProducer, FutureRecord};

use crate::client::{read_spans, whole_topic};
use crate::payload::{self, Stamp};
use crate::suite::Context;

/// Writes `count` stamped records to one partition, all in flight at once, and checks that their
/// offsets follow each other.
pub async fn stamped(producer: &FutureProducer, topic: &str, partition: i32, writer: u32, count: u64) -> Result<()> {
    let mut deliveries = Vec::with_capacity(count as usize);
    for sequence in 0..count {
        let value = payload::make(Stamp { writer, sequence }, 1024);
        let key = format!("{writer}/{sequence}");
        let record = FutureRecord::to(topic).partition(partition).payload(&value).key(&key);
        deliveries.push(producer.send_result(record).map_err(|(error, _)| error)?);
    }
    let mut last = -1;
    for delivery in deliveries {
        let delivery = delivery.await.context("the producer dropped a record")?;
        let delivery = delivery.map_err(|(error, _)| error)?;
        ensure!(delivery.partition == partition && delivery.offset > last, "{delivery:?} came after offset {last}");
        last = delivery.offset;
    }
    Ok(())
}

/// One record; its offset, or the code it was refused with.
pub async fn one(producer: &FutureProducer, record: FutureRecord<'_, [u8], [u8]>) -> Result<i64, RDKafkaErrorCode> {
    let code = |error: KafkaError| error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail);
    let delivery = producer.send_result(record).map_err(|(error, _)| code(error))?;
    match delivery.await {
        Ok(Ok(delivery)) => Ok(delivery.offset),
        Ok(Err((error, _))) => Err(code(error)),
        Err(_) => Err(RDKafkaErrorCode::Fail),
    }
}

/// Reads the topic whole: every writer's records of every partition must be there once, in order.
pub fn holds(context: &Context, topic: &str, partitions: i32, writers: &[u32], count: u64) -> Result<()> {
    let consumer = context.consumer()?;
    let spans = whole_topic(&consumer, topic, partitions)?;
    let mut due = std::collections::BTreeMap::new();
    read_spans(&consumer, topic, &spans, |message| {
        let stamp = payload::read(message.payload().context("a null value")?)?;
        let sequence = due.entry((message.partition(), stamp.writer)).or_insert(0);
        ensure!(stamp.sequence == *sequence, "{stamp:?} where sequence {sequence} was due");
        let key = format!("{}/{}", stamp.writer, stamp.sequence);
        ensure!(message.key() == Some(key.as_bytes()), "the key is {:?}", message.key());
        *sequence += 1;
        Ok(())
    })?;
    for partition in 0..partitions {
        for writer in writers {
            let read = due.remove(&(partition, *writer)).unwrap_or(0);
            ensure!(read == count, "{read} of {count} records of writer {writer} in partition {partition}");
        }
    }
    ensure!(due.is_empty(), "records of writers that never wrote: {due:?}");
    Ok(())
}
