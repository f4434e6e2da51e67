use std::time::Duration;

use bytes::Bytes;

use crate::group::classic::ask::{Leaver, Reply, Waiter};
use crate::group::classic::coordinator::{Then, Turn};
use crate::group::classic::live::{GroupState, InitialDelay, JoinTimer, Live, Member};
use crate::protocol::ErrorCode;
use crate::shard::group::Change;

/// A group of static members that are all away is looked at again after this at the earliest.
const REJOIN_WAIT_MIN: Duration = Duration::from_secs(1);

impl Turn<'_> {
    pub fn rebalance_or_complete(&mut self, group: &mut Live) {
        match group.state {
            GroupState::PreparingRebalance => self.maybe_complete_join(group),
            _ => self.prepare_rebalance(group),
        }
    }

    pub fn prepare_rebalance(&mut self, group: &mut Live) {
        if group.state == GroupState::CompletingRebalance {
            // Those who wait for their assignment have to join again.
            self.fail_syncs(group, ErrorCode::RebalanceInProgress);
        }
        self.end_sync(group);
        let is_initial = group.state == GroupState::Empty;
        group.state = GroupState::PreparingRebalance;
        if is_initial {
            // Members of a new group start at about the same time.
            let delay = self.settings.initial_rebalance_delay;
            let remaining = group.rebalance_timeout().saturating_sub(delay);
            let initial = InitialDelay { delay, remaining, new_member_added: false };
            group.join_timer = Some(JoinTimer { at: self.now + delay, initial: Some(initial) });
            if delay.is_zero() {
                self.join_is_late(group);
            }
        } else if group.has_all_joined() {
            self.complete_join(group);
        } else {
            group.join_timer = Some(JoinTimer { at: self.now + group.rebalance_timeout(), initial: None });
        }
    }

    /// Unless the group is new: then only its timer ends the join.
    pub fn maybe_complete_join(&mut self, group: &mut Live) {
        let is_initial = group.join_timer.is_some_and(|timer| timer.initial.is_some());
        if group.state == GroupState::PreparingRebalance && !is_initial && group.has_all_joined() {
            self.complete_join(group);
        }
    }

    fn complete_join(&mut self, group: &mut Live) {
        group.join_timer = None;
        // Static members may be away for as long as their session lasts.
        let gone = |(id, m): (&String, &Member)| (m.joining.is_none() && m.instance.is_none()).then(|| id.clone());
        let late: Vec<String> = group.members.iter().filter_map(gone).collect();
        late.iter().for_each(|id| drop(group.remove(id)));
        if !group.members.is_empty() && !group.elect_joined_leader() {
            let patience = group.rebalance_timeout().max(REJOIN_WAIT_MIN);
            group.join_timer = Some(JoinTimer { at: self.now + patience, initial: None });
            return;
        }
        group.generation += 1;
        group.pending_sync.clear();
        group.protocol_name = group.select_protocol();
        group.subscribed = group.subscribed_topics();
        if group.members.is_empty() {
            group.state = GroupState::Empty;
            let saved = group.to_saved(|_, _| Bytes::new());
            return self.propose(group, Change::Save(saved), Then::Emptied);
        }
        group.state = GroupState::CompletingRebalance;
        let ids: Vec<String> = group.members.keys().cloned().collect();
        for id in ids {
            let answer = group.join_answer(&id);
            let Some(member) = group.members.get_mut(&id) else { continue };
            member.is_new = false;
            let waiter = member.joining.take();
            group.renew_session(&id, self.now);
            waiter.into_iter().for_each(|waiter| self.answer(waiter, Reply::Joined(answer.clone())));
            group.pending_sync.insert(id);
        }
        group.sync_deadline = Some(self.now + group.rebalance_timeout());
    }

    /// Does what is late by now.
    pub fn expire(&mut self, group: &mut Live) {
        let now = self.now;
        let late: Vec<String> = group.pending.iter().filter(|(_, at)| **at <= now).map(|(id, _)| id.clone()).collect();
        for id in late {
            group.pending.remove(&id);
            self.maybe_complete_join_whatever(group);
        }
        let late = group.members.iter().filter(|(_, member)| member.deadline.is_some_and(|at| at <= now));
        let late: Vec<String> = late.map(|(id, _)| id.clone()).collect();
        for id in late {
            // What became of the others may have given this one more time.
            let due = |member: &&mut Member| member.deadline.is_some_and(|at| at <= now);
            let Some(member) = group.members.get_mut(&id).filter(due) else { continue };
            member.deadline = None;
            if !member.is_excused() {
                tracing::info!(group = self.id, member = id, "a member was silent for its session");
                self.remove(group, &id);
                self.after_removal(group);
            }
        }
        if group.join_timer.is_some_and(|timer| timer.at <= now) {
            self.join_is_late(group);
        }
        if group.sync_deadline.is_some_and(|at| at <= now) {
            group.sync_deadline = None;
            let late = std::mem::take(&mut group.pending_sync);
            if !late.is_empty() {
                late.iter().for_each(|id| drop(group.remove(id)));
                self.prepare_rebalance(group);
            }
        }
    }

    fn join_is_late(&mut self, group: &mut Live) {
        let Some(timer) = group.join_timer else { return };
        match timer.initial {
            Some(initial) if initial.new_member_added && !initial.remaining.is_zero() => {
                let delay = self.settings.initial_rebalance_delay.min(initial.remaining);
                let remaining = initial.remaining.saturating_sub(initial.delay);
                let initial = InitialDelay { delay, remaining, new_member_added: false };
                group.join_timer = Some(JoinTimer { at: self.now + delay, initial: Some(initial) });
            }
            _ => self.complete_join(group),
        }
    }

    /// A member or an id that was waited for has gone. A new group that nobody is left in need not wait either.
    fn maybe_complete_join_whatever(&mut self, group: &mut Live) {
        if group.state == GroupState::PreparingRebalance && group.has_all_joined() {
            self.complete_join(group);
        }
    }

    /// Whoever waits for the member's join is told, and tries again if it is still there.
    fn remove(&mut self, group: &mut Live, id: &str) {
        let Some(member) = group.remove(id) else { return };
        member.joining.into_iter().for_each(|waiter| self.refuse(waiter, ErrorCode::UnknownMemberId, ""));
        member.syncing.into_iter().for_each(|waiter| self.fail(waiter, ErrorCode::UnknownMemberId));
    }

    fn after_removal(&mut self, group: &mut Live) {
        match group.state {
            GroupState::Stable | GroupState::CompletingRebalance => self.prepare_rebalance(group),
            GroupState::PreparingRebalance => self.maybe_complete_join_whatever(group),
            GroupState::Empty => {}
        }
    }

    pub fn leave(&mut self, group: &mut Live, leavers: &[Leaver], waiter: Waiter) {
        let mut each = Vec::with_capacity(leavers.len());
        for leaver in leavers {
            each.push(match self.leave_one(group, leaver) {
                Ok(()) => ErrorCode::None,
                Err(error) => error,
            });
        }
        if each.contains(&ErrorCode::None) {
            match group.state {
                GroupState::Stable | GroupState::CompletingRebalance => self.prepare_rebalance(group),
                GroupState::PreparingRebalance | GroupState::Empty => self.maybe_complete_join(group),
            }
        }
        self.answer(waiter, Reply::Each(each));
    }

    /// Tools remove static members by their instance alone.
    fn leave_one(&mut self, group: &mut Live, leaver: &Leaver) -> Result<(), ErrorCode> {
        let instance = leaver.instance.as_deref();
        let id = match leaver.member.as_str() {
            "" => instance.and_then(|i| group.statics.get(i)).cloned().ok_or(ErrorCode::UnknownMemberId)?,
            id if group.pending.remove(id).is_some() => return Ok(()),
            id => {
                group.validate(id, instance)?;
                id.to_owned()
            }
        };
        self.remove(group, &id);
        Ok(())
    }
}
