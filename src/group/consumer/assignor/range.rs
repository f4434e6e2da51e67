use std::collections::BTreeMap;

use crate::group::consumer::assignor::Subscriber;
use crate::shard::group::Assignment;
use crate::types::TopicId;

/// Members go by their instance, those without one by their id after them (Kafka: `RangeAssignor.sortMemberIds`).
pub(super) fn assign(members: &[Subscriber], partitions: &BTreeMap<TopicId, i32>) -> Vec<Assignment> {
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|at| (members[*at].instance.is_none(), members[*at].instance, members[*at].id));
    let mut targets = vec![Assignment::new(); members.len()];
    for (topic, count) in partitions {
        let subscribed: Vec<usize> = order.iter().copied().filter(|at| members[*at].topics.contains(topic)).collect();
        let Some(share) = count.checked_div(subscribed.len() as i32) else { continue };
        let more = count % subscribed.len() as i32;
        let mut next = 0;
        for (turn, at) in (0..).zip(subscribed) {
            let end = next + share + i32::from(turn < more);
            if next < end {
                targets[at].insert(*topic, (next..end).collect());
            }
            next = end;
        }
    }
    targets
}
