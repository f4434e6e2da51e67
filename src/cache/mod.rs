//! The read cache of one broker: whole objects, or parts of large ones, each fetched once however many ask.
//!
//! In: the name of an object and a byte range, or an object just produced. Out: `Bytes` that share the cached
//! allocation.
//!
//! ```text
//! object   |<------ head: up to object_whole_bytes_max ------>|<- chunk_bytes ->|<- chunk_bytes ->| ...
//! parts                            0                                   1                 2
//! ```
//! An object that fits the head is fetched whole by its first reader, in one GET and without asking its length
//! first: the rest is about to be read here too.
//!
//! Promises: of concurrent readers of a part one GET is made, and it goes on when the reader that caused it is gone.
//! Never: writes to the store, keeps an error, patches bytes, knows what a record is.
//! Limits: `capacity_bytes` of parts, beside what is being fetched (`gets_max` heads at most, and as many more as
//! `catch_up_gets_max`) and what readers still hold; [`RANGE_PARTS_MAX`] parts in one range.

mod error;
mod metrics;
mod part;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use foyer::{CacheBuilder, S3FifoConfig};
use futures::future::try_join_all;
use tokio::sync::Semaphore;
use tokio::time::Instant;

pub use error::Error;
pub use metrics::Metrics;

use self::part::Cut;
use crate::object::{self, Name, Paths, Store, retry};
use crate::types::ByteRange;

/// The most parts of one range: 256 MiB of chunks of 4 MiB.
pub const RANGE_PARTS_MAX: u64 = 64;

const GET_ATTEMPTS_MAX: u32 = 4;

/// What an entry costs beside its bytes.
const ENTRY_BYTES: usize = 128;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub capacity_bytes: usize,
    /// Objects up to this length are fetched whole.
    pub object_whole_bytes_max: u64,
    /// Behind that, objects are fetched in pieces of this length.
    pub chunk_bytes: u64,
    /// GETs at once.
    pub gets_max: usize,
    /// GETs at once, beside those, for readers that catch up.
    pub catch_up_gets_max: usize,
    /// What a reader waits for one part, retries included.
    pub get_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            capacity_bytes: 512 << 20,
            object_whole_bytes_max: 8 << 20,
            chunk_bytes: 4 << 20,
            gets_max: 16,
            catch_up_gets_max: 8,
            get_timeout: Duration::from_secs(15),
        }
    }
}

type PartKey = (Name, u64);

/// A handle; clones share the cache.
#[derive(Debug, Clone)]
pub struct Cache {
    parts: foyer::Cache<PartKey, Bytes>,
    cut: Cut,
    fetcher: Fetcher,
    catch_up_gets: Arc<Semaphore>,
    metrics: Metrics,
}

impl Cache {
    /// # Panics
    /// When a length or count in the settings is zero.
    pub fn new(store: Arc<dyn Store>, paths: Paths, settings: Settings) -> Cache {
        let cut = Cut::new(settings.object_whole_bytes_max, settings.chunk_bytes);
        assert!(settings.gets_max > 0 && settings.catch_up_gets_max > 0, "no GET would ever be made");
        // A shard must hold several parts, or one part pushes out all others.
        let shards = (settings.capacity_bytes as u64 / (8 * cut.part_bytes_max())).clamp(1, 8) as usize;
        let parts = CacheBuilder::new(settings.capacity_bytes)
            .with_shards(shards)
            .with_eviction_config(S3FifoConfig::default())
            .with_weighter(|_: &PartKey, bytes: &Bytes| ENTRY_BYTES + bytes.len())
            .build();
        let metrics = Metrics::default();
        let fetcher = Fetcher {
            store,
            paths,
            gets: Arc::new(Semaphore::new(settings.gets_max)),
            get_timeout: settings.get_timeout,
            metrics: metrics.clone(),
        };
        let catch_up_gets = Arc::new(Semaphore::new(settings.catch_up_gets_max));
        Cache { parts, cut, fetcher, catch_up_gets, metrics }
    }

