use std::collections::HashMap;
use std::collections::hash_map::Entry;

use kafka_protocol::messages::FetchRequest;

use crate::fetch::RESPONSE_BYTES_MAX;
use crate::protocol::TopicRef;
use crate::types::{LeaderEpoch, Offset};

/// Versions from here on name topics by id (KIP-516).
const TOPIC_IDS: i16 = 13;

/// One partition that a reader wants, in the request's order, each once.
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
    let mut topics: Vec<TopicRef> = Vec::with_capacity(request.topics.len());
    let mut partitions: Vec<Want> = Vec::new();
    let (mut topic_at, mut want_at) = (HashMap::new(), HashMap::new());
    for asked in request.topics {
        let topic = match version >= TOPIC_IDS {
            true => TopicRef::Id(asked.topic_id.into()),
            false => TopicRef::Name(asked.topic.0),
        };
        let at = *topic_at.entry(topic.clone()).or_insert_with(|| {
            topics.push(topic);
            topics.len() - 1
        });
        for p in &asked.partitions {
            let want = Want {
                topic: at,
                index: p.partition,
                offset: p.fetch_offset,
                client_epoch: p.current_leader_epoch,
                bytes_max: (p.partition_max_bytes.max(0) as usize).min(bytes_max),
            };
            match want_at.entry((at, p.partition)) {
                Entry::Vacant(place) => {
                    place.insert(partitions.len());
                    partitions.push(want);
                }
                // Whoever names a partition twice means the last (Kafka: `FetchRequest.toPartitionDataMap`).
                Entry::Occupied(place) => partitions[*place.get()] = want,
            }
        }
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

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};

    use super::*;
    use crate::protocol::StrBytes;

    #[test]
    fn whoever_names_a_partition_twice_means_the_last() {
        let topic = |name, wants: &[(i32, i64)]| {
            let one = |(index, offset): &(i32, i64)| {
                FetchPartition::default().with_partition(*index).with_fetch_offset(*offset).with_partition_max_bytes(9)
            };
            let name = StrBytes::from_static_str(name).into();
            FetchTopic::default().with_topic(name).with_partitions(wants.iter().map(one).collect())
        };
        let topics = vec![topic("a", &[(0, 1), (1, 2), (0, 3)]), topic("b", &[(0, 4)]), topic("a", &[(1, 5), (2, 6)])];
        let wanted = wanted(12, FetchRequest::default().with_max_bytes(100).with_topics(topics));
        let seen: Vec<_> = wanted.partitions.iter().map(|want| (want.topic, want.index, want.offset)).collect();
        assert_eq!(seen, [(0, 0, 3), (0, 1, 5), (1, 0, 4), (0, 2, 6)]);
        assert_eq!(wanted.topics.len(), 2);
    }
}
