//! Batches for topics that want another compression than their producers use.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::batch::{self, Compression, ValidBatch};
use crate::door;
use crate::produce::error;
use crate::protocol::ErrorCode;

/// Requests that are compressed anew at a time: each may take hundreds of megabytes for a moment.
const TURNS: usize = 2;
/// What became of them may take this part of the requests' memory, beside it.
const SHARE: usize = 4;

/// What batches grow by is in no frame, so no connection has been charged for it.
pub struct Recompressor {
    turns: Semaphore,
    memory: Arc<Semaphore>,
    request_bytes_max: usize,
}

/// What one request's batches take, until they are settled.
#[derive(Default)]
pub(super) struct Recompressed {
    bytes: usize,
    pub memory: Option<OwnedSemaphorePermit>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Batch(#[from] batch::Error),
    #[error("decompressed, the request is larger than any may be")]
    RequestTooLarge,
    #[error("too much is being compressed anew")]
    NoMemory,
}

impl Error {
    pub fn code(&self) -> ErrorCode {
        match self {
            Error::Batch(e) => error::of_batch(e),
            Error::RequestTooLarge => ErrorCode::RecordListTooLarge,
            // Nothing was taken: what is on its way goes first.
            Error::NoMemory => ErrorCode::NotEnoughReplicas,
        }
    }
}

impl Recompressor {
    pub fn new(memory_bytes_max: usize, request_bytes_max: usize) -> Recompressor {
        let memory = (memory_bytes_max / SHARE).max(request_bytes_max).min(Semaphore::MAX_PERMITS);
        Recompressor { turns: Semaphore::new(TURNS), memory: Arc::new(Semaphore::new(memory)), request_bytes_max }
    }

    /// The batches, compressed as wanted; what they take is added to what the request takes.
    ///
    /// # Errors
    /// One cannot be read, or is too large now. All together are more than a request may be, or than there is room for.
    pub(super) async fn recompress(
        &self,
        batches: Vec<ValidBatch>,
        wanted: Compression,
        rules: &batch::Rules,
        request: &mut Recompressed,
    ) -> Result<Vec<ValidBatch>, Error> {
        let _turn = self.turns.acquire().await.expect("it is never closed");
        let (inflated_bytes_max, message_bytes_max) = (rules.inflated_bytes_max, rules.message_bytes_max);
        let bytes_max = self.request_bytes_max - request.bytes;
        let work = door::blocking(move || {
            let (mut made, mut total) = (Vec::with_capacity(batches.len()), 0);
            for batch in batches {
                let batch = batch.recompressed(wanted, inflated_bytes_max)?;
                let bytes = batch.bytes().len();
                // Kafka looks again too: what was small enough may not be any more.
                if bytes > message_bytes_max {
                    return Err(batch::Error::TooLarge { bytes, max: message_bytes_max }.into());
                }
                total += bytes;
                if total > bytes_max {
                    return Err(Error::RequestTooLarge);
                }
                made.push(batch);
            }
            Ok((made, total))
        });
        let (batches, bytes) = work.await.expect("compressing does not panic")?;
        // Whoever waited would hold what others wait for.
        let permits = u32::try_from(bytes).map_err(|_| Error::RequestTooLarge)?;
        let taken = self.memory.clone().try_acquire_many_owned(permits).map_err(|_| Error::NoMemory)?;
        request.bytes += bytes;
        match &mut request.memory {
            Some(memory) => memory.merge(taken),
            none => *none = Some(taken),
        }
        Ok(batches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::build::{NewRecord, Spec, batch};
    use crate::batch::{Codec, Rules, validate};

    const PLAIN: Compression = Compression { codec: Codec::None, level: 0 };

    /// A hundred kilobytes of nothing, in a few hundred bytes.
    fn zeros(count: usize) -> Vec<ValidBatch> {
        let (value, spec) = (vec![0; 100_000], Spec { codec: Codec::Zstd, ..Spec::default() });
        let one = batch(&[NewRecord::value(&value, 5)], &spec);
        let all = validate(vec![one; count].concat().into(), &Rules::default()).unwrap();
        assert!(all.iter().all(|batch| batch.bytes().len() < 1000));
        all
    }

    #[tokio::test]
    async fn what_batches_grow_to_is_bounded_for_a_request_and_for_all() {
        let (recompressor, rules) = (Recompressor::new(1_600_000, 300_000), Rules::default());
        let recompress = async |count, request: &mut Recompressed| {
            recompressor.recompress(zeros(count), PLAIN, &rules, request).await.map(|made| made.len())
        };
        let mut first = Recompressed::default();
        assert_eq!(recompress(2, &mut first).await.unwrap(), 2);
        assert!((200_000..201_000).contains(&first.bytes));
        assert!(matches!(recompress(1, &mut first).await, Err(Error::RequestTooLarge)), "all its partitions count");
        assert!(matches!(recompress(4, &mut Recompressed::default()).await, Err(Error::RequestTooLarge)));
        let mut second = Recompressed::default();
        assert_eq!(recompress(1, &mut second).await.unwrap(), 1);
        let refused = recompress(1, &mut second).await.unwrap_err();
        assert_eq!((refused.code(), second.bytes / 1000), (ErrorCode::NotEnoughReplicas, 100));
        drop(first);
        assert_eq!(recompress(1, &mut second).await.unwrap(), 1, "what is settled has made room");
        drop(second);
        assert_eq!(recompressor.memory.available_permits(), 400_000);
    }
}
