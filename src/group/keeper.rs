//! ▲ The groups that a coordinator has in memory, and when which of their members is to be looked at.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use tokio::time::Instant;

use crate::protocol::ErrorCode;

/// Looks at members that are gone or need an earlier one, kept until there are so many.
const SLACK: usize = 1024;

/// A group whose members have timers.
pub(super) trait Kept {
    /// Everything about it is in the log, and there is nobody to look after.
    fn is_idle(&self) -> bool;
    fn timers(&self, member: &str) -> Option<&Timers>;
    fn timers_mut(&mut self, member: &str) -> Option<&mut Timers>;
    /// Members whose timers are not looked at in time yet, since this was last asked.
    fn take_unwatched(&mut self) -> Vec<String>;
}

/// What a member is looked at for.
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// Silent for its session by then.
    pub session: Option<Instant>,
    /// Too slow by then: to let go of its partitions or, speaking the classic protocol, to join or to sync.
    pub step: Option<Instant>,
    /// When it will be looked at.
    queued: Option<Instant>,
}

impl Timers {
    fn next(&self) -> Option<Instant> {
        self.session.into_iter().chain(self.step).min()
    }

    pub fn is_watched(&self) -> bool {
        self.next().is_none_or(|next| self.queued.is_some_and(|queued| queued <= next))
    }
}

#[derive(Debug)]
pub(super) struct Keeper<L> {
    groups: HashMap<String, L>,
    /// (when, group, member)
    looks: BinaryHeap<Reverse<(Instant, String, String)>>,
    /// More looks than that are more than there are members.
    looks_max: usize,
}

impl<L: Kept> Keeper<L> {
    pub fn new() -> Keeper<L> {
        Keeper { groups: HashMap::new(), looks: BinaryHeap::new(), looks_max: SLACK }
    }

    pub fn has(&self, id: &str) -> bool {
        self.groups.contains_key(id)
    }

    pub fn get(&self, id: &str) -> Option<&L> {
        self.groups.get(id)
    }

    pub fn get_mut(&mut self, id: &str) -> Option<&mut L> {
        self.groups.get_mut(id)
    }

    pub fn insert(&mut self, id: &str, group: L) {
        self.groups.insert(id.to_owned(), group);
    }

    pub fn remove(&mut self, id: &str) -> Option<L> {
        self.groups.remove(id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&String, &L)> {
        self.groups.iter()
    }

    /// May somebody come to a group that is not here? It begins with one who joins; `exists` says that the log has it.
    pub fn admit(&self, id: &str, exists: bool, epoch: i32, groups_max: usize) -> Result<(), (ErrorCode, String)> {
        match epoch {
            _ if exists => Ok(()),
            0 if self.groups.len() >= groups_max => {
                Err((ErrorCode::CoordinatorNotAvailable, "There are too many groups.".into()))
            }
            0 => Ok(()),
            _ => Err((ErrorCode::GroupIdNotFound, format!("Group {id} not found."))),
        }
    }

    /// What follows from an event of the group: it is forgotten if nothing is left to do, else its timers are set.
    pub fn settle(&mut self, id: &str) {
        let Some(group) = self.groups.get_mut(id) else { return };
        if group.is_idle() {
            self.groups.remove(id);
            return;
        }
        group.take_unwatched().iter().for_each(|member| self.watch(id, member));
        if self.looks.len() > self.looks_max {
            let groups = &self.groups;
            let queued = |id: &str, member: &str| groups.get(id)?.timers(member)?.queued;
            self.looks.retain(|Reverse((at, id, member))| queued(id, member) == Some(*at));
            self.looks_max = SLACK + 2 * self.looks.len();
        }
    }

    /// When somebody is to be looked at.
    pub fn deadline(&self) -> Option<Instant> {
        self.looks.peek().map(|Reverse((at, ..))| *at)
    }

    /// A (group, member) that is late by now.
    pub fn late(&mut self, now: Instant) -> Option<(String, String)> {
        while self.deadline().is_some_and(|at| at <= now) {
            let Reverse((at, id, member)) = self.looks.pop().expect("there is a deadline");
            let timers = self.groups.get_mut(&id).and_then(|group| group.timers_mut(&member));
            let Some(timers) = timers.filter(|timers| timers.queued == Some(at)) else { continue };
            timers.queued = None;
            if timers.next().is_some_and(|next| next <= now) {
                return Some((id, member));
            }
            self.watch(&id, &member);
        }
        None
    }

    /// Deadlines mostly move away: the earlier look is kept, and finds the later one then.
    fn watch(&mut self, id: &str, member: &str) {
        let Some(timers) = self.groups.get_mut(id).and_then(|group| group.timers_mut(member)) else { return };
        if let Some(next) = timers.next() {
            timers.queued = Some(next);
            self.looks.push(Reverse((next, id.to_owned(), member.to_owned())));
        }
    }
}
