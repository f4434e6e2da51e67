use bytes::Bytes;
use futures::future::join_all;
use tracing::{error, warn};

use crate::batch::{Segments, build};
use crate::cache::{self, Cache};
use crate::fetch::assemble::assemble;
use crate::fetch::locate::Located;
use crate::index::Found;
use crate::protocol::ErrorCode;
use crate::shard::BatchPointer;
use crate::types::Offset;

/// Why a partition's bytes cannot be given now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The store does not answer: an empty answer now, and the client asks again.
    Later,
    /// The object is not there: perhaps the pointer has changed.
    Gone,
    /// What is stored is not what was written.
    Damaged,
}

impl From<Missing> for ErrorCode {
    fn from(missing: Missing) -> ErrorCode {
        match missing {
            Missing::Later => ErrorCode::None,
            Missing::Gone | Missing::Damaged => ErrorCode::KafkaStorageError,
        }
    }
}

/// The pointer's batches: from the cache, or made here if it is a transaction's end.
pub(crate) async fn load(cache: &Cache, pointer: &BatchPointer) -> Result<Bytes, Missing> {
    if let Some(end) = pointer.control {
        return Ok(build::transaction_end(end.producer(), end.commit, end.coordinator_epoch, pointer.max_timestamp));
    }
    cache.get_range(pointer.object, pointer.range()).await.map_err(|e| match e {
        cache::Error::Unavailable(_) => {
            warn!(object = ?pointer.object, error = %e, "bytes are not available now");
            Missing::Later
        }
        cache::Error::NotFound { .. } => Missing::Gone,
        cache::Error::OutOfRange { .. } | cache::Error::Store(_) => {
            error!(object = ?pointer.object, error = %e, "bytes cannot be read");
            Missing::Damaged
        }
    })
}

/// Of a part of an object that a reader far behind gets, so much must be his for it to be kept as it is. He is the only one
/// who reads it now: less is copied, or an answer of a megabyte would keep gigabytes until it is written.
const SHARED_BYTES_MIN: usize = 256 * 1024;

/// As [`load`], by itself: what is small does not keep the part of the object that it came in.
pub(crate) async fn load_alone(cache: &Cache, pointer: &BatchPointer) -> Result<Bytes, Missing> {
    let bytes = load(cache, pointer).await?;
    Ok(if bytes.len() < SHARED_BYTES_MIN { Bytes::copy_from_slice(&bytes) } else { bytes })
}

/// Objects loaded at once for one partition: enough to overlap GETs, few enough to bound what one reader pulls in.
const LOADS_MAX: usize = 8;

/// Reads what was found, a few objects at a time, and patches it for the reader.
pub(super) async fn read(
    cache: &Cache,
    located: &Located,
    found: &Found,
    offset: Offset,
    bytes_max: usize,
    whole_first: bool,
) -> Result<Segments, Missing> {
    let mut out = Segments::new();
    for some in found.pointers.chunks(LOADS_MAX) {
        let loads = some.iter().map(async |pointer| match found.more {
            true => load_alone(cache, pointer).await,
            false => load(cache, pointer).await,
        });
        for (pointer, bytes) in some.iter().zip(join_all(loads).await) {
            let bytes = match bytes {
                Ok(bytes) => bytes,
                // What came before it is still an answer.
                Err(_) if !out.is_empty() => return Ok(out),
                Err(missing) => return Err(missing),
            };
            match assemble(pointer, bytes, offset, bytes_max, whole_first, &mut out) {
                Ok(true) => {}
                Ok(false) => return Ok(out),
                Err(e) => {
                    error!(partition = ?located.partition, ?pointer, error = %e, "stored batches are damaged");
                    return Err(Missing::Damaged);
                }
            }
        }
    }
    Ok(out)
}
