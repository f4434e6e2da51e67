use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use kafka_protocol::messages::write_txn_markers_request::WritableTxnMarker;
use kafka_protocol::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use kafka_protocol::messages::{WriteTxnMarkersRequest, WriteTxnMarkersResponse};

use crate::batch::Segments;
use crate::commit::Ending;
use crate::peer::LeaderError;
use crate::produce::{Produce, error};
use crate::protocol::{self, ErrorCode};
use crate::shard::ANY_TRANSACTION;
use crate::types::{Partition, Producer, ShardId};

/// How long a shard's leader is looked for.
const TIMEOUT: Duration = Duration::from_secs(10);

impl Produce {
    /// WriteTxnMarkers (API 27): how administrators end a transaction whose coordinator has forgotten it (KIP-664). They
    /// do not know its number, so it ends whichever the producer has open. Our coordinators do not come this way.
    ///
    /// # Errors
    /// The request cannot be decoded: close the connection.
    pub async fn write_txn_markers(&self, version: i16, body: Bytes) -> Result<Segments, protocol::Error> {
        let request: WriteTxnMarkersRequest = protocol::decode(version, body)?;
        let mut results = Vec::with_capacity(request.markers.len());
        // In their order: two may be of the same producer.
        for marker in request.markers {
            results.push(self.write_marker(marker).await);
        }
        protocol::encode(version, &WriteTxnMarkersResponse::default().with_markers(results))
    }

    async fn write_marker(&self, marker: WritableTxnMarker) -> WritableTxnMarkerResult {
        let ending = Ending {
            producer: Producer { id: marker.producer_id.0, epoch: marker.producer_epoch },
            txn_no: ANY_TRANSACTION,
            commit: marker.transaction_result,
            coordinator_epoch: marker.coordinator_epoch,
        };
        let mut shards: BTreeMap<ShardId, Vec<Partition>> = BTreeMap::new();
        let mut wanted = Vec::with_capacity(marker.topics.len());
        {
            let view = self.cluster.view();
            for topic in marker.topics {
                let found = view.topic_named(&topic.name);
                let locate = |index: i32| {
                    let topic = found.filter(|topic| (0..topic.live).contains(&index))?;
                    Some((topic.placement[index as usize], Partition { topic: topic.id, index }))
                };
                let places: Vec<_> = topic.partition_indexes.iter().map(|index| (*index, locate(*index))).collect();
                for (shard, partition) in places.iter().filter_map(|(_, place)| *place) {
                    shards.entry(shard).or_default().push(partition);
                }
                wanted.push((topic.name, places));
            }
        }
        let ended = shards.iter().map(async |(shard, partitions)| self.end(*shard, &ending, partitions).await);
        let ended: HashMap<Partition, ErrorCode> = join_all(ended).await.into_iter().flatten().collect();
        let told = |place: Option<(ShardId, Partition)>| {
            let known = place.and_then(|(_, partition)| ended.get(&partition));
            known.copied().unwrap_or(ErrorCode::UnknownTopicOrPartition).code()
        };
        let topics = wanted.into_iter().map(|(name, places)| {
            let partitions = places.into_iter().map(|(index, place)| {
                WritableTxnMarkerPartitionResult::default().with_partition_index(index).with_error_code(told(place))
            });
            WritableTxnMarkerTopicResult::default().with_name(name).with_partitions(partitions.collect())
        });
        WritableTxnMarkerResult::default().with_producer_id(marker.producer_id).with_topics(topics.collect())
    }

    async fn end(&self, shard: ShardId, ending: &Ending, partitions: &[Partition]) -> Vec<(Partition, ErrorCode)> {
        let results = match self.endings.end(shard, ending, partitions, TIMEOUT).await {
            Ok(results) => results,
            Err(e) => {
                tracing::warn!(shard, error = %e, "a transaction was not ended");
                let error = match e {
                    LeaderError::NoLeader => ErrorCode::NotLeaderOrFollower,
                    LeaderError::Unknown => ErrorCode::RequestTimedOut,
                    LeaderError::Refused(_) => ErrorCode::UnknownServerError,
                };
                return partitions.iter().map(|partition| (*partition, error)).collect();
            }
        };
        let code = |result: Result<(), _>| result.map_or_else(|e| error::of_refusal(e, false), |()| ErrorCode::None);
        partitions.iter().copied().zip(results.into_iter().map(code)).collect()
    }
}
