use std::sync::Arc;

use bytes::Bytes;
use milepost_raft::Leadership;
use tokio::sync::{mpsc, oneshot};

use crate::admin::Defaults;
use crate::cluster::Cluster;
use crate::commit::Sequencers;
use crate::index::{Office, OpenShard, Reigns, Term};
use crate::peer::Answer;
use crate::share::reign::Reign;
use crate::share::wire::{Ask, Reply, pack, unpack};
use crate::types::ShardId;

/// The way to the leaders of the shards open here.
pub struct Leaders(Reigns<Dealing>);

/// What the leader of a shard's share groups works with.
pub(super) struct Dealing {
    pub cluster: Cluster,
    pub sequencers: Arc<Sequencers>,
    pub defaults: Defaults,
}

pub(super) struct Request {
    pub ask: Ask,
    /// Nothing at all sends whoever asked elsewhere.
    pub answer: oneshot::Sender<Reply>,
}

impl Office for Dealing {
    type Request = Request;

    async fn reign(&self, shard: &Arc<OpenShard>, term: &mut Term<'_>, requests: &mut mpsc::Receiver<Request>) -> bool {
        Reign::begin(self, shard, term.number).run(term, requests).await
    }

    fn refuse(&self, request: Request, _now: Option<Leadership>) {
        drop(request.answer);
    }
}

impl Leaders {
    pub fn new(cluster: Cluster, sequencers: Arc<Sequencers>, defaults: Defaults) -> Self {
        Leaders(Reigns::new(Dealing { cluster, sequencers, defaults }))
    }

    /// Leads the share groups of a shard that was just opened, whenever this broker leads the shard.
    pub fn open(&self, shard: Arc<OpenShard>) {
        self.0.open(shard);
    }

    /// The shard has left this broker.
    pub fn close(&self, shard: ShardId) {
        self.0.close(shard);
    }

    /// Everybody who waits is sent elsewhere, and nobody is let in any more.
    pub fn stop(&self) {
        self.0.stop();
    }

    /// The leader's side.
    pub async fn answer(&self, shard: &OpenShard, body: Bytes) -> Answer {
        let Ok(ask) = unpack::<Ask>(&body) else { return Answer::Refused("malformed ask of a share group".into()) };
        let (answer, reply) = oneshot::channel();
        let asked = self.0.send(shard.id, Request { ask, answer }).await;
        match reply.await {
            Ok(reply) if asked => Answer::Done(pack(&reply)),
            _ => Answer::NotLeader { leader: shard.leader() },
        }
    }
}
