use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};

use crate::admin::Defaults;
use crate::cluster::Cluster;
use crate::commit::Sequencers;
use crate::index::OpenShard;
use crate::peer::Answer;
use crate::share::reign::Reign;
use crate::share::wire::{Ask, Reply, pack, unpack};
use crate::types::ShardId;

/// Requests waiting for one shard's leader; more wait at those who ask.
const QUEUE_MAX: usize = 1024;

/// The way to the leaders of the shards open here.
pub struct Leaders {
    cluster: Cluster,
    sequencers: Arc<Sequencers>,
    defaults: Defaults,
    queues: RwLock<HashMap<ShardId, mpsc::Sender<Request>>>,
    stop: watch::Sender<bool>,
}

pub(super) struct Request {
    pub ask: Ask,
    /// `None`, or nothing at all, sends whoever asked elsewhere.
    pub answer: oneshot::Sender<Option<Reply>>,
}

impl Leaders {
    pub fn new(cluster: Cluster, sequencers: Arc<Sequencers>, defaults: Defaults) -> Self {
        Leaders { cluster, sequencers, defaults, queues: RwLock::default(), stop: watch::Sender::new(false) }
    }

    /// Leads the share groups of a shard that was just opened, whenever this broker leads the shard.
    pub fn open(&self, shard: Arc<OpenShard>) {
        let (queue, requests) = mpsc::channel(QUEUE_MAX);
        self.queues.write().expect("no writer panics").insert(shard.id, queue);
        let keeper = Keeper {
            shard,
            cluster: self.cluster.clone(),
            sequencers: self.sequencers.clone(),
            defaults: self.defaults.clone(),
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

    /// The leader's side.
    pub async fn answer(&self, shard: &OpenShard, body: Bytes) -> Answer {
        let Ok(ask) = unpack::<Ask>(&body) else { return Answer::Refused("malformed ask of a share group".into()) };
        let (answer, reply) = oneshot::channel();
        let queue = self.queues.read().expect("no writer panics").get(&shard.id).cloned();
        let asked = match queue {
            Some(queue) => queue.send(Request { ask, answer }).await.is_ok(),
            None => false,
        };
        let reply = if asked { reply.await.ok().flatten() } else { None };
        match reply {
            Some(reply) => Answer::Done(pack(&reply)),
            None => Answer::NotLeader { leader: shard.leader() },
        }
    }
}

/// One shard's share groups on this broker: a reign whenever it leads, refusals in between.
pub(super) struct Keeper {
    pub shard: Arc<OpenShard>,
    pub cluster: Cluster,
    pub sequencers: Arc<Sequencers>,
    pub defaults: Defaults,
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
                    Some(request) => drop(request.answer.send(None)),
                    None => return,
                },
            }
        }
    }
}
