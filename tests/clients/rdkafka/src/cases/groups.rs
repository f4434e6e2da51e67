//! Members of a group: who reads what, and from where the next one goes on.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::Message;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::write;
use crate::client::{self, ANSWER_TIMEOUT};
use crate::suite::{Context, Run};

pub const CASES: &[(&str, Run)] = &[
    ("a_group_goes_on_where_it_committed", |c| Box::pin(goes_on(c, CLASSIC))),
    ("a_group_of_the_consumer_protocol_goes_on_where_it_committed", |c| Box::pin(goes_on(c, CONSUMER))),
    ("members_share_eagerly_and_one_takes_over", |c| {
        Box::pin(shared(c, "range", &[("partition.assignment.strategy", "range")]))
    }),
    ("members_share_cooperatively_and_one_takes_over", |c| {
        Box::pin(shared(c, "cooperative-sticky", &[("partition.assignment.strategy", "cooperative-sticky")]))
    }),
    ("members_share_what_the_coordinator_assigns_and_one_takes_over", |c| Box::pin(shared(c, "uniform", CONSUMER))),
    ("members_of_both_protocols_share_a_group", |c| Box::pin(migrated(c))),
    ("a_commit_comes_back_with_its_metadata", |c| Box::pin(metadata(c))),
];

const PATIENCE: Duration = Duration::from_secs(60);

/// Settings of a member, by the protocol it speaks. In the newer one the broker says how often it is heard.
const CLASSIC: &[(&str, &str)] = &[("session.timeout.ms", "10000"), ("heartbeat.interval.ms", "300")];
const CONSUMER: &[(&str, &str)] = &[("group.protocol", "consumer")];

fn member(context: &Context, group: &str, settings: &[(&str, &str)]) -> Result<BaseConsumer> {
    let mut config = client::consumer_config(&context.bootstrap, "rdkafka-cases");
    config.set("group.id", group).set("auto.offset.reset", "earliest");
    for (name, value) in settings {
        config.set(*name, *value);
    }
    Ok(config.create()?)
}

async fn goes_on(context: &Context, protocol: &[(&str, &str)]) -> Result<()> {
    let topic = context.topic(if protocol == CLASSIC { "goes-on" } else { "goes-on-too" });
    client::create_topic(&context.admin()?, &topic, 3).await?;
    let producer = context.producer(&[])?;
    for round in 0..2i64 {
        for partition in 0..3 {
            write::stamped(&producer, &topic, partition, round as u32, 50).await?;
        }
        let consumer = member(context, &topic, protocol)?;
        consumer.subscribe(&[&topic])?;
        let (mut read, deadline) = (BTreeSet::new(), Instant::now() + PATIENCE);
        while read.len() < 150 {
            ensure!(Instant::now() < deadline, "{} of 150 records in round {round}", read.len());
            let Some(message) = consumer.poll(Duration::from_millis(200)) else { continue };
            let message = message?;
            read.insert((message.partition(), message.offset()));
        }
        let due = (0..3).flat_map(|partition| (0..50).map(move |n| (partition, 50 * round + n)));
        ensure!(read == due.collect(), "round {round} began elsewhere: {:?}", read.first());
        consumer.commit_consumer_state(CommitMode::Sync)?;
    }
    Ok(())
}

fn partitions(consumer: &BaseConsumer) -> Result<BTreeSet<i32>> {
    Ok(consumer.assignment()?.elements().iter().map(|one| one.partition()).collect())
}

fn joined(context: &Context, topic: &str, settings: &[(&str, &str)]) -> Result<BaseConsumer> {
    let consumer = member(context, topic, settings)?;
    consumer.subscribe(&[topic])?;
    Ok(consumer)
}

/// The first is classic, and stays when the group goes over for the second, and when it comes back.
async fn migrated(context: &Context) -> Result<()> {
    let topic = context.topic("migrated");
    client::create_topic(&context.admin()?, &topic, 4).await?;
    let settings = [CLASSIC, &[("partition.assignment.strategy", "cooperative-sticky")]].concat();
    let (first, deadline) = (joined(context, &topic, &settings)?, Instant::now() + PATIENCE);
    // One that is still joining when the group goes over hears of another rebalance, in Kafka too, and librdkafka tells it.
    while partitions(&first)?.len() < 4 {
        ensure!(Instant::now() < deadline, "the first has {:?} of four partitions", partitions(&first)?);
        first.poll(Duration::from_millis(20)).transpose()?;
    }
    share(first, joined(context, &topic, CONSUMER)?)
}

async fn shared(context: &Context, name: &str, settings: &[(&str, &str)]) -> Result<()> {
    let topic = context.topic(name);
    client::create_topic(&context.admin()?, &topic, 4).await?;
    let classic = if settings == CONSUMER { &[] } else { CLASSIC };
    let settings = [classic, settings].concat();
    share(joined(context, &topic, &settings)?, joined(context, &topic, &settings)?)
}

/// Two members of one group share its four partitions; then the other leaves.
fn share(one: BaseConsumer, other: BaseConsumer) -> Result<()> {
    let all: BTreeSet<i32> = (0..4).collect();
    let deadline = Instant::now() + PATIENCE;
    loop {
        for consumer in [&one, &other] {
            consumer.poll(Duration::from_millis(20)).transpose()?;
        }
        let (a, b) = (partitions(&one)?, partitions(&other)?);
        if a.len() == 2 && &a | &b == all {
            break;
        }
        ensure!(Instant::now() < deadline, "{a:?} and {b:?} of four partitions");
    }
    drop(other);
    while partitions(&one)? != all {
        ensure!(Instant::now() < deadline, "{:?} after the other left", partitions(&one)?);
        one.poll(Duration::from_millis(20)).transpose()?;
    }
    Ok(())
}

/// By a consumer that assigns partitions by hand, and belongs to no group.
async fn metadata(context: &Context) -> Result<()> {
    let topic = context.topic("committed");
    client::create_topic(&context.admin()?, &topic, 2).await?;
    let consumer = member(context, &topic, &[])?;
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&topic, 0, Offset::Offset(17))?;
    list.find_partition(&topic, 0).expect("it was added").set_metadata("seventeen");
    consumer.commit(&list, CommitMode::Sync)?;
    let mut asked = TopicPartitionList::new();
    asked.add_partition(&topic, 0);
    asked.add_partition(&topic, 1);
    let found = consumer.committed_offsets(asked, ANSWER_TIMEOUT)?;
    let told: Vec<(Offset, String)> =
        found.elements().iter().map(|one| (one.offset(), one.metadata().to_owned())).collect();
    ensure!(told == [(Offset::Offset(17), "seventeen".into()), (Offset::Invalid, String::new())], "{told:?}");
    Ok(())
}
