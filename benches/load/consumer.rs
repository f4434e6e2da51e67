//! One reader of many partitions on one connection. It looks at batch headers and stamps, never at records.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use kafka_protocol::messages::FetchRequest;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::protocol::StrBytes;
use milepost::batch::Header;

use crate::frame::read_stamp;
use crate::wire::Connection;

const VERSION: i16 = 12;
const NOT_LEADER_OR_FOLLOWER: i16 = 6;

#[derive(Clone)]
pub struct Plan {
    pub address: String,
    pub client_id: String,
    pub topic: String,
    pub partitions: Vec<i32>,
    pub stamp_at: usize,
    pub until: Until,
}

#[derive(Clone)]
pub enum Until {
    /// Reads from the beginning, and again, until so many bytes were read.
    Bytes(u64),
    /// Follows the end until told to stop.
    Stopped(Arc<AtomicBool>),
}

#[derive(Default)]
pub struct Report {
    pub bytes: u64,
    /// From the sender's due time to here: (partition, time) for each batch.
    pub latencies: Vec<(i32, Duration)>,
}

pub async fn run(plan: Plan, epoch: Instant) -> Result<Report> {
    let mut connection = Connection::open(&plan.address, &plan.client_id).await?;
    let mut offsets: Vec<i64> = vec![0; plan.partitions.len()];
    let mut report = Report::default();
    loop {
        match &plan.until {
            Until::Bytes(bytes) if report.bytes >= *bytes => return Ok(report),
            Until::Stopped(stopped) if stopped.load(Ordering::Relaxed) => return Ok(report),
            _ => {}
        }
        let answer = connection.call(VERSION, &request(&plan, &offsets)).await?;
        ensure!(answer.error_code == 0, "Fetch: error {}", answer.error_code);
        let now = Instant::now();
        let before = report.bytes;
        let mut all_well = true;
        for partition in answer.responses.into_iter().flat_map(|topic| topic.partitions) {
            let index = partition.partition_index;
            if partition.error_code == NOT_LEADER_OR_FOLLOWER {
                // On a busy machine a replica may fall silent for a moment; clients ask again.
                tokio::time::sleep(Duration::from_millis(50)).await;
                all_well = false;
                continue;
            }
            ensure!(partition.error_code == 0, "partition {index}: error {}", partition.error_code);
            let Some(mut records) = partition.records else { continue };
            let position = plan.partitions.iter().position(|p| *p == index).expect("only what was asked for comes");
            while let Ok(header) = Header::peek(&records) {
                let batch = records.split_to(header.total_len);
                let sent = epoch + Duration::from_nanos(read_stamp(&batch, plan.stamp_at));
                report.latencies.push((index, now.duration_since(sent)));
                report.bytes += batch.len() as u64;
                ensure!(header.base_offset == offsets[position], "partition {index}: offsets leave a hole");
                offsets[position] = header.base_offset + i64::from(header.last_offset_delta) + 1;
            }
        }
        if all_well && report.bytes == before && matches!(plan.until, Until::Bytes(_)) {
            offsets.fill(0);
        }
    }
}

fn request(plan: &Plan, offsets: &[i64]) -> FetchRequest {
    let partitions = plan.partitions.iter().zip(offsets).map(|(index, offset)| {
        FetchPartition::default()
            .with_partition(*index)
            .with_current_leader_epoch(-1)
            .with_fetch_offset(*offset)
            .with_partition_max_bytes(1 << 20)
    });
    let topic = FetchTopic::default()
        .with_topic(StrBytes::from_string(plan.topic.clone()).into())
        .with_partitions(partitions.collect());
    // A reader that starts over must not wait at the end.
    let wait_ms = if matches!(plan.until, Until::Bytes(_)) { 0 } else { 200 };
    FetchRequest::default()
        .with_max_wait_ms(wait_ms)
        .with_min_bytes(1)
        .with_max_bytes(16 << 20)
        .with_session_epoch(-1)
        .with_topics(vec![topic])
}
