use std::time::{Duration, SystemTime};

use futures::StreamExt;
use futures::future::{join, join_all};
use futures::stream;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, error, info, warn};

use super::Zonal;
use super::compare::{Comparison, Sighting};
use crate::object::marker::{self, Marker};
use crate::object::{Classes, Error, Key, Page, Paths, Prefix, Start, Store, put_own};

/// Copies made at once, for each bucket that lacks some and for the comparison. Each holds an object in memory.
const COPIES_AT_ONCE: usize = 4;

/// Known missing copies taken up at a time.
const TAKEN_MAX: usize = 256;

/// Copies that a reader found missing are often only late: they are given so long to come by themselves.
const LATE_TIME: Duration = Duration::from_secs(1);

/// A copy, from reading the object to its acknowledgement.
const COPY_TIME_MAX: Duration = Duration::from_secs(30);

/// A request without a body.
const ASK_TIME_MAX: Duration = Duration::from_secs(30);

/// A bucket that takes no copies is left alone for so long, doubled with every failure.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Younger objects may still be on their way: longer than any writer goes on.
pub(super) const SETTLED_AFTER: Duration = Duration::from_secs(60);

/// Keys remembered while one range is compared: some 30 MB. With more, the range is gone through in twice the parts.
const COMPARED_KEYS_MAX: usize = 100_000;

/// Which ranges are this broker's to compare: those whose number leaves `index` when divided by `count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    pub index: usize,
    pub count: usize,
}

impl Share {
    fn has(self, range: usize) -> bool {
        self.count > 0 && range % self.count == self.index
    }
}

/// Makes missing copies again: those that this broker knows of, soon; those that nobody knows of, by comparing what the
/// buckets list. Two brokers at the same copy do no harm: it is put if absent.
///
/// A comparison lists every range in every bucket: a request per bucket and range at least (258 ranges among all
/// brokers), and one more per thousand objects. At $0.00113 per 1,000 that is 0.1 cents per comparison and $0.0034 per
/// million objects, of which the PUTs cost $3.39.
#[derive(Debug)]
pub struct Repair {
    classes: Classes,
    paths: Paths,
    marker: Marker,
    /// Between the beginnings of two comparisons.
    every: Duration,
    /// A bucket takes copies again.
    recovered: Notify,
}

impl Repair {
    pub fn new(classes: Classes, paths: Paths, marker: Marker, every: Duration) -> Repair {
        Repair { classes, paths, marker, every, recovered: Notify::new() }
    }

    /// Goes on until it is dropped. `share` is asked before each range: brokers come and go.
    pub async fn run(self, share: impl Fn() -> Share + Send + Sync) {
        let buckets = 0..self.zonal().buckets().len();
        let known = join_all(buckets.map(|bucket| self.copy_known(bucket)));
        join(known, self.compare_again(&share)).await;
    }

    fn zonal(&self) -> &Zonal {
        self.classes.zonal()
    }

    async fn copy_known(&self, bucket: usize) {
        let mut pause = PAUSE_FIRST;
        loop {
            let keys = self.zonal().inner.missing.take(bucket, TAKEN_MAX).await;
            let taken = keys.len();
            sleep(LATE_TIME).await;
            let copies = stream::iter(keys).map(|key| async move { (self.copy_if_missing(&key, bucket).await, key) });
            let failed: Vec<Key> = copies
                .buffer_unordered(COPIES_AT_ONCE)
                .filter_map(|(copied, key)| std::future::ready(copied.is_err().then_some(key)))
                .collect()
                .await;
            failed.iter().for_each(|key| self.zonal().inner.missing.add(bucket, key));
            if failed.len() == taken {
                sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            } else if pause > PAUSE_FIRST {
                pause = PAUSE_FIRST;
                // What is missing there is more, perhaps, than was known.
                self.recovered.notify_one();
            }
        }
    }

    async fn copy_if_missing(&self, key: &Key, bucket: usize) -> Result<bool, Error> {
        let head = timeout(ASK_TIME_MAX, self.zonal().buckets()[bucket].store.head(key)).await;
        match head.unwrap_or_else(|_| Err(Error::retryable("head", "no answer in time"))) {
            Ok(_) => Ok(false),
            Err(Error::NotFound { .. }) => self.copy(key, bucket).await,
            Err(error) => Err(error),
        }
    }

