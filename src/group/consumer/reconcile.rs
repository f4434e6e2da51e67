//! One member's way to its target (Kafka: `CurrentAssignmentBuilder`).

use crate::shard::group::{Assignment, Current, MemberState};
use crate::types::Partition;

/// Where a member is led to, and what it says that it has (`None`: it does not say).
pub(super) struct Goal<'a> {
    pub epoch: i32,
    pub target: &'a Assignment,
    pub owned: Option<&'a Assignment>,
}

impl Goal<'_> {
    /// The member's next step, the same again if there is none.
    pub fn next(&self, current: &Current, is_free: impl Fn(&Partition) -> bool) -> Current {
        match current.state {
            MemberState::Stable if current.epoch == self.epoch => current.clone(),
            MemberState::Unrevoked if self.holds(&current.revoking) => current.clone(),
            MemberState::Unrevoked => self.from(current.epoch + 1, current, is_free),
            MemberState::Stable | MemberState::Unreleased => self.from(current.epoch, current, is_free),
        }
    }

    fn from(&self, epoch: i32, current: &Current, is_free: impl Fn(&Partition) -> bool) -> Current {
        let mut assigned = Assignment::new();
        let mut revoking = Assignment::new();
        for (topic, partition) in each(&current.assigned) {
            let stays = self.target.get(&topic).is_some_and(|target| target.contains(&partition));
            let into = if stays { &mut assigned } else { &mut revoking };
            into.entry(topic).or_default().insert(partition);
        }
        if !revoking.is_empty() && self.holds(&revoking) {
            // It stays in its epoch until it has let go.
            return Current { state: MemberState::Unrevoked, assigned, revoking, ..at(current, epoch) };
        }
        let mut state = MemberState::Stable;
        for (topic, partition) in each(self.target) {
            let has = current.assigned.get(&topic).is_some_and(|assigned| assigned.contains(&partition));
            match has || is_free(&Partition { topic, index: partition }) {
                true => drop(assigned.entry(topic).or_default().insert(partition)),
                false => state = MemberState::Unreleased,
            }
        }
        Current { state, assigned, revoking: Assignment::new(), ..at(current, self.epoch) }
    }

    /// It has some of these, or does not say.
    fn holds(&self, revoking: &Assignment) -> bool {
        let Some(owned) = self.owned else { return true };
        each(revoking).any(|(topic, partition)| owned.get(&topic).is_some_and(|owned| owned.contains(&partition)))
    }
}

/// In this epoch. The one before is remembered: the answer that told of the new one may be lost.
fn at(current: &Current, epoch: i32) -> Current {
    let previous_epoch = if epoch == current.epoch { current.previous_epoch } else { current.epoch };
    Current { epoch, previous_epoch, ..Current::default() }
}

pub(in crate::group) fn each(assignment: &Assignment) -> impl Iterator<Item = (crate::types::TopicId, i32)> {
    assignment.iter().flat_map(|(topic, all)| all.iter().map(|partition| (*topic, *partition)))
}
