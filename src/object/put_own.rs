use bytes::Bytes;
use tokio::time::Instant;

use super::retry::{Backoff, within};
use super::{Error, Key, Store};

/// Creates an object under a key that nobody but the caller would write, until there is a verdict or the deadline
/// has passed. A key that is taken counts as success when length and checksum match: an earlier attempt, whose
/// reply was lost, took effect.
///
/// # Errors
/// [`Error::AlreadyExists`] when other bytes are there. [`Error::Unknown`] when time ran out and some attempt may
/// have taken effect, or may yet: the key must never be used for other bytes. [`Error::Retryable`] when time ran
/// out and certainly none did. [`Error::Refused`] at once.
pub async fn put_own(store: &dyn Store, key: &Key, bytes: Bytes, deadline: Instant) -> Result<(), Error> {
    let mut backoff = Backoff::new();
    let mut perhaps_written = false;
    loop {
        let put = store.put_if_absent(key, bytes.clone());
        let error = match within("put", deadline, put).await {
            Ok(()) => return Ok(()),
            Err(Error::AlreadyExists { .. }) => {
                match within("put", deadline, store.holds(key, &bytes)).await {
                    Ok(true) => return Ok(()),
                    Ok(false) => return Err(Error::AlreadyExists { key: key.clone() }),
                    // Something is there and could not be looked at.
                    Err(error) => Error::unknown("put", error),
                }
            }
            Err(error) if error.is_transient() => error,
            Err(error) => return Err(error),
        };
        perhaps_written |= matches!(error, Error::Unknown { .. });
        if !backoff.wait(deadline).await {
            return Err(match error {
                Error::Retryable { reason, .. } if perhaps_written => Error::unknown("put", reason),
                error => error,
            });
        }
    }
}

#[cfg(test)]
#[path = "put_own_test.rs"]
mod tests;
