use kafka_protocol::messages::FetchRequest;

use crate::fetch::RESPONSE_BYTES_MAX;
use crate::protocol::TopicRef;
use crate::types::{LeaderEpoch, Offset};

/// Versions from here on name topics by id (KIP-516).
const TOPIC_IDS: i16 = 13;

/// One partition that a reader wants, in the request's order.
pub(super) struct Want {
    /// Position of its topic among the request's.
    pub topic: usize,
    pub index: i32,
    pub offset: Offset,
    pub client_epoch: LeaderEpoch,
    pub bytes_max: usize,
}

pub(super) struct Wanted {
    pub topics: Vec<TopicRef>,
    pub partitions: Vec<Want>,
    pub bytes_min: usize,
    pub bytes_max: usize,
    pub wait_ms: u64,
    pub read_committed: bool,
    /// `client.rack` (KIP-392), empty when the client has none.
    pub rack: String,
    /// The client believes in a fetch session that this broker never opened.
    pub foreign_session: bool,
}

pub(super) fn wanted(version: i16, request: FetchRequest) -> Wanted {
    let bytes_max = (request.max_bytes.max(0) as usize).min(RESPONSE_BYTES_MAX);
    let mut topics = Vec::with_capacity(request.topics.len());
    let mut partitions = Vec::new();
    for topic in request.topics {
        partitions.extend(topic.partitions.iter().map(|p| Want {
            topic: topics.len(),
            index: p.partition,
            offset: p.fetch_offset,
            client_epoch: p.current_leader_epoch,
            bytes_max: (p.partition_max_bytes.max(0) as usize).min(bytes_max),
        }));
        topics.push(match version >= TOPIC_IDS {
            true => TopicRef::Id(topic.topic_id.into()),
            false => TopicRef::Name(topic.topic.0),
        });
    }
    Wanted {
        topics,
        partitions,
        bytes_min: request.min_bytes.max(0) as usize,
        bytes_max,
        wait_ms: request.max_wait_ms.max(0) as u64,
        read_committed: request.isolation_level == 1,
        rack: request.rack_id.to_string(),
        foreign_session: request.session_id != 0 && request.session_epoch > 0,
    }
}
