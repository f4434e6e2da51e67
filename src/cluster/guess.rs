use std::sync::Arc;

use milepost_raft::NodeId;

use crate::cluster::{Cluster, RootState};
use crate::index::Shards;
use crate::types::ShardId;

/// Whom to ask for a shard's leader when nobody has said who it is. One guess is kept for as long as one request is
/// tried, or a series of them: it goes on to the next node when one was wrong, so that a node that is down is not
/// asked for ever.
pub struct LeaderGuess {
    cluster: Cluster,
    shards: Arc<Shards>,
    shard: ShardId,
    wrong: usize,
}

impl LeaderGuess {
    pub fn new(cluster: Cluster, shards: Arc<Shards>, shard: ShardId) -> Self {
        LeaderGuess { cluster, shards, shard, wrong: 0 }
    }

    /// The best guess now. `None` only when the root state does not know the shard (yet).
    pub fn current(&self) -> Option<NodeId> {
        let heard = self.shards.get(self.shard).and_then(|open| open.leader());
        let candidates = candidates(&self.cluster.view(), self.shard, heard);
        let turn = self.wrong.checked_rem(candidates.len())?;
        Some(candidates[turn])
    }

    /// It was not reached, or does not know the leader either.
    pub fn was_wrong(&mut self) {
        self.wrong = self.wrong.wrapping_add(1);
    }

    /// It answered as the leader: the next guess begins with the best again.
    pub fn was_right(&mut self) {
        self.wrong = 0;
    }

    /// The current guess, taken for wrong: for callers that come again only after it was
    /// ([`call_leader`](crate::peer::call_leader)).
    pub fn take(&mut self) -> Option<NodeId> {
        let guess = self.current();
        self.was_wrong();
        guess
    }
}

/// Each once: the leader that this node's replica follows, the preferred voter, the other voters; those that are
/// known to be away last.
fn candidates(view: &RootState, shard: ShardId, heard: Option<NodeId>) -> Vec<NodeId> {
    let Some(shard) = view.shard(shard) else { return heard.into_iter().collect() };
    let mut all = vec![shard.preferred];
    all.extend(shard.members().filter(|node| *node != shard.preferred));
    all.sort_by_key(|node| !view.broker_of(*node).is_some_and(|b| b.alive));
    all.sort_by_key(|node| Some(*node) != heard);
    if let Some(heard) = heard.filter(|heard| all.first() != Some(heard)) {
        // A voter that the root state no longer names may lead until the change is made.
        all.insert(0, heard);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::RootEntry;
    use crate::cluster::placement::tests::cluster;

    #[test]
    fn every_voter_is_guessed_and_those_away_come_last() {
        let mut view = cluster(&["a", "b", "c", "d"]);
        view.apply(RootEntry::CreateShard { replication_factor: 3, voters: vec![1, 2, 3], preferred: 1 });
        assert_eq!(candidates(&view, 1, None), vec![1, 2, 3]);
        assert_eq!(candidates(&view, 1, Some(3)), vec![3, 1, 2]);
        assert_eq!(candidates(&view, 1, Some(4)), vec![4, 1, 2, 3]);
        let epoch = view.broker(0).unwrap().epoch;
        view.apply(RootEntry::Leave { broker: 0, epoch });
        assert_eq!(candidates(&view, 1, None), vec![2, 3, 1]);
        // A leader that is still heard is asked first, whatever the root state says of it.
        assert_eq!(candidates(&view, 1, Some(1)), vec![1, 2, 3]);
        assert!(candidates(&view, 9, None).is_empty());
    }
}
