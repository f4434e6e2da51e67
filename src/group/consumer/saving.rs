//! A group's way into the log.

use crate::group::Reply;
use crate::group::classic::Waiter;
use crate::group::consumer::coordinator::Turn;
use crate::group::consumer::live::Live;
use crate::shard::group::{Change, ConsumerChange, MemberChange};

/// What of a member the log does not have yet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Parts {
    pub who: bool,
    pub target: bool,
    pub current: bool,
}

impl Turn<'_> {
    /// Told when the log has all that it may depend on: at once, if nothing is new.
    pub fn answer_when_saved(&mut self, group: &mut Live, waiter: Waiter, reply: Reply) {
        if let Some((waiter, reply)) = group.saving.wait(waiter, reply) {
            self.answer(waiter, reply);
        }
    }

    /// The log has what was on its way.
    pub fn saved(&mut self, group: &mut Live) {
        group.saving.arrive().into_iter().for_each(|(waiter, reply)| self.answer(waiter, reply));
    }

    /// All that is new since the last entry makes the next.
    pub fn save(&mut self, group: &mut Live) {
        let Some(members) = group.saving.depart() else { return };
        group.revision += 1;
        let members = members.into_iter().map(|(id, parts)| {
            let change = group.members.get(&id).map(|member| MemberChange {
                who: parts.who.then(|| member.who.clone()),
                target: parts.target.then(|| member.target.clone()),
                current: parts.current.then(|| member.current.clone()),
            });
            (id, change)
        });
        let change = ConsumerChange {
            revision: group.revision,
            epoch: group.epoch,
            assignment_epoch: group.assignment_epoch,
            topics_digest: group.topics_digest,
            members: members.collect(),
        };
        self.propose(group.slot, Change::Consumer(Box::new(change)));
    }
}
