use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::group::consumer::ask::{Described, MemberDescribed};
use crate::group::consumer::assignor::Assignor;
use crate::group::consumer::coordinator::Settings;
use crate::group::consumer::reconcile::each;
use crate::group::consumer::saving::Parts;
use crate::group::consumer::target::Resolved;
use crate::group::keeper::{Kept, Timers};
use crate::group::saving::Saving;
use crate::shard::Slot;
use crate::shard::group::{Assignment, Consumer, Current, MemberState, Who};
use crate::types::Partition;

/// A group with members, or with changes on their way to the log.
#[derive(Debug)]
pub(super) struct Live {
    pub slot: Slot,
    pub revision: u64,
    pub epoch: i32,
    pub assignment_epoch: i32,
    pub topics_digest: u32,
    pub members: BTreeMap<String, Member>,
    /// Instance → member.
    pub statics: BTreeMap<String, String>,
    /// Partitions that some member has, or has not let go of.
    owned: HashSet<Partition>,
    /// What the subscriptions mean, as of some version of the topics.
    pub resolved: Resolved,
    pub saving: Saving<Parts>,
    /// How many members speak this protocol, not the classic one.
    modern: usize,
    /// Members whose timers the coordinator does not look at in time yet.
    unwatched: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct Member {
    pub who: Who,
    pub target: Assignment,
    pub current: Current,
    pub timers: Timers,
}

impl Member {
    pub fn rebalance_timeout(&self) -> Duration {
        millis(self.who.rebalance_timeout_ms)
    }
}

impl Kept for Live {
    fn is_idle(&self) -> bool {
        self.members.is_empty() && self.saving.is_idle()
    }

    fn timers(&self, member: &str) -> Option<&Timers> {
        self.members.get(member).map(|member| &member.timers)
    }

    fn timers_mut(&mut self, member: &str) -> Option<&mut Timers> {
        self.members.get_mut(member).map(|member| &mut member.timers)
    }

    fn take_unwatched(&mut self) -> Vec<String> {
        std::mem::take(&mut self.unwatched)
    }
}

impl Live {
    pub fn new(slot: Slot) -> Live {
        Live {
            slot,
            revision: 0,
            epoch: 0,
            assignment_epoch: 0,
            topics_digest: 0,
            members: BTreeMap::new(),
            statics: BTreeMap::new(),
            owned: HashSet::new(),
            resolved: Resolved::default(),
            saving: Saving::default(),
            modern: 0,
            unwatched: Vec::new(),
        }
    }

    /// As the log has it. Members get a whole session: nobody knows how long they have been silent.
    pub fn load(slot: Slot, consumer: &Consumer, session_timeout: Duration, now: Instant) -> Live {
        let mut live = Live::new(slot);
        live.revision = consumer.revision;
        live.epoch = consumer.epoch;
        live.assignment_epoch = consumer.assignment_epoch;
        live.topics_digest = consumer.topics_digest;
        for (id, saved) in &consumer.members {
            let (who, target) = (saved.who.clone(), saved.target.clone());
            who.instance.iter().for_each(|instance| drop(live.statics.insert(instance.clone(), id.clone())));
            live.modern += usize::from(who.classic.is_none());
            live.members.insert(id.clone(), Member { who, target, ..Member::default() });
            live.own(id, saved.current.clone());
            live.renew_session(id, session_timeout, now);
            live.watch_revocation(id, now);
        }
        live
    }

    pub fn is_free(&self, partition: &Partition) -> bool {
        !self.owned.contains(partition)
    }

    pub fn set_who(&mut self, id: &str, who: Who) {
        let Some(member) = self.members.get_mut(id).filter(|member| member.who != who) else { return };
        who.instance.iter().for_each(|instance| drop(self.statics.insert(instance.clone(), id.to_owned())));
        self.modern -= usize::from(member.who.classic.is_none());
        self.modern += usize::from(who.classic.is_none());
        member.who = who;
        self.saving.touch_member(id).who = true;
    }

    pub fn set_target(&mut self, id: &str, target: Assignment) {
        let Some(member) = self.members.get_mut(id).filter(|member| member.target != target) else { return };
        member.target = target;
        self.saving.touch_member(id).target = true;
    }

    /// True if anything is different.
    pub fn set_current(&mut self, id: &str, current: Current) -> bool {
        let changes = self.members.get(id).is_some_and(|member| member.current != current);
        if changes {
            self.own(id, current);
            self.saving.touch_member(id).current = true;
        }
        changes
    }

    fn own(&mut self, id: &str, current: Current) {
        let Some(member) = self.members.get_mut(id) else { return };
        release(&mut self.owned, &member.current);
        for partition in partitions(&current) {
            let is_new = self.owned.insert(partition);
            debug_assert!(is_new, "{partition:?} has two owners");
        }
        member.current = current;
    }

