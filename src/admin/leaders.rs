//! Which broker a client is told to go to, for each partition. Pure: the same view gives the same answer at every broker.

use std::collections::HashMap;
use std::sync::Arc;

use milepost_raft::NodeId;

use crate::cluster::{Broker, RootState, Shard};
use crate::types::{BrokerId, Partition, ShardId};

/// One shard, as one client is told of it.
pub(super) struct Placed {
    /// Voters of the shard, the preferred leader first if it is where the root put it.
    pub replicas: Vec<BrokerId>,
    pub live: Vec<BrokerId>,
    pub dead: Vec<BrokerId>,
    /// Any of them does, and one is chosen per partition. Empty when the shard has no live broker at all.
    candidates: Vec<BrokerId>,
}

impl Placed {
    /// `leader` is the Raft leader, if known here.
    fn new(view: &RootState, shard: &Shard, leader: Option<NodeId>, zone: Option<&str>) -> Placed {
        let voters: Vec<&Arc<Broker>> = shard.voters.iter().filter_map(|node| view.broker_of(*node)).collect();
        let ids = |brokers: &mut dyn Iterator<Item = &Arc<Broker>>| brokers.map(|b| b.id).collect::<Vec<BrokerId>>();
        let is_live = |broker: &&Arc<Broker>| broker.alive;
        let in_zone = |broker: &&Arc<Broker>| broker.alive && zone == Some(broker.zone.as_str());
        let live = ids(&mut voters.iter().copied().filter(is_live));
        let node_is_live = |node: &NodeId| view.broker_of(*node).is_some_and(|b| b.alive);
        let true_leader = leader.filter(node_is_live).or(Some(shard.preferred).filter(node_is_live));
        let true_leader = true_leader.and_then(|node| view.broker_of(node)).map(|b| b.id).or(live.first().copied());
        // A replica in the client's zone; else the leader wherever it is, since only replicas can be read from.
        let candidates = [ids(&mut voters.iter().copied().filter(in_zone)), true_leader.into_iter().collect()];
        Placed {
            replicas: ids(&mut voters.iter().copied()),
            dead: ids(&mut voters.iter().copied().filter(|b| !b.alive)),
            live,
            candidates: candidates.into_iter().find(|c| !c.is_empty()).unwrap_or_default(),
        }
    }

    /// Rendezvous hashing: even over the candidates, and a partition moves only when its own broker comes or goes.
    pub fn leader_of(&self, partition: &Partition) -> Option<BrokerId> {
        match self.candidates[..] {
            [only] => Some(only),
            _ => self.candidates.iter().copied().max_by_key(|broker| (weight(partition, *broker), *broker)),
        }
    }
}

/// All shards, for a client of one zone.
pub(super) fn place(
    view: &RootState,
    zone: Option<&str>,
    leader: impl Fn(ShardId) -> Option<NodeId>,
) -> HashMap<ShardId, Placed> {
    view.shards().map(|shard| (shard.id, Placed::new(view, shard, leader(shard.id), zone))).collect()
}

fn weight(partition: &Partition, broker: BrokerId) -> u64 {
    let topic = u128::from_be_bytes(*partition.topic.as_bytes());
    let place = (u64::from(partition.index as u32) << 32) | u64::from(broker as u32);
    [topic as u64, (topic >> 64) as u64, place].into_iter().fold(0, |hash, word| mix(hash ^ word))
}

/// The finaliser of SplitMix64: every bit of the input reaches every bit of the output.
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
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
            assert!((900..=1100).contains(&share(&before, broker)), "{broker}: {}", share(&before, broker));
        }
        sample::set_dead(&mut view, 1);
        let after = leaders(&view, 1, Some("a"), Some(4));
        assert_eq!(share(&after, 1), 0);
        assert!(before.iter().zip(&after).all(|(before, after)| before == after || *before == Some(1)));
    }

    #[test]
    fn a_zone_without_a_voter_gets_the_leader() {
        let mut view = sample::cluster(&["a", "b"]);
        sample::join(&mut view, 2, "c");
        assert_eq!(share(&leaders(&view, 1, Some("c"), Some(1)), 0), 3000);
        sample::set_dead(&mut view, 2);
        assert_eq!(share(&leaders(&view, 1, Some("c"), Some(2)), 1), 3000);
        assert_eq!(share(&leaders(&view, 1, Some("mars"), Some(2)), 1), 3000);
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
