use std::collections::HashMap;
use tokio::time::Instant;

use crate::group::Undecided;
use crate::group::classic::ask::{Caller, Commit, InTransaction, Reply, Waiter};
use crate::group::classic::coordinator::{Coordinator, Then};
use crate::group::classic::live::{GroupState, Live};
use crate::group::classic::subscription::CONSUMER;
use crate::protocol::ErrorCode;
use crate::shard::Slot;
use crate::shard::group::{Change, Committed, Group};
use crate::types::{Partition, TopicId};

impl Coordinator {
    pub(super) fn commit(
        &mut self,
        now: Instant,
        slot: Slot,
        id: &str,
        applied: Option<&Group>,
        commit: Commit,
        waiter: Waiter,
    ) {
        let caller = &commit.caller;
        let allowed = match (self.live(id), applied) {
            (None, None) if commit.transaction.is_some() && caller.generation >= 0 => Err(ErrorCode::IllegalGeneration),
            (None, None) if caller.generation < 0 => Ok(()),
            (None, None) if commit.knows_group_id_not_found => Err(ErrorCode::GroupIdNotFound),
            (None, None) => Err(ErrorCode::IllegalGeneration),
            (None, Some(_)) => may_commit_to_empty(caller),
            (Some(group), _) if commit.transaction.is_some() => may_commit_in_transaction(group, caller),
            (Some(group), _) => may_commit(group, caller),
        };
        if let Err(error) = allowed {
            return self.answer(waiter, Reply::Failed(error));
        }
        // A commit is a sign of life.
        self.turn(now, id, |turn, group| group.renew_session(&caller.member, turn.now));
        if commit.offsets.is_empty() {
            return self.answer(waiter, Reply::Done);
        }
        let change = match commit.transaction {
            None => Change::Commit { retention_ms: commit.retention_ms, offsets: commit.offsets },
            Some(InTransaction { producer, txn_no }) => {
                Change::TransactionalCommit { producer, txn_no, offsets: commit.offsets }
            }
        };
        self.propose(slot, id, change, Then::Answer(waiter, Reply::Done));
    }

    pub(super) fn delete_group(&mut self, slot: Slot, id: &str, applied: Option<&Group>, waiter: Waiter) {
        match (self.live(id), applied) {
            (None, None) => self.answer(waiter, Reply::Failed(ErrorCode::GroupIdNotFound)),
            (Some(live), _) if live.state != GroupState::Empty => {
                self.answer(waiter, Reply::Failed(ErrorCode::NonEmptyGroup));
            }
            _ => {
                self.let_go(id);
                self.propose(slot, id, Change::Delete, Then::Answer(waiter, Reply::Done));
            }
        }
    }

    pub(super) fn delete_offsets(
        &mut self,
        slot: Slot,
        id: &str,
        applied: Option<&Group>,
        offsets: &[(String, Partition)],
        waiter: Waiter,
    ) {
        let live = self.live(id);
        let has_members = live.is_some_and(|live| live.state != GroupState::Empty);
        let is_consumer = live.is_some_and(|live| live.protocol_type.as_deref() == Some(CONSUMER));
        if live.is_none() && applied.is_none() {
            return self.answer(waiter, Reply::Failed(ErrorCode::GroupIdNotFound));
        }
        if has_members && !is_consumer {
            return self.answer(waiter, Reply::Failed(ErrorCode::NonEmptyGroup));
        }
        let subscribed = |topic: &str| has_members && live.is_some_and(|live| live.is_subscribed_to(topic));
        let each = offsets.iter().map(|(topic, _)| match subscribed(topic) {
            true => ErrorCode::GroupSubscribedToTopic,
            false => ErrorCode::None,
        });
        let each: Vec<ErrorCode> = each.collect();
        let free = offsets.iter().zip(&each).filter(|(_, code)| **code == ErrorCode::None);
        let mut partitions: Vec<Partition> = free.map(|((_, partition), _)| *partition).collect();
        if partitions.is_empty() {
            return self.answer(waiter, Reply::Each(each));
        }
        partitions.sort_unstable();
        let change = Change::DeleteOffsets { partitions, until_ms: u64::MAX };
        self.propose(slot, id, change, Then::Answer(waiter, Reply::Each(each)));
    }

