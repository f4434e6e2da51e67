use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, RwLock};

use milepost_raft::Leadership;
use tokio::sync::{mpsc, watch};

use crate::index::OpenShard;
use crate::types::ShardId;

/// Requests waiting for one shard; more wait at those who ask.
const QUEUE_MAX: usize = 1024;

/// What a shard's leader does in memory beside the log: begun from applied state whenever this broker leads the shard, and
/// with the end of the term all is forgotten that the log does not have.
pub trait Office: Send + Sync + 'static {
    type Request: Send + 'static;

    /// One term in office, until [`Term::over`]. Whoever still waits then is sent elsewhere. Answers what `over` said, and
    /// false when there are no more requests.
    fn reign(
        &self,
        shard: &Arc<OpenShard>,
        term: &mut Term<'_>,
        requests: &mut mpsc::Receiver<Self::Request>,
    ) -> impl Future<Output = bool> + Send;

    /// Somebody else leads, or nobody yet; `None` when this broker stops.
    fn refuse(&self, request: Self::Request, now: Option<Leadership>);
}

/// The way to an office's holders in the shards open here: a task each.
pub struct Reigns<O: Office> {
    office: Arc<O>,
    queues: RwLock<HashMap<ShardId, mpsc::Sender<O::Request>>>,
    stop: watch::Sender<bool>,
}

/// How long one term lasts.
pub struct Term<'a> {
    pub number: u64,
    leadership: &'a mut watch::Receiver<Leadership>,
    stop: &'a mut watch::Receiver<bool>,
}

impl Term<'_> {
    /// Returns when the term is over: whether there may be another. Safe to drop and call again.
    pub async fn over(&mut self) -> bool {
        loop {
            tokio::select! {
                changed = self.leadership.changed() => {
                    let now = *self.leadership.borrow();
                    if changed.is_err() || now.term != self.number || !now.ready {
                        return changed.is_ok();
                    }
                }
                changed = self.stop.changed() => return changed.is_ok(),
            }
        }
    }
}

impl<O: Office> Reigns<O> {
    pub fn new(office: O) -> Self {
        Reigns { office: Arc::new(office), queues: RwLock::default(), stop: watch::Sender::new(false) }
    }

    pub fn office(&self) -> &O {
        &self.office
    }

    /// Fills the office in a shard that was just opened.
    pub fn open(&self, shard: Arc<OpenShard>) {
        let (queue, requests) = mpsc::channel(QUEUE_MAX);
        self.queues.write().expect("no writer panics").insert(shard.id, queue);
        tokio::spawn(keep(self.office.clone(), shard, self.stop.subscribe(), requests));
    }

    /// The shard has left this broker.
    pub fn close(&self, shard: ShardId) {
        self.queues.write().expect("no writer panics").remove(&shard);
    }

    /// Everybody who waits is sent elsewhere, and nobody is let in any more.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub fn open_shards(&self) -> Vec<ShardId> {
        self.queues.read().expect("no writer panics").keys().copied().collect()
    }

    /// False when the shard is not open here.
    pub async fn send(&self, shard: ShardId, request: O::Request) -> bool {
        let queue = self.queues.read().expect("no writer panics").get(&shard).cloned();
        match queue {
            Some(queue) => queue.send(request).await.is_ok(),
            None => false,
        }
    }
}

/// A reign whenever this broker leads the shard, refusals in between.
async fn keep<O: Office>(
    office: Arc<O>,
    shard: Arc<OpenShard>,
    mut stop: watch::Receiver<bool>,
    mut requests: mpsc::Receiver<O::Request>,
) {
    let mut leadership = shard.group.leadership();
    loop {
        let now = *leadership.borrow_and_update();
        let stopping = *stop.borrow_and_update();
        if now.ready && !stopping {
            let mut term = Term { number: now.term, leadership: &mut leadership, stop: &mut stop };
            match office.reign(&shard, &mut term, &mut requests).await {
                true => continue,
                false => return,
            }
        }
        tokio::select! {
            changed = leadership.changed() => if changed.is_err() { return },
            changed = stop.changed() => if changed.is_err() { return },
            request = requests.recv() => match request {
                Some(request) => office.refuse(request, (!stopping).then_some(now)),
                None => return,
            },
        }
    }
}
