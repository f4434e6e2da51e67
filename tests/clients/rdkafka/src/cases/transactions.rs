//! Transactions: what is committed is read once, what is aborted never, and only one producer has an id.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::client::{self, ANSWER_TIMEOUT};
use crate::suite::{Context, Run};

pub const CASES: &[(&str, Run)] = &[
    ("committed_is_read_and_aborted_is_not", |c| Box::pin(committed_and_aborted(c))),
    ("an_open_transaction_hides_what_follows_it", |c| Box::pin(hides(c))),
    ("offsets_count_with_their_transaction", |c| Box::pin(offsets(c))),
    ("the_next_producer_of_an_id_fences_the_one_before", |c| Box::pin(fences(c))),
    ("a_transaction_that_takes_too_long_is_aborted", |c| Box::pin(takes_too_long(c))),
    ("a_hundred_transactions_follow_each_other", |c| Box::pin(hundred(c))),
];

const SILENCE: Duration = Duration::from_secs(20);

fn producer(context: &Context, id: &str, settings: &[(&str, &str)]) -> Result<FutureProducer> {
    let settings: Vec<(&str, &str)> = [("transactional.id", id)].into_iter().chain(settings.iter().copied()).collect();
    let producer = context.producer(&settings)?;
    producer.init_transactions(ANSWER_TIMEOUT)?;
    Ok(producer)
}

/// One record to each of the partitions.
async fn send(producer: &FutureProducer, topic: &str, partitions: i32, value: &str) -> Result<()> {
    for partition in 0..partitions {
        let record: FutureRecord<'_, (), str> = FutureRecord::to(topic).partition(partition).payload(value);
        let sent = producer.send_result(record).map_err(|(error, _)| error)?;
        sent.await.context("the producer dropped a record")?.map_err(|(error, _)| error)?;
    }
    Ok(())
}

fn reader(context: &Context, topic: &str, partitions: i32, isolation: &str) -> Result<BaseConsumer> {
    let mut config = client::consumer_config(&context.bootstrap, "rdkafka-cases");
    config.set("isolation.level", isolation).set("enable.partition.eof", "true");
    let consumer: BaseConsumer = config.create()?;
    let mut all = TopicPartitionList::new();
    for partition in 0..partitions {
        all.add_partition_offset(topic, partition, Offset::Beginning)?;
    }
    consumer.assign(&all)?;
    Ok(consumer)
}

/// The values of each partition up to its end, which for readers of committed records is that of the decided ones.
fn values(context: &Context, topic: &str, partitions: i32, isolation: &str) -> Result<Vec<Vec<String>>> {
    let consumer = reader(context, topic, partitions, isolation)?;
    let (mut read, mut ended) = (vec![Vec::new(); partitions as usize], 0);
    let deadline = Instant::now() + SILENCE;
    while ended < partitions {
        ensure!(Instant::now() < deadline, "no end of {topic} after {read:?}");
        match consumer.poll(Duration::from_millis(200)) {
            None => {}
            Some(Err(KafkaError::PartitionEOF(_))) => ended += 1,
            Some(answer) => {
                let message = answer?;
                let value = message.payload_view::<str>().context("a null value")??.to_owned();
                read[message.partition() as usize].push(value);
            }
        }
    }
    Ok(read)
}

fn holds(context: &Context, topic: &str, partitions: i32, isolation: &str, due: &[&str]) -> Result<()> {
    for (partition, read) in values(context, topic, partitions, isolation)?.into_iter().enumerate() {
        ensure!(read == due, "{isolation} in partition {partition}: {read:?} where {due:?} was due");
    }
    Ok(())
}

async fn committed_and_aborted(context: &Context) -> Result<()> {
    let topic = context.topic("committed-and-aborted");
    client::create_topic(&context.admin()?, &topic, 3).await?;
    let producer = producer(context, &topic, &[])?;
    for (value, commit) in [("a", true), ("b", false), ("c", false), ("d", true)] {
        producer.begin_transaction()?;
        send(&producer, &topic, 3, value).await?;
        match commit {
            true => producer.commit_transaction(ANSWER_TIMEOUT)?,
            false => producer.abort_transaction(ANSWER_TIMEOUT)?,
        }
    }
    // The end is answered when it is decided; that every partition knows it may take a moment more.
    let deadline = Instant::now() + SILENCE;
    while let Err(why) = holds(context, &topic, 3, "read_committed", &["a", "d"]) {
        ensure!(Instant::now() < deadline, "{why}");
    }
    holds(context, &topic, 3, "read_uncommitted", &["a", "b", "c", "d"])
}

async fn hides(context: &Context) -> Result<()> {
    let topic = context.topic("hides");
    client::create_topic(&context.admin()?, &topic, 1).await?;
    let (first, second) =
        (producer(context, &format!("{topic}-1"), &[])?, producer(context, &format!("{topic}-2"), &[])?);
    first.begin_transaction()?;
    send(&first, &topic, 1, "early").await?;
    second.begin_transaction()?;
    send(&second, &topic, 1, "late").await?;
    second.commit_transaction(ANSWER_TIMEOUT)?;
    holds(context, &topic, 1, "read_committed", &[])?;
    holds(context, &topic, 1, "read_uncommitted", &["early", "late"])?;
    let waiting = reader(context, &topic, 1, "read_committed")?;
    first.commit_transaction(ANSWER_TIMEOUT)?;
    let (mut read, deadline) = (Vec::new(), Instant::now() + SILENCE);
    while read.len() < 2 {
        ensure!(Instant::now() < deadline, "{read:?}, and nothing more");
        match waiting.poll(Duration::from_millis(200)) {
            None | Some(Err(KafkaError::PartitionEOF(_))) => {}
            Some(answer) => read.push(answer?.payload_view::<str>().context("a null value")??.to_owned()),
        }
    }
    ensure!(read == ["early", "late"], "{read:?}");
    Ok(())
}

