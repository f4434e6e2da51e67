use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use tokio::sync::{mpsc, oneshot, watch};

use crate::cluster::Cluster;
use crate::commit::Sequencers;
use crate::group::classic::{self, Listed};
use crate::group::{Ask, Metrics, Reply, Settings, place, reign::Reign};
use crate::index::OpenShard;
use crate::protocol::ErrorCode;
use crate::types::{Partition, ShardId};

/// Requests waiting for one shard's coordinator; more wait in their connections.
const QUEUE_MAX: usize = 1024;

/// The way to the coordinators of the shards open here.
pub struct Coordinators {
    cluster: Cluster,
    sequencers: Arc<Sequencers>,
    settings: Settings,
    queues: RwLock<HashMap<ShardId, mpsc::Sender<Request>>>,
    stop: watch::Sender<bool>,
    metrics: Arc<Metrics>,
}

pub(super) enum Request {
    Ask { partition: Partition, group: String, ask: Box<Ask>, answer: oneshot::Sender<Reply> },
    List { answer: oneshot::Sender<Result<Vec<Listed>, ErrorCode>> },
}

fn failed(error: ErrorCode) -> Reply {
    Reply::Classic(classic::Reply::Failed(error))
}

impl Request {
    pub fn refuse(self, error: ErrorCode) {
        // Whoever asked may have gone.
        match self {
            Request::Ask { answer, .. } => drop(answer.send(failed(error))),
            Request::List { answer } => drop(answer.send(Err(error))),
        }
    }
}

impl Coordinators {
    pub fn new(cluster: Cluster, sequencers: Arc<Sequencers>, settings: Settings) -> Self {
        Coordinators {
            cluster,
            sequencers,
            settings,
            queues: RwLock::default(),
            stop: watch::Sender::new(false),
            metrics: Arc::default(),
        }
    }

    /// Starts the coordinator of a shard that was just opened.
    pub fn open(&self, shard: Arc<OpenShard>) {
        let (queue, requests) = mpsc::channel(QUEUE_MAX);
        self.queues.write().expect("no writer panics").insert(shard.id, queue);
        let keeper = Keeper {
            shard,
            cluster: self.cluster.clone(),
            sequencers: self.sequencers.clone(),
            settings: self.settings.clone(),
            stop: self.stop.subscribe(),
            metrics: self.metrics.clone(),
        };
        tokio::spawn(keeper.run(requests));
    }

    /// The shard has left this broker.
    pub fn close(&self, shard: ShardId) {
        self.queues.write().expect("no writer panics").remove(&shard);
    }

    /// Everybody who waits is sent elsewhere, and nobody is let in any more.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub(super) async fn ask(&self, shard: ShardId, partition: Partition, group: &str, ask: Ask) -> Reply {
        let (answer, reply) = oneshot::channel();
        let request = Request::Ask { partition, group: group.to_owned(), ask: Box::new(ask), answer };
        match self.send(shard, request).await {
            true => reply.await.unwrap_or(failed(ErrorCode::NotCoordinator)),
            false => failed(ErrorCode::NotCoordinator),
        }
    }

    /// Groups of the shards that this broker coordinates.
    ///
    /// # Errors
    /// A coordinator is not ready yet.
    pub(super) async fn list(&self) -> Result<Vec<Listed>, ErrorCode> {
        let open: Vec<ShardId> = self.queues.read().expect("no writer panics").keys().copied().collect();
        let mut all = Vec::new();
        for shard in open {
            let (answer, reply) = oneshot::channel();
            if !self.send(shard, Request::List { answer }).await {
                continue;
            }
            match reply.await.unwrap_or(Err(ErrorCode::NotCoordinator)) {
                Ok(groups) => all.extend(groups),
                Err(ErrorCode::NotCoordinator) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Has the metrics say which groups there are now. A coordinator that is not ready yet leaves them as they were.
    pub async fn count(&self) {
        if let Ok(listed) = self.list().await {
            self.metrics.count(&listed);
        }
    }

    async fn send(&self, shard: ShardId, request: Request) -> bool {
        let queue = self.queues.read().expect("no writer panics").get(&shard).cloned();
        match queue {
            Some(queue) => queue.send(request).await.is_ok(),
            None => false,
        }
    }
}

/// One shard's groups on this broker: a reign whenever it leads, refusals in between.
pub(super) struct Keeper {
    pub shard: Arc<OpenShard>,
    pub cluster: Cluster,
    pub sequencers: Arc<Sequencers>,
    pub settings: Settings,
    pub stop: watch::Receiver<bool>,
    pub metrics: Arc<Metrics>,
}

impl Keeper {
    async fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        let mut leadership = self.shard.group.leadership();
        loop {
            let now = *leadership.borrow_and_update();
            let stopping = *self.stop.borrow_and_update();
            if now.ready && !stopping {
                tracing::debug!(shard = self.shard.id, term = now.term, "coordinates its groups");
                match Reign::begin(&self, now.term).run(&mut self.stop, &mut leadership, &mut requests).await {
                    true => continue,
                    false => return,
                }
            }
            tokio::select! {
                changed = leadership.changed() => if changed.is_err() { return },
                changed = self.stop.changed() => if changed.is_err() { return },
                request = requests.recv() => match request {
                    Some(request) => request.refuse(match stopping {
                        true => ErrorCode::NotCoordinator,
                        false => place::refusal(now, self.cluster.node_id()),
                    }),
                    None => return,
                },
            }
        }
    }
}
