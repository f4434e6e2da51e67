//! One consumer of some partitions, assigned by hand, in a thread of its own.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
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

/// The thread lives as long as the process.
pub fn start(config: &ClientConfig, topic: &str, partitions: &[i32], from: Offset, tally: Arc<Tally>) -> Result<()> {
    let consumer: BaseConsumer = config.create()?;
    let mut assignment = TopicPartitionList::new();
    for partition in partitions {
        assignment.add_partition_offset(topic, *partition, from)?;
    }
    consumer.assign(&assignment)?;
    std::thread::spawn(move || {
        loop {
            match consumer.poll(Duration::from_millis(100)) {
                None => {}
                Some(Ok(message)) => tally.read(message.payload().unwrap_or_default()),
                // The client goes on by itself; what it met is told with the figures.
                Some(Err(error)) => tally.error(&error.to_string()),
            }
        }
    });
    Ok(())
}
