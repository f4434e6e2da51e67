//! Replicas that move, and brokers that go for good: the root's side.

use std::collections::BTreeSet;
use std::sync::Arc;

use milepost_raft::NodeId;

use super::{RootState, Shard};
use crate::cluster::entry::{RootAnswer, RootRefusal};
use crate::types::{BrokerEpoch, BrokerId, ShardId};

impl Shard {
    /// Nodes that may have part in the Raft group: the voters, and those that leave once it has moved.
    pub fn members(&self) -> impl Iterator<Item = NodeId> + '_ {
        let leaving = self.moving_from.iter().filter(|node| !self.voters.contains(node));
        self.voters.iter().chain(leaving).copied()
    }

    /// Some of the voters are still to come. (After a cancelled move some are still to leave.)
    pub fn is_moving(&self) -> bool {
        !self.moving_from.is_empty() && self.voters.iter().any(|node| !self.moving_from.contains(node))
    }

    /// The root has not heard yet that the Raft group has the voters it should have, and no others.
    pub fn is_unsettled(&self) -> bool {
        !self.moving_from.is_empty() || !self.may_have.is_empty()
    }

    /// The group is to have these voters instead; until it has, it may have any that it was to have before. Nodes that
    /// are gone agree to nothing ever: without them these sets are few, however often newcomers are replaced in turn.
    fn want(&mut self, voters: Vec<NodeId>, gone: impl Fn(&NodeId) -> bool) {
        let before = BTreeSet::from_iter(std::mem::replace(&mut self.voters, voters));
        if before != BTreeSet::from_iter(self.voters.iter().copied()) {
            let all = std::mem::take(&mut self.may_have).into_iter().chain([before]);
            self.may_have = all.map(|voters| voters.into_iter().filter(|node| !gone(node)).collect()).collect();
        }
    }
}

impl RootState {
    /// Partitions that a shard carries, whatever becomes of their topics.
    pub fn partitions_in(&self, shard: ShardId) -> usize {
        self.topics().map(|topic| topic.placement.iter().filter(|of| **of == shard).count()).sum()
    }

    /// Whichever voters the group has by now: a majority of them is left, this one not counted, to agree on others.
    pub(in crate::cluster) fn could_agree(&self, shard: &Shard, without: Option<NodeId>) -> bool {
        let is_left = |node: &&NodeId| Some(**node) != without && self.broker_of(**node).is_some();
        // A shard's number of voters does not change.
        let is_majority = |left: usize| left * 2 > shard.voters.len();
        let mut may_have = shard.may_have.iter().map(|voters| voters.iter().filter(is_left).count());
        is_majority(shard.voters.iter().filter(is_left).count()) && may_have.all(is_majority)
    }

    fn set_wanted(&mut self, id: ShardId, voters: Vec<NodeId>) {
        let seated: BTreeSet<NodeId> = self.brokers.values().map(|broker| broker.node).collect();
        if let Some(shard) = self.shards.get_mut(&id) {
            Arc::make_mut(shard).want(voters, |node| !seated.contains(node));
        }
    }

    /// Nodes that are gone have others in their place.
    pub(super) fn set_voters(&mut self, id: ShardId, voters: Vec<NodeId>) -> RootAnswer {
        let Some(shard) = self.shards.get_mut(&id) else { return RootAnswer::Done };
        let was_moving = shard.is_moving();
        if !voters.contains(&shard.preferred) {
            // The newcomer takes the place of the one that left.
            let newcomer = voters.iter().find(|node| !shard.voters.contains(node));
            let preferred = newcomer.or(voters.first()).copied().unwrap_or(shard.preferred);
            Arc::make_mut(shard).preferred = preferred;
        }
        self.set_wanted(id, voters);
        let unmoved = self.shards.get_mut(&id).filter(|shard| !was_moving && !shard.moving_from.is_empty());
        if let Some(shard) = unmoved.map(Arc::make_mut) {
            // A newcomer in a shard whose move was cancelled is no move that could be cancelled again.
            shard.moving_from = shard.members().collect();
        }
        RootAnswer::Done
    }

