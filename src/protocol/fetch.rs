//! Fetch answers (API 1, versions 4 to 18), encoded by hand: record bytes are shared, not copied.

use super::writer::Writer;
use super::{Error, ErrorCode, StrBytes, TopicRef};
use crate::batch::Segments;
use crate::types::{BrokerId, LeaderEpoch, Offset};

#[derive(Debug)]
pub struct FetchResponse {
    pub throttle_time_ms: i32,
    pub error: ErrorCode,
    /// 0 outside a fetch session.
    pub session_id: i32,
    pub topics: Vec<FetchTopic>,
    /// Where the leaders named in `current_leader` are (KIP-951); sent from version 16 on.
    pub node_endpoints: Vec<NodeEndpoint>,
}

#[derive(Debug)]
pub struct FetchTopic {
    /// As the request named it.
    pub topic: TopicRef,
    pub partitions: Vec<FetchPartition>,
}

#[derive(Debug)]
pub struct FetchPartition {
    pub index: i32,
    pub error: ErrorCode,
    pub high_watermark: Offset,
    pub last_stable_offset: Offset,
    pub log_start_offset: Offset,
    /// None for a reader of uncommitted records.
    pub aborted: Option<Vec<AbortedTransaction>>,
    pub preferred_read_replica: Option<BrokerId>,
    /// Batches patched for the reader.
    pub records: Segments,
    /// Where the reader's log diverges from ours; sent from version 12 on.
    pub diverging_epoch: Option<EpochEnd>,
    /// Sent from version 12 on, with an error that says the reader asked the wrong broker.
    pub current_leader: Option<CurrentLeader>,
}

impl FetchPartition {
    /// A partition that is answered with an error and nothing else.
    pub fn failed(index: i32, error: ErrorCode) -> Self {
        FetchPartition {
            index,
            error,
            high_watermark: -1,
            last_stable_offset: -1,
            log_start_offset: -1,
            aborted: None,
            preferred_read_replica: None,
            records: Segments::new(),
            diverging_epoch: None,
            current_leader: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedTransaction {
    pub producer_id: i64,
    pub first_offset: Offset,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochEnd {
    pub epoch: LeaderEpoch,
    pub end_offset: Offset,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CurrentLeader {
    pub leader: BrokerId,
    pub epoch: LeaderEpoch,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEndpoint {
    pub node: BrokerId,
    pub host: StrBytes,
    pub port: u16,
    pub rack: Option<StrBytes>,
}

/// Versions from here on are flexible.
const FLEXIBLE: i16 = 12;

/// Versions from here on name topics by id.
const TOPIC_IDS: i16 = 13;

/// Encodes the body of a Fetch answer.
///
/// # Errors
/// `Invalid` where a topic is named by id in a version that has names, or the other way round.
pub fn encode(version: i16, response: FetchResponse) -> Result<Segments, Error> {
    let compact = version >= FLEXIBLE;
    let mut out = Segments::new();
    let mut writer = Writer::new(&mut out, compact);
    writer.i32(response.throttle_time_ms);
    if version >= 7 {
        writer.error(response.error);
        writer.i32(response.session_id);
    }
    writer.length(Some(response.topics.len()));
    for topic in response.topics {
        match topic.topic {
            TopicRef::Name(name) if version < TOPIC_IDS => writer.string(&name),
            TopicRef::Id(id) if version >= TOPIC_IDS => writer.raw(id.as_bytes()),
            _ => {
                return Err(Error::Invalid("way to name a topic in this version of Fetch"));
            }
        }
        writer.length(Some(topic.partitions.len()));
        for answer in topic.partitions {
            partition(version, answer, &mut writer);
        }
        writer.no_tagged_fields();
    }
    if version >= 16 && !response.node_endpoints.is_empty() {
        writer.varint(1);
        writer.tagged(0, endpoints(&response.node_endpoints));
    } else {
        writer.no_tagged_fields();
    }
    Ok(out)
}

fn partition(version: i16, answer: FetchPartition, writer: &mut Writer<'_>) {
    writer.i32(answer.index);
    writer.error(answer.error);
    writer.i64(answer.high_watermark);
    writer.i64(answer.last_stable_offset);
    if version >= 5 {
        writer.i64(answer.log_start_offset);
    }
    writer.length(answer.aborted.as_ref().map(Vec::len));
    for aborted in answer.aborted.iter().flatten() {
        writer.i64(aborted.producer_id);
        writer.i64(aborted.first_offset);
        writer.no_tagged_fields();
    }
    if version >= 11 {
        writer.i32(answer.preferred_read_replica.unwrap_or(-1));
    }
    writer.records(answer.records);
    if version >= FLEXIBLE {
        let diverging = answer.diverging_epoch.map(|end| pair(end.epoch, &end.end_offset.to_be_bytes()));
        let leader = answer.current_leader.map(|leader| pair(leader.leader, &leader.epoch.to_be_bytes()));
        writer.varint(u32::from(diverging.is_some()) + u32::from(leader.is_some()));
        for (tag, body) in [(0, diverging), (1, leader)] {
            if let Some(body) = body {
                writer.tagged(tag, body);
            }
        }
    }
}

/// A structure of a number and another, without tagged fields.
fn pair(first: i32, second: &[u8]) -> Segments {
    let mut out = Segments::new();
    out.put(&first.to_be_bytes());
    out.put(second);
    out.put(&[0]);
    out
}

fn endpoints(nodes: &[NodeEndpoint]) -> Segments {
    let mut out = Segments::new();
    let mut writer = Writer::new(&mut out, true);
    writer.length(Some(nodes.len()));
    for node in nodes {
        writer.i32(node.node);
        writer.string(&node.host);
        writer.i32(i32::from(node.port));
        match &node.rack {
            Some(rack) => writer.string(rack),
            None => writer.length(None),
        }
        writer.no_tagged_fields();
    }
    out
}
