//! A group's way into the log.

use std::collections::BTreeMap;

use crate::group::Reply;
use crate::group::classic::Waiter;
use crate::group::consumer::coordinator::Turn;
use crate::group::consumer::live::Live;
use crate::shard::group::{Change, ConsumerChange, MemberChange};

type Waiting = Vec<(Waiter, Reply)>;

/// What the log does not have yet, and who waits for it.
#[derive(Debug, Default)]
pub(super) struct Saving {
    /// On its way.
    flight: Option<Waiting>,
    /// Goes next.
    header: bool,
    members: BTreeMap<String, Parts>,
    waiting: Waiting,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Parts {
    pub who: bool,
    pub target: bool,
    pub current: bool,
}

impl Saving {
    pub fn is_idle(&self) -> bool {
        self.flight.is_none() && !self.is_dirty()
    }

    fn is_dirty(&self) -> bool {
        self.header || !self.members.is_empty()
    }

    /// Epochs or the like have changed.
    pub fn touch(&mut self) {
        self.header = true;
    }

    /// Of a member that has gone, all parts.
    pub fn touch_member(&mut self, id: &str) -> &mut Parts {
        if !self.members.contains_key(id) {
            self.members.insert(id.to_owned(), Parts::default());
        }
        self.members.get_mut(id).expect("it was put there")
    }

    /// Everybody who waits for the log.
    pub fn give_up(self) -> impl Iterator<Item = Waiter> {
        self.flight.into_iter().flatten().chain(self.waiting).map(|(waiter, _)| waiter)
    }
}

impl Turn<'_> {
    /// Told when the log has all that it may depend on: at once, if nothing is new.
    pub fn answer_when_saved(&mut self, group: &mut Live, waiter: Waiter, reply: Reply) {
        if group.saving.is_dirty() {
            group.saving.waiting.push((waiter, reply));
        } else if let Some(flight) = &mut group.saving.flight {
            flight.push((waiter, reply));
        } else {
            self.answer(waiter, reply);
        }
    }

    /// The log has what was on its way.
    pub fn saved(&mut self, group: &mut Live) {
        let flight = group.saving.flight.take();
        flight.into_iter().flatten().for_each(|(waiter, reply)| self.answer(waiter, reply));
    }

    /// All that is new since the last entry makes the next.
    pub fn save(&mut self, group: &mut Live) {
        if group.saving.flight.is_some() || !group.saving.is_dirty() {
            return;
        }
        group.revision += 1;
        let members = std::mem::take(&mut group.saving.members).into_iter().map(|(id, parts)| {
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
        group.saving.header = false;
        group.saving.flight = Some(std::mem::take(&mut group.saving.waiting));
        self.propose(group.slot, Change::Consumer(Box::new(change)));
    }
}
