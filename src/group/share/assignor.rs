//! Who reads which partition (KIP-932's rules, Kafka: `SimpleAssignor`): every partition has a member, as many members as
//! it takes for every member to have a partition, members have equally many to within one, and what they had they keep
//! as far as that goes. Balance comes first.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::group::consumer::each;
use crate::shard::group::Assignment;
use crate::types::{Partition, TopicId};

pub(super) struct Subscriber<'a> {
    pub topics: BTreeSet<TopicId>,
    /// What it had.
    pub before: &'a Assignment,
}

/// One assignment for each. `counts` says how many partitions topics have; those of others are nobody's.
///
/// Where all want the same topics, all their partitions are dealt out together, otherwise topic by topic among those who
/// want it.
pub(super) fn assign(members: &[Subscriber], counts: &BTreeMap<TopicId, i32>) -> Vec<Assignment> {
    let mut all = vec![Assignment::new(); members.len()];
    let alike = members.windows(2).all(|two| two[0].topics == two[1].topics);
    let rounds: Vec<Vec<TopicId>> = match alike {
        true => vec![counts.keys().copied().collect()],
        false => counts.keys().map(|topic| vec![*topic]).collect(),
    };
    for topics in rounds {
        let wants = |at: &usize| topics.iter().all(|topic| members[*at].topics.contains(topic));
        let mut players: Vec<usize> = (0..members.len()).filter(wants).collect();
        // The first may get one more: those who have little so far.
        players.sort_by_cached_key(|at| all[*at].values().map(BTreeSet::len).sum::<usize>());
        let before: Vec<&Assignment> = players.iter().map(|at| members[*at].before).collect();
        let of = |topic: &TopicId| {
            let topic = *topic;
            (0..counts[&topic]).map(move |index| Partition { topic, index })
        };
        for (at, hand) in players.iter().zip(deal(&before, topics.iter().flat_map(of))) {
            for partition in hand {
                all[*at].entry(partition.topic).or_default().insert(partition.index);
            }
        }
    }
    all
}

type Hand = BTreeSet<Partition>;

/// Partitions dealt out to players who had those before.
fn deal(before: &[&Assignment], partitions: impl Iterator<Item = Partition>) -> Vec<Hand> {
    let mut holders: BTreeMap<Partition, usize> = partitions.map(|partition| (partition, 0)).collect();
    let mut hands = vec![Hand::new(); before.len()];
    if holders.is_empty() || hands.is_empty() {
        return hands;
    }
    let sharing = hands.len().div_ceil(holders.len());
    let mut room = rooms(before, &holders, sharing * holders.len());
    for (at, had) in before.iter().enumerate() {
        for (topic, index) in each(had) {
            let partition = Partition { topic, index };
            if let Some(holders) = holders.get_mut(&partition).filter(|holders| **holders < sharing && room[at] > 0) {
                hands[at].insert(partition);
                *holders += 1;
                room[at] -= 1;
            }
        }
    }
    // There is as much room as partitions still want holders.
    let mut open: VecDeque<usize> = (0..hands.len()).filter(|at| room[*at] > 0).collect();
    for (partition, holders) in holders {
        for _ in holders..sharing {
            let taker = open.iter().position(|at| !hands[*at].contains(&partition));
            let taker = taker.and_then(|place| open.remove(place));
            let Some(at) = taker.or_else(|| swap(&mut hands, &mut open, partition)) else { break };
            if taker.is_some() {
                hands[at].insert(partition);
            }
            room[at] -= 1;
            if room[at] > 0 {
                open.push_back(at);
            }
        }
    }
    hands
}

/// How many of all that there are to be had each player gets: equally many to within one. One more get those who would
/// have to give more away.
fn rooms(before: &[&Assignment], partitions: &BTreeMap<Partition, usize>, all: usize) -> Vec<usize> {
    let (few, more) = (all / before.len(), all % before.len());
    let keeps = |at: &usize| {
        let had = each(before[*at]).map(|(topic, index)| Partition { topic, index });
        had.filter(|partition| partitions.contains_key(partition)).count() > few
    };
    let mut order: Vec<usize> = (0..before.len()).collect();
    order.sort_by_cached_key(|at| !keeps(at));
    let mut rooms = vec![few; before.len()];
    order.iter().take(more).for_each(|at| rooms[*at] += 1);
    rooms
}

