//! One consumer in a thread of its own: of partitions assigned by hand, or of those its group gives it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::tally::Tally;

/// Where reading begins.
pub fn parse(word: &str) -> Result<Offset> {
    match word {
        "beginning" => Ok(Offset::Beginning),
        "end" => Ok(Offset::End),
        other => bail!("--from {other} is neither beginning nor end"),
    }
}

/// What a reader reads.
pub enum Share<'a> {
    Partitions(&'a [i32], Offset),
    Group(&'a str),
}

/// Returns when it has something to read. The thread lives as long as the process.
pub fn start(config: &ClientConfig, topic: &str, share: &Share<'_>, within: Duration, tally: Arc<Tally>) -> Result<()> {
    let mut config = config.clone();
    if let Share::Group(group) = share {
        config.set("group.id", *group).set("auto.offset.reset", "latest");
    }
    let consumer: Arc<BaseConsumer> = Arc::new(config.create()?);
    match share {
        Share::Partitions(partitions, from) => {
            let mut assignment = TopicPartitionList::new();
            for partition in *partitions {
                assignment.add_partition_offset(topic, *partition, *from)?;
            }
            consumer.assign(&assignment)?;
        }
        Share::Group(_) => consumer.subscribe(&[topic])?,
    }
    let polled = Arc::clone(&consumer);
    std::thread::spawn(move || {
        loop {
            match polled.poll(Duration::from_millis(100)) {
                None => {}
                Some(Ok(message)) => tally.read(message.payload().unwrap_or_default()),
                // The client goes on by itself; what it met is told with the figures.
                Some(Err(error)) => tally.error(&error.to_string()),
            }
        }
    });
    let started = Instant::now();
    while consumer.assignment()?.count() == 0 {
        ensure!(started.elapsed() < within, "no partition was assigned within {within:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
