use std::sync::Arc;

use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;

use crate::cache::Cache;
use crate::index::Incoming;

/// Half of the GETs that readers have: these are theirs too, only begun earlier.
const PREFETCHES_MAX: usize = 8;

/// Fetches bytes that somebody here waits for while their pointer is still on its way to being committed; the reader who
/// is woken then finds them, or joins the fetch. Ends with the last replica that tells of some.
pub async fn prefetch(cache: Arc<Cache>, mut incoming: mpsc::Receiver<Incoming>) {
    let mut running = FuturesUnordered::new();
    let mut open = true;
    while open || !running.is_empty() {
        tokio::select! {
            next = incoming.recv(), if open && running.len() < PREFETCHES_MAX => match next {
                Some(entry) => running.extend(entry.waited_for().map(|(object, range)| cache.prefetch(object, range))),
                None => open = false,
            },
            Some(()) = running.next() => {}
        }
    }
}
