use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::sleep;

use crate::commit::{self, Endings};
use crate::shard::Refusal;
use crate::transaction::machine::Ending;
use crate::types::{LeaderEpoch, Partition, ShardId};

/// One try to reach a shard's leader.
const ATTEMPT: Duration = Duration::from_secs(5);
/// Between tries: twice as long after each, since thousands of transactions may wait for a shard without a quorum.
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(3);

/// Returns when the transaction is over in every partition: tries for as long as that takes. Those of a deleted topic have
/// nothing to end. Each shard is asked once for all its partitions.
pub(super) async fn mark(endings: &Endings, ending: Ending, coordinator_epoch: LeaderEpoch) {
    let Ending { producer, txn_no, commit, partitions } = ending;
    let mut by_shard: BTreeMap<ShardId, Vec<Partition>> = BTreeMap::new();
    for (partition, shard) in partitions {
        by_shard.entry(shard).or_default().push(partition);
    }
    let ending = commit::Ending { producer, txn_no, commit, coordinator_epoch };
    let all = by_shard.into_iter().map(|(shard, partitions)| mark_shard(endings, shard, &ending, partitions));
    join_all(all).await;
}

async fn mark_shard(endings: &Endings, shard: ShardId, ending: &commit::Ending, mut partitions: Vec<Partition>) {
    let mut pause = PAUSE;
    loop {
        match endings.end(shard, ending, &partitions, ATTEMPT).await {
            Ok(results) => {
                let mut results = results.into_iter();
                partitions
                    .retain(|partition| !results.next().is_some_and(|result| is_over(*partition, ending, result)));
                if partitions.is_empty() {
                    return;
                }
            }
            Err(e) => tracing::debug!(shard, error = %e, ?ending, "markers are sent again"),
        }
        sleep(pause).await;
        pause = PAUSE_MAX.min(pause * 2);
    }
}

fn is_over(partition: Partition, ending: &commit::Ending, result: Result<(), Refusal>) -> bool {
    match result {
        Ok(()) | Err(Refusal::UnknownPartition) => true,
        // The producer goes on there in a later epoch: nothing of this transaction can be open.
        Err(Refusal::StaleProducerEpoch) => {
            tracing::warn!(?partition, ?ending, "a marker came after its producer's next epoch");
            true
        }
        // A later coordinator has ended a transaction there: this one's time is over, or will be in a moment.
        Err(refusal) => {
            tracing::warn!(?partition, ?ending, ?refusal, "a marker was refused");
            false
        }
    }
}
