use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{Assignor, Subscriber};
use crate::shard::group::Assignment;
use crate::types::TopicId;

fn topic(n: u8) -> TopicId {
    TopicId::from_bytes([n; 16])
}

fn topics(counts: &[(u8, i32)]) -> BTreeMap<TopicId, i32> {
    counts.iter().map(|(n, count)| (topic(*n), *count)).collect()
}

/// (id, topics it is subscribed to, what it had)
type Case<'a> = (&'a str, &'a [u8], Assignment);

fn had(parts: &[(u8, &[i32])]) -> Assignment {
    parts.iter().map(|(n, partitions)| (topic(*n), partitions.iter().copied().collect())).collect()
}

fn assign(assignor: Assignor, members: &[Case], counts: &[(u8, i32)]) -> Vec<Assignment> {
    let members: Vec<Subscriber> = members
        .iter()
        .map(|(id, subscribed, before)| Subscriber {
            id,
            instance: id.strip_prefix('i'),
            topics: subscribed.iter().map(|n| topic(*n)).filter(|t| topics(counts).contains_key(t)).collect(),
            before,
        })
        .collect();
    assignor.assign(&members, &topics(counts))
}

fn none() -> Assignment {
    Assignment::new()
}

#[test]
fn range_deals_out_every_topic_alike() {
    let members: [Case; 3] = [("a", &[1, 2], none()), ("b", &[1, 2], none()), ("c", &[1, 2], none())];
    let targets = assign(Assignor::Range, &members, &[(1, 7), (2, 7)]);
    let shares: [&[i32]; 3] = [&[0, 1, 2], &[3, 4], &[5, 6]];
    for (target, share) in targets.iter().zip(shares) {
        assert_eq!(*target, had(&[(1, share), (2, share)]));
    }
}

#[test]
fn range_goes_by_instances_first_and_leaves_some_without() {
    let members: [Case; 3] = [("a", &[1], none()), ("i2", &[1], none()), ("i1", &[1], none())];
    let targets = assign(Assignor::Range, &members, &[(1, 2)]);
    assert_eq!(targets, [none(), had(&[(1, &[1])]), had(&[(1, &[0])])]);
}

#[test]
fn range_looks_at_the_subscribers_of_each_topic() {
    let members: [Case; 3] = [("a", &[1, 3], none()), ("b", &[2, 3], none()), ("c", &[2], none())];
    let targets = assign(Assignor::Range, &members, &[(1, 3), (2, 3), (3, 2)]);
    assert_eq!(targets[0], had(&[(1, &[0, 1, 2]), (3, &[0])]));
    assert_eq!(targets[1], had(&[(2, &[0, 1]), (3, &[1])]));
    assert_eq!(targets[2], had(&[(2, &[2])]));
}

#[test]
fn uniform_takes_only_what_a_newcomer_needs() {
    let before = [had(&[(1, &[0, 1, 2])]), had(&[(1, &[3, 4, 5])])];
    let members: [Case; 3] = [("a", &[1], before[0].clone()), ("b", &[1], before[1].clone()), ("c", &[1], none())];
    let targets = assign(Assignor::Uniform, &members, &[(1, 6)]);
    assert_eq!(targets, [had(&[(1, &[0, 1])]), had(&[(1, &[3, 4])]), had(&[(1, &[2, 5])])]);
}

#[test]
fn uniform_leaves_an_even_group_as_it_is() {
    // Whoever has the larger share keeps it, whatever its place.
    let members: [Case; 2] = [("a", &[1], had(&[(1, &[0])])), ("b", &[1], had(&[(1, &[1, 2])]))];
    let targets = assign(Assignor::Uniform, &members, &[(1, 3)]);
    assert_eq!(targets, [had(&[(1, &[0])]), had(&[(1, &[1, 2])])]);
}

#[test]
fn uniform_gives_shared_topics_to_those_who_have_no_other() {
    let members: [Case; 2] = [("a", &[1, 2], none()), ("b", &[2], none())];
    let targets = assign(Assignor::Uniform, &members, &[(1, 3), (2, 3)]);
    assert_eq!(targets, [had(&[(1, &[0, 1, 2])]), had(&[(2, &[0, 1, 2])])]);
    let full: [Case; 2] = [("a", &[1, 2], had(&[(1, &[0, 1]), (2, &[0, 1])])), ("b", &[2], none())];
    let targets = assign(Assignor::Uniform, &full, &[(1, 2), (2, 2)]);
    assert_eq!(targets, [had(&[(1, &[0, 1])]), had(&[(2, &[0, 1])])]);
}

#[test]
fn what_is_not_there_any_more_is_given_to_nobody() {
    for assignor in Assignor::ALL {
        let before = had(&[(1, &[0, 5]), (9, &[0])]);
        let members: [Case; 1] = [("a", &[1, 9], before)];
        assert_eq!(assign(assignor, &members, &[(1, 1)]), [had(&[(1, &[0])])]);
        assert_eq!(assign(assignor, &[], &[(1, 1)]), []);
        assert_eq!(assign(assignor, &[("a", &[], none())], &[(1, 1)]), [none()]);
    }
}

const TOPICS: u8 = 5;

fn any_topics() -> impl Strategy<Value = Vec<i32>> {
    proptest::collection::vec(0..9i32, usize::from(TOPICS))
}

