use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use tokio::sync::{mpsc, oneshot, watch};

use crate::cluster::Cluster;
use crate::commit::{Endings, Sequencers};
use crate::group::refusal;
use crate::index::OpenShard;
use crate::protocol::ErrorCode;
use crate::transaction::Settings;
use crate::transaction::machine::{Ask, Reply};
use crate::transaction::reign::Reign;
use crate::types::{Partition, ShardId};

/// Requests waiting for one shard's coordinator; more wait in their connections.
const QUEUE_MAX: usize = 1024;

/// The way to the coordinators of the shards open here.
pub struct Coordinators {
    cluster: Cluster,
    sequencers: Arc<Sequencers>,
    endings: Arc<Endings>,
    settings: Settings,
    queues: RwLock<HashMap<ShardId, mpsc::Sender<Request>>>,
    stop: watch::Sender<bool>,
}

pub(super) struct Request {
    /// Of `__transaction_state`.
    pub partition: Partition,
    pub id: String,
    pub ask: Ask,
    pub answer: oneshot::Sender<Reply>,
}

impl Coordinators {
    pub fn new(cluster: Cluster, sequencers: Arc<Sequencers>, endings: Arc<Endings>, settings: Settings) -> Self {
        let (queues, stop) = (RwLock::default(), watch::Sender::new(false));
        Coordinators { cluster, sequencers, endings, settings, queues, stop }
    }

    /// Starts the coordinator of a shard that was just opened.
    pub fn open(&self, shard: Arc<OpenShard>) {
        let (queue, requests) = mpsc::channel(QUEUE_MAX);
        self.queues.write().expect("no writer panics").insert(shard.id, queue);
        let keeper = Keeper {
            shard,
            cluster: self.cluster.clone(),
            sequencers: self.sequencers.clone(),
            endings: self.endings.clone(),
            settings: self.settings.clone(),
            stop: self.stop.subscribe(),
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

    pub(super) async fn ask(&self, shard: ShardId, partition: Partition, id: &str, ask: Ask) -> Reply {
        let (answer, reply) = oneshot::channel();
        let request = Request { partition, id: id.to_owned(), ask, answer };
        let queue = self.queues.read().expect("no writer panics").get(&shard).cloned();
        let elsewhere = Reply::Failed(ErrorCode::NotCoordinator);
        match queue {
            Some(queue) if queue.send(request).await.is_ok() => reply.await.unwrap_or(elsewhere),
            _ => elsewhere,
        }
    }
}

/// One shard's transactional ids on this broker: a reign whenever it leads, refusals in between.
pub(super) struct Keeper {
    pub shard: Arc<OpenShard>,
    pub cluster: Cluster,
    pub sequencers: Arc<Sequencers>,
    pub endings: Arc<Endings>,
    pub settings: Settings,
    pub stop: watch::Receiver<bool>,
}

impl Keeper {
    async fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        let mut leadership = self.shard.group.leadership();
        loop {
            let now = *leadership.borrow_and_update();
            let stopping = *self.stop.borrow_and_update();
            if now.ready && !stopping {
                match Reign::begin(&self, now.term).run(&mut self.stop, &mut leadership, &mut requests).await {
                    true => continue,
                    false => return,
                }
            }
            tokio::select! {
                changed = leadership.changed() => if changed.is_err() { return },
                changed = self.stop.changed() => if changed.is_err() { return },
                request = requests.recv() => match request {
                    // Whoever asked may have gone.
                    Some(request) => drop(request.answer.send(Reply::Failed(match stopping {
                        true => ErrorCode::NotCoordinator,
                        false => refusal(now, self.cluster.node_id()),
                    }))),
                    None => return,
                },
            }
        }
    }
}