    /// The shard moves to these voters, the first of which is to lead it. `from` are those that the asker knows.
    pub(super) fn move_shard(&mut self, id: ShardId, from: &[NodeId], to: Vec<NodeId>) -> RootAnswer {
        if to.iter().any(|node| self.broker_of(*node).is_none()) {
            return RootAnswer::Refused(RootRefusal::UnknownNode);
        }
        let Some(shard) = self.shards.get_mut(&id) else { return RootAnswer::Refused(RootRefusal::NoShard) };
        if shard.voters == to {
            // Asked twice, after a lost answer.
            return RootAnswer::Done;
        }
        if !shard.moving_from.is_empty() {
            return RootAnswer::Refused(RootRefusal::Moving);
        }
        let (mut before, mut after) = (shard.voters.clone(), to.clone());
        before.sort_unstable();
        after.sort_unstable();
        if shard.voters != from || after.len() != before.len() || after.windows(2).any(|pair| pair[0] == pair[1]) {
            return RootAnswer::Refused(RootRefusal::ShardChanged);
        }
        let shard = Arc::make_mut(shard);
        if before != after {
            shard.moving_from = shard.voters.clone();
            // It exists: a newcomer that is a founder too must not begin it anew.
            shard.founders.clear();
        }
        shard.preferred = to.first().copied().unwrap_or(shard.preferred);
        self.set_wanted(id, to);
        RootAnswer::Done
    }

    /// Back to the voters that it moves away from.
    pub(super) fn cancel_move(&mut self, id: ShardId) -> RootAnswer {
        let Some(shard) = self.shards.get_mut(&id).filter(|shard| shard.is_moving()) else {
            return RootAnswer::Refused(RootRefusal::NotMoving);
        };
        let shard = Arc::make_mut(shard);
        let members: Vec<NodeId> = shard.members().collect();
        let back_to = std::mem::replace(&mut shard.moving_from, members);
        shard.preferred = back_to.first().copied().unwrap_or(shard.preferred);
        self.set_wanted(id, back_to);
        RootAnswer::Done
    }

    /// The Raft group has exactly these voters: whoever else was a member may forget it.
    pub(super) fn moved(&mut self, id: ShardId, voters: &[NodeId]) -> RootAnswer {
        if let Some(shard) = self.shards.get_mut(&id).filter(|shard| shard.voters == voters) {
            let shard = Arc::make_mut(shard);
            shard.moving_from.clear();
            shard.may_have.clear();
        }
        RootAnswer::Done
    }

