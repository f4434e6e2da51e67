use std::sync::Arc;

use milepost_raft::Leadership;
use tokio::sync::{mpsc, oneshot};

use crate::cluster::Cluster;
use crate::commit::Sequencers;
use crate::group::classic::{self, Listed};
use crate::group::{Ask, Metrics, Reply, Settings, place, reign::Reign};
use crate::index::{Office, OpenShard, Reigns, Term};
use crate::protocol::ErrorCode;
use crate::types::{Partition, ShardId};

/// The way to the coordinators of the shards open here.
pub struct Coordinators(Reigns<Coordination>);

/// What a coordinator of a shard's groups works with.
pub(super) struct Coordination {
    pub cluster: Cluster,
    pub sequencers: Arc<Sequencers>,
    pub settings: Settings,
    pub metrics: Arc<Metrics>,
}

pub(super) enum Request {
    Ask { partition: Partition, group: String, ask: Box<Ask>, answer: oneshot::Sender<Reply> },
    List { answer: oneshot::Sender<Result<Vec<Listed>, ErrorCode>> },
}

fn failed(error: ErrorCode) -> Reply {
    Reply::Classic(classic::Reply::Failed(error))
}

impl Office for Coordination {
    type Request = Request;

    async fn reign(&self, shard: &Arc<OpenShard>, term: &mut Term<'_>, requests: &mut mpsc::Receiver<Request>) -> bool {
        tracing::debug!(shard = shard.id, term = term.number, "coordinates its groups");
        Reign::begin(self, shard, term.number).run(term, requests).await
    }

    fn refuse(&self, request: Request, now: Option<Leadership>) {
        let error = now.map_or(ErrorCode::NotCoordinator, |now| place::refusal(now, self.cluster.node_id()));
        // Whoever asked may have gone.
        match request {
            Request::Ask { answer, .. } => drop(answer.send(failed(error))),
            Request::List { answer } => drop(answer.send(Err(error))),
        }
    }
}

impl Coordinators {
    pub fn new(cluster: Cluster, sequencers: Arc<Sequencers>, settings: Settings) -> Self {
        Coordinators(Reigns::new(Coordination { cluster, sequencers, settings, metrics: Arc::default() }))
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

    pub(super) async fn ask(&self, shard: ShardId, partition: Partition, group: &str, ask: Ask) -> Reply {
        let (answer, reply) = oneshot::channel();
        let request = Request::Ask { partition, group: group.to_owned(), ask: Box::new(ask), answer };
        match self.0.send(shard, request).await {
            true => reply.await.unwrap_or(failed(ErrorCode::NotCoordinator)),
            false => failed(ErrorCode::NotCoordinator),
        }
    }

    /// Groups of the shards that this broker coordinates.
    ///
    /// # Errors
    /// A coordinator is not ready yet.
    pub(super) async fn list(&self) -> Result<Vec<Listed>, ErrorCode> {
        let mut all = Vec::new();
        for shard in self.0.open_shards() {
            let (answer, reply) = oneshot::channel();
            if !self.0.send(shard, Request::List { answer }).await {
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
        &self.0.office().metrics
    }

    /// Has the metrics say which groups there are now. A coordinator that is not ready yet leaves them as they were.
    pub async fn count(&self) {
        if let Ok(listed) = self.list().await {
            self.metrics().count(&listed);
        }
    }
}
