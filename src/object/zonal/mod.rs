//! One bucket in each zone: an object is written under one key to all of them, and is durable when a majority has it.
//!
//! ```text
//!               ┌─▶ bucket of az1  created ┐
//! put ─▶ bytes ─┼─▶ bucket of az2  created ┴▶ durable: the caller goes on
//!               └─▶ bucket of az3  …          the late copy: waited for in the background, else known as missing
//!
//! get ─▶ bucket of the own zone ── not there, trouble or slow ─▶ all others at once; the first bytes win
//! ```
//! In: the buckets, the zone of the reader. Out: a [`Store`] for objects that one writer writes under one name.
//!
//! Promises: what was acknowledged is in a majority of buckets, so the loss of a minority with all it holds loses
//! nothing, and neither its silence nor its slowness stops writes or reads. "Not found" is said only when every bucket
//! says so. Copies that are not there are known (bounded) or found by comparing listings, and made again: [`Repair`].
//!
//! Never: decides between writers of *different* bytes under one key. Of those at most one succeeds, perhaps none: what
//! is contested (the cluster's marker) is decided in one bucket, see [`super::marker`]. Equal bytes count as one writer.
//!
//! Limits: [`LATE_COPIES_MAX`] writes go on behind the caller's back, each for at most [`LATE_TIME_MAX`];
//! [`MISSING_MAX`] missing copies are known per bucket. [`Store::list`] merges ordered listings: directory buckets,
//! which have no order, are listed one by one, as repair does.
//!
//! # Decisions
//! **The key says the class.** Zonal objects are `zonal/…` where regional ones are `wal/…`, so one `Store` routes by
//! key and no room but ingest (one open buffer per class) knows of classes. A pointer carries the class in the
//! highest bit of the attempt: nothing for a regional object, two bytes per object and shard for a zonal one, and no
//! list of its copies, which would be stale with every repair.
//!
//! **A majority of buckets decides durability, one bucket decides contests.** Put-if-absent in three buckets at once
//! lets three founders win one bucket each, for ever. Objects have one writer, so the race cannot happen to them; the
//! marker is claimed in the first bucket alone. Hence founding needs every bucket, once; everything later needs a
//! majority.
//!
//! **Missing copies are found by listing everything, not by remembering.** Writers and readers know up to 10,000
//! missing copies per bucket and repair them in seconds; an emptied bucket, a broker that died with its list, and
//! what was more are found by comparing the buckets' listings range by range, shared among the live brokers. 774
//! LISTs at least for a cluster ($0.0009 at S3 Express's $0.00113 per 1,000), one more per bucket and 1,000 objects:
//! at one comparison an hour $0.02 a day, and 0.1 % of the price of the PUTs each time that an object is compared. No
//! state to keep, and none to be wrong. Orphans are copied too, until they are swept.
//!
//! **All three copies are sent at once.** Sending two and the third on trouble saves no money (the third copy is
//! needed) and costs a timeout when a bucket hangs. What a hung bucket holds up is bounded instead: 16 late copies of
//! at most 10 s, the rest is given up at once and known to be missing.

mod compare;
mod health;
mod list;
mod metrics;
mod missing;
mod put;
mod read;
mod repair;

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::{join_all, try_join_all};
use tokio::sync::Semaphore;

pub use metrics::Metrics;
pub use missing::MISSING_MAX;
pub use repair::{Repair, Share};

use self::health::Health;
use self::missing::Missing;
use super::{Error, Head, Key, Page, Prefix, Start, Store};
use crate::types::ByteRange;

/// Writes that go on when the majority has answered. Each holds an object in memory.
pub const LATE_COPIES_MAX: usize = 16;

/// How long such a write is waited for.
pub const LATE_TIME_MAX: Duration = Duration::from_secs(10);

/// The bucket of one zone.
#[derive(Debug, Clone)]
pub struct Bucket {
    pub zone: String,
    pub store: Arc<dyn Store>,
}

/// The buckets of all zones as one store. A cheap clone.
#[derive(Debug, Clone)]
pub struct Zonal {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    buckets: Vec<Bucket>,
    /// The reader's own zone's bucket, if it has one.
    own: Option<usize>,
    health: Mutex<Vec<Health>>,
    missing: Missing,
    late: Arc<Semaphore>,
    metrics: Metrics,
}

