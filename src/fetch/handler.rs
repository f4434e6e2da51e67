use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use kafka_protocol::messages::FetchRequest;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::batch::Segments;
use crate::cache::Cache;
use crate::cluster::Cluster;
use crate::fetch::locate::{self, Located};
use crate::fetch::look_up::{Found, look_up};
use crate::fetch::read::{Missing, read};
use crate::fetch::request::{Want, Wanted, wanted};
use crate::index::{Shards, Waiter, read_index};
use crate::protocol::fetch::{FetchPartition, FetchResponse, FetchTopic};
use crate::protocol::{self, ErrorCode, fetch};
use crate::types::{AnswerMemory, BrokerId, ShardId};

const READ_INDEX_TIMEOUT: Duration = Duration::from_secs(5);

/// The read side of this broker.
pub struct Fetch {
    pub cluster: Cluster,
    pub shards: Arc<Shards>,
    cache: Arc<Cache>,
    catch_up_cache: Cache,
}

/// A wanted partition with where it is, or why it cannot be served.
type Place = Result<Located, ErrorCode>;
type Look = Result<Found, ErrorCode>;

impl Fetch {
    pub fn new(cluster: Cluster, shards: Arc<Shards>, cache: Arc<Cache>) -> Self {
        let catch_up_cache = cache.catch_up();
        Fetch { cluster, shards, cache, catch_up_cache }
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
                locate::partition(&self.shards, topic, want.index)
            })
            .collect();
        let looks = self.wait_for_news(&wanted, &places, deadline).await;
        let (found, catches_up) = size(&looks);
        if found > 0 {
            wanted.bytes_max = memory.take(found.min(wanted.bytes_max), catches_up).await;
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
        if !partitions.is_empty() && partitions.iter().all(told_nothing) {
            // Nothing could be read (the store is away, or nothing came): don't let the client spin.
            sleep_until(deadline).await;
        }
        fetch::encode(version, response(ErrorCode::None, by_topic(wanted, partitions)))
    }

    /// Looks until there are `min_bytes`, an error, or no patience left.
    async fn wait_for_news(&self, wanted: &Wanted, places: &[Place], deadline: Instant) -> Vec<Look> {
        let mut looks = look_all(wanted, places);
        self.settle_ahead(wanted, places, &mut looks).await;
        let waiter: Waiter = Arc::new(Notify::new());
        while !enough(wanted, &looks) && Instant::now() < deadline {
            for located in places.iter().flatten() {
                let replica = located.shard.replica();
                if let Some(slot) = replica.read(|state| state.partition(&located.partition).map(|p| p.slot)) {
                    replica.wake_on_change(slot, &waiter);
                }
            }
            looks = look_all(wanted, places);
            if !enough(wanted, &looks) {
                let _ = timeout_at(deadline, waiter.notified()).await;
                looks = look_all(wanted, places);
            }
        }
        looks
    }

    /// An offset past the local end may be the leader's or nobody's: only what is past the end of everything that is
    /// committed is out of range.
    async fn settle_ahead(&self, wanted: &Wanted, places: &[Place], looks: &mut [Look]) {
        let ahead = |look: &Look| look.as_ref().is_ok_and(|found| found.ahead);
        let mut shards: Vec<ShardId> = Vec::new();
        for (place, _) in places.iter().zip(looks.iter()).filter(|(_, look)| ahead(look)) {
            if let Ok(located) = place
                && !shards.contains(&located.shard.id)
            {
                shards.push(located.shard.id);
                if read_index(self.cluster.node(), &located.shard, READ_INDEX_TIMEOUT).await.is_err() {
                    return;
                }
            }
        }
        if shards.is_empty() {
            return;
        }
        for (look, (want, place)) in looks.iter_mut().zip(wanted.partitions.iter().zip(places)) {
            if ahead(look) {
                *look = look_again(want, place);
                if ahead(look) {
                    *look = Err(ErrorCode::OffsetOutOfRange);
                }
            }
        }
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
                left = left.saturating_sub(found.bytes.min(limit));
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
        if records.as_ref().is_err_and(|missing| *missing == Missing::Gone) {
            records = self.read_again(located, want, &found, bytes_max, whole_first).await;
        }
        match records {
            Ok(records) => FetchPartition { records, ..answered(wanted, want, &found) },
            Err(missing) => FetchPartition { error: missing.into(), ..answered(wanted, want, &found) },
        }
    }

    /// The object is gone: another replica may know where the bytes are now. An unchanged pointer is a storage error.
    async fn read_again(
        &self,
        located: &Located,
        want: &Want,
        before: &Found,
        bytes_max: usize,
        whole_first: bool,
    ) -> Result<Segments, Missing> {
        if read_index(self.cluster.node(), &located.shard, READ_INDEX_TIMEOUT).await.is_err() {
            return Err(Missing::Later);
        }
        match look_up(located, want, bytes_max) {
            Ok(now) if now.pointers != before.pointers => {
                read(&self.cache, located, &now, want.offset, bytes_max, whole_first).await
            }
            _ => {
                tracing::error!(partition = ?located.partition, offset = want.offset, "an object that is pointed to is gone");
                Err(Missing::Gone)
            }
        }
    }

    /// KIP-392: a live replica in the reader's rack, if this broker is not in it.
    fn preferred_replica(&self, rack: &str, located: &Located) -> Option<BrokerId> {
        if rack.is_empty() {
            return None;
        }
        let view = self.cluster.view();
        let me = view.broker(self.cluster.broker_id())?;
        let voters = &view.shard(located.shard.id)?.voters;
        let near = view.brokers().find(|b| b.zone == rack && b.alive && voters.contains(&b.node));
        near.filter(|_| me.zone != rack).map(|b| b.id)
    }
}

fn look_all(wanted: &Wanted, places: &[Place]) -> Vec<Look> {
    wanted.partitions.iter().zip(places).map(|(want, place)| look_again(want, place)).collect()
}

fn look_again(want: &Want, place: &Place) -> Look {
    look_up(place.as_ref().map_err(|e| *e)?, want, want.bytes_max)
}

fn enough(wanted: &Wanted, looks: &[Look]) -> bool {
    let bytes: usize = looks.iter().flatten().map(|found| found.bytes).sum();
    bytes >= wanted.bytes_min || looks.iter().any(|look| look.is_err())
}

/// How many bytes there are, and whether they are old ones.
fn size(looks: &[Look]) -> (usize, bool) {
    let found = || looks.iter().flatten();
    (found().map(|found| found.bytes).sum(), found().any(|found| found.more))
}

/// A partition's watermarks, with no records yet.
fn answered(wanted: &Wanted, want: &Want, found: &Found) -> FetchPartition {
    FetchPartition {
        high_watermark: found.high_watermark,
        last_stable_offset: found.last_stable_offset,
        log_start_offset: found.log_start_offset,
        aborted: wanted.read_committed.then(Vec::new),
        ..FetchPartition::failed(want.index, ErrorCode::None)
    }
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
