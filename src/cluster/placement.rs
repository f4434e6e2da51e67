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

/// One shard for every live broker that leads none of this factor yet. Empty when there are too few brokers, and while
/// a shard waits for the successor of its preferred leader: the successor would get a second one.
pub(super) fn missing_shards(view: &RootState, factor: u16) -> Vec<RootEntry> {
    let alive: Vec<&Broker> = view.brokers().map(|b| b.as_ref()).filter(|b| b.alive).collect();
    let orphaned = view.shards().any(|s| s.replication_factor == factor && view.broker_of(s.preferred).is_none());
    if alive.len() < usize::from(factor) || factor == 0 || orphaned {
        return Vec::new();
    }
    let leads = |node: NodeId| view.shards().any(|s| s.replication_factor == factor && s.preferred == node);
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

/// The voters a shard should have when some of its nodes no longer belong to any broker; `None` when all is well or
/// nobody can take the place.
pub(super) fn replaced_voters(view: &RootState, shard: &Shard) -> Option<Vec<NodeId>> {
    let member = |node: &NodeId| view.broker_of(*node).is_some();
    let mut voters: Vec<NodeId> = shard.voters.iter().copied().filter(member).collect();
    if voters.len() == shard.voters.len() {
        return None;
    }
    let alive: Vec<&Broker> = view.brokers().map(|b| b.as_ref()).filter(|b| b.alive).collect();
    add_in_distinct_zones(view, &mut voters, &alive, shard.voters.len());
    (voters.len() == shard.voters.len()).then_some(voters)
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
mod tests {
    use super::*;
    use crate::cluster::{Registration, RootAnswer};

    fn cluster(zones: &[&str]) -> RootState {
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
        let (zone, host, internal) = (zone.to_string(), "h".into(), "h:1".into());
        let registered = view.apply(RootEntry::RegisterBroker(Registration { broker, node, zone, host, port: 1, internal }));
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

    #[test]
    fn the_new_node_of_a_broker_takes_the_place_of_the_old() {
        let mut view = cluster(&["a", "b", "c"]);
        missing_shards(&view, 3).into_iter().for_each(|entry| drop(view.apply(entry)));
        join(&mut view, 1, "b", "emptied");
        assert_eq!(missing_shards(&view, 3), Vec::new(), "the newcomer will lead the shard of the one that left");
        let shard = view.shards().find(|s| s.preferred == 2).unwrap().clone();
        let voters = replaced_voters(&view, &shard).unwrap();
        assert!(voters.contains(&4) && !voters.contains(&2));
        view.apply(RootEntry::SetVoters { shard: shard.id, voters });
        assert_eq!(view.shard(shard.id).unwrap().preferred, 4);
        assert_eq!(replaced_voters(&view, view.shard(shard.id).unwrap()), None);
    }
}
