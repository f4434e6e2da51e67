use bytes::Bytes;
use kafka_protocol::messages::offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult};
use kafka_protocol::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};

use crate::batch::Segments;
use crate::fetch::{Fetch, locate};
use crate::protocol::{self, ErrorCode, TopicRef};

/// Kafka's "no such epoch" (`UNDEFINED_EPOCH`, `UNDEFINED_EPOCH_OFFSET`).
const UNDEFINED: (i32, i64) = (-1, -1);

impl Fetch {
    /// OffsetForLeaderEpoch (API 23, KIP-101, KIP-320): where the asked epoch, or the one before it, ends.
    ///
    /// # Errors
    /// The request cannot be decoded: close the connection.
    pub async fn offset_for_leader_epoch(&self, version: i16, body: Bytes) -> Result<Segments, protocol::Error> {
        let request: OffsetForLeaderEpochRequest = protocol::decode(version, body)?;
        let mut places = Vec::new();
        for topic in &request.topics {
            let found = locate::topic(&self.cluster, &TopicRef::Name(topic.topic.0.clone()));
            let partitions = topic
                .partitions
                .iter()
                .map(|want| locate::partition(&self.shards, found.as_ref().map_err(|e| *e)?, want.partition));
            places.push(partitions.collect::<Vec<_>>());
        }
        // A replica that is behind would say that the reader's log was cut.
        let behind = self.catch_up(places.iter().flatten().flatten()).await;
        let topics = request.topics.into_iter().zip(places).map(|(topic, places)| {
            let partitions = topic.partitions.iter().zip(places).map(|(want, place)| {
                let answer = place.and_then(|located| match behind.contains(&located.shard.id) {
                    true => Err(ErrorCode::NotLeaderOrFollower),
                    false => located.read(want.current_leader_epoch, |p, current| {
                        p.epoch_end(want.leader_epoch, current).unwrap_or(UNDEFINED)
                    }),
                });
                let (error, (epoch, end)) = match answer {
                    Ok(answer) => (ErrorCode::None, answer),
                    Err(error) => (error, UNDEFINED),
                };
                EpochEndOffset::default()
                    .with_partition(want.partition)
                    .with_error_code(error.code())
                    .with_leader_epoch(epoch)
                    .with_end_offset(end)
            });
            OffsetForLeaderTopicResult::default().with_topic(topic.topic.clone()).with_partitions(partitions.collect())
        });
        protocol::encode(version, &OffsetForLeaderEpochResponse::default().with_topics(topics.collect()))
    }
}