    async fn compare_again(&self, share: &(impl Fn() -> Share + Send + Sync)) {
        // Not at once: at the start of a cluster there is nothing to compare.
        let mut next = Instant::now() + self.every / 2;
        loop {
            // Recoveries close to each other are one.
            let earliest = Instant::now() + self.every / 10;
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                () = self.recovered.notified() => tokio::time::sleep_until(earliest.min(next)).await,
            }
            next = Instant::now() + self.every;
            self.compare(share).await;
        }
    }

    /// Compares this broker's share once, waiting for buckets that are away.
    pub(super) async fn compare(&self, share: &(impl Fn() -> Share + Send + Sync)) {
        let began = Instant::now();
        if share().has(0)
            && let Err(error) = marker::complete(&self.classes, &self.marker, began + COPY_TIME_MAX).await
        {
            debug!(%error, "the marker is not in every bucket");
        }
        let (mut found, mut ranges) = (0, 0);
        for (number, range) in self.paths.zonal_ranges().enumerate() {
            let mut pause = PAUSE_FIRST;
            while share().has(number) {
                match self.compare_range(&range).await {
                    Ok(copied) => {
                        found += copied;
                        ranges += 1;
                        break;
                    }
                    Err(error) => {
                        debug!(range = range.as_str(), %error, "a range could not be compared");
                        sleep(pause).await;
                        pause = (pause * 2).min(PAUSE_MAX);
                    }
                }
            }
        }
        self.zonal().metrics().compared.inc();
        let ms = began.elapsed().as_millis();
        if found > 0 {
            info!(ranges, copies = found, ms, "copies that were missing have been made again");
        } else {
            debug!(ranges, ms, "no copy is missing");
        }
    }

    /// The copies that were made.
    async fn compare_range(&self, range: &Prefix) -> Result<u64, Error> {
        let mut parts = 1;
        loop {
            if let Some(copied) = self.compare_parts(range, parts).await? {
                return Ok(copied);
            }
            parts *= 2;
            warn!(range = range.as_str(), parts, "too many keys to compare at once");
        }
    }

    /// `None` when there are too many keys in one of the parts.
    async fn compare_parts(&self, range: &Prefix, parts: u32) -> Result<Option<u64>, Error> {
        let mut copied = 0;
        for part in 0..parts {
            match self.compare_part(range, part, parts).await? {
                Some(copies) => copied += copies,
                None => return Ok(None),
            }
        }
        Ok(Some(copied))
    }

    /// `None` when there are too many keys for one part.
    async fn compare_part(&self, range: &Prefix, part: u32, parts: u32) -> Result<Option<u64>, Error> {
        let buckets = self.zonal().buckets();
        let dates = join_all(buckets.iter().map(|bucket| bucket.store.now())).await;
        let dates: Vec<SystemTime> = dates.into_iter().collect::<Result<_, _>>()?;
        let mut comparison = Comparison::new(buckets.len(), part, parts);
        let mut starts: Vec<Option<Start>> = vec![Some(Start::Beginning); buckets.len()];
        let mut copied = 0;
        while starts.iter().any(Option::is_some) {
            let asked = starts.iter_mut().enumerate().filter_map(|(bucket, start)| Some((bucket, start.take()?)));
            let pages = join_all(asked.map(|(bucket, start)| self.list(bucket, range, start))).await;
            for page in pages {
                let (bucket, page) = page?;
                for listed in page.objects {
                    let age = dates[bucket].duration_since(listed.last_modified).unwrap_or_default();
                    comparison.sighted(listed.key, Sighting { bucket, is_settled: age >= SETTLED_AFTER });
                }
                match page.next {
                    Some(next) => starts[bucket] = Some(Start::Next(next)),
                    None => comparison.end(bucket),
                }
            }
            copied += self.copy_missing(comparison.missing()).await?;
            if comparison.len() > COMPARED_KEYS_MAX {
                return Ok(None);
            }
        }
        Ok(Some(copied))
    }

    async fn list(&self, bucket: usize, range: &Prefix, start: Start) -> Result<(usize, Page), Error> {
        self.zonal().metrics().lists.inc();
        let listed = timeout(ASK_TIME_MAX, self.zonal().buckets()[bucket].store.list(range, start)).await;
        let page = listed.unwrap_or_else(|_| Err(Error::retryable("list", "no answer in time")))?;
        Ok((bucket, page))
    }

    async fn copy_missing(&self, missing: Vec<(Key, Vec<usize>)>) -> Result<u64, Error> {
        let each = missing.into_iter().flat_map(|(key, buckets)| buckets.into_iter().map(move |b| (key.clone(), b)));
        let each: Vec<(Key, usize)> = each.collect();
        let copies = stream::iter(each).map(|(key, bucket)| async move { self.copy(&key, bucket).await });
        let mut copies = copies.buffer_unordered(COPIES_AT_ONCE);
        let mut copied = 0;
        while let Some(copy) = copies.next().await {
            copied += u64::from(copy?);
        }
        Ok(copied)
    }

    /// Copies the object into the bucket from any other. False when there is nothing to copy: what was never
    /// acknowledged, or has been deleted since, is in no bucket.
    ///
    /// # Errors
    /// The bucket takes no copy now, or none of the others gives one.
    async fn copy(&self, key: &Key, bucket: usize) -> Result<bool, Error> {
        let deadline = Instant::now() + COPY_TIME_MAX;
        let zone = &self.zonal().buckets()[bucket].zone;
        let copied = tokio::time::timeout_at(deadline, async {
            let get = |store: std::sync::Arc<dyn Store>, key: Key| async move { store.get(&key).await };
            let bytes = match self.zonal().read("get", key, Some(bucket), get).await {
                Err(Error::NotFound { .. }) => return Ok(false),
                bytes => bytes?,
            };
            let put = put_own(&*self.zonal().buckets()[bucket].store, key, bytes, deadline).await;
            put.map(|()| true)
        });
        match copied.await.unwrap_or_else(|_| Err(Error::unknown("copy", "no answer in time"))) {
            Ok(true) => {
                self.zonal().note(bucket, true);
                self.zonal().metrics().repaired.inc();
                Ok(true)
            }
            Ok(false) => Ok(false),
            Err(error) if error.is_transient() => {
                debug!(zone, %key, %error, "a copy could not be made");
                Err(error)
            }
            // Trying again would not help, and the others must not wait.
            Err(error) => {
                error!(zone, %key, %error, "a copy cannot be made");
                Ok(false)
            }
        }
    }
}
