use std::collections::BTreeMap;

use bytes::Bytes;

use crate::group::classic::ask::{Caller, Reply, Sync, Waiter};
use crate::group::classic::coordinator::{Then, Turn};
use crate::group::classic::live::{GroupState, Live, Member};
use crate::protocol::ErrorCode;
use crate::shard::group::{Change, Classic};

impl Turn<'_> {
    pub fn sync(&mut self, group: &mut Live, sync: Sync, waiter: Waiter) {
        if let Err(error) = validate(group, &sync) {
            return self.fail(waiter, error);
        }
        let id = sync.caller.member;
        match group.state {
            GroupState::Empty => self.fail(waiter, ErrorCode::UnknownMemberId),
            GroupState::PreparingRebalance => self.fail(waiter, ErrorCode::RebalanceInProgress),
            GroupState::CompletingRebalance => {
                let member = group.members.get_mut(&id);
                if let Some(earlier) = member.and_then(|member| member.syncing.replace(waiter)) {
                    // Its client has given up that request.
                    self.fail(earlier, ErrorCode::RebalanceInProgress);
                }
                self.has_synced(group, &id);
                if group.is_leader(&id) {
                    self.save(group, sync.assignments);
                }
            }
            GroupState::Stable => {
                self.has_synced(group, &id);
                let assignment = group.members[&id].assignment.clone();
                self.answer(waiter, synced(group, assignment));
            }
        }
    }

    fn save(&mut self, group: &mut Live, assignments: Vec<(String, Bytes)>) {
        let assignments: BTreeMap<String, Bytes> = assignments.into_iter().collect();
        let saved = group.to_saved(|id, _: &Member| assignments.get(id).cloned().unwrap_or_default());
        let then = Then::Assign { generation: group.generation, saved: Box::new(saved.clone()) };
        self.propose(group, Change::Save(saved), then);
    }

    /// The log has the assignments of this generation, or will not have them.
    pub fn assign(&mut self, group: &mut Live, generation: i32, saved: &Classic, decided: Result<(), ErrorCode>) {
        if group.state != GroupState::CompletingRebalance || group.generation != generation {
            // Another rebalance has begun: those who waited were told then.
            return;
        }
        if let Err(error) = decided {
            self.fail_syncs(group, error);
            return self.prepare_rebalance(group);
        }
        group.state = GroupState::Stable;
        for saved in &saved.members {
            let Some(member) = group.members.get_mut(&saved.id) else { continue };
            member.assignment = Bytes::from(saved.assignment.clone());
            let Some(waiter) = member.syncing.take() else { continue };
            let assignment = member.assignment.clone();
            // It may have been silent while it waited.
            group.renew_session(&saved.id, self.now);
            self.answer(waiter, synced(group, assignment));
        }
    }

    pub fn fail_syncs(&mut self, group: &mut Live, error: ErrorCode) {
        let mut waiters = Vec::new();
        for member in group.members.values_mut() {
            member.assignment = Bytes::new();
            if let Some(waiter) = member.syncing.take() {
                member.deadline = Some(self.now + member.session_timeout);
                waiters.push(waiter);
            }
        }
        waiters.into_iter().for_each(|waiter| self.fail(waiter, error));
    }

    /// The group no longer waits for anybody to sync.
    pub fn end_sync(&mut self, group: &mut Live) {
        group.pending_sync.clear();
        group.sync_deadline = None;
    }

    fn has_synced(&mut self, group: &mut Live, id: &str) {
        group.pending_sync.remove(id);
        if group.pending_sync.is_empty() {
            group.sync_deadline = None;
        }
    }

    pub fn heartbeat(&mut self, group: &mut Live, caller: &Caller, waiter: Waiter) {
        if let Err(error) = group.validate_generation(caller) {
            return self.fail(waiter, error);
        }
        match group.state {
            GroupState::Empty => self.fail(waiter, ErrorCode::UnknownMemberId),
            GroupState::PreparingRebalance => {
                group.renew_session(&caller.member, self.now);
                self.fail(waiter, ErrorCode::RebalanceInProgress);
            }
            GroupState::CompletingRebalance | GroupState::Stable => {
                group.renew_session(&caller.member, self.now);
                self.answer(waiter, Reply::Done);
            }
        }
    }
}

fn validate(group: &Live, sync: &Sync) -> Result<(), ErrorCode> {
    if group.state == GroupState::Empty {
        return Err(ErrorCode::UnknownMemberId);
    }
    group.validate_generation(&sync.caller)?;
    let differs = |said: &Option<String>, is: &Option<String>| said.is_some() && said != is;
    let differ =
        differs(&sync.protocol_type, &group.protocol_type) || differs(&sync.protocol_name, &group.protocol_name);
    if differ { Err(ErrorCode::InconsistentGroupProtocol) } else { Ok(()) }
}

fn synced(group: &Live, assignment: Bytes) -> Reply {
    Reply::Synced { protocol_type: group.protocol_type.clone(), protocol_name: group.protocol_name.clone(), assignment }
}
