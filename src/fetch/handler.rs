use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use kafka_protocol::messages::FetchRequest;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};

use crate::batch::Segments;
use crate::cache::Cache;
use crate::cluster::Cluster;
use crate::fetch::locate::{self, Located};
use crate::fetch::news::{Look, Place, query, wait_for_news};
use crate::fetch::read::{Missing, read};
use crate::fetch::request::{Want, Wanted, wanted};
use crate::index::{AbortedFrom, Found, Replicas, Reply};
use crate::protocol::fetch::{AbortedTransaction, FetchPartition, FetchResponse, FetchTopic};
use crate::protocol::{self, ErrorCode, fetch};
use crate::types::{AnswerMemory, BrokerId};
use crate::zone::{self, Zones};

/// Each may take a processor for a second.
const SCANS_MAX: usize = 2;

/// The read side of this broker.
pub struct Fetch {
    pub(super) cluster: Cluster,
    pub(super) replicas: Arc<Replicas>,
    cache: Arc<Cache>,
    catch_up_cache: Cache,
    zones: Zones,
    /// Searches by time that decompress at a time.
    pub(super) scanning: Semaphore,
}

impl Fetch {
    pub fn new(cluster: Cluster, replicas: Arc<Replicas>, cache: Arc<Cache>, zones: Zones) -> Self {
        let catch_up_cache = cache.catch_up();
        Fetch { cluster, replicas, cache, catch_up_cache, zones, scanning: Semaphore::new(SCANS_MAX) }
    }

    pub(super) fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Answers a Fetch: waits for `min_bytes` or the client's patience.
    ///
    /// # Errors
    /// The request cannot be decoded: close the connection.
    pub async fn fetch(&self, version: i16, body: Bytes, memory: &AnswerMemory) -> Result<Segments, protocol::Error> {
        let request: FetchRequest = protocol::decode(version, body)?;
        let mut wanted = wanted(version, request);
        if wanted.foreign_session {
            return fetch::encode(version, response(ErrorCode::FetchSessionIdNotFound, Vec::new()));
        }
        let deadline = Instant::now() + Duration::from_millis(wanted.wait_ms);
        let topics: Vec<_> = wanted.topics.iter().map(|topic| locate::topic(&self.cluster, topic)).collect();
        let places: Vec<Place> = wanted
            .partitions
            .iter()
            .map(|want| {
                let topic = topics[want.topic].as_ref().map_err(|e| *e)?;
                locate::partition(topic, want.index)
            })
            .collect();
        let looks = wait_for_news(&self.replicas, &wanted, &places, deadline).await;
        let (bytes, catches_up) = size(&wanted, &looks);
        if bytes > 0 {
            // Never less than there is, unless that would be too large a part of the memory.
            wanted.bytes_max = memory.take(bytes, catches_up).await;
        }
        let mut partitions = self.answer(&wanted, &places, looks).await;
        if !memory.settle(partitions.iter().map(|p| p.records.len()).sum()) {
            // A first batch that is larger than all that was asked for, and no room for it now: it is asked for again.
            partitions.iter_mut().for_each(|p| p.records = Segments::new());
            memory.settle(0);
        }
        let told_nothing = |p: &FetchPartition| {
            p.records.is_empty() && p.error == ErrorCode::None && p.preferred_read_replica.is_none()
        };
        if wanted.bytes_min > 0 && !partitions.is_empty() && partitions.iter().all(told_nothing) {
            // Nothing could be read (the store is away, or nothing came): don't let the client spin.
            sleep_until(deadline).await;
        }
        fetch::encode(version, response(ErrorCode::None, by_topic(wanted, partitions)))
    }

    /// Reads what was found, within the request's limits: the first partition with records gives at least one batch.
    /// Bytes that are still on their way from the store hold up nobody who has his: they are in the cache next time.
    async fn answer(&self, wanted: &Wanted, places: &[Place], looks: Vec<Look>) -> Vec<FetchPartition> {
        let mut left = wanted.bytes_max;
        let mut any = false;
        let mut answers = Vec::with_capacity(looks.len());
        let mut reads = FuturesUnordered::new();
        for (i, ((want, place), look)) in wanted.partitions.iter().zip(places).zip(looks).enumerate() {
            let has_some = look.as_ref().is_ok_and(|found| !found.pointers.is_empty());
            let whole_first = has_some && !any;
            let limit = want.bytes_max.min(left);
            if let Ok(found) = &look {
                left = left.saturating_sub(whole(found).min(limit));
            }
            any |= has_some;
            answers.push(match &look {
                Ok(found) => answered(wanted, want, found),
                Err(e) => FetchPartition::failed(want.index, *e),
            });
            reads.push(self.partition(wanted, want, place, look, limit, whole_first).map(move |read| (i, read)));
        }
        let mut bytes = 0;
        loop {
            let enough = bytes >= wanted.bytes_min.max(1);
            let read = if enough { reads.next().now_or_never().flatten() } else { reads.next().await };
            let Some((i, partition)) = read else { return answers };
            bytes += partition.records.len();
            answers[i] = partition;
        }
    }

