use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use kafka_protocol::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};

use crate::batch::{Segments, records};
use crate::fetch::Fetch;
use crate::fetch::assemble::batches;
use crate::fetch::locate::{self, Located};
use crate::fetch::read::{Missing, load};
use crate::index::{OpenShard, read_index};
use crate::protocol::{self, ErrorCode, TopicRef};
use crate::shard::BatchPointer;
use crate::types::{LeaderEpoch, Offset, ShardId, Timestamp};

// Timestamps with a meaning of their own (Kafka: ListOffsetsRequest).
const LATEST: Timestamp = -1;
const EARLIEST: Timestamp = -2;
const MAX_TIMESTAMP: Timestamp = -3;
const EARLIEST_LOCAL: Timestamp = -4;
const LATEST_TIERED: Timestamp = -5;

const TIMEOUT: Duration = Duration::from_secs(10);
/// Pointers read for one lookup by time; a batch whose header promised a timestamp and has none costs one.
const POINTERS_READ_MAX: usize = 64;

/// What is answered when no record matches.
const NONE: Answer = Answer { offset: -1, timestamp: -1, epoch: -1 };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Answer {
    offset: Offset,
    timestamp: Timestamp,
    epoch: LeaderEpoch,
}

impl Fetch {
    /// ListOffsets (API 2), versions 1 to 10.
    ///
    /// # Errors
    /// The request cannot be decoded: close the connection.
    pub async fn list_offsets(&self, version: i16, body: Bytes) -> Result<Segments, protocol::Error> {
        let request: ListOffsetsRequest = protocol::decode(version, body)?;
        let mut places = Vec::new();
        for topic in &request.topics {
            let found = locate::topic(&self.cluster, &TopicRef::Name(topic.name.0.clone()));
            places.push(
                topic
                    .partitions
                    .iter()
                    .map(|p| locate::partition(&self.shards, found.as_ref().map_err(|e| *e)?, p.partition_index))
                    .collect::<Vec<_>>(),
            );
        }
        let behind = &self.catch_up(places.iter().flatten().flatten()).await;
        let topics = request.topics.into_iter().zip(places).map(async |(topic, places)| {
            let partitions = topic.partitions.iter().zip(places).map(async |(want, place)| {
                let answer = match place {
                    Ok(located) if behind.contains(&located.shard.id) => Err(ErrorCode::OffsetNotAvailable),
                    Ok(located) => self.find(&located, want.current_leader_epoch, want.timestamp).await,
                    Err(e) => Err(e),
                };
                let (error, answer) = match answer {
                    Ok(answer) => (ErrorCode::None, answer),
                    Err(error) => (error, NONE),
                };
                ListOffsetsPartitionResponse::default()
                    .with_partition_index(want.partition_index)
                    .with_error_code(error.code())
                    .with_offset(answer.offset)
                    .with_timestamp(answer.timestamp)
                    // The field came with version 4 (KIP-320).
                    .with_leader_epoch(if version >= 4 { answer.epoch } else { -1 })
            });
            let partitions = join_all(partitions).await;
            ListOffsetsTopicResponse::default().with_name(topic.name).with_partitions(partitions)
        });
        let topics = join_all(topics).await;
        protocol::encode(version, &ListOffsetsResponse::default().with_topics(topics))
    }

    /// One read index per shard makes every answer that follows linearizable. Gives back the shards that could not
    /// catch up: nothing may be said of them.
    pub(super) async fn catch_up<'a>(&self, located: impl Iterator<Item = &'a Located>) -> HashSet<ShardId> {
        let shards: HashMap<ShardId, Arc<OpenShard>> = located.map(|l| (l.shard.id, l.shard.clone())).collect();
        let behind = join_all(shards.values().map(async |shard| {
            let caught_up = read_index(self.cluster.node(), shard, TIMEOUT).await;
            caught_up.is_err().then_some(shard.id)
        }));
        behind.await.into_iter().flatten().collect()
    }

    async fn find(&self, at: &Located, client_epoch: LeaderEpoch, timestamp: Timestamp) -> Result<Answer, ErrorCode> {
        match timestamp {
            LATEST => at.read(client_epoch, |p, epoch| Answer { offset: p.high_watermark, timestamp: -1, epoch }),
            EARLIEST | EARLIEST_LOCAL => at.read(client_epoch, |p, _| {
                let epoch = p.epochs.first().map_or(-1, |(epoch, _)| *epoch);
                Answer { offset: p.log_start_offset, timestamp: -1, epoch }
            }),
            LATEST_TIERED => at.read(client_epoch, |_, _| NONE),
            MAX_TIMESTAMP => self.find_max(at, client_epoch).await,
            target if target >= 0 => self.find_time(at, client_epoch, target).await,
            _ => Err(ErrorCode::InvalidRequest),
        }
    }

    /// The first record with a timestamp at or after `target`, exact inside its batch.
    async fn find_time(&self, at: &Located, epoch: LeaderEpoch, target: Timestamp) -> Result<Answer, ErrorCode> {
        let pointers: Vec<BatchPointer> = at.read(epoch, |p, _| {
            let start = p.log_start_offset;
            let later = p.pointers.from_timestamp(target).filter(|pointer| pointer.last >= start);
            later.take(POINTERS_READ_MAX).copied().collect()
        })?;
        for pointer in pointers {
            if let Some(time) = pointer.append_time {
                return Ok(Answer { offset: pointer.base, timestamp: time, epoch: pointer.leader_epoch });
            }
            let found = self.scan(&pointer, |batch, base| {
                records::find_timestamp(batch, base, target, records::INFLATED_BYTES_MAX)
            });
            if let Some((offset, timestamp)) = found.await? {
                return Ok(Answer { offset, timestamp, epoch: pointer.leader_epoch });
            }
        }
        Ok(NONE)
    }

    /// The earliest record with the largest timestamp (KIP-734).
    async fn find_max(&self, at: &Located, epoch: LeaderEpoch) -> Result<Answer, ErrorCode> {
        let Some(pointer) = at.read(epoch, |p, _| p.pointers.max_timestamp().copied())? else { return Ok(NONE) };
        if let Some(time) = pointer.append_time {
            return Ok(Answer { offset: pointer.last, timestamp: time, epoch: pointer.leader_epoch });
        }
        let found = self.scan(&pointer, |batch, base| {
            // The pointer's own maximum is the target: a batch without it is passed over.
            records::find_timestamp(batch, base, pointer.max_timestamp, records::INFLATED_BYTES_MAX)
        });
        let found = found.await?;
        Ok(found.map_or(NONE, |(offset, timestamp)| Answer { offset, timestamp, epoch: pointer.leader_epoch }))
    }

    async fn scan(
        &self,
        pointer: &BatchPointer,
        find: impl Fn(&[u8], Offset) -> Result<Option<(Offset, Timestamp)>, crate::batch::Error>,
    ) -> Result<Option<(Offset, Timestamp)>, ErrorCode> {
        let bytes = load(self.cache(), pointer).await.map_err(|missing| match missing {
            Missing::Later => ErrorCode::OffsetNotAvailable,
            gone => gone.into(),
        })?;
        for placed in batches(*pointer, bytes) {
            let placed = placed.map_err(|_| ErrorCode::KafkaStorageError)?;
            // A record that cannot be read is passed over: its client wrote it so.
            if let Ok(Some(found)) = find(&placed.bytes, placed.base) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}
