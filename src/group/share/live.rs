use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::group::keeper::{Kept, Timers};
use crate::group::saving::Saving;
use crate::group::share::assignor::{Subscriber, assign};
use crate::group::share::{Described, MemberDescribed};
use crate::group::view::{self, View};
use crate::shard::Slot;
use crate::shard::group::{Assignment, Epochs, Share, ShareMember, ShareWho};
use crate::types::TopicId;

/// A group with members, or with changes on their way to the log.
#[derive(Debug)]
pub(super) struct Live {
    pub slot: Slot,
    pub revision: u64,
    pub epoch: i32,
    pub assignment_epoch: i32,
    pub topics_digest: u32,
    pub members: BTreeMap<String, Member>,
    /// Topics subscribed to that there are, and of which version of the view; 0 before they were looked up.
    topics: BTreeMap<String, (TopicId, i32)>,
    topics_version: u64,
    pub saving: Saving<Parts>,
    /// Members whose sessions the coordinator does not look at in time yet.
    unwatched: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct Member {
    pub saved: ShareMember,
    /// Of its session alone.
    pub timers: Timers,
}

/// What of a member the log does not have yet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Parts {
    pub who: bool,
    pub epochs: bool,
    pub assigned: bool,
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
            topics: BTreeMap::new(),
            topics_version: 0,
            saving: Saving::default(),
            unwatched: Vec::new(),
        }
    }

    /// As the log has it. Members get a whole session: nobody knows how long they have been silent.
    pub fn load(slot: Slot, share: &Share, session_timeout: Duration, now: Instant) -> Live {
        let mut live = Live::new(slot);
        live.revision = share.revision;
        live.epoch = share.epoch;
        live.assignment_epoch = share.assignment_epoch;
        live.topics_digest = share.topics_digest;
        for (id, saved) in &share.members {
            live.members.insert(id.clone(), Member { saved: ShareMember::clone(saved), ..Member::default() });
            live.renew_session(id, session_timeout, now);
        }
        live
    }

    pub fn add(&mut self, id: &str) {
        self.members.insert(id.to_owned(), Member::default());
        *self.saving.touch_member(id) = Parts { who: true, epochs: true, assigned: true };
    }

    pub fn remove(&mut self, id: &str) {
        if self.members.remove(id).is_some() {
            self.saving.touch_member(id);
        }
    }

    /// True if the member is subscribed to something else than before.
    pub fn set_who(&mut self, id: &str, who: ShareWho) -> bool {
        let Some(member) = self.members.get_mut(id).filter(|member| member.saved.who != who) else { return false };
        let changed = member.saved.who.topics != who.topics;
        member.saved.who = who;
        self.saving.touch_member(id).who = true;
        changed
    }

    /// Brings a member to the epoch that partitions are assigned for.
    pub fn bring_up(&mut self, id: &str) {
        let now = self.assignment_epoch;
        let Some(member) = self.members.get_mut(id).filter(|member| member.saved.epochs.now != now) else { return };
        member.saved.epochs = Epochs { now, before: member.saved.epochs.now };
        self.saving.touch_member(id).epochs = true;
    }

    pub fn set_epoch(&mut self, epoch: i32) {
        self.epoch = epoch;
        self.saving.touch();
    }

    pub fn renew_session(&mut self, id: &str, session_timeout: Duration, now: Instant) {
        let Some(member) = self.members.get_mut(id) else { return };
        member.timers.session = Some(now + session_timeout);
        if !member.timers.is_watched() {
            self.unwatched.push(id.to_owned());
        }
    }

    pub fn has_newest(&self, view: &dyn View) -> bool {
        self.topics_version == view.version()
    }

    /// Looks the subscriptions up. True if the topics are other ones, or have other partitions, than when the group's
    /// epoch last grew.
    pub fn resolve(&mut self, view: &dyn View) -> bool {
        let names: BTreeSet<&String> = self.members.values().flat_map(|member| &member.saved.who.topics).collect();
        self.topics = names.into_iter().filter_map(|name| Some((name.clone(), view.topic(name)?))).collect();
        self.topics_version = view.version();
        let digest = view::digest(&self.topics);
        let changed = digest != self.topics_digest;
        if changed {
            self.topics_digest = digest;
            self.saving.touch();
        }
        changed
    }

    /// Deals the partitions out for the group's epoch.
    pub fn assign(&mut self) {
        let topics = &self.topics;
        let members: Vec<Subscriber> = self
            .members
            .values()
            .map(|Member { saved, .. }| Subscriber {
                topics: saved.who.topics.iter().filter_map(|name| Some(topics.get(name)?.0)).collect(),
                before: &saved.assigned,
            })
            .collect();
        let assignments = assign(&members, &topics.values().copied().collect());
        for ((id, member), assigned) in self.members.iter_mut().zip(assignments) {
            if member.saved.assigned != assigned {
                member.saved.assigned = assigned;
                self.saving.touch_member(id).assigned = true;
            }
        }
        self.assignment_epoch = self.epoch;
        self.saving.touch();
    }

    pub fn assignment(&self, id: &str) -> Assignment {
        self.members.get(id).map(|member| member.saved.assigned.clone()).unwrap_or_default()
    }

    /// Kafka's name of the state (`ShareGroup.maybeUpdateGroupState`).
    pub fn state(&self) -> &'static str {
        if self.members.is_empty() { EMPTY } else { "Stable" }
    }

    pub fn described(&self) -> Described {
        let members =
            self.members.iter().map(|(id, member)| MemberDescribed { id: id.clone(), member: member.saved.clone() });
        Described {
            state: self.state(),
            epoch: self.epoch,
            assignment_epoch: self.assignment_epoch,
            members: members.collect(),
        }
    }
}

pub(super) const EMPTY: &str = "Empty";
