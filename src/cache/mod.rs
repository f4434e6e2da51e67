//! The read cache of one broker, and with those of its neighbours the read cache of its zone: whole objects, or parts of
//! large ones, each fetched once however many ask.
//!
//! In: the name of an object and a byte range, or an object just produced. Out: `Bytes` that share the cached
//! allocation.
//!
//! ```text
//! object   |<------ head: up to object_whole_bytes_max ------>|<- chunk_bytes ->|<- chunk_bytes ->| ...
//! parts                            0                                   1                 2
//!
//! memory ─▶ disk tier ─▶ the object's owner in this zone ─▶ store
//! ```
//! An object that fits the head is fetched whole by its first reader, in one GET and without asking its length
//! first: the rest is about to be read here too. One broker of a zone owns an object: the one that wrote it, or one that
//! all agree on. The others read from it while it is well, and from the store when it is slow or gone.
//!
//! Promises: of concurrent readers of a part one fetch is made, and it goes on when the reader that caused it is gone.
//! Bytes go to brokers of the same zone only. Readers that catch up, and neighbours, have budgets of their own: they hold
//! up no reader of the newest.
//! Never: writes to the store, keeps an error, patches bytes, knows what a record is.
//! Limits: `capacity_bytes` of parts in memory, beside what is being fetched (`gets_max` heads at most, and as many more as
//! `catch_up_gets_max`; half as many again for neighbours) and what readers still hold; [`SERVED_MAX`] parts on their way
//! to neighbours; [`RANGE_PARTS_MAX`] parts in one range; the disk tier's own capacity.
//!
//! # Decisions
//! **An owner per object, not per part, and the producer first.** The brokers of a zone agree by rendezvous hashing
//! over those alive, without a word to each other; the broker that wrote an object owns it while it is there, so its
//! zone makes no GET. Views that disagree for a moment cost a GET, never a wait: an owner asked by a neighbour asks
//! only the store. An owner that fails is passed over for 3 s and the next in line is asked, so that a zone of three
//! does not fetch twice. Owner and readers both keep what they read: hot bytes are served from each one's memory, the
//! disk tier keeps the owner's copy alone.
//!
//! **Four budgets of fetches**: tail, catch-up (more pointers behind those found), and neighbours' of either kind, so
//! that no backfill, here or next door, holds up a reader of the newest. A PUT shares nothing with them but the
//! network. Memory needs no split: S3-FIFO lets a scan through its small queue only.

mod error;
mod fetcher;
mod key;
mod metrics;
mod neighbours;
mod part;
mod parts;
mod serve;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::try_join_all;
use tokio::sync::Semaphore;

pub use error::{Error, OpenError};
pub use metrics::Metrics;
pub use neighbours::{Neighbours, Request, Zone};
pub use parts::Disk;

use self::fetcher::{Fetcher, Purpose, Source};
use self::key::PartKey;
use self::part::Cut;
use self::parts::Parts;
use crate::object::{self, Name, Paths, Store, hedge};
use crate::types::ByteRange;

/// The most parts of one range: 256 MiB of chunks of 4 MiB.
pub const RANGE_PARTS_MAX: u64 = 64;

/// Parts on their way to neighbours at once.
pub const SERVED_MAX: usize = 16;

const GET_ATTEMPTS_MAX: u32 = 4;

/// Brokers of the zone that are asked for a part before the store is.
const OWNERS_TRIED_MAX: usize = 2;

#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub capacity_bytes: usize,
    /// Memory alone without it.
    pub disk: Option<Disk>,
    /// Objects up to this length are fetched whole.
    pub object_whole_bytes_max: u64,
    /// Behind that, objects are fetched in pieces of this length.
    pub chunk_bytes: u64,
    /// Fetches at once.
    pub gets_max: usize,
    /// Fetches at once, beside those, for readers that catch up.
    pub catch_up_gets_max: usize,
    /// What a reader waits for one part, retries included.
    pub get_timeout: Duration,
    /// Of GETs, and of reads from neighbours, each.
    pub hedging: hedge::Settings,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            capacity_bytes: 512 << 20,
            disk: None,
            object_whole_bytes_max: 8 << 20,
            chunk_bytes: 4 << 20,
            gets_max: 16,
            catch_up_gets_max: 8,
            get_timeout: Duration::from_secs(15),
            hedging: hedge::Settings::percent(5.0),
        }
    }
}

