use std::time::Duration;

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tracing::debug;

use super::{LATE_TIME_MAX, Zonal};
use crate::object::{Error, Key, put_own};

/// How long one bucket is tried while there is no majority: as long as the most patient caller waits.
const BUCKET_TIME_MAX: Duration = Duration::from_secs(60);

/// One attempt at the copies of one object.
struct Attempt {
    key: Key,
    copies: JoinSet<(usize, Result<(), Error>)>,
    /// Buckets that have said nothing yet.
    silent: Vec<usize>,
    votes: Votes,
}

#[derive(Default)]
struct Votes {
    created: usize,
    /// Without a copy, for whatever reason.
    failed: Vec<(usize, Error)>,
}

impl Zonal {
    /// Writes to every bucket, each by the rules of [`put_own`], and returns when a majority has the object or cannot
    /// have it any more. Dropped before that, it ends all attempts: their outcome is unknown.
    pub(super) async fn put(&self, key: &Key, bytes: Bytes) -> Result<(), Error> {
        let mut attempt = self.begin(key, bytes);
        let (all, majority) = (self.buckets().len(), self.majority());
        while attempt.votes.created < majority && all - attempt.votes.failed.len() >= majority {
            if !attempt.next(self).await {
                break;
            }
        }
        if attempt.votes.created < majority {
            return Err(attempt.votes.error(key, all, majority, attempt.silent.len()));
        }
        for (bucket, error) in std::mem::take(&mut attempt.votes.failed) {
            self.give_up(bucket, key, &error);
        }
        if !attempt.silent.is_empty() {
            self.metrics().late.inc();
            match self.inner.late.clone().try_acquire_owned() {
                Ok(permit) => drop(tokio::spawn(attempt.finish(self.clone(), permit))),
                // Each late copy holds an object in memory.
                Err(_) => attempt.give_up_silent(self, "too many copies are late"),
            }
        }
        Ok(())
    }

    fn begin(&self, key: &Key, bytes: Bytes) -> Attempt {
        let deadline = Instant::now() + BUCKET_TIME_MAX;
        let mut copies = JoinSet::new();
        for (index, bucket) in self.buckets().iter().enumerate() {
            let (store, key, bytes) = (bucket.store.clone(), key.clone(), bytes.clone());
            copies.spawn(async move { (index, put_own(&*store, &key, bytes, deadline).await) });
        }
        let silent = (0..self.buckets().len()).collect();
        Attempt { key: key.clone(), copies, silent, votes: Votes::default() }
    }

    fn give_up(&self, bucket: usize, key: &Key, error: &Error) {
        debug!(zone = self.buckets()[bucket].zone, %key, %error, "a copy was not written");
        self.metrics().given_up.inc();
        self.inner.missing.add(bucket, key);
    }
}

impl Attempt {
    /// False when the attempts have been ended from outside: the broker is stopping.
    async fn next(&mut self, zonal: &Zonal) -> bool {
        let Some(Ok((bucket, verdict))) = self.copies.join_next().await else { return false };
        self.silent.retain(|silent| *silent != bucket);
        zonal.note(bucket, verdict.is_ok());
        match verdict {
            Ok(()) => self.votes.created += 1,
            Err(error) => self.votes.failed.push((bucket, error)),
        }
        true
    }

    /// Waits for the late copies; those that do not come are known to be missing.
    async fn finish(mut self, zonal: Zonal, _permit: OwnedSemaphorePermit) {
        let deadline = Instant::now() + LATE_TIME_MAX;
        while !self.silent.is_empty() && matches!(timeout_at(deadline, self.next(&zonal)).await, Ok(true)) {}
        for (bucket, error) in std::mem::take(&mut self.votes.failed) {
            zonal.give_up(bucket, &self.key, &error);
        }
        self.give_up_silent(&zonal, "no answer in time");
    }

    /// Ends the attempts that are left.
    fn give_up_silent(self, zonal: &Zonal, why: &'static str) {
        for bucket in &self.silent {
            zonal.note(*bucket, false);
            zonal.give_up(*bucket, &self.key, &Error::unknown("put", why));
        }
    }
}

impl Votes {
    /// Why there is no majority, by what the caller should do.
    fn error(self, key: &Key, all: usize, majority: usize, silent: usize) -> Error {
        let taken = self.failed.iter().filter(|(_, error)| matches!(error, Error::AlreadyExists { .. })).count();
        if taken + majority > all {
            // Somebody else's bytes: this key will never have a majority of ours.
            return Error::AlreadyExists { key: key.clone() };
        }
        let untouched = self.created == 0 && silent == 0;
        let reason = |error: &Error| format!("{} of {majority} copies, then: {error}", self.created);
        let refused = self.failed.iter().find(|(_, error)| !error.is_transient());
        match (refused, self.failed.last()) {
            (Some((_, error)), _) => Error::refused("put", reason(error)),
            (None, Some((_, error))) => {
                let retryable = self.failed.iter().all(|(_, error)| matches!(error, Error::Retryable { .. }));
                let kind = if untouched && retryable { Error::retryable } else { Error::unknown };
                kind("put", &reason(error))
            }
            (None, None) => Error::unknown("put", "no bucket has answered"),
        }
    }
}
