use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::stream::{FuturesOrdered, StreamExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{error, warn};

use crate::cache::Cache;
use crate::commit::{Error, Lanes, Reply, Submission};
use crate::object::{Durable, Hedger, Paths, Store};
use crate::shard::Sequence;
use crate::types::{BrokerEpoch, BrokerId, Memory, ObjectId, Partition, StorageClass};
use crate::upload::assemble::{ShardParts, assemble};
use crate::upload::{OBJECTS_IN_FLIGHT_MAX, Pending, Poison, UPLOADS_MAX};

/// The next one is the second request's. The winner is fixed before the first commit and is the only one ever named.
const FIRST_ATTEMPT: u16 = 1;

/// A buffer that takes no more batches.
pub struct Sealed {
    /// Where its object goes.
    pub class: StorageClass,
    pub pending: Vec<Pending>,
}

pub struct Settings {
    pub broker: BrokerId,
    pub epoch: BrokerEpoch,
    /// An upload is tried again for so long, then its batches are refused.
    pub put_timeout: Duration,
    /// How long a durable object's verdicts are waited for.
    pub commit_timeout: Duration,
}

#[derive(Debug, Default)]
pub struct Counters {
    pub objects: AtomicU64,
    pub object_bytes: AtomicU64,
    pub batches: AtomicU64,
    pub failed: AtomicU64,
}

/// Turns sealed buffers into objects. Owned by one task.
pub struct Uploader {
    pub settings: Settings,
    pub store: Arc<dyn Store>,
    pub paths: Paths,
    pub hedger: Hedger,
    pub cache: Arc<Cache>,
    pub lanes: Arc<Lanes>,
    pub poison: Arc<Poison>,
    pub counters: Arc<Counters>,
}

struct Stored {
    object: Durable<ObjectId>,
    shards: Vec<(u32, ShardParts)>,
    permit: OwnedSemaphorePermit,
}

impl Uploader {
    /// Ends when the queue is closed and every object has been handed on.
    pub async fn run(self, mut sealed: mpsc::Receiver<Sealed>) {
        let this = Arc::new(self);
        let in_flight = Arc::new(Semaphore::new(OBJECTS_IN_FLIGHT_MAX));
        let mut uploads: FuturesOrdered<JoinHandle<Option<Stored>>> = FuturesOrdered::new();
        let (mut sequence, mut open) = (0, true);
        while open || !uploads.is_empty() {
            tokio::select! {
                Some(stored) = uploads.next() => match stored {
                    Ok(Some(stored)) => this.hand_on(stored),
                    Ok(None) => {}
                    // Its waiters were dropped with it, and hear that the outcome is unknown.
                    Err(e) => error!(error = %e, "an upload ended by itself"),
                },
                next = next_permitted(&in_flight, &mut sealed), if open && uploads.len() < UPLOADS_MAX => match next {
                    Some((sealed, permit)) => {
                        sequence += 1;
                        uploads.push_back(tokio::spawn(this.clone().upload(sequence, sealed, permit)));
                    }
                    None => open = false,
                },
            }
        }
    }

    async fn upload(self: Arc<Self>, sequence: u64, sealed: Sealed, permit: OwnedSemaphorePermit) -> Option<Stored> {
        let Settings { broker, epoch, put_timeout, .. } = self.settings;
        let id = ObjectId { broker, epoch, sequence, attempt: FIRST_ATTEMPT, class: sealed.class };
        let claims: Vec<(Partition, Sequence)> =
            sealed.pending.iter().filter_map(|p| Some((p.partition, p.claim()?))).collect();
        let batches = sealed.pending.len() as u64;
        let _memory: Vec<Memory> = sealed.pending.iter().map(|p| p.memory.clone()).collect();
        let assembled = match assemble(sealed.pending) {
            Ok(assembled) => assembled,
            Err((e, replies)) => {
                error!(sequence, error = %e, "the object could not be laid out");
                self.refuse(claims, replies);
                return None;
            }
        };
        let bytes = assembled.bytes;
        let deadline = Instant::now() + put_timeout;
        match Durable::put_hedged(&*self.store, &self.paths, id, bytes.clone(), deadline, &self.hedger).await {
            Ok(object) => {
                self.counters.objects.fetch_add(1, Ordering::Relaxed);
                self.counters.object_bytes.fetch_add(object.len(), Ordering::Relaxed);
                self.counters.batches.fetch_add(batches, Ordering::Relaxed);
                // The producing zone reads its own bytes without a GET.
                self.cache.insert(*object.id(), bytes);
                Some(Stored { object, shards: assembled.shards.into_iter().collect(), permit })
            }
            Err(e) => {
                self.counters.failed.fetch_add(1, Ordering::Relaxed);
                warn!(sequence, bytes = bytes.len(), error = %e, "the object was not stored; its batches are refused");
                self.refuse(claims, assembled.shards.into_values().flat_map(|s| s.replies).collect());
                None
            }
        }
    }

    fn hand_on(&self, stored: Stored) {
        let in_flight = Arc::new(stored.permit);
        let deadline = Instant::now() + self.settings.commit_timeout;
        for (shard, mut batches) in stored.shards {
            // Sealed before an earlier object of the same producer failed: behind it, they would only wait at the shard.
            let blocked = batches.take_out(|partition, claim| self.poison.blocks(partition, claim));
            refuse(blocked);
            let ShardParts { parts, replies, .. } = batches;
            if parts.is_empty() {
                continue;
            }
            let submission =
                Submission { object: stored.object, parts, replies, deadline, in_flight: in_flight.clone() };
            self.lanes.submit(shard, submission);
        }
    }

    /// The pointers of these batches were never sent and never will be.
    fn refuse(&self, claims: Vec<(Partition, Sequence)>, replies: Vec<Reply>) {
        claims.into_iter().for_each(|(partition, claim)| self.poison.add(partition, claim));
        refuse(replies);
    }
}

fn refuse(replies: Vec<Reply>) {
    for reply in replies {
        reply.send(Err(Error::NotStored));
    }
}

/// The next buffer, once there is room for another object.
async fn next_permitted(
    in_flight: &Arc<Semaphore>,
    sealed: &mut mpsc::Receiver<Sealed>,
) -> Option<(Sealed, OwnedSemaphorePermit)> {
    let permit = in_flight.clone().acquire_owned().await.expect("the semaphore is never closed");
    Some((sealed.recv().await?, permit))
}