fn any_subscriptions() -> impl Strategy<Value = Vec<BTreeSet<u8>>> {
    let one = proptest::collection::btree_set(0..TOPICS, 0..=usize::from(TOPICS));
    let differing = proptest::collection::vec(one.clone(), 1..8);
    let alike = (one, 1..8usize).prop_map(|(one, count)| vec![one; count]);
    prop_oneof![differing, alike]
}

fn subscribers<'a>(ids: &'a [String], subscriptions: &[BTreeSet<u8>], before: &'a [Assignment]) -> Vec<Subscriber<'a>> {
    let each = ids.iter().zip(subscriptions).zip(before);
    each.map(|((id, topics), before)| Subscriber {
        id,
        instance: None,
        topics: topics.iter().map(|n| topic(*n)).collect(),
        before,
    })
    .collect()
}

fn count(target: &Assignment) -> usize {
    target.values().map(BTreeSet::len).sum()
}

fn is_whole(members: &[Subscriber], targets: &[Assignment], partitions: &BTreeMap<TopicId, i32>) {
    assert_eq!(members.len(), targets.len());
    let mut given: Vec<(TopicId, i32)> = Vec::new();
    for (member, target) in members.iter().zip(targets) {
        assert!(target.values().all(|partitions| !partitions.is_empty()));
        assert!(target.keys().all(|topic| member.topics.contains(topic)));
        given.extend(target.iter().flat_map(|(topic, all)| all.iter().map(|partition| (*topic, *partition))));
    }
    given.sort_unstable();
    let wanted = partitions.iter().filter(|(topic, _)| members.iter().any(|m| m.topics.contains(topic)));
    let wanted: Vec<(TopicId, i32)> =
        wanted.flat_map(|(topic, count)| (0..*count).map(|partition| (*topic, partition))).collect();
    assert_eq!(given, wanted, "every partition once");
}

/// Nobody has two more than somebody who could take one of them.
fn is_balanced(members: &[Subscriber], targets: &[Assignment]) {
    for (at, target) in targets.iter().enumerate() {
        for (other, less) in targets.iter().enumerate().filter(|(_, less)| count(less) + 1 < count(target)) {
            let could = target.keys().find(|topic| members[other].topics.contains(topic));
            assert_eq!(could, None, "{at} has {} and {other} {}", count(target), count(less));
        }
    }
}

proptest! {
    #[test]
    fn every_partition_has_one_owner_and_an_even_group_stays(
        counts in any_topics(), more in any_topics(), subscriptions in any_subscriptions(), joins in any::<bool>(),
    ) {
        for assignor in Assignor::ALL {
            let partitions: BTreeMap<TopicId, i32> = (0u8..).map(topic).zip(counts.iter().copied()).collect();
            let ids: Vec<String> = (0..subscriptions.len()).map(|n| format!("m{n}")).collect();
            let nothing = vec![none(); ids.len()];
            let fresh = subscribers(&ids, &subscriptions, &nothing);
            let first = assignor.assign(&fresh, &partitions);
            is_whole(&fresh, &first, &partitions);
            if assignor == Assignor::Uniform {
                is_balanced(&fresh, &first);
            }
            let again = subscribers(&ids, &subscriptions, &first);
            prop_assert_eq!(&assignor.assign(&again, &partitions), &first, "nothing has changed");
            // Somebody comes or goes, and topics become larger or smaller.
            let partitions: BTreeMap<TopicId, i32> = (0u8..).map(topic).zip(more.iter().copied()).collect();
            let (mut ids, mut subscriptions, mut before) = (ids.clone(), subscriptions.clone(), first);
            if joins {
                ids.push("n".into());
                subscriptions.push(subscriptions[0].clone());
                before.push(none());
            } else {
                ids.pop();
                before.truncate(ids.len());
            }
            let changed = subscribers(&ids, &subscriptions, &before);
            let targets = assignor.assign(&changed, &partitions);
            is_whole(&changed, &targets, &partitions);
            if assignor == Assignor::Uniform {
                is_balanced(&changed, &targets);
            }
        }
    }

    /// With one subscription for all, whoever keeps its place loses only what is above its share.
    #[test]
    fn uniform_moves_no_more_than_it_must(partitions in 1..40i32, members in 1..8usize, leaves in any::<bool>()) {
        let counts = BTreeMap::from([(topic(1), partitions)]);
        let ids: Vec<String> = (0..=members).map(|n| format!("m{n}")).collect();
        let subscriptions = vec![BTreeSet::from([1]); ids.len()];
        let (from, to) = if leaves { (members + 1, members) } else { (members, members + 1) };
        let nothing = vec![none(); from];
        let first = Assignor::Uniform.assign(&subscribers(&ids[..from], &subscriptions, &nothing), &counts);
        let mut before = first.clone();
        before.resize(to, none());
        let second = Assignor::Uniform.assign(&subscribers(&ids[..to], &subscriptions, &before), &counts);
        let lost: usize = first.iter().zip(&second).map(|(a, b)| {
            let (a, b): (BTreeSet<i32>, BTreeSet<i32>) =
                (a.values().flatten().copied().collect(), b.values().flatten().copied().collect());
            a.difference(&b).count()
        }).sum();
        // A newcomer's share, or nothing of those who stay.
        let due = if leaves { 0 } else { count(&second[members]) };
        prop_assert_eq!(lost, due);
    }
}
