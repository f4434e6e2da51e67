//! Which broker a client is told to go to, for each partition. Pure: the same view gives the same answer at every broker.

use std::collections::HashMap;
use std::sync::Arc;

use milepost_raft::NodeId;

use crate::cluster::{Broker, RootState, Shard};
use crate::types::{BrokerId, Partition, ShardId};
use crate::zone;

/// One shard, as one client is told of it.
pub(super) struct Placed {
    /// Voters of the shard, the preferred leader first if it is where the root put it.
    pub replicas: Vec<BrokerId>,
    pub live: Vec<BrokerId>,
    pub dead: Vec<BrokerId>,
    /// (id, alive), one of them is picked per partition.
    candidates: Vec<(BrokerId, bool)>,
}

impl Placed {
    /// `leader` is the Raft leader, if known here.
    fn new(view: &RootState, shard: &Shard, leader: Option<NodeId>, zone: Option<&str>) -> Placed {
        let voters: Vec<&Arc<Broker>> = shard.voters.iter().filter_map(|node| view.broker_of(*node)).collect();
        let in_zone = |broker: &&Arc<Broker>| zone == Some(broker.zone.as_str());
        let told = |brokers: &mut dyn Iterator<Item = &Arc<Broker>>| -> Vec<(BrokerId, bool)> {
            brokers.map(|broker| (broker.id, broker.alive)).collect()
        };
        // A replica in the client's zone; else any broker there, which asks a replica for the pointers; else the leader.
        let choices = [
            told(&mut voters.iter().copied().filter(in_zone)),
            told(&mut view.brokers().filter(in_zone)),
            true_leader(view, shard, leader).into_iter().map(|broker| (broker, true)).collect(),
        ];
        let is_live = |brokers: &Vec<(BrokerId, bool)>| brokers.iter().any(|(_, alive)| *alive);
        Placed {
            replicas: voters.iter().map(|b| b.id).collect(),
            live: voters.iter().filter(|b| b.alive).map(|b| b.id).collect(),
            dead: voters.iter().filter(|b| !b.alive).map(|b| b.id).collect(),
            candidates: choices.into_iter().find(is_live).unwrap_or_default(),
        }
    }

    /// `None` when the shard has no live broker at all, and the client's zone none either.
    pub fn leader_of(&self, partition: &Partition) -> Option<BrokerId> {
        zone::pick(&self.candidates, partition)
    }
}

/// The Raft leader, else the voter that should lead, else any that lives.
fn true_leader(view: &RootState, shard: &Shard, leader: Option<NodeId>) -> Option<BrokerId> {
    let mut nodes = leader.into_iter().chain([shard.preferred]).chain(shard.voters.iter().copied());
    nodes.find_map(|node| view.broker_of(node).filter(|b| b.alive).map(|b| b.id))
}

/// All shards, for a client of one zone.
pub(super) fn place(
    view: &RootState,
    zone: Option<&str>,
    leader: impl Fn(ShardId) -> Option<NodeId>,
) -> HashMap<ShardId, Placed> {
    view.shards().map(|shard| (shard.id, Placed::new(view, shard, leader(shard.id), zone))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::sample;

    fn leaders(view: &RootState, shard: ShardId, zone: Option<&str>, leader: Option<NodeId>) -> Vec<Option<BrokerId>> {
        let placed = place(view, zone, |_| leader);
        let topic = sample::topic_id(7);
        (0..3000).map(|index| placed[&shard].leader_of(&Partition { topic, index })).collect()
    }

    fn share(leaders: &[Option<BrokerId>], broker: BrokerId) -> usize {
        leaders.iter().filter(|leader| **leader == Some(broker)).count()
    }

    #[test]
    fn without_a_zone_the_raft_leader_else_the_preferred_else_any_live_voter() {
        let mut view = sample::cluster(&["a", "b", "c"]);
        let one = |view: &RootState, leader| leaders(view, 1, None, leader)[0];
        assert_eq!(one(&view, Some(2)), Some(1));
        assert_eq!(one(&view, None), Some(0));
        sample::set_dead(&mut view, 1);
        assert_eq!(one(&view, Some(2)), Some(0), "the leader has just died");
        sample::set_dead(&mut view, 0);
        assert_eq!(one(&view, None), Some(2));
        sample::set_dead(&mut view, 2);
        assert_eq!(one(&view, None), None);
    }

    #[test]
    fn with_a_zone_the_voters_there_share_evenly_and_a_death_moves_only_the_dead_ones_partitions() {
        let mut view = sample::cluster(&["a", "a", "a", "b"]);
        let before = leaders(&view, 1, Some("a"), Some(4));
        for broker in 0..3 {
            assert_eq!(share(&before, broker), 1000);
        }
        sample::set_dead(&mut view, 1);
        let after = leaders(&view, 1, Some("a"), Some(4));
        assert_eq!((share(&after, 0), share(&after, 1), share(&after, 2)), (1500, 0, 1500));
        assert!(before.iter().zip(&after).all(|(before, after)| before == after || *before == Some(1)));
    }

    #[test]
    fn a_zone_without_a_live_voter_is_served_by_its_other_brokers_and_without_those_by_the_leader() {
        let mut view = sample::cluster(&["a", "b"]);
        sample::join(&mut view, 2, "c");
        sample::join(&mut view, 3, "c");
        let in_c = leaders(&view, 1, Some("c"), Some(1));
        assert_eq!((share(&in_c, 2), share(&in_c, 3)), (1500, 1500));
        sample::set_dead(&mut view, 2);
        assert_eq!(share(&leaders(&view, 1, Some("c"), Some(1)), 3), 3000);
        sample::set_dead(&mut view, 3);
        assert_eq!(share(&leaders(&view, 1, Some("c"), Some(2)), 1), 3000);
        assert_eq!(share(&leaders(&view, 1, Some("mars"), Some(2)), 1), 3000);
    }

    #[test]
    fn a_voter_that_died_is_stood_in_for_by_its_zone_and_gets_all_back() {
        let mut view = sample::cluster(&["a", "b"]);
        sample::join(&mut view, 2, "a");
        assert_eq!(share(&leaders(&view, 1, Some("a"), None), 0), 3000);
        sample::set_dead(&mut view, 0);
        assert_eq!(share(&leaders(&view, 1, Some("a"), None), 2), 3000);
        let placed = place(&view, Some("a"), |_| None);
        assert_eq!(placed[&1].replicas, [0, 1], "a stand-in is no replica");
    }

    #[test]
    fn replicas_are_the_true_voters_for_everybody() {
        let mut view = sample::cluster(&["a", "b", "c"]);
        sample::set_dead(&mut view, 2);
        for zone in [None, Some("a"), Some("c")] {
            let placed = place(&view, zone, |_| None);
            assert_eq!(placed[&2].replicas, [1, 2, 0]);
            assert_eq!((&placed[&2].live[..], &placed[&2].dead[..]), (&[1, 0][..], &[2][..]));
        }
    }
}
