//! Who votes where: pure functions of the root state.

use std::collections::BTreeSet;

use milepost_raft::NodeId;

use crate::cluster::{Broker, RootEntry, RootState, Shard};

const ROOT_VOTERS_MAX: usize = 3;

/// Voters of the root: an odd number, so one alone until three are ready. A voter stays while its broker has not been
/// given another node.
pub(super) fn root_voters(
    view: &RootState,
    voters: &BTreeSet<NodeId>,
    ready: impl Fn(NodeId) -> bool,
) -> BTreeSet<NodeId> {
    let member = |node: &NodeId| view.broker_of(*node).is_some();
    let mut desired: Vec<NodeId> = voters.iter().copied().filter(member).collect();
    let candidates = view.brokers().filter(|b| b.alive && ready(b.node)).map(|b| b.as_ref());
    let wanted = if view.brokers().count() >= ROOT_VOTERS_MAX { ROOT_VOTERS_MAX } else { 1 };
    let candidates: Vec<&Broker> = candidates.collect();
    if desired.len() + candidates.iter().filter(|b| !desired.contains(&b.node)).count() >= wanted {
        add_in_distinct_zones(view, &mut desired, &candidates, wanted);
        return desired.into_iter().collect();
    }
    // Not enough for a better set: keep what is there, replaced nodes included, so that a majority remains countable.
    voters.clone()
}

/// One shard for every live broker that leads none of this factor yet. Empty when there are too few brokers.
pub(super) fn missing_shards(view: &RootState, factor: u16) -> Vec<RootEntry> {
    let alive: Vec<&Broker> = view.brokers().map(|b| b.as_ref()).filter(|b| b.alive).collect();
    if alive.len() < usize::from(factor) || factor == 0 {
        return Vec::new();
    }
    let leads = |node: NodeId| view.placeable(factor).any(|s| s.preferred == node);
    let without = alive.iter().enumerate().filter(|(_, broker)| !leads(broker.node));
    without
        .map(|(i, broker)| {
            let mut voters = vec![broker.node];
            // Start from the next broker each time, so that followers spread as leaders do.
            let mut others = alive.clone();
            others.rotate_left(i + 1);
            add_in_distinct_zones(view, &mut voters, &others, factor.into());
            RootEntry::CreateShard { replication_factor: factor, voters, preferred: broker.node }
        })
        .collect()
}

/// What the shards lack. A new node that takes an old one's place may come to lead shards by that: what is missing
/// after it is seen in the next turn.
pub(super) fn shard_changes(view: &RootState) -> Vec<RootEntry> {
    let replaced = view
        .shards()
        .filter_map(|shard| Some(RootEntry::SetVoters { shard: shard.id, voters: replaced_voters(view, shard)? }));
    let replaced: Vec<RootEntry> = replaced.collect();
    if !replaced.is_empty() {
        return replaced;
    }
    let factors: BTreeSet<u16> = view.shards().filter(|s| !s.by_hand).map(|s| s.replication_factor).collect();
    factors.into_iter().flat_map(|factor| missing_shards(view, factor)).collect()
}

/// The voters a shard should have when some of its nodes no longer belong to any broker; `None` when all is well,
/// nobody can take the place, or the voters that are left may be too few to agree on a change: such a shard stays marked
/// by the replaced ones.
fn replaced_voters(view: &RootState, shard: &Shard) -> Option<Vec<NodeId>> {
    let member = |node: &NodeId| view.broker_of(*node).is_some();
    let mut voters: Vec<NodeId> = shard.voters.iter().copied().filter(member).collect();
    if voters.len() == shard.voters.len() || !view.could_agree(shard, None) {
        return None;
    }
    let mut alive: Vec<&Broker> = view.brokers().map(|b| b.as_ref()).filter(|b| b.alive).collect();
    // The newcomer leads nothing yet: it takes the place of the one that left.
    let leads = |broker: &&Broker| view.shards().filter(|s| s.preferred == broker.node).count();
    alive.sort_by_key(leads);
    let staying = voters.len();
    add_in_distinct_zones(view, &mut voters, &alive, shard.voters.len());
    if voters.len() != shard.voters.len() {
        return None;
    }
    // In the place of the one that left: the order of replicas is what clients were told, or told us.
    let mut newcomers = voters[staying..].iter();
    let place = |node: &NodeId| if member(node) { Some(*node) } else { newcomers.next().copied() };
    shard.voters.iter().map(place).collect()
}

