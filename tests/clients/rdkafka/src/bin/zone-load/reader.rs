//! One consumer of some partitions, assigned by hand, in a thread of its own.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka_cases::client::ANSWER_TIMEOUT;

use crate::tally::Tally;

#[derive(Clone, Copy)]
pub enum From {
    Beginning,
    End,
}

impl From {
    pub fn parse(word: &str) -> Result<From> {
        match word {
            "beginning" => Ok(From::Beginning),
            "end" => Ok(From::End),
            other => bail!("--from {other} is neither beginning nor end"),
        }
    }
}

/// Returns when it is known where reading begins. The thread lives as long as the process.
pub fn start(config: &ClientConfig, topic: &str, partitions: &[i32], from: From, tally: Arc<Tally>) -> Result<()> {
    let consumer: BaseConsumer = config.create()?;
    let mut assignment = TopicPartitionList::new();
    for partition in partitions {
        let ends = consumer.fetch_watermarks(topic, *partition, ANSWER_TIMEOUT);
        let (first, end) = ends.with_context(|| format!("watermarks of {topic}-{partition}"))?;
        let at = match from {
            From::Beginning => first,
            From::End => end,
        };
        assignment.add_partition_offset(topic, *partition, Offset::Offset(at))?;
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
