use crate::types::{BrokerId, Partition};

/// Which of these brokers serves a partition; `brokers` are (id, alive), the dead included, so that the share of the
/// living does not change when one dies. In turn by the partition's number, in an order of the topic's own: even to the
/// partition, and whole topics of one partition spread as well. Those of a dead broker are shared out in turn among the
/// living, and nothing else moves.
pub fn pick(brokers: &[(BrokerId, bool)], partition: &Partition) -> Option<BrokerId> {
    if let [(only, alive)] = brokers {
        return alive.then_some(*only);
    }
    let mut order = brokers.to_vec();
    order.sort_unstable_by_key(|(broker, _)| (weight(partition, *broker), *broker));
    let index = partition.index.max(0) as usize;
    let (mine, alive) = *order.get(index.checked_rem(order.len())?)?;
    if alive {
        return Some(mine);
    }
    let living: Vec<BrokerId> = order.iter().filter(|(_, alive)| *alive).map(|(broker, _)| *broker).collect();
    let round = index / order.len();
    living.get(round.checked_rem(living.len())?).copied()
}

/// The same for all partitions of a topic.
fn weight(partition: &Partition, broker: BrokerId) -> u64 {
    let topic = u128::from_be_bytes(*partition.topic.as_bytes());
    [topic as u64, (topic >> 64) as u64, broker as u64].into_iter().fold(0, |hash, word| mix(hash ^ word))
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
    use crate::types::TopicId;

    fn picked(topic: u8, partitions: i32, brokers: &[(BrokerId, bool)]) -> Vec<Option<BrokerId>> {
        let topic = TopicId::from_bytes([topic; 16]);
        (0..partitions).map(|index| pick(brokers, &Partition { topic, index })).collect()
    }

    fn share(picked: &[Option<BrokerId>], broker: BrokerId) -> usize {
        picked.iter().filter(|one| **one == Some(broker)).count()
    }

    #[test]
    fn partitions_are_spread_to_the_partition() {
        let all = [(1, true), (2, true), (3, true)];
        for topic in 0..50 {
            let picked = picked(topic, 12, &all);
            assert_eq!(all.map(|(broker, _)| share(&picked, broker)), [4, 4, 4]);
        }
    }

    #[test]
    fn topics_of_one_partition_are_spread_too() {
        let firsts: Vec<_> = (0..200).map(|topic| picked(topic, 1, &[(1, true), (2, true)])[0]).collect();
        assert!((70..=130).contains(&share(&firsts, 1)), "{}", share(&firsts, 1));
    }

    #[test]
    fn a_death_moves_only_the_dead_ones_partitions_and_shares_them_out() {
        let before = picked(7, 900, &[(1, true), (2, true), (3, true)]);
        let after = picked(7, 900, &[(1, true), (2, false), (3, true)]);
        assert!(before.iter().zip(&after).all(|(before, after)| before == after || *before == Some(2)));
        assert_eq!((share(&after, 1), share(&after, 2), share(&after, 3)), (450, 0, 450));
    }

    #[test]
    fn the_order_in_which_brokers_are_named_does_not_matter() {
        assert_eq!(picked(3, 9, &[(1, true), (2, true)]), picked(3, 9, &[(2, true), (1, true)]));
    }

    #[test]
    fn nobody_is_picked_when_nobody_lives() {
        assert_eq!(picked(1, 1, &[]), [None]);
        assert_eq!(picked(1, 2, &[(1, false)]), [None, None]);
        assert_eq!(picked(1, 2, &[(1, false), (2, false)]), [None, None]);
    }
}
