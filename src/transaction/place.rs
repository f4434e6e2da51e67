//! Where a transactional id is.

use std::sync::Arc;
use std::time::Duration;

use crate::admin::TRANSACTION_STATE;
use crate::group::{place_in, refusal};
use crate::index::OpenShard;
use crate::protocol::ErrorCode;
use crate::transaction::Transactions;
use crate::types::{Partition, ShardId};

const READ_TIMEOUT: Duration = Duration::from_secs(1);

impl Transactions {
    /// # Errors
    /// There are no transactions yet.
    pub(super) fn place(&self, id: &str) -> Result<(ShardId, Partition), ErrorCode> {
        let view = self.cluster.view();
        let topic = view.topic_named(TRANSACTION_STATE).filter(|topic| topic.is_live());
        topic.and_then(|topic| place_in(topic, id)).ok_or(ErrorCode::NotCoordinator)
    }

    /// The id's shard, when this broker leads it and all that was ever answered is applied here.
    ///
    /// # Errors
    /// Why another broker, or a later moment, is to be asked.
    pub(super) async fn read(&self, id: &str) -> Result<(Arc<OpenShard>, Partition), ErrorCode> {
        let (shard, partition) = self.place(id)?;
        let shard = self.shards.get(shard).ok_or(ErrorCode::NotCoordinator)?;
        self.read_shard(&shard).await?;
        Ok((shard, partition))
    }

    pub(super) async fn read_shard(&self, shard: &OpenShard) -> Result<(), ErrorCode> {
        let leadership = *shard.group.leadership().borrow();
        if !leadership.ready {
            return Err(refusal(leadership, self.cluster.node_id()));
        }
        let index = shard.group.read_index().await.map_err(|_| ErrorCode::CoordinatorLoadInProgress)?;
        let applied = shard.group.wait_applied(index, READ_TIMEOUT).await;
        applied.map(drop).map_err(|_| ErrorCode::CoordinatorLoadInProgress)
    }
}