    pub fn add(&mut self, id: &str, member: Member) {
        self.modern += usize::from(member.who.classic.is_none());
        member.who.instance.iter().for_each(|instance| drop(self.statics.insert(instance.clone(), id.to_owned())));
        self.members.insert(id.to_owned(), Member { current: Current::default(), ..member });
        *self.saving.touch_member(id) = Parts { who: true, target: true, current: true };
        self.own(id, member.current);
    }

    /// Its partitions are free.
    pub fn remove(&mut self, id: &str) -> Option<Member> {
        let member = self.members.remove(id)?;
        self.modern -= usize::from(member.who.classic.is_none());
        release(&mut self.owned, &member.current);
        if let Some(instance) = &member.who.instance
            && self.statics.get(instance).is_some_and(|of| of == id)
        {
            self.statics.remove(instance);
        }
        self.saving.touch_member(id);
        Some(member)
    }

    /// A static member has come back under another id: it goes on where it was.
    pub fn replace(&mut self, former: &str, id: &str) {
        if let Some(member) = self.remove(former) {
            let current = Current { epoch: 0, previous_epoch: 0, ..member.current };
            self.add(id, Member { current, timers: Timers::default(), ..member });
        }
    }

    pub fn set_epoch(&mut self, epoch: i32) {
        self.epoch = epoch;
        self.saving.touch();
    }

    pub fn renew_session(&mut self, id: &str, session_timeout: Duration, now: Instant) {
        if let Some(member) = self.members.get_mut(id) {
            let own = member.who.classic.as_ref().map(|classic| millis(classic.session_timeout_ms));
            member.timers.session = Some(now + own.unwrap_or(session_timeout));
            self.watch(id);
        }
    }

    /// Whoever is to let go of partitions has as long as it has asked for.
    pub fn watch_revocation(&mut self, id: &str, now: Instant) {
        let Some(member) = self.members.get_mut(id).filter(|member| member.who.classic.is_none()) else { return };
        let is_due = member.current.state == MemberState::Unrevoked && member.current.epoch >= 0;
        member.timers.step = is_due.then_some(now + member.rebalance_timeout());
        self.watch(id);
    }

    pub fn watch(&mut self, id: &str) {
        if self.members.get(id).is_some_and(|member| !member.timers.is_watched()) {
            self.unwatched.push(id.to_owned());
        }
    }

    /// There is somebody, and all speak the classic protocol, apart from this one.
    pub fn is_classic_but(&self, one: Option<&str>, settings: &Settings) -> bool {
        let others = self.members.len() - one.iter().filter(|id| self.members.contains_key(**id)).count();
        let is_modern = |id: &str| self.members.get(id).is_some_and(|member| member.who.classic.is_none());
        let modern = self.modern - usize::from(one.is_some_and(is_modern));
        settings.downgrades && (1..=settings.classic_members_max).contains(&others) && modern == 0
    }

    /// Kafka's name of the state (`ConsumerGroup.maybeUpdateGroupState`).
    pub fn state(&self) -> &'static str {
        let is_there = |member: &Member| {
            member.current.state == MemberState::Stable && member.current.epoch == self.assignment_epoch
        };
        match () {
            () if self.members.is_empty() => EMPTY,
            () if self.epoch > self.assignment_epoch => "Assigning",
            () if self.members.values().all(is_there) => "Stable",
            () => "Reconciling",
        }
    }

    /// What most members prefer, else this (Kafka: `computePreferredServerAssignor`).
    pub fn assignor(&self, default: Assignor) -> Assignor {
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        let preferred = self.members.values().filter_map(|member| member.who.assignor.as_deref());
        preferred.for_each(|name| *votes.entry(name).or_default() += 1);
        let most = votes.into_iter().max_by_key(|(_, votes)| *votes);
        most.and_then(|(name, _)| Assignor::named(name)).unwrap_or(default)
    }

    pub fn is_subscribed_to(&self, topic: &str) -> bool {
        self.members.values().any(|member| {
            let by_pattern = || member.who.pattern.as_ref().is_some_and(|p| self.resolved.matches(p, topic));
            member.who.topics.contains(topic) || by_pattern()
        })
    }

    pub fn described(&self, default: Assignor) -> Described {
        let members = self.members.iter().map(|(id, member)| MemberDescribed {
            id: id.clone(),
            who: member.who.clone(),
            current: member.current.clone(),
            target: member.target.clone(),
        });
        Described {
            state: self.state(),
            epoch: self.epoch,
            assignment_epoch: self.assignment_epoch,
            assignor: self.assignor(default).name(),
            members: members.collect(),
        }
    }
}

fn millis(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

pub(super) const EMPTY: &str = "Empty";

fn partitions(current: &Current) -> impl Iterator<Item = Partition> {
    each(&current.assigned).chain(each(&current.revoking)).map(|(topic, index)| Partition { topic, index })
}

fn release(owned: &mut HashSet<Partition>, current: &Current) {
    for partition in partitions(current) {
        owned.remove(&partition);
    }
}