/// All who have room have this partition. Somebody whose hand is full takes it, and gives another to the next who has
/// room: who that was.
fn swap(hands: &mut [Hand], open: &mut VecDeque<usize>, partition: Partition) -> Option<usize> {
    let taker = *open.front()?;
    let mut without = hands.iter().enumerate().filter(|(_, hand)| !hand.contains(&partition));
    let (giver, given) = without.find_map(|(at, hand)| Some((at, *hand.difference(&hands[taker]).next()?)))?;
    open.pop_front();
    hands[giver].remove(&given);
    hands[giver].insert(partition);
    hands[taker].insert(given);
    Some(taker)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn topic(n: u8) -> TopicId {
        TopicId::from_bytes([n; 16])
    }

    fn sizes(assigned: &[Assignment]) -> Vec<usize> {
        assigned.iter().map(|assignment| each(assignment).count()).collect()
    }

    /// Members with the same topics 1.. of so many partitions, from what they had.
    fn alike(before: &[Assignment], counts: &[i32]) -> Vec<Assignment> {
        let counts: BTreeMap<TopicId, i32> = (1..).map(topic).zip(counts.iter().copied()).collect();
        let topics: BTreeSet<TopicId> = counts.keys().copied().collect();
        let members: Vec<Subscriber> =
            before.iter().map(|before| Subscriber { topics: topics.clone(), before }).collect();
        assign(&members, &counts)
    }

    /// How many partitions somebody has who had them not.
    fn moved(before: &[Assignment], after: &[Assignment]) -> usize {
        let new = before.iter().zip(after).map(|(before, after)| {
            let had: BTreeSet<_> = each(before).collect();
            each(after).filter(|partition| !had.contains(partition)).count()
        });
        new.sum()
    }

    #[test]
    fn all_have_equally_many_and_every_partition_equally_many_members() {
        let new = |members: usize| vec![Assignment::new(); members];
        assert_eq!(sizes(&alike(&new(2), &[3, 2])), [3, 2]);
        assert_eq!(sizes(&alike(&new(3), &[3])), [1, 1, 1]);
        assert_eq!(sizes(&alike(&new(4), &[2])), [1, 1, 1, 1]);
        assert_eq!(sizes(&alike(&new(3), &[2])), [2, 1, 1], "two partitions, two members each");
        assert_eq!(sizes(&alike(&new(3), &[])), [0, 0, 0]);
        assert_eq!(alike(&[], &[2]), []);
    }

    #[test]
    fn a_new_member_takes_no_more_than_its_share_and_one_that_leaves_moves_only_its_own() {
        let three = alike(&vec![Assignment::new(); 3], &[6, 3]);
        let four = alike(&[three.clone(), vec![Assignment::new()]].concat(), &[6, 3]);
        assert_eq!(sizes(&four), [3, 2, 2, 2]);
        assert_eq!(moved(&[three, vec![Assignment::new()]].concat(), &four), 2);
        let left = four[1..].to_vec();
        let three = alike(&left, &[6, 3]);
        assert_eq!((sizes(&three), moved(&left, &three)), (vec![3, 3, 3], 3));
    }

    proptest! {
        #[test]
        fn whatever_members_had_and_want_partitions_are_shared_evenly(
            counts in prop::collection::vec(1..8i32, 1..4),
            members in prop::collection::vec((1..8u8, prop::collection::vec((0..5u8, 0..9i32), 0..6)), 1..14),
            same in any::<bool>(),
        ) {
            let counts: BTreeMap<TopicId, i32> = (0..).map(topic).zip(counts).collect();
            let before: Vec<Assignment> = members.iter().map(|(_, had)| {
                let mut all = Assignment::new();
                had.iter().for_each(|(n, index)| all.entry(topic(*n)).or_default().extend([*index]));
                all
            }).collect();
            let wants = |mask: u8| -> BTreeSet<TopicId> {
                counts.keys().enumerate().filter(|(n, _)| same || mask & 1 << n != 0).map(|(_, topic)| *topic).collect()
            };
            let subscribers: Vec<Subscriber> = members.iter().zip(&before)
                .map(|((mask, _), before)| Subscriber { topics: wants(*mask), before }).collect();
            // As in a group: of topics that nobody wants nothing is known.
            let counts: BTreeMap<TopicId, i32> = counts.iter().map(|(topic, count)| (*topic, *count))
                .filter(|(topic, _)| subscribers.iter().any(|member| member.topics.contains(topic))).collect();
            // Those who want different things may want the same by chance.
            let same = subscribers.windows(2).all(|two| two[0].topics == two[1].topics);
            let assigned = assign(&subscribers, &counts);
            for (member, assigned) in subscribers.iter().zip(&assigned) {
                prop_assert!(assigned.keys().all(|topic| member.topics.contains(topic)));
            }
            let mut holders: BTreeMap<(TopicId, i32), usize> = BTreeMap::new();
            assigned.iter().flat_map(each).for_each(|partition| *holders.entry(partition).or_default() += 1);
            for (topic, count) in &counts {
                let players = subscribers.iter().filter(|member| member.topics.contains(topic)).count();
                let all: i32 = if same { counts.values().sum() } else { *count };
                let sharing = players.div_ceil(all as usize);
                for index in 0..*count {
                    prop_assert_eq!(holders.remove(&(*topic, index)), Some(sharing));
                }
            }
            prop_assert!(holders.is_empty());
            if same {
                let sizes = sizes(&assigned);
                prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{:?}", sizes);
            }
            // Nobody's partitions move when nothing is new.
            let again: Vec<Subscriber> = subscribers.iter().zip(&assigned)
                .map(|(member, before)| Subscriber { topics: member.topics.clone(), before }).collect();
            if same {
                prop_assert_eq!(assign(&again, &counts), assigned);
            }
        }
    }
}