    /// A handle on the same cache whose GETs have a budget of their own, so that reading old data never holds up
    /// those who read the newest.
    pub fn catch_up(&self) -> Cache {
        let mut cache = self.clone();
        cache.fetcher.gets = self.catch_up_gets.clone();
        cache
    }

    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Keeps the producing broker's own copy. For an object that nobody else knows of yet.
    pub fn insert(&self, object: impl Into<Name>, bytes: Bytes) {
        let name = object.into();
        if bytes.len() as u64 <= self.cut.head_bytes {
            self.parts.insert((name, 0), bytes);
            return;
        }
        for part in self.cut.parts(ByteRange::new(0, bytes.len() as u64)) {
            let range = self.cut.range(part);
            let piece = &bytes[range.start as usize..range.end().min(bytes.len() as u64) as usize];
            // A copy: a slice would keep the whole object in memory when only this part is still wanted.
            self.parts.insert((name, part), Bytes::copy_from_slice(piece));
        }
    }

    /// A whole object of known length.
    ///
    /// # Errors
    /// As [`Cache::get_range`].
    pub async fn get(&self, object: impl Into<Name>, len: u64) -> Result<Bytes, Error> {
        self.get_range(object, ByteRange::new(0, len)).await
    }

    /// Exactly the bytes of the range. Those of one part share its allocation; a range over several is copied.
    ///
    /// # Errors
    /// [`Error::NotFound`]: look up again where the bytes are. [`Error::OutOfRange`]: the range was wrong.
    /// [`Error::Unavailable`]: try again later. [`Error::Store`]: repeating will not help.
    pub async fn get_range(&self, object: impl Into<Name>, range: ByteRange) -> Result<Bytes, Error> {
        let name = object.into();
        if range.len == 0 {
            return Ok(Bytes::new());
        }
        let parts = self.cut.parts(range);
        if parts.end - parts.start > RANGE_PARTS_MAX {
            return Err(self.out_of_range(name, range));
        }
        if parts.end - parts.start == 1 {
            return self.piece(name, parts.start, range).await;
        }
        let pieces = try_join_all(parts.map(|part| self.piece(name, part, range))).await?;
        let mut joined = BytesMut::with_capacity(range.len as usize);
        pieces.iter().for_each(|piece| joined.extend_from_slice(piece));
        Ok(joined.freeze())
    }

    /// What one part has of the range.
    async fn piece(&self, name: Name, part: u64, range: ByteRange) -> Result<Bytes, Error> {
        let at = self.cut.range(part);
        let start = range.start.max(at.start) - at.start;
        let end = range.end().min(at.end()) - at.start;
        let bytes = self.part(name, part).await?;
        if end > bytes.len() as u64 {
            return Err(self.out_of_range(name, range));
        }
        Ok(bytes.slice(start as usize..end as usize))
    }

    async fn part(&self, name: Name, part: u64) -> Result<Bytes, Error> {
        let range = self.cut.range(part);
        let fetcher = &self.fetcher;
        let fetch = self.parts.get_or_fetch(&(name, part), || fetcher.clone().fetch(name, range));
        if fetch.need_await() { &self.metrics.misses } else { &self.metrics.hits }.inc();
        match fetch.await {
            Ok(entry) => Ok(entry.value().clone()),
            Err(error) => Err(Error::from_fetch(self.fetcher.paths.key(name), range, &error)),
        }
    }

    fn out_of_range(&self, name: Name, range: ByteRange) -> Error {
        Error::OutOfRange { key: self.fetcher.paths.key(name), range }
    }
}

/// What a fetch needs; it outlives the reader that caused it.
#[derive(Debug, Clone)]
struct Fetcher {
    store: Arc<dyn Store>,
    paths: Paths,
    gets: Arc<Semaphore>,
    get_timeout: Duration,
    metrics: Metrics,
}

impl Fetcher {
    async fn fetch(self, name: Name, range: ByteRange) -> Result<Bytes, object::Error> {
        let deadline = Instant::now() + self.get_timeout;
        let permit = async { Ok(self.gets.acquire().await.expect("never closed")) };
        let _permit = retry::within("get", deadline, permit).await?;
        let key = self.paths.key(name);
        let get = || {
            self.metrics.gets.inc();
            self.store.get_range(&key, range)
        };
        let bytes = retry::repeat("get", GET_ATTEMPTS_MAX, deadline, get).await?;
        self.metrics.get_bytes.inc_by(bytes.len() as u64);
        Ok(bytes)
    }
}

#[cfg(test)]
#[path = "cache_test.rs"]
mod tests;