    /// A broker that is away goes for good: its node's place is taken in every shard as soon as another broker can, and
    /// its data directory has no seat any more.
    pub(super) fn remove_broker(&mut self, id: BrokerId, epoch: BrokerEpoch) -> RootAnswer {
        let Some(broker) = self.brokers.get(&id).filter(|broker| broker.epoch == epoch) else {
            return RootAnswer::Refused(RootRefusal::UnknownBroker);
        };
        if broker.alive {
            return RootAnswer::Refused(RootRefusal::BrokerAlive);
        }
        let node = broker.node;
        let mut loses = self.shards.values().filter(|shard| shard.members().any(|member| member == node));
        // Such a shard could never change its voters again, and only this directory could bring its records back.
        if loses.any(|shard| self.partitions_in(shard.id) > 0 && !self.could_agree(shard, Some(node))) {
            return RootAnswer::Refused(RootRefusal::LastReplicas);
        }
        self.brokers.remove(&id);
        self.directories.retain(|_, of| *of != node);
        RootAnswer::Done
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::cluster::placement::{self, tests::cluster};
    use crate::cluster::{NewTopic, RootEntry};
    use crate::types::TopicId;

    const MOVED: RootAnswer = RootAnswer::Done;

    fn refused(refusal: RootRefusal) -> RootAnswer {
        RootAnswer::Refused(refusal)
    }

    /// Shard 1 of nodes 1 to 3; nodes 4 and 5 have nothing.
    fn view() -> RootState {
        let mut view = cluster(&["a", "b", "c", "d", "e"]);
        view.apply(RootEntry::CreateShard { replication_factor: 3, voters: vec![1, 2, 3], preferred: 1 });
        view
    }

    fn go(view: &mut RootState, from: &[NodeId], to: &[NodeId]) -> RootAnswer {
        view.apply(RootEntry::MoveShard { shard: 1, from: from.to_vec(), to: to.to_vec() })
    }

    fn voters(view: &RootState) -> (Vec<NodeId>, Vec<NodeId>, NodeId) {
        let shard = view.shard(1).unwrap();
        (shard.voters.clone(), shard.members().collect(), shard.preferred)
    }

    #[test]
    fn who_leaves_is_a_member_until_the_shard_has_moved() {
        let mut view = view();
        assert_eq!(go(&mut view, &[1, 2, 3], &[4, 2, 5]), MOVED);
        assert_eq!(voters(&view), (vec![4, 2, 5], vec![4, 2, 5, 1, 3], 4));
        assert!(view.shard(1).unwrap().is_moving() && view.shard(1).unwrap().founders.is_empty());
        assert_eq!(go(&mut view, &[1, 2, 3], &[4, 2, 5]), MOVED, "asked twice");
        assert_eq!(go(&mut view, &[4, 2, 5], &[1, 2, 3]), refused(RootRefusal::Moving));
        view.apply(RootEntry::Moved { shard: 1, voters: vec![1, 2, 3] });
        assert!(view.shard(1).unwrap().is_moving(), "word of another move");
        view.apply(RootEntry::Moved { shard: 1, voters: vec![4, 2, 5] });
        assert_eq!(voters(&view), (vec![4, 2, 5], vec![4, 2, 5], 4));
    }

    #[test]
    fn a_move_is_taken_back_once() {
        let mut view = view();
        assert_eq!(view.apply(RootEntry::CancelMove { shard: 1 }), refused(RootRefusal::NotMoving));
        go(&mut view, &[1, 2, 3], &[4, 2, 3]);
        assert_eq!(view.apply(RootEntry::CancelMove { shard: 1 }), MOVED);
        assert_eq!(voters(&view), (vec![1, 2, 3], vec![1, 2, 3, 4], 1));
        assert_eq!(view.apply(RootEntry::CancelMove { shard: 1 }), refused(RootRefusal::NotMoving));
        assert_eq!(go(&mut view, &[1, 2, 3], &[1, 2, 5]), refused(RootRefusal::Moving), "4 may be a member still");
        view.apply(RootEntry::Moved { shard: 1, voters: vec![1, 2, 3] });
        assert_eq!(go(&mut view, &[1, 2, 3], &[1, 2, 5]), MOVED);
    }

    #[test]
    fn another_order_changes_who_is_preferred_and_nothing_else() {
        let mut view = view();
        assert_eq!(go(&mut view, &[1, 2, 3], &[3, 1, 2]), MOVED);
        assert_eq!(voters(&view), (vec![3, 1, 2], vec![3, 1, 2], 3));
        assert!(!view.shard(1).unwrap().is_moving());
    }

    #[test]
    fn what_no_shard_could_become_is_refused() {
        let mut view = view();
        for to in [&[1, 2][..], &[1, 2, 2], &[1, 2, 3, 4], &[]] {
            assert_eq!(go(&mut view, &[1, 2, 3], to), refused(RootRefusal::ShardChanged), "{to:?}");
        }
        assert_eq!(go(&mut view, &[1, 2, 3], &[1, 2, 9]), refused(RootRefusal::UnknownNode));
        assert_eq!(go(&mut view, &[1, 2, 4], &[1, 2, 5]), refused(RootRefusal::ShardChanged));
        assert_eq!(voters(&view).0, [1, 2, 3]);
    }

    fn leave(view: &mut RootState, broker: BrokerId) -> BrokerEpoch {
        let epoch = view.broker(broker).unwrap().epoch;
        view.apply(RootEntry::Leave { broker, epoch });
        epoch
    }

    #[test]
    fn a_broker_that_is_away_is_removed_and_its_directory_has_no_seat_any_more() {
        let mut view = view();
        let epoch = view.broker(2).unwrap().epoch;
        let remove = |view: &mut RootState, broker, epoch| view.apply(RootEntry::RemoveBroker { broker, epoch });
        assert_eq!(remove(&mut view, 2, epoch), refused(RootRefusal::BrokerAlive));
        leave(&mut view, 2);
        assert_eq!(remove(&mut view, 2, epoch + 100), refused(RootRefusal::UnknownBroker), "another life");
        assert_eq!(remove(&mut view, 2, epoch), RootAnswer::Done);
        assert!(view.broker(2).is_none() && view.directory_of(3).is_none());
        assert_eq!(remove(&mut view, 2, epoch), refused(RootRefusal::UnknownBroker));
    }

    /// Of one partition, in shard 1.
    fn topic(view: &mut RootState) -> TopicId {
        let (id, name, configs) = (TopicId::from_bytes([1; 16]), "t".to_owned(), BTreeMap::new());
        view.apply(RootEntry::CreateTopic(NewTopic {
            id,
            name,
            partitions: 1,
            replication_factor: 3,
            configs,
            assigned: Vec::new(),
        }));
        id
    }

    #[test]
    fn a_broker_that_a_shard_could_not_do_without_stays() {
        let mut view = view();
        let epochs = [leave(&mut view, 0), leave(&mut view, 1)];
        let remove = |view: &mut RootState, broker, epoch| view.apply(RootEntry::RemoveBroker { broker, epoch });
        let id = topic(&mut view);
        assert_eq!(remove(&mut view, 0, epochs[0]), RootAnswer::Done);
        assert_eq!(remove(&mut view, 1, epochs[1]), refused(RootRefusal::LastReplicas));
        view.apply(RootEntry::DeleteTopic { topic: id, epoch: 0 });
        view.apply(RootEntry::Gone { topic: id });
        assert_eq!(remove(&mut view, 1, epochs[1]), RootAnswer::Done, "nothing is lost with an empty shard");
    }

    /// One that is away is asked to be removed.
    fn remove(view: &mut RootState, broker: BrokerId) -> RootAnswer {
        let epoch = leave(view, broker);
        view.apply(RootEntry::RemoveBroker { broker, epoch })
    }

    /// A turn of the controller, for shard 1.
    fn replace(view: &mut RootState) {
        let of_shard = |entry: &RootEntry| matches!(entry, RootEntry::SetVoters { shard: 1, .. });
        for entry in placement::shard_changes(view).into_iter().filter(of_shard) {
            view.apply(entry);
        }
    }

    #[test]
    fn voters_that_the_group_does_not_have_yet_are_no_majority_of_it() {
        let mut view = cluster(&["a", "b", "c", "d"]);
        view.apply(RootEntry::CreateShard { replication_factor: 3, voters: vec![1, 2, 3], preferred: 1 });
        topic(&mut view);
        leave(&mut view, 0);
        assert_eq!(remove(&mut view, 2), RootAnswer::Done);
        replace(&mut view);
        assert_eq!(voters(&view).0, [1, 2, 4]);
        assert!(!view.shard(1).unwrap().is_moving(), "nobody asked for a move, so nobody can cancel it");
        assert_eq!(remove(&mut view, 0), refused(RootRefusal::LastReplicas), "the group may have 1, 2 and 3 still");
        assert_eq!(remove(&mut view, 1), refused(RootRefusal::LastReplicas));
        view.apply(RootEntry::Moved { shard: 1, voters: vec![1, 2, 4] });
        assert_eq!(remove(&mut view, 0), RootAnswer::Done, "the group has 1, 2 and 4");
    }

    #[test]
    fn newcomers_that_are_gone_in_turn_do_not_add_up() {
        let mut view = cluster(&["a", "b", "c", "d", "e", "f"]);
        view.apply(RootEntry::CreateShard { replication_factor: 3, voters: vec![1, 2, 3], preferred: 1 });
        topic(&mut view);
        for broker in 2..5 {
            assert_eq!(remove(&mut view, broker), RootAnswer::Done);
            replace(&mut view);
            assert_eq!(voters(&view).0, [1, 2, broker as NodeId + 2]);
            assert_eq!(view.shard(1).unwrap().may_have, BTreeSet::from([BTreeSet::from([1, 2])]));
        }
        assert_eq!(remove(&mut view, 1), refused(RootRefusal::LastReplicas));
    }

    #[test]
    fn while_a_shard_moves_neither_its_old_nor_its_new_voters_lose_their_majority() {
        let moving = || {
            let mut view = cluster(&["a", "b", "c", "d", "e", "f"]);
            view.apply(RootEntry::CreateShard { replication_factor: 3, voters: vec![1, 2, 3], preferred: 1 });
            topic(&mut view);
            assert_eq!(go(&mut view, &[1, 2, 3], &[4, 5, 6]), MOVED);
            view
        };
        for cancelled in [false, true] {
            for [first, second] in [[0, 1], [3, 4]] {
                let mut view = moving();
                if cancelled {
                    assert_eq!(view.apply(RootEntry::CancelMove { shard: 1 }), MOVED);
                }
                assert_eq!(remove(&mut view, first), RootAnswer::Done);
                replace(&mut view);
                assert_eq!(remove(&mut view, second), refused(RootRefusal::LastReplicas), "{first} {cancelled}");
            }
        }
        let mut view = moving();
        view.apply(RootEntry::Moved { shard: 1, voters: vec![4, 5, 6] });
        assert_eq!([0, 1, 2].map(|left| remove(&mut view, left)), [(); 3].map(|()| RootAnswer::Done));
    }

    #[test]
    fn a_newcomer_after_a_cancelled_move_is_no_move() {
        let mut view = view();
        go(&mut view, &[1, 2, 3], &[4, 2, 3]);
        view.apply(RootEntry::CancelMove { shard: 1 });
        leave(&mut view, 3);
        remove(&mut view, 2);
        replace(&mut view);
        assert_eq!(voters(&view), (vec![1, 2, 5], vec![1, 2, 5, 4, 3], 1));
        assert_eq!(view.apply(RootEntry::CancelMove { shard: 1 }), refused(RootRefusal::NotMoving));
        view.apply(RootEntry::Moved { shard: 1, voters: vec![1, 2, 5] });
        assert!(!view.shard(1).unwrap().is_unsettled());
    }
}
