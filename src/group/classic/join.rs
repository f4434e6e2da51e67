use bytes::Bytes;

use crate::group::classic::ask::{Join, Reply, Waiter};
use crate::group::classic::coordinator::{NEW_MEMBER_JOIN_TIMEOUT, Then, Turn};
use crate::group::classic::live::{GroupState, Live, Member};
use crate::protocol::ErrorCode;
use crate::shard::group::Change;

/// A static member that came back with no id while its group was stable: what to do when the log knows of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Replaced {
    instance: String,
    old_id: String,
    new_id: String,
    old_leader: Option<String>,
    old_protocols: Vec<(String, Bytes)>,
    old_timeouts: (std::time::Duration, std::time::Duration),
    can_skip_assignment: bool,
}

impl Turn<'_> {
    pub fn join(&mut self, group: &mut Live, join: Join, waiter: Waiter) {
        if !self.accepts(group, &join) {
            group.remove(&join.member);
            return self.refuse(waiter, ErrorCode::GroupMaxSizeReached, "");
        }
        if !group.supports(&join.protocol_type, &join.protocols) {
            return self.refuse(waiter, ErrorCode::InconsistentGroupProtocol, &join.member);
        }
        if !join.member.is_empty() {
            return self.join_known(group, join, waiter);
        }
        let named = join.instance.as_ref().unwrap_or(&join.client_id);
        let id = format!("{named}-{}", join.unique);
        let former = join.instance.as_ref().and_then(|instance| group.statics.get(instance)).cloned();
        match former {
            Some(old_id) => self.replace(group, join, &old_id, id, waiter),
            None if join.instance.is_none() && join.id_required => {
                group.pending.insert(id.clone(), self.now + join.session_timeout);
                self.refuse(waiter, ErrorCode::MemberIdRequired, &id);
            }
            None => self.add(group, join, id, waiter),
        }
    }

    /// There is room for one more.
    fn accepts(&self, group: &Live, join: &Join) -> bool {
        let known = group.members.get(&join.member);
        let bytes = join.protocols.iter().map(|(_, metadata)| metadata.len()).sum::<usize>();
        if group.metadata_bytes() + bytes > self.settings.metadata_bytes_max {
            return false;
        }
        // Whoever has an id already is one of those who are waited for.
        let promised = if join.member.is_empty() { group.pending.len() } else { 0 };
        match group.state {
            // Those who have joined count: so the last to rejoin is left out when the limit was lowered.
            GroupState::PreparingRebalance => {
                known.is_some_and(|member| member.joining.is_some())
                    || group.awaiting_join() + promised < self.settings.members_max
            }
            _ => known.is_some() || group.members.len() + promised < self.settings.members_max,
        }
    }

    fn join_known(&mut self, group: &mut Live, join: Join, waiter: Waiter) {
        let id = join.member.clone();
        if group.pending.contains_key(&id) && join.instance.is_none() {
            return self.add(group, join, id, waiter);
        }
        if let Err(error) = group.validate(&id, join.instance.as_deref()) {
            return self.refuse(waiter, error, &id);
        }
        let changed = group.members[&id].protocols != join.protocols;
        let rejoins = match group.state {
            GroupState::PreparingRebalance => true,
            // It may have missed the answer to its first join.
            GroupState::CompletingRebalance => changed,
            // By joining again, a leader asks for a new assignment, as when topics have changed.
            GroupState::Stable => changed || group.is_leader(&id),
            GroupState::Empty => return self.refuse(waiter, ErrorCode::UnknownMemberId, &id),
        };
        if rejoins {
            self.update(group, &id, &join, Some(waiter));
            self.rebalance_or_complete(group);
        } else {
            let mut answer = group.join_answer(&id);
            if group.state == GroupState::Stable {
                answer.members.clear();
            }
            self.answer(waiter, Reply::Joined(answer));
        }
    }

    fn add(&mut self, group: &mut Live, join: Join, id: String, waiter: Waiter) {
        if group.members.is_empty() {
            group.protocol_type = Some(join.protocol_type);
        }
        if let Some(initial) = group.join_timer.as_mut().and_then(|timer| timer.initial.as_mut()) {
            initial.new_member_added = true;
        }
        let member = Member {
            instance: join.instance,
            client_id: join.client_id,
            client_host: join.client_host,
            rebalance_timeout: join.rebalance_timeout,
            session_timeout: join.session_timeout,
            protocols: join.protocols,
            assignment: Bytes::new(),
            joining: Some(waiter),
            syncing: None,
            is_new: true,
            deadline: Some(self.now + NEW_MEMBER_JOIN_TIMEOUT),
        };
        group.add(id, member);
        self.rebalance_or_complete(group);
    }

    /// What the member says of itself now.
    fn update(&mut self, group: &mut Live, id: &str, join: &Join, waiter: Option<Waiter>) {
        let Some(member) = group.members.get_mut(id) else { return };
        member.protocols = join.protocols.clone();
        member.rebalance_timeout = join.rebalance_timeout;
        member.session_timeout = join.session_timeout;
        if let Some(earlier) = std::mem::replace(&mut member.joining, waiter) {
            // Its client has given up that request.
            self.refuse(earlier, ErrorCode::RebalanceInProgress, id);
        }
    }

    /// A static member starts anew: it takes its former self's place, assignment included, and the former is fenced.
    fn replace(&mut self, group: &mut Live, join: Join, old_id: &str, new_id: String, waiter: Waiter) {
        let Some(instance) = join.instance.clone() else { return };
        let old_leader = group.leader.clone();
        self.rename(group, &instance, old_id, &new_id, ErrorCode::FencedInstanceId);
        let Some(member) = group.members.get(&new_id) else { return };
        let old_protocols = member.protocols.clone();
        let old_timeouts = (member.rebalance_timeout, member.session_timeout);
        self.update(group, &new_id, &join, Some(waiter));
        group.renew_session(&new_id, self.now);
        match group.state {
            GroupState::Stable if group.select_protocol() == group.protocol_name => {
                let saved = group.to_saved(|_, member| member.assignment.clone());
                let replaced = Replaced {
                    instance,
                    old_id: old_id.to_owned(),
                    new_id,
                    old_leader,
                    old_protocols,
                    old_timeouts,
                    can_skip_assignment: join.can_skip_assignment,
                };
                self.propose(group, Change::Save(saved), Then::Replaced(Box::new(replaced)));
            }
            // The leader may be assigning to the former one.
            GroupState::Stable | GroupState::CompletingRebalance => self.rebalance_or_complete(group),
            GroupState::PreparingRebalance | GroupState::Empty => self.maybe_complete_join(group),
        }
    }

    fn rename(&mut self, group: &mut Live, instance: &str, from: &str, to: &str, fence: ErrorCode) {
        let Some(mut member) = group.members.remove(from) else { return };
        if let Some(waiter) = member.joining.take() {
            self.refuse(waiter, fence, from);
        }
        if let Some(waiter) = member.syncing.take() {
            self.fail(waiter, fence);
        }
        member.is_new = false;
        if group.is_leader(from) {
            group.leader = Some(to.to_owned());
        }
        if group.pending_sync.remove(from) {
            group.pending_sync.insert(to.to_owned());
        }
        group.statics.insert(instance.to_owned(), to.to_owned());
        group.members.insert(to.to_owned(), member);
    }

    pub fn replaced(&mut self, group: &mut Live, replaced: Replaced, decided: Result<(), ErrorCode>) {
        let Replaced { instance, old_id, new_id, old_leader, .. } = replaced;
        if group.statics.get(&instance) != Some(&new_id) {
            return;
        }
        let waiter = group.members.get_mut(&new_id).and_then(|member| member.joining.take());
        if let Err(error) = decided {
            self.rename(group, &instance, &new_id, &old_id, error);
            if let Some(member) = group.members.get_mut(&old_id) {
                member.protocols = replaced.old_protocols;
                (member.rebalance_timeout, member.session_timeout) = replaced.old_timeouts;
            }
            group.renew_session(&old_id, self.now);
            waiter.into_iter().for_each(|waiter| self.refuse(waiter, error, ""));
            return;
        }
        let Some(waiter) = waiter else { return };
        let mut answer = group.join_answer(&new_id);
        if replaced.can_skip_assignment {
            // The members' assignments stand: the leader is told of them so that it knows the group, not to assign.
            answer.skip_assignment = group.is_leader(&new_id);
        } else {
            // A client that cannot skip is told that another leads, so that it does not assign.
            answer.leader = old_leader.unwrap_or_default();
            answer.members.clear();
        }
        self.answer(waiter, Reply::Joined(answer));
    }

    pub fn refuse(&mut self, waiter: Waiter, error: ErrorCode, member: &str) {
        self.answer(waiter, Reply::JoinFailed { error, member: member.to_owned() });
    }
}