/// A handle; clones share the cache.
#[derive(Debug, Clone)]
pub struct Cache {
    parts: Parts,
    cut: Cut,
    fetcher: Fetcher,
    serving: Arc<Semaphore>,
}

impl Cache {
    /// # Errors
    /// The disk tier cannot be used.
    ///
    /// # Panics
    /// When a length or count in the settings is zero.
    pub async fn open(
        store: Arc<dyn Store>,
        paths: Paths,
        neighbours: Arc<dyn Neighbours>,
        settings: Settings,
    ) -> Result<Cache, OpenError> {
        let cut = Cut::new(settings.object_whole_bytes_max, settings.chunk_bytes);
        assert!(settings.gets_max > 0 && settings.catch_up_gets_max > 0, "no GET would ever be made");
        let parts = Parts::open(settings.capacity_bytes, &cut, paths.root(), settings.disk.as_ref()).await?;
        let source = Arc::new(Source::new(store, paths, neighbours, &settings));
        let fetcher = Fetcher { source, purpose: Purpose::Tail };
        Ok(Cache { parts, cut, fetcher, serving: Arc::new(Semaphore::new(SERVED_MAX)) })
    }

    /// A handle on the same cache whose fetches have a budget of their own, so that reading old data never holds up
    /// those who read the newest.
    pub fn catch_up(&self) -> Cache {
        self.fetching_for(Purpose::CatchUp)
    }

    fn fetching_for(&self, purpose: Purpose) -> Cache {
        Cache { fetcher: Fetcher { purpose, ..self.fetcher.clone() }, ..self.clone() }
    }

    pub fn metrics(&self) -> &Metrics {
        &self.fetcher.source.metrics
    }

    /// Keeps the producing broker's own copy. For an object that nobody else knows of yet.
    pub fn insert(&self, object: impl Into<Name>, bytes: Bytes) {
        let name = object.into();
        if bytes.len() as u64 <= self.cut.head_bytes {
            self.parts.cache.insert(PartKey { name, part: 0 }, bytes);
            return;
        }
        for part in self.cut.parts(ByteRange::new(0, bytes.len() as u64)) {
            let range = self.cut.range(part);
            let piece = &bytes[range.start as usize..range.end().min(bytes.len() as u64) as usize];
            // A copy: a slice would keep the whole object in memory when only this part is still wanted.
            self.parts.cache.insert(PartKey { name, part }, Bytes::copy_from_slice(piece));
        }
    }

    /// Fetches what is not here of a range that somebody is about to read. Of an error the reader hears himself.
    pub async fn prefetch(&self, object: impl Into<Name>, range: ByteRange) {
        let name = object.into();
        if range.len == 0 {
            return;
        }
        for part in self.cut.parts(range).take(RANGE_PARTS_MAX as usize) {
            if self.parts.cache.contains(&PartKey { name, part }) {
                continue;
            }
            self.metrics().prefetches.inc();
            if self.part(name, part).await.is_err() {
                return;
            }
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
        let key = PartKey { name, part };
        if let Some(entry) = self.parts.cache.memory().get(&key) {
            self.metrics().hits.inc();
            return Ok(entry.value().clone());
        }
        self.metrics().misses.inc();
        let range = self.cut.range(part);
        let fetched = self.parts.cache.get_or_fetch(&key, || self.fetcher.clone().fetch(name, range)).await;
        let error = match fetched {
            Ok(entry) => {
                // Not from our fetch: it was on the disk, or on its way there.
                self.metrics().disk_hits.inc_by((entry.source() != foyer::Source::Outer).into());
                return Ok(entry.value().clone());
            }
            Err(error) => error,
        };
        let failed = |error| Error::from_store(self.fetcher.source.paths.key(name), range, error);
        match error.downcast_ref::<object::Error>() {
            Some(error) => Err(failed(error.clone())),
            // No fetch ended like that: the disk tier did, and readers do not depend on it.
            None => {
                tracing::warn!(%error, "the disk cache failed a read");
                self.fetcher.clone().fetch(name, range).await.map(|(bytes, _)| bytes).map_err(failed)
            }
        }
    }

    fn out_of_range(&self, name: Name, range: ByteRange) -> Error {
        Error::OutOfRange { key: self.fetcher.source.paths.key(name), range }
    }
}

#[cfg(test)]
#[path = "cache_test.rs"]
mod tests;
#[cfg(test)]
mod zone_test;
