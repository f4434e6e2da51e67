use std::collections::HashSet;

use bytes::Bytes;
use futures::future::join_all;
use kafka_protocol::messages::list_offsets_request::ListOffsetsTopic;
use kafka_protocol::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse, TopicName};

use crate::batch::records::{self, INFLATED_BYTES_MAX};
use crate::batch::{self, Segments};
use crate::door;
use crate::fetch::Fetch;
use crate::fetch::asked::{Asked, ask};
use crate::fetch::assemble::{Placed, batches};
use crate::fetch::locate;
use crate::fetch::read::{Missing, load};
use crate::index::{Question, Reply};
use crate::protocol::{self, ErrorCode, TopicRef};
use crate::shard::BatchPointer;
use crate::types::{LeaderEpoch, Offset, Timestamp};

// Timestamps with a meaning of their own (Kafka: ListOffsetsRequest).
const LATEST: Timestamp = -1;
const EARLIEST: Timestamp = -2;
const MAX_TIMESTAMP: Timestamp = -3;
const EARLIEST_LOCAL: Timestamp = -4;
const LATEST_TIERED: Timestamp = -5;

/// Kafka's isolation level of a reader that sees only what is committed.
const READ_COMMITTED: i8 = 1;

/// OFFSET_NOT_AVAILABLE is known to clients from here on (KIP-207).
const OFFSET_NOT_AVAILABLE_SINCE: i16 = 5;

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
        let (topics, repeated) = once(request.topics);
        let mut asked = Vec::new();
        for topic in &topics {
            let found = locate::topic(&self.cluster, &TopicRef::Name(topic.name.0.clone()));
            asked.extend(topic.partitions.iter().map(|want| {
                let found = found.as_ref().map_err(|e| *e);
                let place = match want.partition_index {
                    index if repeated.contains(&(topic.name.clone(), index)) => Err(ErrorCode::InvalidRequest),
                    _ if !is_known(version, want.timestamp) => Err(ErrorCode::UnsupportedVersion),
                    index => found.and_then(|topic| locate::partition(topic, index)),
                };
                Asked {
                    place,
                    client_epoch: want.current_leader_epoch,
                    committed: request.isolation_level == READ_COMMITTED,
                    question: question(want.timestamp),
                }
            }));
        }
        let mut replies = ask(&self.replicas, &asked).await.into_iter();
        let topics = topics.into_iter().map(|topic| {
            let replies: Vec<_> = replies.by_ref().take(topic.partitions.len()).collect();
            async move {
                let partitions =
                    topic.partitions.iter().zip(replies).map(async |(want, reply)| {
                        self.listed(version, want.partition_index, want.timestamp, reply).await
                    });
                let partitions = join_all(partitions).await;
                ListOffsetsTopicResponse::default().with_name(topic.name).with_partitions(partitions)
            }
        });
        let topics = join_all(topics).await;
        protocol::encode(version, &ListOffsetsResponse::default().with_topics(topics))
    }

    async fn listed(
        &self,
        version: i16,
        index: i32,
        timestamp: Timestamp,
        reply: Result<Reply, ErrorCode>,
    ) -> ListOffsetsPartitionResponse {
        let answer = match reply {
            Ok(reply) => self.find(timestamp, reply).await,
            Err(e) => Err(e),
        };
        let (error, answer) = match answer {
            Ok(answer) => (ErrorCode::None, answer),
            Err(ErrorCode::OffsetNotAvailable) if version < OFFSET_NOT_AVAILABLE_SINCE => {
                (ErrorCode::NotLeaderOrFollower, NONE)
            }
            Err(error) => (error, NONE),
        };
        ListOffsetsPartitionResponse::default()
            .with_partition_index(index)
            .with_error_code(error.code())
            .with_offset(answer.offset)
            .with_timestamp(answer.timestamp)
            // The field came with version 4 (KIP-320).
            .with_leader_epoch(if version >= 4 { answer.epoch } else { -1 })
    }

    async fn find(&self, timestamp: Timestamp, reply: Reply) -> Result<Answer, ErrorCode> {
        match reply {
            Reply::At { .. } if timestamp == LATEST_TIERED => Ok(NONE),
            Reply::At { epoch, offset } => Ok(Answer { offset, timestamp: -1, epoch }),
            Reply::Pointers { start, pointers } if timestamp == MAX_TIMESTAMP => self.find_max(&pointers, start).await,
            Reply::Pointers { start, pointers } => self.find_time(&pointers, start, timestamp).await,
            Reply::Found(_) | Reply::Producers(_) => Err(ErrorCode::NotLeaderOrFollower),
        }
    }

    /// The first record from `start` on with a timestamp at or after `target`, exact inside its batch.
    async fn find_time(
        &self,
        pointers: &[BatchPointer],
        start: Offset,
        target: Timestamp,
    ) -> Result<Answer, ErrorCode> {
        for pointer in pointers {
            if let Some(time) = pointer.append_time {
                let offset = pointer.base.max(start);
                return Ok(Answer { offset, timestamp: time, epoch: pointer.leader_epoch });
            }
            let found = self.scan(pointer, Search::First { from: start, target }).await?;
            if let Some((offset, timestamp)) = found {
                return Ok(Answer { offset, timestamp, epoch: pointer.leader_epoch });
            }
        }
        Ok(NONE)
    }

    /// The earliest record from `start` on with the largest timestamp (KIP-734).
    async fn find_max(&self, pointers: &[BatchPointer], start: Offset) -> Result<Answer, ErrorCode> {
        let mut best = NONE;
        for pointer in pointers {
            let found = match pointer.append_time {
                Some(time) => Some((pointer.base.max(start), time)),
                // Its own maximum is the target: a batch without it is passed over.
                None if pointer.base >= start => {
                    let search = Search::First { from: pointer.base, target: pointer.max_timestamp };
                    self.scan(pointer, search).await?
                }
                None => self.scan(pointer, Search::Largest { from: start }).await?,
            };
            if let Some((offset, timestamp)) = found.filter(|(_, time)| best == NONE || *time > best.timestamp) {
                best = Answer { offset, timestamp, epoch: pointer.leader_epoch };
            }
        }
        Ok(best)
    }

    /// Looks into a pointer's batches: what is decompressed for it is the client's choice, and must not hold up the others.
    async fn scan(&self, pointer: &BatchPointer, search: Search) -> Result<Option<(Offset, Timestamp)>, ErrorCode> {
        let bytes = load(self.cache(), pointer).await.map_err(|missing| match missing {
            Missing::Later => ErrorCode::OffsetNotAvailable,
            gone => gone.into(),
        })?;
        let _turn = self.scanning.acquire().await.expect("it is never closed");
        let pointer = *pointer;
        let found = door::blocking(move || search.of(pointer, bytes)).await.expect("looking does not panic");
        found.map_err(|_| ErrorCode::KafkaStorageError)
    }
}

