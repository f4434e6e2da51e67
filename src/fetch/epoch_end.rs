use bytes::Bytes;
use kafka_protocol::messages::offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult};
use kafka_protocol::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};

use crate::batch::Segments;
use crate::fetch::asked::{Asked, ask};
use crate::fetch::{Fetch, locate};
use crate::index::{Question, Reply};
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
        let mut asked = Vec::new();
        for topic in &request.topics {
            let found = locate::topic(&self.cluster, &TopicRef::Name(topic.topic.0.clone()));
            asked.extend(topic.partitions.iter().map(|want| Asked {
                place: found.as_ref().map_err(|e| *e).and_then(|topic| locate::partition(topic, want.partition)),
                client_epoch: want.current_leader_epoch,
                committed: false,
                question: Some(Question::EpochEnd(want.leader_epoch)),
            }));
        }
        // From the newest state: a replica that is behind would say that the reader's log was cut.
        let mut replies = ask(&self.replicas, &asked).await.into_iter();
        let topics = request.topics.into_iter().map(|topic| {
            let partitions = topic.partitions.iter().zip(&mut replies).map(|(want, reply)| {
                let (error, (epoch, end)) = match reply {
                    Ok(Reply::At { epoch, offset }) => (ErrorCode::None, (epoch, offset)),
                    Ok(_) => (ErrorCode::NotLeaderOrFollower, UNDEFINED),
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
