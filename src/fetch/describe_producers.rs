use bytes::Bytes;
use kafka_protocol::messages::describe_producers_response::{PartitionResponse, ProducerState, TopicResponse};
use kafka_protocol::messages::{DescribeProducersRequest, DescribeProducersResponse};

use crate::batch::Segments;
use crate::fetch::asked::{Asked, ask};
use crate::fetch::{Fetch, locate};
use crate::index::{ProducerSeen, Question, Reply};
use crate::protocol::{self, ErrorCode, TopicRef};

impl Fetch {
    /// DescribeProducers (API 61, KIP-664): who has written to a partition, and since where a transaction is open.
    ///
    /// # Errors
    /// The request cannot be decoded: close the connection.
    pub async fn describe_producers(&self, version: i16, body: Bytes) -> Result<Segments, protocol::Error> {
        let request: DescribeProducersRequest = protocol::decode(version, body)?;
        let mut asked = Vec::new();
        for topic in &request.topics {
            let found = locate::topic(&self.cluster, &TopicRef::Name(topic.name.0.clone()));
            asked.extend(topic.partition_indexes.iter().map(|index| Asked {
                place: found.as_ref().map_err(|e| *e).and_then(|topic| locate::partition(topic, *index)),
                client_epoch: -1,
                committed: false,
                question: Some(Question::Producers),
            }));
        }
        let mut replies = ask(&self.replicas, &asked).await.into_iter();
        let topics = request.topics.into_iter().map(|topic| {
            let partitions = topic.partition_indexes.iter().zip(&mut replies).map(|(index, reply)| {
                let answer = PartitionResponse::default().with_partition_index(*index);
                match reply {
                    Ok(Reply::Producers(seen)) => answer.with_active_producers(seen.into_iter().map(told).collect()),
                    Ok(_) => answer.with_error_code(ErrorCode::NotLeaderOrFollower.code()),
                    Err(error) => answer.with_error_code(error.code()),
                }
            });
            TopicResponse::default().with_name(topic.name.clone()).with_partitions(partitions.collect())
        });
        protocol::encode(version, &DescribeProducersResponse::default().with_topics(topics.collect()))
    }
}

fn told(seen: ProducerSeen) -> ProducerState {
    ProducerState::default()
        .with_producer_id(seen.producer.id.into())
        .with_producer_epoch(seen.producer.epoch.into())
        .with_last_sequence(seen.last_sequence)
        .with_last_timestamp(seen.last_time)
        .with_coordinator_epoch(seen.coordinator_epoch)
        .with_current_txn_start_offset(seen.open_since.unwrap_or(-1))
}
