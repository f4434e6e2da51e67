//! Snapshots put where followers can get them.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::messages::SnapshotOffer;
use crate::snapshot::{SnapshotFile, load};
use crate::types::{SnapshotMeta, Vote, position};
use crate::{GroupId, SnapshotStore};

/// A stored snapshot is offered again for this long; afterwards it may have been swept, and is stored anew.
const OFFERED_FOR: Duration = Duration::from_secs(300);

struct Stored {
    meta: SnapshotMeta,
    key: String,
    at: Instant,
}

/// Of one group.
pub(crate) struct Offers {
    store: Arc<dyn SnapshotStore>,
    /// Held while storing, so that two followers in need share one object.
    storing: tokio::sync::Mutex<()>,
    stored: Mutex<Option<Stored>>,
}

impl Offers {
    pub(crate) fn new(store: Arc<dyn SnapshotStore>) -> Self {
        Offers { store, storing: tokio::sync::Mutex::default(), stored: Mutex::default() }
    }

    pub(crate) fn forget(&self) {
        *self.stored.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn stored_key(&self, meta: &SnapshotMeta) -> Option<String> {
        let stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = stored.as_ref().filter(|stored| stored.meta == *meta && stored.at.elapsed() < OFFERED_FOR);
        fresh.map(|stored| stored.key.clone())
    }

    /// Stores the snapshot unless it has just been stored.
    pub(crate) async fn offer(
        &self,
        group: GroupId,
        vote: Vote,
        file: &Arc<SnapshotFile>,
    ) -> io::Result<SnapshotOffer> {
        let _storing = self.storing.lock().await;
        let key = match self.stored_key(&file.meta) {
            Some(key) => key,
            None => {
                let path = file.path.clone();
                let read = crate::door::blocking(move || load(&path, Some(group)));
                let (_, bytes) = read.await.map_err(io::Error::other)?.map_err(io::Error::other)?;
                let at = file.meta.last_log_id.as_ref().map(position).unwrap_or_default();
                let key = self.store.put(group, at, bytes).await?;
                let stored = Stored { meta: file.meta.clone(), key: key.clone(), at: Instant::now() };
                *self.stored.lock().unwrap_or_else(PoisonError::into_inner) = Some(stored);
                key
            }
        };
        Ok(SnapshotOffer { vote, meta: file.meta.clone(), key, bytes_len: file.bytes_len, crc: file.crc })
    }

    /// Fetches what another node offers.
    pub(crate) async fn fetch(&self, offer: &SnapshotOffer) -> io::Result<bytes::Bytes> {
        let bytes = self.store.get(&offer.key).await?;
        if bytes.len() as u64 != offer.bytes_len || crc32fast::hash(&bytes) != offer.crc {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the stored snapshot is not the one that was offered",
            ));
        }
        Ok(bytes)
    }
}

#[cfg(test)]
#[path = "offers_test.rs"]
mod tests;
