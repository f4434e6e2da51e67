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
    ("a_group_goes_on_where_it_committed", |c| Box::pin(goes_on(c))),
    ("members_share_eagerly_and_one_takes_over", |c| Box::pin(shared(c, "range"))),
    ("members_share_cooperatively_and_one_takes_over", |c| Box::pin(shared(c, "cooperative-sticky"))),
    ("a_commit_comes_back_with_its_metadata", |c| Box::pin(metadata(c))),
];

const PATIENCE: Duration = Duration::from_secs(60);

fn member(context: &Context, group: &str, settings: &[(&str, &str)]) -> Result<BaseConsumer> {
    let mut config = client::consumer_config(&context.bootstrap, "rdkafka-cases");
    config.set("group.id", group).set("auto.offset.reset", "earliest");
    config.set("session.timeout.ms", "10000").set("heartbeat.interval.ms", "300");
    for (name, value) in settings {
        config.set(*name, *value);
    }
    Ok(config.create()?)
}

async fn goes_on(context: &Context) -> Result<()> {
    let topic = context.topic("goes-on");
    client::create_topic(&context.admin()?, &topic, 3).await?;
    let producer = context.producer(&[])?;
    for round in 0..2i64 {
        for partition in 0..3 {
            write::stamped(&producer, &topic, partition, round as u32, 50).await?;
        }
        let consumer = member(context, &topic, &[])?;
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

async fn shared(context: &Context, strategy: &str) -> Result<()> {
    let topic = context.topic(strategy);
    client::create_topic(&context.admin()?, &topic, 4).await?;
    let join = || -> Result<BaseConsumer> {
        let consumer = member(context, &topic, &[("partition.assignment.strategy", strategy)])?;
        consumer.subscribe(&[&topic])?;
        Ok(consumer)
    };
    let (one, other) = (join()?, join()?);
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
