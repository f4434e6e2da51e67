//! Where reading starts and ends: watermarks, times, the middle of a batch.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Message, OwnedMessage};
use rdkafka::producer::FutureRecord;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::write;
use crate::client::{self, ANSWER_TIMEOUT, Span, read_spans};
use crate::payload;
use crate::suite::{Context, Run};

pub const CASES: &[(&str, Run)] = &[
    ("watermarks_follow_the_records", |c| Box::pin(watermarks(c))),
    ("a_time_finds_the_first_record_at_or_after_it", |c| Box::pin(times(c))),
    ("reading_may_start_in_the_middle_of_a_batch", |c| Box::pin(middle(c))),
    ("beginning_end_and_tail_start_where_they_say", |c| Box::pin(logical(c))),
    ("a_waiting_reader_gets_the_next_record", |c| Box::pin(waiting(c))),
    ("an_offset_past_the_end_is_out_of_range", |c| Box::pin(past_the_end(c))),
    ("a_tiny_fetch_limit_still_makes_progress", |c| Box::pin(tiny_limit(c))),
    ("an_unknown_partition_is_refused", |c| Box::pin(unknown_partition(c))),
];

async fn watermarks(context: &Context) -> Result<()> {
    let topic = context.topic("watermarks");
    client::create_topic(&context.admin()?, &topic, 2).await?;
    let (producer, consumer) = (context.producer(&[])?, context.consumer()?);
    for round in 0..4 {
        let shown = consumer.fetch_watermarks(&topic, 1, ANSWER_TIMEOUT)?;
        ensure!(shown == (0, round * 25), "{shown:?} after {round} rounds of 25");
        write::stamped(&producer, &topic, 1, round as u32, 25).await?;
    }
    let other = consumer.fetch_watermarks(&topic, 0, ANSWER_TIMEOUT)?;
    ensure!(other == (0, 0), "{other:?} in the partition that got nothing");
    Ok(())
}

/// 100 records, their times 10 ms apart, in compressed batches of 20.
async fn timed_topic(context: &Context, name: &str, codec: &str) -> Result<String> {
    let topic = context.topic(name);
    client::create_topic(&context.admin()?, &topic, 1).await?;
    let settings = [("compression.type", codec), ("batch.num.messages", "20"), ("linger.ms", "100")];
    let producer = context.producer(&settings)?;
    let mut deliveries = Vec::new();
    for sequence in 0..100 {
        let value = payload::make(payload::Stamp { writer: 1, sequence }, 100);
        let record = FutureRecord::<[u8], [u8]>::to(&topic)
            .partition(0)
            .payload(&value)
            .timestamp(FIRST_TIME + 10 * sequence as i64);
        deliveries.push(producer.send_result(record).map_err(|(error, _)| error)?);
    }
    for delivery in deliveries {
        delivery.await?.map_err(|(error, _)| error)?;
    }
    Ok(topic)
}

const FIRST_TIME: i64 = 1_600_000_000_000;

async fn times(context: &Context) -> Result<()> {
    for codec in ["none", "zstd"] {
        let topic = timed_topic(context, &format!("times-{codec}"), codec).await?;
        let consumer = context.consumer()?;
        let cases = [
            (-1000, Offset::Offset(0)),
            (0, Offset::Offset(0)),
            (1, Offset::Offset(1)),
            (570, Offset::Offset(57)),
            (571, Offset::Offset(58)),
            (990, Offset::Offset(99)),
            (991, Offset::End),
        ];
        for (after, due) in cases {
            let mut asked = TopicPartitionList::new();
            asked.add_partition_offset(&topic, 0, Offset::Offset(FIRST_TIME + after))?;
            let answer = consumer.offsets_for_times(asked, ANSWER_TIMEOUT)?;
            let found = answer.find_partition(&topic, 0).context("the partition is not in the answer")?;
            found.error()?;
            ensure!(found.offset() == due, "{after} ms after the first record: {:?}, not {due:?}", found.offset());
        }
    }
    Ok(())
}

async fn middle(context: &Context) -> Result<()> {
    let topic = timed_topic(context, "middle", "lz4").await?;
    let consumer = context.consumer()?;
    for start in [0, 1, 19, 20, 57, 99] {
        let mut due = start as u64;
        read_spans(&consumer, &topic, &[Span { partition: 0, start, end: 100 }], |message| {
            let stamp = payload::read(message.payload().context("a null value")?)?;
            ensure!(stamp.sequence == due, "{stamp:?} where {due} was due");
            due += 1;
            Ok(())
        })?;
    }
    Ok(())
}

