use std::sync::Arc;

use milepost_raft::Leadership;
use tokio::sync::{mpsc, oneshot};

use crate::cluster::Cluster;
use crate::commit::{Endings, Sequencers};
use crate::group::refusal;
use crate::index::{Office, OpenShard, Reigns, Term};
use crate::protocol::ErrorCode;
use crate::transaction::Settings;
use crate::transaction::machine::{Ask, Reply};
use crate::transaction::reign::Reign;
use crate::types::{Partition, ShardId};

/// The way to the coordinators of the shards open here.
pub struct Coordinators(Reigns<Coordination>);

/// What a coordinator of a shard's transactional ids works with.
pub(super) struct Coordination {
    pub cluster: Cluster,
    pub sequencers: Arc<Sequencers>,
    pub endings: Arc<Endings>,
    pub settings: Settings,
}

pub(super) struct Request {
    /// Of `__transaction_state`.
    pub partition: Partition,
    pub id: String,
    pub ask: Ask,
    pub answer: oneshot::Sender<Reply>,
}

impl Office for Coordination {
    type Request = Request;

    async fn reign(&self, shard: &Arc<OpenShard>, term: &mut Term<'_>, requests: &mut mpsc::Receiver<Request>) -> bool {
        Reign::begin(self, shard, term.number).run(term, requests).await
    }

    fn refuse(&self, request: Request, now: Option<Leadership>) {
        let error = now.map_or(ErrorCode::NotCoordinator, |now| refusal(now, self.cluster.node_id()));
        // Whoever asked may have gone.
        let _ = request.answer.send(Reply::Failed(error));
    }
}

impl Coordinators {
    pub fn new(cluster: Cluster, sequencers: Arc<Sequencers>, endings: Arc<Endings>, settings: Settings) -> Self {
        Coordinators(Reigns::new(Coordination { cluster, sequencers, endings, settings }))
    }

    /// Starts the coordinator of a shard that was just opened.
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

    pub(super) async fn ask(&self, shard: ShardId, partition: Partition, id: &str, ask: Ask) -> Reply {
        let (answer, reply) = oneshot::channel();
        let request = Request { partition, id: id.to_owned(), ask, answer };
        let elsewhere = Reply::Failed(ErrorCode::NotCoordinator);
        match self.0.send(shard, request).await {
            true => reply.await.unwrap_or(elsewhere),
            false => elsewhere,
        }
    }
}