/// A record that is looked for, at offset `from` or above.
#[derive(Debug, Clone, Copy)]
enum Search {
    /// The first with a timestamp of `target` or later.
    First { from: Offset, target: Timestamp },
    /// The first of those with the largest timestamp.
    Largest { from: Offset },
}

impl Search {
    /// # Errors
    /// What is stored is damaged.
    fn of(self, pointer: BatchPointer, bytes: Bytes) -> Result<Option<(Offset, Timestamp)>, batch::Error> {
        let mut largest: Option<(Offset, Timestamp)> = None;
        for placed in batches(pointer, bytes) {
            let Placed { base, bytes, .. } = placed?;
            // A record that cannot be read is passed over: its client wrote it so.
            match self {
                Search::First { from, target } => {
                    if let Ok(Some(found)) = records::find_timestamp(&bytes, base, from, target, INFLATED_BYTES_MAX) {
                        return Ok(Some(found));
                    }
                }
                Search::Largest { from } => {
                    let found = records::max_timestamp(&bytes, base, from, INFLATED_BYTES_MAX).ok().flatten();
                    largest = found.filter(|(_, time)| largest.is_none_or(|(_, max)| *time > max)).or(largest);
                }
            }
        }
        Ok(largest)
    }
}

fn question(timestamp: Timestamp) -> Option<Question> {
    match timestamp {
        // Nothing is tiered here; the epoch that the client knows is checked all the same.
        LATEST | LATEST_TIERED => Some(Question::Latest),
        EARLIEST | EARLIEST_LOCAL => Some(Question::Earliest),
        MAX_TIMESTAMP => Some(Question::MaxTime),
        target if target >= 0 => Some(Question::FromTime(target)),
        _ => None,
    }
}

/// Each partition once, and those that the request names more than once: they are told so once.
fn once(mut topics: Vec<ListOffsetsTopic>) -> (Vec<ListOffsetsTopic>, HashSet<(TopicName, i32)>) {
    let (mut seen, mut repeated) = (HashSet::new(), HashSet::new());
    for topic in &mut topics {
        topic.partitions.retain(|want| {
            let partition = (topic.name.clone(), want.partition_index);
            let first = seen.insert(partition.clone());
            if !first {
                repeated.insert(partition);
            }
            first
        });
    }
    topics.retain(|topic| !topic.partitions.is_empty());
    (topics, repeated)
}

/// Whether a timestamp means something in this version: those that are none came one by one.
fn is_known(version: i16, timestamp: Timestamp) -> bool {
    match timestamp {
        LATEST | EARLIEST | 0.. => true,
        MAX_TIMESTAMP => version >= 7,
        EARLIEST_LOCAL => version >= 8,
        LATEST_TIERED => version >= 9,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::list_offsets_request::ListOffsetsPartition;

    use super::*;
    use crate::protocol::StrBytes;

    #[test]
    fn timestamps_with_a_meaning_are_known_from_the_version_that_has_them() {
        for (timestamp, since) in [(0, 1), (LATEST, 1), (EARLIEST, 1), (-3, 7), (-4, 8), (-5, 9)] {
            assert!((1..=10).all(|version| is_known(version, timestamp) == (version >= since)), "{timestamp}");
        }
        assert!([-6, -7, i64::MIN].iter().all(|timestamp| !is_known(10, *timestamp)));
    }

    #[test]
    fn a_partition_is_answered_once() {
        let topic = |name, partitions: &[i32]| {
            let partitions =
                partitions.iter().map(|index| ListOffsetsPartition::default().with_partition_index(*index));
            let name = StrBytes::from_static_str(name).into();
            ListOffsetsTopic::default().with_name(name).with_partitions(partitions.collect())
        };
        let (topics, repeated) =
            once(vec![topic("a", &[0, 1, 0]), topic("b", &[0]), topic("a", &[1, 2]), topic("b", &[0])]);
        let told = topics.iter().map(|topic| {
            (topic.name.as_str(), topic.partitions.iter().map(|want| want.partition_index).collect::<Vec<_>>())
        });
        assert_eq!(told.collect::<Vec<_>>(), [("a", vec![0, 1]), ("b", vec![0]), ("a", vec![2])]);
        let name = |name| StrBytes::from_static_str(name).into();
        assert_eq!(repeated, HashSet::from([(name("a"), 0), (name("a"), 1), (name("b"), 0)]));
    }
}