/// Assigns the partition at `from` and takes the first record.
fn first(consumer: &BaseConsumer, topic: &str, from: Offset, within: Duration) -> Result<Option<OwnedMessage>> {
    assign(consumer, topic, from)?;
    next(consumer, within)
}

fn assign(consumer: &BaseConsumer, topic: &str, from: Offset) -> Result<()> {
    let mut assignment = TopicPartitionList::new();
    assignment.add_partition_offset(topic, 0, from)?;
    Ok(consumer.assign(&assignment)?)
}

fn next(consumer: &BaseConsumer, within: Duration) -> Result<Option<OwnedMessage>> {
    let started = Instant::now();
    while started.elapsed() < within {
        if let Some(answer) = consumer.poll(Duration::from_millis(100)) {
            return Ok(Some(answer?.detach()));
        }
    }
    Ok(None)
}

async fn logical(context: &Context) -> Result<()> {
    let topic = timed_topic(context, "logical", "none").await?;
    let consumer = context.consumer()?;
    for (from, due) in [(Offset::Beginning, 0), (Offset::OffsetTail(5), 95)] {
        let record =
            first(&consumer, &topic, from, ANSWER_TIMEOUT)?.with_context(|| format!("nothing from {from:?}"))?;
        ensure!(record.offset() == due, "{from:?} started at {}", record.offset());
    }
    Ok(())
}

async fn waiting(context: &Context) -> Result<()> {
    let topic = timed_topic(context, "waiting", "none").await?;
    let config = {
        let mut config = client::consumer_config(&context.bootstrap, "rdkafka-cases");
        config.set("enable.partition.eof", "true").set("fetch.wait.max.ms", "500");
        config
    };
    let consumer: BaseConsumer = config.create()?;
    assign(&consumer, &topic, Offset::End)?;
    // The end of the partition is reported once the reader stands there: only then write.
    match next(&consumer, ANSWER_TIMEOUT) {
        Err(error) if error.downcast_ref() == Some(&KafkaError::PartitionEOF(0)) => {}
        other => bail!("the end was not reported: {other:?}"),
    }
    let record = FutureRecord::to(&topic).partition(0).payload(&b"news"[..]).key(&b""[..]);
    let offset = write::one(&context.producer(&[])?, record).await.map_err(|code| anyhow::anyhow!("{code}"))?;
    let record = next(&consumer, ANSWER_TIMEOUT)?.context("nothing came")?;
    ensure!(record.offset() == offset && record.payload() == Some(b"news"), "{record:?}");
    Ok(())
}

async fn past_the_end(context: &Context) -> Result<()> {
    let topic = timed_topic(context, "past", "none").await?;
    let consumer = context.consumer()?;
    match first(&consumer, &topic, Offset::Offset(1000), ANSWER_TIMEOUT) {
        Err(error) if reset_refused(&error) => Ok(()),
        other => bail!("answered {other:?}"),
    }
}

/// With auto.offset.reset=error librdkafka turns OFFSET_OUT_OF_RANGE into this.
fn reset_refused(error: &anyhow::Error) -> bool {
    let code = error.downcast_ref().and_then(KafkaError::rdkafka_error_code);
    matches!(code, Some(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange))
}

async fn tiny_limit(context: &Context) -> Result<()> {
    let topic = context.topic("tiny-limit");
    client::create_topic(&context.admin()?, &topic, 1).await?;
    write::stamped(&context.producer(&[("batch.num.messages", "10")])?, &topic, 0, 1, 50).await?;
    let mut config = client::consumer_config(&context.bootstrap, "rdkafka-cases");
    config.set("max.partition.fetch.bytes", "1").set("fetch.max.bytes", "1000012").set("message.max.bytes", "1000000");
    let consumer: BaseConsumer = config.create()?;
    read_spans(&consumer, &topic, &[Span { partition: 0, start: 0, end: 50 }], |message| {
        payload::read(message.payload().context("a null value")?).map(drop)
    })
}

async fn unknown_partition(context: &Context) -> Result<()> {
    let topic = context.topic("two-partitions");
    client::create_topic(&context.admin()?, &topic, 2).await?;
    let producer = context.producer(&[("message.timeout.ms", "5000")])?;
    let record = FutureRecord::to(&topic).partition(7).payload(&b"lost"[..]).key(&b""[..]);
    match write::one(&producer, record).await {
        Err(RDKafkaErrorCode::UnknownPartition | RDKafkaErrorCode::UnknownTopicOrPartition) => Ok(()),
        other => bail!("answered {other:?}"),
    }
}
