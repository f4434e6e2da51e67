//! The stock clients as every part of this program makes them.
//!
//! Consumers assign partitions with explicit offsets, except in the cases of groups. librdkafka wants a
//! group.id for `assign` all the same, and commits are switched off.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::metadata::Metadata;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// A reader that sees nothing new for this long gives up.
const SILENCE_MAX: Duration = Duration::from_secs(30);

pub type Admin = AdminClient<DefaultClientContext>;

pub fn config(bootstrap: &str, client_id: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", bootstrap)
        .set("client.id", client_id)
        // Asking about a topic must not make it.
        .set("allow.auto.create.topics", "false");
    config.set_log_level(RDKafkaLogLevel::Error);
    config
}

pub fn producer_config(bootstrap: &str, client_id: &str) -> ClientConfig {
    let mut config = config(bootstrap, client_id);
    config.set("enable.idempotence", "true").set("message.timeout.ms", "30000").set("linger.ms", "5");
    config
}

pub fn consumer_config(bootstrap: &str, client_id: &str) -> ClientConfig {
    let mut config = config(bootstrap, client_id);
    config
        .set("group.id", "assigned-by-hand")
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "error")
        .set("check.crcs", "true");
    config
}

pub fn consumer(bootstrap: &str, client_id: &str) -> Result<BaseConsumer> {
    Ok(consumer_config(bootstrap, client_id).create()?)
}

pub fn admin(bootstrap: &str, client_id: &str) -> Result<Admin> {
    Ok(config(bootstrap, client_id).create()?)
}

pub fn admin_options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(ANSWER_TIMEOUT)).operation_timeout(Some(ANSWER_TIMEOUT))
}

/// Creates a topic with the cluster's default replication factor and waits until all its
/// partitions have leaders.
pub async fn create_topic(admin: &Admin, topic: &str, partitions: i32) -> Result<()> {
    create_topic_with(admin, NewTopic::new(topic, partitions, TopicReplication::Fixed(-1))).await
}

pub async fn create_topic_with(admin: &Admin, topic: NewTopic<'_>) -> Result<()> {
    let (name, partitions) = (topic.name, topic.num_partitions);
    let answers = admin.create_topics([&topic], &admin_options()).await?;
    for answer in answers {
        if let Err((name, code)) = answer {
            bail!("creating {name}: {code}");
        }
    }
    wait_metadata(admin, name, |metadata| leaders(metadata, name).is_ok_and(|l| l.len() == partitions as usize)).await
}

pub async fn delete_topic(admin: &Admin, topic: &str) -> Result<(), RDKafkaErrorCode> {
    let answers = admin.delete_topics(&[topic], &admin_options()).await;
    let answers = answers.map_err(|error| error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail))?;
    for answer in answers {
        answer.map_err(|(_, code)| code)?;
    }
    Ok(())
}

/// The leader's broker id of each partition, in partition order; an error while one has none.
pub fn leaders(metadata: &Metadata, topic: &str) -> Result<Vec<i32>> {
    let named = metadata.topics().iter().find(|named| named.name() == topic).context("topic is not in the metadata")?;
    if let Some(error) = named.error() {
        bail!("{topic}: {}", RDKafkaErrorCode::from(error));
    }
    let mut found: Vec<(i32, i32)> = Vec::new();
    for partition in named.partitions() {
        ensure!(partition.leader() >= 0, "partition {} has no leader", partition.id());
        found.push((partition.id(), partition.leader()));
    }
    found.sort_unstable();
    Ok(found.into_iter().map(|(_, leader)| leader).collect())
}

/// Asks for the topic's metadata until `wanted` holds.
pub async fn wait_metadata(admin: &Admin, topic: &str, wanted: impl Fn(&Metadata) -> bool) -> Result<()> {
    let started = Instant::now();
    loop {
        let metadata = admin.inner().fetch_metadata(Some(topic), ANSWER_TIMEOUT)?;
        if wanted(&metadata) {
            return Ok(());
        }
        ensure!(started.elapsed() < SILENCE_MAX, "the metadata of {topic} never showed what was waited for");
        // Metadata has no notification: asking again is the only way.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Records from `start` up to, not including, `end` in one partition.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub partition: i32,
    pub start: i64,
    pub end: i64,
}

/// The whole of every partition, by the watermarks this consumer is told.
pub fn whole_topic(consumer: &BaseConsumer, topic: &str, partitions: i32) -> Result<Vec<Span>> {
    (0..partitions)
        .map(|partition| {
            let (start, end) = consumer
                .fetch_watermarks(topic, partition, ANSWER_TIMEOUT)
                .with_context(|| format!("watermarks of {topic}-{partition}"))?;
            Ok(Span { partition, start, end })
        })
        .collect()
}

/// Reads the spans in full, handing each record to `visit`. Offsets must be dense and in order,
/// as they are in a topic without compaction and transactions.
pub fn read_spans(
    consumer: &BaseConsumer,
    topic: &str,
    spans: &[Span],
    mut visit: impl FnMut(&BorrowedMessage<'_>) -> Result<()>,
) -> Result<()> {
    let mut assignment = TopicPartitionList::new();
    let mut next: std::collections::BTreeMap<i32, Span> = std::collections::BTreeMap::new();
    for span in spans.iter().filter(|span| span.start < span.end) {
        assignment.add_partition_offset(topic, span.partition, Offset::Offset(span.start))?;
        next.insert(span.partition, *span);
    }
    consumer.assign(&assignment)?;
    let mut last_heard = Instant::now();
    while !next.is_empty() {
        let message = match consumer.poll(Duration::from_millis(200)) {
            None => {
                ensure!(last_heard.elapsed() < SILENCE_MAX, "nothing came for {SILENCE_MAX:?}; still missing {next:?}");
                continue;
            }
            Some(Err(KafkaError::MessageConsumption(code))) if passing(code) => {
                ensure!(last_heard.elapsed() < SILENCE_MAX, "{code} for {SILENCE_MAX:?}; still missing {next:?}");
                continue;
            }
            Some(answer) => answer?,
        };
        last_heard = Instant::now();
        let Some(span) = next.get_mut(&message.partition()) else { continue };
        ensure!(message.offset() == span.start, "offset {} where {} was due", message.offset(), span.start);
        visit(&message).with_context(|| format!("{topic}-{} at offset {}", message.partition(), message.offset()))?;
        span.start += 1;
        if span.start == span.end {
            next.remove(&message.partition());
        }
    }
    consumer.unassign()?;
    Ok(())
}

/// What librdkafka reports while it goes on trying by itself.
fn passing(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode::{AllBrokersDown, BrokerTransportFailure, OperationTimedOut, Resolve};
    matches!(code, AllBrokersDown | BrokerTransportFailure | OperationTimedOut | Resolve)
}

/// Holds that an answer was this refusal and no other.
pub fn expect_refusal<T>(answer: Result<T, RDKafkaErrorCode>, wanted: RDKafkaErrorCode) -> Result<()> {
    match answer {
        Ok(_) => bail!("accepted, where {wanted:?} was due"),
        Err(code) if code == wanted => Ok(()),
        Err(code) => bail!("answered {code:?} ({code}), where {wanted:?} was due"),
    }
}