    async fn partition(
        &self,
        wanted: &Wanted,
        want: &Want,
        place: &Place,
        look: Look,
        bytes_max: usize,
        whole_first: bool,
    ) -> FetchPartition {
        let (located, found) = match (place, look) {
            (Ok(located), Ok(found)) => (located, found),
            (Err(e), _) => return FetchPartition::failed(want.index, *e),
            (_, Err(e)) => return FetchPartition::failed(want.index, e),
        };
        if let Some(preferred) = self.preferred_replica(&wanted.rack, located) {
            let empty = FetchPartition { preferred_read_replica: Some(preferred), ..answered(wanted, want, &found) };
            return empty;
        }
        if bytes_max == 0 && !whole_first {
            return answered(wanted, want, &found);
        }
        // Readers far behind have GETs of their own, so that a backfill never slows the tail.
        let cache = if found.more { &self.catch_up_cache } else { &self.cache };
        let mut records = read(cache, located, &found, want.offset, bytes_max, whole_first).await;
        let mut found = found;
        if records.as_ref().is_err_and(|missing| *missing == Missing::Gone) {
            match self.found_again(wanted, want, located, &found, bytes_max).await {
                // What was aborted is told as of the same moment as the records.
                Ok(now) => {
                    found = now;
                    records = read(&self.cache, located, &found, want.offset, bytes_max, whole_first).await;
                }
                Err(missing) => records = Err(missing),
            }
        }
        match records {
            Ok(records) => FetchPartition { records, ..answered(wanted, want, &found) },
            Err(missing) => FetchPartition { error: missing.into(), ..answered(wanted, want, &found) },
        }
    }

    /// The object is gone: another replica may know where the bytes are now. An unchanged pointer is a storage error.
    async fn found_again(
        &self,
        wanted: &Wanted,
        want: &Want,
        located: &Located,
        before: &Found,
        bytes_max: usize,
    ) -> Result<Found, Missing> {
        let again = [query(wanted, want, located.partition, bytes_max)];
        let now = match self.replicas.ask(located.shard, &again).await.pop() {
            Some(Ok(Reply::Found(now))) => now,
            Some(_) | None => return Err(Missing::Later),
        };
        if now.pointers != before.pointers {
            return Ok(now);
        }
        tracing::error!(partition = ?located.partition, offset = want.offset, "an object that is pointed to is gone");
        Err(Missing::Gone)
    }

    /// KIP-392: a live replica in the reader's rack, if this broker is not in it: the one that clients of that zone
    /// are told to be the partition's leader.
    fn preferred_replica(&self, rack: &str, located: &Located) -> Option<BrokerId> {
        if rack.is_empty() {
            return None;
        }
        let view = self.cluster.view();
        let me = view.broker(self.cluster.broker_id())?;
        if me.zone == rack {
            return None;
        }
        let near = self.zones.resolve(rack, &zone::known(&view)).filter(|zone| *zone != me.zone)?;
        let voters = view.shard(located.shard)?.voters.iter().filter_map(|node| view.broker_of(*node));
        let there: Vec<(BrokerId, bool)> = voters.filter(|b| b.zone == near).map(|b| (b.id, b.alive)).collect();
        zone::pick(&there, &located.partition)
    }
}

/// How many bytes there may be for this reader, and whether they are old ones.
fn size(wanted: &Wanted, looks: &[Look]) -> (usize, bool) {
    let found = || wanted.partitions.iter().zip(looks).filter_map(|(want, look)| Some((want, look.as_ref().ok()?)));
    let bytes: usize = found().map(|(want, found)| whole(found).min(want.bytes_max)).sum();
    (bytes.min(wanted.bytes_max), found().any(|(_, found)| found.more))
}

/// Batches are given whole: so many bytes there may be of what was found.
fn whole(found: &Found) -> usize {
    found.pointers.iter().map(|pointer| pointer.len as usize).sum()
}

/// A partition's watermarks, with no records yet.
fn answered(wanted: &Wanted, want: &Want, found: &Found) -> FetchPartition {
    FetchPartition {
        high_watermark: found.high_watermark,
        last_stable_offset: found.last_stable_offset,
        log_start_offset: found.log_start_offset,
        aborted: wanted.read_committed.then(|| found.aborted.iter().map(aborted).collect()),
        ..FetchPartition::failed(want.index, ErrorCode::None)
    }
}

fn aborted(from: &AbortedFrom) -> AbortedTransaction {
    AbortedTransaction { producer_id: from.producer_id, first_offset: from.first }
}

fn by_topic(wanted: Wanted, partitions: Vec<FetchPartition>) -> Vec<FetchTopic> {
    let mut topics: Vec<FetchTopic> =
        wanted.topics.into_iter().map(|topic| FetchTopic { topic, partitions: Vec::new() }).collect();
    for (want, partition) in wanted.partitions.iter().zip(partitions) {
        topics[want.topic].partitions.push(partition);
    }
    topics
}

fn response(error: ErrorCode, topics: Vec<FetchTopic>) -> FetchResponse {
    FetchResponse { throttle_time_ms: 0, error, session_id: 0, topics, node_endpoints: Vec::new() }
}
