//! Topics for a run, made at one broker and seen at all.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{CreateTopicsRequest, MetadataRequest, MetadataResponse};
use kafka_protocol::protocol::StrBytes;

use crate::cluster::Cluster;
use crate::wire::Connection;

const SEEN_MAX: Duration = Duration::from_secs(30);

/// Creates topics with one request; they can be used when this returns.
pub async fn create(cluster: &Cluster, names: &[String], partitions: i32) -> Result<()> {
    let topics = names.iter().map(|name| {
        let topic = CreatableTopic::default().with_name(StrBytes::from_string(name.clone()).into());
        topic.with_num_partitions(partitions).with_replication_factor(3)
    });
    let request = CreateTopicsRequest::default().with_topics(topics.collect()).with_timeout_ms(120_000);
    let answer = Connection::open(&cluster.brokers[0].address, "admin").await?.call(5, &request).await?;
    for topic in &answer.topics {
        ensure!(topic.error_code == 0, "creating {}: error {}", topic.name.as_str(), topic.error_code);
    }
    Ok(())
}

/// Waits until every broker knows all partitions, with a leader each.
pub async fn wait_seen(cluster: &Cluster, names: &[String], partitions: i32) -> Result<()> {
    let started = Instant::now();
    for broker in &cluster.brokers {
        let mut connection = Connection::open(&broker.address, "admin").await?;
        while usable(&describe(&mut connection, names).await?) < names.len() * partitions as usize {
            ensure!(started.elapsed() < SEEN_MAX, "{} does not know the topics", broker.address);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

pub async fn describe(connection: &mut Connection, names: &[String]) -> Result<MetadataResponse> {
    let wanted = names
        .iter()
        .map(|name| MetadataRequestTopic::default().with_name(Some(StrBytes::from_string(name.clone()).into())));
    connection.call(9, &MetadataRequest::default().with_topics(Some(wanted.collect()))).await
}

fn usable(answer: &MetadataResponse) -> usize {
    answer.topics.iter().flat_map(|t| &t.partitions).filter(|p| p.error_code == 0 && p.leader_id.0 >= 0).count()
}