    /// Proposes to forget what nobody needs any more. `names` are those of the topics that exist.
    pub fn sweep<'a>(
        &mut self,
        clock_ms: u64,
        applied: impl Iterator<Item = (Slot, &'a String, &'a Group)>,
        names: &HashMap<TopicId, String>,
        undecided: Undecided,
    ) {
        let retention_ms = u64::try_from(self.settings.offsets_retention.as_millis()).unwrap_or(u64::MAX);
        for (slot, id, group) in applied {
            let live = self.live(id);
            let Some(since) = age_base(live, group) else { continue };
            let subscribed = |partition: &Partition| {
                let name = names.get(&partition.topic);
                live.is_some_and(|live| name.is_some_and(|name| live.is_subscribed_to(name)))
            };
            let is_old = |committed: &Committed| match committed.retention_ms {
                Some(asked_ms) => committed.at_ms.saturating_add(asked_ms) <= clock_ms,
                None => since.unwrap_or(committed.at_ms).saturating_add(retention_ms) <= clock_ms,
            };
            let old = group.offsets.iter().filter(|(partition, committed)| is_old(committed) && !subscribed(partition));
            let mut old: Vec<(&Partition, &Committed)> = old.collect();
            if !old.is_empty() {
                // If the transaction is aborted, the group goes on from the one before.
                let undecided = undecided(slot, id);
                old.retain(|(partition, _)| !undecided.contains(partition));
            }
            let all = old.len() == group.offsets.len();
            if let Some(until_ms) = old.iter().map(|(_, committed)| committed.at_ms).max() {
                let partitions = old.iter().map(|(partition, _)| **partition).collect();
                self.propose(slot, id, Change::DeleteOffsets { partitions, until_ms }, Then::Swept);
            }
            if all && self.live(id).is_none() {
                self.propose(slot, id, Change::DeleteIfUnused, Then::Swept);
            }
        }
    }
}

fn may_commit_to_empty(caller: &Caller) -> Result<(), ErrorCode> {
    // A tool's, or a consumer's that assigns partitions by hand.
    if caller.generation < 0 { Ok(()) } else { Err(ErrorCode::UnknownMemberId) }
}

fn may_commit(group: &Live, caller: &Caller) -> Result<(), ErrorCode> {
    if group.state == GroupState::Empty {
        return may_commit_to_empty(caller);
    }
    group.validate_generation(caller)?;
    match group.state {
        // It knows the generation, and not yet what it is assigned.
        GroupState::CompletingRebalance => Err(ErrorCode::RebalanceInProgress),
        _ => Ok(()),
    }
}

/// A producer that commits for a group need not be a member: then it does not say that it is (KIP-447). Nor does it wait
/// for a rebalance: who reads next is told that the offset is not decided yet.
fn may_commit_in_transaction(group: &Live, caller: &Caller) -> Result<(), ErrorCode> {
    match caller.generation < 0 && caller.member.is_empty() && caller.instance.is_none() {
        true => Ok(()),
        false if group.state == GroupState::Empty => may_commit_to_empty(caller),
        false => group.validate_generation(caller),
    }
}

/// From when a group's offsets grow old: `Some(None)` from each commit. `None`: they do not, while it is so.
/// (Kafka: `ClassicGroup.offsetExpirationCondition`.)
fn age_base(live: Option<&Live>, applied: &Group) -> Option<Option<u64>> {
    match live {
        Some(live) if live.state != GroupState::Empty => {
            (live.state == GroupState::Stable && live.subscribed.is_some()).then_some(None)
        }
        // The log is not told yet that they have left: it cannot say since when.
        _ if applied.has_members() => None,
        _ => Some(applied.classic().map(|classic| classic.since_ms)),
    }
}
