use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use milepost_raft::NodeId;
use tokio::time::{Instant, timeout};

use crate::admin::Admin;
use crate::cluster::Topic;
use crate::index::{OpenShard, Query, Question, Reply};
use crate::types::{LeaderEpoch, Partition, ShardId};

/// How long the epochs of partitions without a replica here are waited for.
const WAIT: Duration = Duration::from_secs(1);

/// What is known now of the leaders of some partitions.
pub(super) struct Epochs {
    open: HashMap<ShardId, (Arc<OpenShard>, u64)>,
    elsewhere: HashMap<Partition, LeaderEpoch>,
}

impl Epochs {
    /// Also of partitions that have no replica here, which one elsewhere is asked about: a client that has seen a
    /// partition's epoch ignores whoever names a leader without one (librdkafka), and would not leave a broker that
    /// has died.
    pub async fn gather(admin: &Admin, partitions: impl Iterator<Item = (ShardId, Partition)>) -> Epochs {
        let with_term = |shard: Arc<OpenShard>| {
            let term = shard.group.leadership().borrow().term;
            (shard.id, (shard, term))
        };
        // A replica that is leaving its shard hears of no new epoch.
        let (view, me) = (admin.cluster.view(), admin.cluster.node_id());
        let votes = |shard: &Arc<OpenShard>| view.shard(shard.id).is_some_and(|record| record.voters.contains(&me));
        let open: HashMap<_, _> = admin.shards.all().into_iter().filter(votes).map(with_term).collect();
        let mut away: HashMap<ShardId, Vec<Query>> = HashMap::new();
        for (shard, partition) in partitions.filter(|(shard, _)| !open.contains_key(shard)) {
            away.entry(shard).or_default().push(Query {
                partition,
                client_epoch: -1,
                committed: false,
                question: Question::Latest,
            });
        }
        let told = away.iter().map(async |(shard, queries)| {
            let replies = timeout(WAIT, admin.replicas.news(*shard, queries, 0, Instant::now())).await;
            let epoch = |(query, reply): (&Query, Result<Reply, _>)| match reply {
                Ok(Reply::At { epoch, .. }) => Some((query.partition, epoch)),
                Ok(_) | Err(_) => None,
            };
            queries.iter().zip(replies.unwrap_or_default()).filter_map(epoch).collect::<Vec<_>>()
        });
        let elsewhere = join_all(told).await.into_iter().flatten().collect();
        Epochs { open, elsewhere }
    }

    /// The largest of a topic's; what is not known in time does not count.
    pub async fn of_topic(admin: &Admin, topic: &Topic) -> LeaderEpoch {
        // All partitions of it in one shard have the same.
        let one_each: BTreeMap<ShardId, Partition> = live(topic).collect();
        let epochs = Epochs::gather(admin, one_each.clone().into_iter()).await;
        let known = one_each.iter().filter_map(|(shard, partition)| epochs.of(*shard, partition));
        known.max().unwrap_or(topic.epoch_base)
    }

    pub fn leader(&self, shard: ShardId) -> Option<NodeId> {
        self.open.get(&shard)?.0.leader()
    }

    pub fn of(&self, shard: ShardId, partition: &Partition) -> Option<LeaderEpoch> {
        match self.open.get(&shard) {
            Some((shard, term)) => shard.replica().read(|state| Some(state.partition(partition)?.leader_epoch(*term))),
            None => self.elsewhere.get(partition).copied(),
        }
    }
}

/// The partitions of a topic that clients may use, and the shards they are in.
pub(super) fn live(topic: &Topic) -> impl Iterator<Item = (ShardId, Partition)> + '_ {
    let numbered = (0..topic.live.max(0)).zip(&topic.placement);
    numbered.map(|(index, shard)| (*shard, Partition { topic: topic.id, index }))
}
