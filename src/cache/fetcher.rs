use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use foyer::{HybridCacheProperties, Location};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::metrics::Metrics;
use super::neighbours::{Neighbours, Request};
use super::{GET_ATTEMPTS_MAX, OWNERS_TRIED_MAX, Settings};
use crate::object::{Error, Hedger, Name, Paths, Store, retry};
use crate::types::ByteRange;

/// Whose budget of fetches is used: each has its own, so that none waits for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A reader at the end of its partition, or one that expects to be.
    Tail,
    CatchUp,
    /// A neighbour's reader. Only the store is asked: brokers that disagree about an owner must not wait for each other.
    Neighbour {
        catch_up: bool,
    },
}

/// Where bytes come from when they are not here.
#[derive(Debug)]
pub(super) struct Source {
    store: Arc<dyn Store>,
    pub paths: Paths,
    pub neighbours: Arc<dyn Neighbours>,
    get_timeout: Duration,
    gets: Hedger,
    reads: Hedger,
    pub metrics: Metrics,
    tail: Semaphore,
    catch_up: Semaphore,
    neighbours_tail: Semaphore,
    neighbours_catch_up: Semaphore,
}

impl Source {
    pub fn new(store: Arc<dyn Store>, paths: Paths, neighbours: Arc<dyn Neighbours>, settings: &Settings) -> Source {
        let (gets, reads) = (Hedger::new(settings.hedging), Hedger::new(settings.hedging));
        let metrics = Metrics::new(gets.counts.clone(), reads.counts.clone());
        Source {
            store,
            paths,
            neighbours,
            get_timeout: settings.get_timeout,
            gets,
            reads,
            metrics,
            tail: Semaphore::new(settings.gets_max),
            catch_up: Semaphore::new(settings.catch_up_gets_max),
            neighbours_tail: Semaphore::new(settings.gets_max.div_ceil(2)),
            neighbours_catch_up: Semaphore::new(settings.catch_up_gets_max.div_ceil(2)),
        }
    }

    fn budget(&self, purpose: Purpose) -> &Semaphore {
        match purpose {
            Purpose::Tail => &self.tail,
            Purpose::CatchUp => &self.catch_up,
            Purpose::Neighbour { catch_up: false } => &self.neighbours_tail,
            Purpose::Neighbour { catch_up: true } => &self.neighbours_catch_up,
        }
    }
}

/// Fetches parts for one purpose; a fetch outlives the reader that caused it.
#[derive(Debug, Clone)]
pub(super) struct Fetcher {
    pub source: Arc<Source>,
    pub purpose: Purpose,
}

impl Fetcher {
    pub async fn fetch(self, name: Name, range: ByteRange) -> Result<(Bytes, HybridCacheProperties), Error> {
        let deadline = Instant::now() + self.source.get_timeout;
        let permit = async { Ok(self.source.budget(self.purpose).acquire().await.expect("never closed")) };
        let _permit = retry::within("get", deadline, permit).await?;
        if let Some(bytes) = self.ask_neighbours(name, range, deadline).await {
            // The owner keeps it on its disk.
            return Ok((bytes, HybridCacheProperties::default().with_location(Location::InMem)));
        }
        Ok((self.ask_store(name, range, deadline).await?, HybridCacheProperties::default()))
    }

    /// `None`: this broker has to ask the store.
    async fn ask_neighbours(&self, name: Name, range: ByteRange, deadline: Instant) -> Option<Bytes> {
        if matches!(self.purpose, Purpose::Neighbour { .. }) {
            return None;
        }
        let Source { neighbours, reads, metrics, .. } = &*self.source;
        let request = Request { name, range, catch_up: self.purpose == Purpose::CatchUp };
        for _ in 0..OWNERS_TRIED_MAX {
            let owner = neighbours.owner(&name)?;
            let read = async {
                let bytes = retry::within("read", deadline, neighbours.read(owner, request)).await?;
                metrics.neighbour_reads.inc();
                metrics.neighbour_read_bytes.inc_by(bytes.len() as u64);
                Ok(bytes)
            };
            // An owner that is slow: its copy is worth a GET more, within the budget for those.
            let error = match reads.run(read, || self.ask_store(name, range, deadline)).await {
                Ok(bytes) => return Some(bytes),
                Err(error) => error,
            };
            metrics.neighbour_reads_failed.inc();
            tracing::debug!(owner, ?name, %error, "a neighbour did not give an object");
            if !error.is_transient() {
                return None;
            }
        }
        None
    }

    async fn ask_store(&self, name: Name, range: ByteRange, deadline: Instant) -> Result<Bytes, Error> {
        let Source { store, paths, gets, metrics, .. } = &*self.source;
        let key = paths.key(name);
        let get = || {
            metrics.gets.inc();
            store.get_range(&key, range)
        };
        let first = retry::repeat("get", GET_ATTEMPTS_MAX, deadline, get);
        let bytes = gets.run(first, || retry::within("get", deadline, get())).await?;
        metrics.get_bytes.inc_by(bytes.len() as u64);
        metrics.objects_fetched.inc_by((range.start == 0).into());
        Ok(bytes)
    }
}
