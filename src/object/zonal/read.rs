use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::time::sleep;

use super::Zonal;
use crate::object::{Error, Key, Store};

/// A bucket that takes longer is slow, and all others are asked as well: some ten times what a zonal bucket takes.
const SLOW: Duration = Duration::from_millis(100);

type Asked<'a, T> = FuturesUnordered<BoxFuture<'a, (usize, Result<T, Error>)>>;

impl Zonal {
    /// Asks the own zone's bucket, and all others at once when it has not what is wanted, fails or is slow. `without`
    /// names a bucket that is not asked.
    ///
    /// # Errors
    /// [`Error::NotFound`] only when every bucket says so: what was acknowledged may be in any of them.
    pub(super) async fn read<T, F>(
        &self,
        operation: &'static str,
        key: &Key,
        without: Option<usize>,
        ask: impl Fn(Arc<dyn Store>, Key) -> F + Send + Sync,
    ) -> Result<T, Error>
    where
        T: Send,
        F: Future<Output = Result<T, Error>> + Send,
    {
        let order = self.order(without);
        let asked_of = |bucket: usize| -> BoxFuture<'_, (usize, Result<T, Error>)> {
            let answer = ask(self.buckets()[bucket].store.clone(), key.clone());
            Box::pin(async move { (bucket, answer.await) })
        };
        let (first, rest) = order.split_first().expect("there are other buckets");
        let mut asked: Asked<'_, T> = FuturesUnordered::new();
        asked.push(asked_of(*first));
        let mut rest = Some(rest);
        let mut failed: Vec<(usize, Error)> = Vec::new();
        loop {
            let answer = tokio::select! {
                answer = asked.next() => answer,
                () = sleep(SLOW), if rest.is_some() => {
                    asked.extend(rest.take().into_iter().flatten().map(|bucket| asked_of(*bucket)));
                    continue;
                }
            };
            match answer {
                Some((bucket, Ok(value))) => {
                    if without.is_none() && self.inner.own.is_some_and(|own| own != bucket) {
                        self.metrics().reads_elsewhere.inc();
                    }
                    self.answered(key, bucket, *first, &failed);
                    return Ok(value);
                }
                Some((bucket, Err(Error::OutOfRange { key, start }))) => {
                    self.note(bucket, true);
                    return Err(Error::OutOfRange { key, start });
                }
                Some((bucket, Err(error))) => {
                    self.note(bucket, !error.is_transient());
                    failed.push((bucket, error));
                    asked.extend(rest.take().into_iter().flatten().map(|bucket| asked_of(*bucket)));
                }
                None => return Err(verdict(operation, key, failed)),
            }
        }
    }

    /// The own zone's bucket first, unless it does not answer these days; then the others, those that do first.
    fn order(&self, without: Option<usize>) -> Vec<usize> {
        let mut health = self.inner.health.lock().expect("no holder panics");
        let own = self.inner.own;
        let all = (0..self.buckets().len()).filter(|bucket| Some(*bucket) != without);
        let now = Instant::now();
        let mut order: Vec<(bool, bool, usize)> =
            all.map(|bucket| (!health[bucket].is_asked_first(now), Some(bucket) != own, bucket)).collect();
        order.sort_unstable();
        order.into_iter().map(|(.., bucket)| bucket).collect()
    }

    fn answered(&self, key: &Key, bucket: usize, first: usize, failed: &[(usize, Error)]) {
        self.note(bucket, true);
        if bucket == first {
            return;
        }
        match failed.iter().find(|(failed, _)| *failed == first) {
            // The others were asked because it was slow, and were quicker.
            None => self.note(first, false),
            Some((_, Error::NotFound { .. })) => self.inner.missing.add(first, key),
            Some(_) => {}
        }
    }
}

/// What to tell when nobody had it.
fn verdict(operation: &'static str, key: &Key, failed: Vec<(usize, Error)>) -> Error {
    let errors = || failed.iter().map(|(_, error)| error);
    if let Some(error) = errors().find(|error| error.is_transient()) {
        return Error::retryable(operation, format!("the bucket that has it may be away: {error}"));
    }
    let worse = errors().find(|error| !matches!(error, Error::NotFound { .. }));
    worse.cloned().unwrap_or_else(|| Error::NotFound { key: key.clone() })
}