fn add_in_distinct_zones(view: &RootState, chosen: &mut Vec<NodeId>, candidates: &[&Broker], wanted: usize) {
    for distinct in [true, false] {
        for broker in candidates {
            let zones = || chosen.iter().filter_map(|node| view.broker_of(*node)).map(|b| &b.zone);
            if chosen.len() < wanted
                && !chosen.contains(&broker.node)
                && !(distinct && zones().any(|zone| *zone == broker.zone))
            {
                chosen.push(broker.node);
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::cluster::{Registration, RootAnswer};

    pub(in crate::cluster) fn cluster(zones: &[&str]) -> RootState {
        let mut view = RootState::default();
        for (id, zone) in zones.iter().enumerate() {
            join(&mut view, id as i32, zone, &format!("dir{id}"));
        }
        view
    }

    fn join(view: &mut RootState, broker: i32, zone: &str, directory: &str) {
        let RootAnswer::Node(node) = view.apply(RootEntry::IssueNode { directory: directory.into() }) else {
            unreachable!()
        };
        if let Some(epoch) = view.broker(broker).map(|b| b.epoch) {
            view.apply(RootEntry::Leave { broker, epoch });
        }
        let (zone, host, internal) = (zone.to_string(), "h".into(), "h:1".into());
        let registered = view.apply(RootEntry::RegisterBroker(Registration {
            broker,
            node,
            zone,
            host,
            port: 1,
            internal,
            listeners: Vec::new(),
            life: 0,
        }));
        let RootAnswer::Epoch(epoch) = registered else { unreachable!() };
        view.apply(RootEntry::SetReady { broker, epoch });
    }

    fn nodes(set: &[NodeId]) -> BTreeSet<NodeId> {
        set.iter().copied().collect()
    }

    #[test]
    fn the_root_goes_from_one_voter_to_three_in_distinct_zones() {
        let one = nodes(&[1]);
        assert_eq!(root_voters(&cluster(&["a", "b"]), &one, |_| true), one);
        let view = cluster(&["a", "a", "b", "c"]);
        assert_eq!(root_voters(&view, &one, |_| true), nodes(&[1, 3, 4]));
        assert_eq!(root_voters(&view, &one, |node| node == 1), one);
    }

    #[test]
    fn a_replaced_node_leaves_the_root_when_its_successor_is_ready() {
        let mut view = cluster(&["a", "b", "c"]);
        let three = nodes(&[1, 2, 3]);
        join(&mut view, 1, "b", "emptied");
        assert_eq!(root_voters(&view, &three, |node| node != 4), three);
        assert_eq!(root_voters(&view, &three, |_| true), nodes(&[1, 3, 4]));
    }

    #[test]
    fn every_broker_leads_one_shard_of_a_factor() {
        let mut view = cluster(&["a", "b", "c"]);
        assert!(missing_shards(&view, 4).is_empty());
        let entries = missing_shards(&view, 2);
        assert_eq!(entries.len(), 3);
        for entry in entries {
            let RootEntry::CreateShard { ref voters, preferred, .. } = entry else { panic!() };
            assert_eq!((voters.len(), voters[0]), (2, preferred));
            view.apply(entry);
        }
        assert!(missing_shards(&view, 2).is_empty());
    }

    fn grown(zones: &[&str], factor: u16) -> RootState {
        let mut view = cluster(zones);
        for entry in missing_shards(&view, factor) {
            view.apply(entry);
        }
        view
    }

    /// Turns of the controller until nothing changes.
    fn settle(view: &mut RootState) {
        for _ in 0..10 {
            let changes = shard_changes(view);
            if changes.is_empty() {
                return;
            }
            for entry in changes {
                view.apply(entry);
            }
        }
        panic!("the shards change for ever");
    }

    #[test]
    fn the_new_node_of_a_broker_takes_the_place_of_the_old() {
        let mut view = grown(&["a", "b", "c", "b"], 3);
        join(&mut view, 1, "b", "emptied");
        settle(&mut view);
        assert_eq!(view.shards().count(), 4, "no shard is added for a node that takes one over");
        assert!(view.shards().all(|s| s.voters.len() == 3 && !s.voters.contains(&2)));
        assert_eq!(view.shards().filter(|s| s.preferred == 5).count(), 1);
    }

    #[test]
    fn a_newcomer_stands_where_the_replaced_one_stood() {
        let mut view = grown(&["a", "b", "c"], 3);
        let before: Vec<Vec<NodeId>> = view.shards().map(|s| s.voters.clone()).collect();
        join(&mut view, 1, "b", "emptied");
        settle(&mut view);
        let renamed = |voters: &Vec<NodeId>| voters.iter().map(|node| if *node == 2 { 4 } else { *node }).collect();
        let after: Vec<Vec<NodeId>> = view.shards().map(|s| s.voters.clone()).collect();
        assert_eq!(after, before.iter().map(renamed).collect::<Vec<Vec<NodeId>>>());
    }

    #[test]
    fn a_shard_whose_group_may_have_lost_its_majority_stays_marked_until_it_has_not() {
        let mut view = cluster(&["a", "b", "c", "d"]);
        view.apply(RootEntry::CreateShard { replication_factor: 3, voters: vec![1, 2, 3], preferred: 1 });
        join(&mut view, 2, "c", "emptied");
        settle(&mut view);
        let voters = |view: &RootState| view.shard(1).unwrap().voters.clone();
        let made = voters(&view);
        assert!(!made.contains(&3));
        join(&mut view, 0, "a", "emptied too");
        settle(&mut view);
        assert_eq!(voters(&view), made, "1 was a voter with 2 and 3, and may be one still");
        view.apply(RootEntry::Moved { shard: 1, voters: made });
        settle(&mut view);
        assert!(!voters(&view).contains(&1));
    }

    #[test]
    fn a_shard_that_lost_its_majority_is_left_as_it_is() {
        let mut view = grown(&["a", "b", "c"], 1);
        join(&mut view, 1, "b", "emptied");
        settle(&mut view);
        // Its records are gone with the disk; the new node leads a new shard.
        assert_eq!(view.shards().filter(|s| s.preferred == 2).count(), 1);
        assert_eq!(view.shards().filter(|s| s.preferred == 4).count(), 1);
        let mut view = grown(&["a", "b", "c"], 2);
        join(&mut view, 1, "b", "emptied");
        settle(&mut view);
        assert_eq!(view.shards().filter(|s| s.voters.contains(&2)).count(), 2);
        assert_eq!(view.shards().filter(|s| s.preferred == 4).count(), 1);
    }
}