async fn offsets(context: &Context) -> Result<()> {
    let topic = context.topic("offsets-in-transactions");
    client::create_topic(&context.admin()?, &topic, 1).await?;
    let mut config = client::consumer_config(&context.bootstrap, "rdkafka-cases");
    let consumer: BaseConsumer = config.set("group.id", &topic).create()?;
    let group = consumer.group_metadata().context("the consumer has no group")?;
    let producer = producer(context, &topic, &[])?;
    let committed = || -> Result<Offset> {
        let mut asked = TopicPartitionList::new();
        asked.add_partition(&topic, 0);
        let found = consumer.committed_offsets(asked, ANSWER_TIMEOUT)?;
        Ok(found.find_partition(&topic, 0).context("it was asked for")?.offset())
    };
    for (at, commit, due) in [(5, true, 5), (9, false, 5), (12, true, 12)] {
        producer.begin_transaction()?;
        send(&producer, &topic, 1, "copied").await?;
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_offset(&topic, 0, Offset::Offset(at))?;
        producer.send_offsets_to_transaction(&offsets, &group, ANSWER_TIMEOUT)?;
        match commit {
            true => producer.commit_transaction(ANSWER_TIMEOUT)?,
            false => producer.abort_transaction(ANSWER_TIMEOUT)?,
        }
        // librdkafka asks for stable offsets, and again while one is not decided.
        let found = committed()?;
        ensure!(found == Offset::Offset(due), "{found:?} is committed after {at}, {commit}");
    }
    Ok(())
}

/// The error that ends a producer.
fn fatal(answer: Result<(), KafkaError>) -> Result<RDKafkaErrorCode> {
    match answer {
        Ok(()) => bail!("a fenced producer was taken for a living one"),
        Err(KafkaError::Transaction(error)) if error.is_fatal() => Ok(error.code()),
        Err(error) => bail!("not fatal: {error}"),
    }
}

async fn fences(context: &Context) -> Result<()> {
    let topic = context.topic("fences");
    client::create_topic(&context.admin()?, &topic, 1).await?;
    let zombie = producer(context, &topic, &[])?;
    zombie.begin_transaction()?;
    send(&zombie, &topic, 1, "zombie").await?;
    let heir = producer(context, &topic, &[])?;
    let code = fatal(zombie.commit_transaction(ANSWER_TIMEOUT))?;
    ensure!(matches!(code, RDKafkaErrorCode::Fenced | RDKafkaErrorCode::ProducerFenced), "{code:?}");
    heir.begin_transaction()?;
    send(&heir, &topic, 1, "heir").await?;
    heir.commit_transaction(ANSWER_TIMEOUT)?;
    let deadline = Instant::now() + SILENCE;
    while let Err(why) = holds(context, &topic, 1, "read_committed", &["heir"]) {
        ensure!(Instant::now() < deadline, "{why}");
    }
    Ok(())
}

async fn takes_too_long(context: &Context) -> Result<()> {
    let topic = context.topic("takes-too-long");
    client::create_topic(&context.admin()?, &topic, 1).await?;
    // Its own timers would give the transaction up before the coordinator does.
    let slow = producer(context, &topic, &[("transaction.timeout.ms", "1000"), ("message.timeout.ms", "1000")])?;
    slow.begin_transaction()?;
    send(&slow, &topic, 1, "slow").await?;
    let other = producer(context, &format!("{topic}-other"), &[])?;
    other.begin_transaction()?;
    send(&other, &topic, 1, "other").await?;
    other.commit_transaction(ANSWER_TIMEOUT)?;
    let deadline = Instant::now() + SILENCE;
    while let Err(why) = holds(context, &topic, 1, "read_committed", &["other"]) {
        ensure!(Instant::now() < deadline, "{why}");
    }
    fatal(slow.commit_transaction(ANSWER_TIMEOUT))?;
    Ok(())
}

async fn hundred(context: &Context) -> Result<()> {
    let topic = context.topic("hundred");
    client::create_topic(&context.admin()?, &topic, 1).await?;
    let producer = producer(context, &topic, &[("linger.ms", "0")])?;
    let due: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    let began = Instant::now();
    for value in &due {
        producer.begin_transaction()?;
        send(&producer, &topic, 1, value).await?;
        producer.commit_transaction(ANSWER_TIMEOUT)?;
    }
    println!("        {:?} for each of a hundred transactions", began.elapsed() / 100);
    let due: Vec<&str> = due.iter().map(String::as_str).collect();
    let deadline = Instant::now() + SILENCE;
    while let Err(why) = holds(context, &topic, 1, "read_committed", &due) {
        ensure!(Instant::now() < deadline, "{why}");
    }
    Ok(())
}