impl Zonal {
    /// `zone` is where this broker is: its bucket is read first.
    ///
    /// # Panics
    /// With fewer than three buckets: the loss of one would stop writes.
    pub fn new(buckets: Vec<Bucket>, zone: Option<&str>) -> Zonal {
        assert!(buckets.len() >= 3, "a majority must survive the loss of a zone");
        let own = buckets.iter().position(|bucket| Some(bucket.zone.as_str()) == zone);
        let metrics = Metrics::default();
        let zones: Vec<String> = buckets.iter().map(|bucket| bucket.zone.clone()).collect();
        let health = Mutex::new(zones.iter().map(|_| Health::default()).collect());
        let missing = Missing::new(zones.len(), metrics.clone());
        let late = Arc::new(Semaphore::new(LATE_COPIES_MAX));
        Zonal { inner: Arc::new(Inner { buckets, own, health, missing, late, metrics }) }
    }

    pub fn buckets(&self) -> &[Bucket] {
        &self.inner.buckets
    }

    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    fn majority(&self) -> usize {
        self.buckets().len() / 2 + 1
    }

    /// What each bucket says of the key, in the order of the buckets.
    pub async fn heads(&self, key: &Key) -> Vec<Result<Head, Error>> {
        join_all(self.buckets().iter().map(|bucket| bucket.store.head(key))).await
    }

    /// Notes how a bucket has done, and says so where that is news.
    fn note(&self, bucket: usize, well: bool) {
        let changed = {
            let mut health = self.inner.health.lock().expect("no holder panics");
            if well { health[bucket].succeeded() } else { health[bucket].failed() }
        };
        let zone = &self.buckets()[bucket].zone;
        match (changed, well) {
            (true, true) => tracing::info!(zone, "the zone's bucket answers again"),
            (true, false) => tracing::warn!(zone, "the zone's bucket does not answer: others are asked first"),
            _ => {}
        }
    }
}

#[async_trait]
impl Store for Zonal {
    async fn put_if_absent(&self, key: &Key, bytes: Bytes) -> Result<(), Error> {
        self.put(key, bytes).await
    }

    async fn get(&self, key: &Key) -> Result<Bytes, Error> {
        let get = |store: Arc<dyn Store>, key: Key| async move { store.get(&key).await };
        self.read("get", key, None, get).await
    }

    async fn get_range(&self, key: &Key, range: ByteRange) -> Result<Bytes, Error> {
        let get = move |store: Arc<dyn Store>, key: Key| async move { store.get_range(&key, range).await };
        self.read("get", key, None, get).await
    }

    async fn head(&self, key: &Key) -> Result<Head, Error> {
        let head = |store: Arc<dyn Store>, key: Key| async move { store.head(&key).await };
        self.read("head", key, None, head).await
    }

    async fn holds(&self, key: &Key, bytes: &Bytes) -> Result<bool, Error> {
        let said = join_all(self.buckets().iter().map(|bucket| bucket.store.holds(key, bytes))).await;
        let same = said.iter().filter(|said| matches!(said, Ok(true))).count();
        let silent = said.iter().filter(|said| said.as_ref().is_err_and(Error::is_transient)).count();
        if same >= self.majority() {
            Ok(true)
        } else if same + silent < self.majority() {
            Ok(false)
        } else {
            Err(Error::unknown("head", format!("{same} copies are there, {silent} buckets do not answer")))
        }
    }

    async fn list(&self, prefix: &Prefix, start: Start) -> Result<Page, Error> {
        self.merged(prefix, start).await
    }

    /// From every bucket, or it is not deleted: a copy left behind would be copied again.
    async fn delete(&self, keys: &[Key]) -> Result<(), Error> {
        try_join_all(self.buckets().iter().map(|bucket| bucket.store.delete(keys))).await.map(drop)
    }

    async fn now(&self) -> Result<SystemTime, Error> {
        let now = |store: Arc<dyn Store>, _| async move { store.now().await };
        self.read("now", &super::paths::absent_key(), None, now).await
    }
}

#[cfg(test)]
mod compare_test;
#[cfg(test)]
mod repair_test;
#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod zonal_test;
