use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::group::consumer::assignor::Subscriber;
use crate::shard::group::Assignment;
use crate::types::TopicId;

pub(super) fn assign(members: &[Subscriber], partitions: &BTreeMap<TopicId, i32>) -> Vec<Assignment> {
    let Some(first) = members.first() else { return Vec::new() };
    let (mut targets, free) = keep(members, partitions);
    match members.iter().all(|member| member.topics == first.topics) {
        true => fill_evenly(&mut targets, free),
        false => fill_by_subscription(members, &mut targets, free),
    }
    targets.into_iter().map(Target::into_assignment).collect()
}

type One = (TopicId, i32);

/// A member's partitions while they are dealt out.
#[derive(Default)]
struct Target {
    by_topic: BTreeMap<TopicId, BTreeSet<i32>>,
    count: usize,
}

impl Target {
    fn give(&mut self, (topic, partition): One) {
        self.by_topic.entry(topic).or_default().insert(partition);
        self.count += 1;
    }

    /// Its last partition, of this topic if one is named.
    fn take(&mut self, topic: Option<TopicId>) -> Option<One> {
        let topic = topic.or_else(|| self.by_topic.keys().next_back().copied())?;
        let partitions = self.by_topic.get_mut(&topic)?;
        let partition = partitions.pop_last()?;
        if partitions.is_empty() {
            self.by_topic.remove(&topic);
        }
        self.count -= 1;
        Some((topic, partition))
    }

    fn into_assignment(self) -> Assignment {
        self.by_topic
    }
}

/// Everybody keeps what it had and is still subscribed to; the rest is free.
fn keep(members: &[Subscriber], partitions: &BTreeMap<TopicId, i32>) -> (Vec<Target>, Vec<One>) {
    let mut taken: BTreeSet<One> = BTreeSet::new();
    let mut targets = Vec::with_capacity(members.len());
    for member in members {
        let mut target = Target::default();
        for (topic, had) in member.before.iter().filter(|(topic, _)| member.topics.contains(topic)) {
            let count = partitions.get(topic).copied().unwrap_or(0);
            for partition in had.range(..count) {
                if taken.insert((*topic, *partition)) {
                    target.give((*topic, *partition));
                }
            }
        }
        targets.push(target);
    }
    let wanted: BTreeSet<TopicId> = members.iter().flat_map(|member| member.topics.iter().copied()).collect();
    let all = partitions.iter().filter(|(topic, _)| wanted.contains(topic));
    let all = all.flat_map(|(topic, count)| (0..*count).map(|partition| (*topic, partition)));
    let free = all.filter(|one| !taken.contains(one)).collect();
    (targets, free)
}

/// All are subscribed to the same: each has a quota, and those who have most already get the larger ones.
fn fill_evenly(targets: &mut [Target], mut free: Vec<One>) {
    let all = free.len() + targets.iter().map(|target| target.count).sum::<usize>();
    let (share, mut larger) = (all / targets.len(), all % targets.len());
    let mut order: Vec<usize> = (0..targets.len()).collect();
    order.sort_by_key(|at| Reverse(targets[*at].count));
    let mut quotas = vec![share; targets.len()];
    for at in order {
        if larger > 0 {
            quotas[at] += 1;
            larger -= 1;
        }
    }
    for (target, quota) in targets.iter_mut().zip(&quotas) {
        while target.count > *quota {
            free.extend(target.take(None));
        }
    }
    free.sort_unstable();
    let mut free = free.into_iter();
    for (target, quota) in targets.iter_mut().zip(quotas) {
        let missing = quota - target.count;
        free.by_ref().take(missing).for_each(|one| target.give(one));
    }
}

/// Subscriptions differ: what is free goes to whoever has least, topics that few want first; then partitions move from
/// those who have more to those who have less by two or more, until there are none such. Each move makes the sum of the
/// squares of all counts smaller, so it ends.
fn fill_by_subscription(members: &[Subscriber], targets: &mut [Target], free: Vec<One>) {
    let mut subscribers: BTreeMap<TopicId, Vec<usize>> = BTreeMap::new();
    for (at, member) in members.iter().enumerate() {
        member.topics.iter().for_each(|topic| subscribers.entry(*topic).or_default().push(at));
    }
    let mut free = free;
    free.sort_by_key(|(topic, partition)| (subscribers[topic].len(), *topic, *partition));
    for one in free {
        let least = subscribers[&one.0].iter().copied().min_by_key(|at| targets[*at].count);
        least.into_iter().for_each(|at| targets[at].give(one));
    }
    loop {
        let mut moved = false;
        for (topic, subscribers) in &subscribers {
            loop {
                let owners = subscribers.iter().copied().filter(|at| targets[*at].by_topic.contains_key(topic));
                let most = owners.max_by_key(|at| targets[*at].count);
                let least = subscribers.iter().copied().min_by_key(|at| targets[*at].count);
                let (Some(most), Some(least)) = (most, least) else { break };
                if targets[most].count < targets[least].count + 2 {
                    break;
                }
                let Some(one) = targets[most].take(Some(*topic)) else { break };
                targets[least].give(one);
                moved = true;
            }
        }
        if !moved {
            return;
        }
    }
}
