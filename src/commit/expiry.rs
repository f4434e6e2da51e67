//! Forgetting producers that have been idle for a day, at the leader of each shard (Kafka: `producer.id.expiration.ms`).
//!
//! What is remembered of a producer tells a retry from a new batch, and a late batch of an ended transaction from one of
//! the next. Both are questions of minutes; without an end every producer that ever was would stay in the snapshots.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tracing::debug;

use crate::cluster::now_ms;
use crate::commit::Sequencers;
use crate::index::{OpenShard, Shards};
use crate::shard::Entry;
use crate::types::Timestamp;

/// Producers idle for longer are forgotten (Kafka: `producer.id.expiration.ms`).
const PRODUCER_EXPIRY_MS: Timestamp = 24 * 3600 * 1000;
/// Kafka: `producer.id.expiration.check.interval.ms`.
const CHECK_INTERVAL: Duration = Duration::from_secs(600);

/// Runs on every broker, acts on the shards that it leads.
pub async fn forget_idle_producers(shards: Arc<Shards>, sequencers: Arc<Sequencers>) {
    let mut ticks = interval(CHECK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for shard in shards.all() {
            forget_before(&shard, &sequencers, now_ms() - PRODUCER_EXPIRY_MS).await;
        }
    }
}

/// An entry only where there is somebody to forget. What comes of it is seen at the next look.
async fn forget_before(shard: &OpenShard, sequencers: &Sequencers, before: Timestamp) {
    let leads = shard.group.leadership().borrow().ready;
    if leads && shard.replica().read(|state| state.has_producers_before(before)) {
        let answer = sequencers.entry(shard.id, Entry::ExpireProducers { before }.encode()).await;
        debug!(shard = shard.id, before, ?answer, "idle producers are forgotten");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::testing::{TOPIC, Topic, broker, claim, records_of};
    use crate::types::Partition;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn idle_producers_are_forgotten_and_those_that_were_not_idle_for_so_long_are_not() {
        let (node, mut client, _dir) = broker().await;
        let topic = Topic::create(&mut client, 1, &[]).await;
        let began = now_ms();
        for (producer, offset) in [(0, 0), (1, 3)] {
            assert_eq!(topic.produced(&mut client, 9, &[records_of(3, &claim(producer, 0))]).await.base_offset, offset);
        }
        let view = node.cluster().view();
        let placed = view.topic_named(TOPIC).unwrap();
        let partition = Partition { topic: placed.id, index: 0 };
        let shard = node.shards().get(placed.placement[0]).unwrap();
        let sequencers = Sequencers::default();
        sequencers.open(shard.clone());
        let known = || shard.replica().read(|state| state.partition(&partition).unwrap().producers().count());
        let applied = *shard.group.applied().borrow();
        forget_before(&shard, &sequencers, began).await;
        assert_eq!((known(), *shard.group.applied().borrow()), (2, applied), "nothing is written where nobody is idle");
        forget_before(&shard, &sequencers, now_ms() + 1).await;
        assert_eq!(known(), 0);
        node.shut_down().await;
    }
}
