use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, timeout_at};
use tracing::warn;

use super::marker::AWAY_TIME;
use super::retry::{repeat, within};
use super::{Error, Key, Prefix, Start, Store, parts, paths};
use crate::types::ByteRange;

/// Writers that race for one key. A store that looks first and writes then lets several of them win.
const RACERS: u32 = 8;

const ATTEMPTS_MAX: u32 = 8;

/// A racer that is not answered by then counts as one whose answer was lost.
const RACE_TIME: Duration = Duration::from_secs(5);

/// Checks at start-up that the store keeps the contract this broker rests on; leaves nothing behind. Buckets of zones
/// are checked one by one; a minority of them may be away.
///
/// # Errors
/// [`Error::Refused`] names the promise that is broken, for the operator. A transient error: nothing was found out.
pub async fn probe(store: &dyn Store, deadline: Instant) -> Result<(), Error> {
    let parts = parts(store);
    let mut probes: FuturesUnordered<_> = parts
        .iter()
        .map(|part| async move { (part.zone, probe_part(part.store, deadline).await.map_err(|e| part.named(e))) })
        .collect();
    let zones = parts.iter().filter(|part| part.zone.is_some()).count();
    let (mut passed, mut until) = (0, deadline);
    let mut regional_is_open = zones < parts.len();
    let enough = |passed: usize| passed > zones / 2 || zones == 0;
    while let Ok(Some((zone, result))) = timeout_at(until, probes.next()).await {
        match (zone, result) {
            (Some(_), Ok(())) => passed += 1,
            (Some(zone), Err(error)) if error.is_transient() => warn!(zone, %error, "a zone's bucket is away"),
            (None, Ok(())) => regional_is_open = false,
            (_, Err(error)) => return Err(error),
        }
        if enough(passed) && !regional_is_open {
            until = until.min(Instant::now() + AWAY_TIME);
        }
    }
    match enough(passed) && !regional_is_open {
        true => Ok(()),
        false => Err(Error::unknown("probe", "too many buckets are away")),
    }
}

async fn probe_part(store: &dyn Store, deadline: Instant) -> Result<(), Error> {
    let directory = paths::probe_directory(rand::random());
    let keys: Vec<Key> = (0..2).map(|number| paths::probe_key(&directory, number)).collect();
    let found = check(store, &directory, &keys, deadline).await;
    let deleted = repeat("probe", ATTEMPTS_MAX, deadline, || store.delete(&keys)).await;
    found?;
    deleted.map_err(|e| broken("deletes", e))?;
    match repeat("probe", ATTEMPTS_MAX, deadline, || store.head(&keys[0])).await {
        Err(Error::NotFound { .. }) => Ok(()),
        Ok(_) => Err(Error::refused("probe", "the store still shows a deleted object")),
        Err(error) => Err(broken("reading what is not there", error)),
    }
}

async fn check(store: &dyn Store, directory: &Key, keys: &[Key], deadline: Instant) -> Result<(), Error> {
    let refused = |what: &str| Err(Error::refused("probe", what));
    let winner = race(store, &keys[0], deadline).await?;
    match put_again(store, &keys[0], deadline).await {
        Err(Error::AlreadyExists { .. }) => {}
        Ok(()) => return refused("the store overwrites an object although it was told not to (If-None-Match: *)"),
        Err(error) => return Err(broken("a second create of a key", error)),
    }
    let whole = repeat("probe", ATTEMPTS_MAX, deadline, || store.get(&keys[0])).await;
    let whole = whole.map_err(|e| broken("reading an object", e))?;
    if winner.is_some_and(|winner| whole != winner) {
        return refused("the store returns other bytes than were acknowledged");
    }
    let range = ByteRange::new(1, 3);
    let part = repeat("probe", ATTEMPTS_MAX, deadline, || store.get_range(&keys[0], range)).await;
    if part.map_err(|e| broken("reading a range", e))? != whole[1..4] {
        return refused("the store returns other bytes than the range asked for (Range)");
    }
    let below = Prefix::below(directory);
    let listed = repeat("probe", ATTEMPTS_MAX, deadline, || store.list(&below, Start::Beginning)).await;
    let listed = listed.map_err(|e| broken("listing", e))?;
    if !listed.objects.iter().any(|object| object.key == keys[0] && object.len == whole.len() as u64) {
        return refused("the store does not list an object that it acknowledged");
    }
    repeat("probe", ATTEMPTS_MAX, deadline, || store.now()).await.map_err(|e| broken("its date", e))?;
    Ok(())
}

/// Lets writers of different bytes race. Gives the bytes of the one that won, or `None` when replies were lost.
async fn race(store: &dyn Store, key: &Key, deadline: Instant) -> Result<Option<Bytes>, Error> {
    let written = |racer| Bytes::from(format!("probe of racer {racer}"));
    let deadline = deadline.min(Instant::now() + RACE_TIME);
    let racers = (0..RACERS).map(|racer| within("probe", deadline, store.put_if_absent(key, written(racer))));
    let racers = join_all(racers).await;
    let won: Vec<u32> = (0..RACERS).filter(|racer| racers[*racer as usize].is_ok()).collect();
    if won.len() > 1 {
        let reason = format!("{} of {RACERS} writers created one key (If-None-Match: * is not atomic)", won.len());
        return Err(Error::refused("probe", reason));
    }
    let fatal = |error: &Error| !error.is_transient() && !matches!(error, Error::AlreadyExists { .. });
    if let Some(error) = racers.into_iter().filter_map(Result::err).find(fatal) {
        return Err(broken("creating an object", error));
    }
    Ok(won.first().map(|racer| written(*racer)))
}

/// Creates a key that is taken, for which no verdict but one is right. When every racer failed this one may find it
/// free, so it tries twice.
async fn put_again(store: &dyn Store, key: &Key, deadline: Instant) -> Result<(), Error> {
    let put = || store.put_if_absent(key, Bytes::from_static(b"probe, second"));
    match repeat("probe", ATTEMPTS_MAX, deadline, put).await {
        Ok(()) => repeat("probe", ATTEMPTS_MAX, deadline, put).await,
        verdict => verdict,
    }
}

/// A transient error stays one; anything else is the operator's, and names what was tried.
fn broken(what: &str, error: Error) -> Error {
    if error.is_transient() { error } else { Error::refused("probe", format!("{what} fails: {error}")) }
}

#[cfg(test)]
#[path = "probe_test.rs"]
mod tests;
