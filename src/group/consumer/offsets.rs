//! Committed offsets of such groups, and their end.

use std::collections::HashMap;

use tokio::time::Instant;

use crate::group::classic::{self, Caller, Commit, InTransaction, Waiter};
use crate::group::consumer::coordinator::{Coordinator, Then};
use crate::group::consumer::live::Live;
use crate::group::{Reply as AnyReply, Undecided, View};
use crate::protocol::ErrorCode;
use crate::shard::Slot;
use crate::shard::group::{Change, Committed, Group};
use crate::types::{Partition, TopicId};

impl Live {
    pub fn validate_epoch(&self, member: &str, epoch: i32) -> Result<(), ErrorCode> {
        let member = self.members.get(member).ok_or(ErrorCode::UnknownMemberId)?;
        (epoch == member.current.epoch).then_some(()).ok_or(ErrorCode::StaleMemberEpoch)
    }

    /// A tool may while nobody is there (Kafka: `ConsumerGroup.validateOffsetCommit`).
    fn may_commit(&self, commit: &Commit) -> Result<(), ErrorCode> {
        let caller = &commit.caller;
        if caller.generation < 0 && self.members.is_empty() {
            return Ok(());
        }
        if commit.transaction.is_some() {
            return self.may_commit_in_transaction(caller);
        }
        if let Some(member) = self.members.get(&caller.member).filter(|member| member.who.classic.is_some()) {
            return self.validate_classic(member, caller.generation);
        }
        let allowed = self.validate_epoch(&caller.member, caller.generation);
        match commit.knows_group_id_not_found || allowed == Err(ErrorCode::UnknownMemberId) {
            true => allowed,
            // Clients of this protocol know that version.
            false => Err(ErrorCode::UnsupportedVersion),
        }
    }
}

impl Live {
    /// A producer that commits for a group need not be a member: then it does not say that it is (KIP-447). Producers know
    /// no stale epochs, only generations.
    fn may_commit_in_transaction(&self, caller: &Caller) -> Result<(), ErrorCode> {
        match caller.generation < 0 && caller.member.is_empty() && caller.instance.is_none() {
            true => Ok(()),
            false => self.validate_epoch(&caller.member, caller.generation).map_err(|error| match error {
                ErrorCode::StaleMemberEpoch => ErrorCode::IllegalGeneration,
                error => error,
            }),
        }
    }
}

impl Coordinator {
    /// What is asked of any kind of group, or in the words of the classic protocol: of a group of this kind.
    pub fn ask_classic(
        &mut self,
        now: Instant,
        view: &dyn View,
        (slot, id): (Slot, &str),
        ask: classic::Ask,
        waiter: Waiter,
    ) {
        let done = Then::Answer(waiter, AnyReply::Classic(classic::Reply::Done));
        match ask {
            classic::Ask::Commit(commit) => {
                let empty = Live::new(slot);
                let allowed = self.live(id).unwrap_or(&empty).may_commit(&commit);
                match allowed {
                    Err(error) => self.fail(waiter, error),
                    Ok(()) if commit.offsets.is_empty() => {
                        self.answer(waiter, AnyReply::Classic(classic::Reply::Done));
                    }
                    Ok(()) => {
                        let offsets = commit.offsets;
                        let change = match commit.transaction {
                            None => Change::Commit { retention_ms: commit.retention_ms, offsets },
                            Some(InTransaction { producer, txn_no }) => {
                                Change::TransactionalCommit { producer, txn_no, offsets }
                            }
                        };
                        self.propose(slot, id, change, done);
                    }
                }
            }
            classic::Ask::DeleteGroup if self.has(id) => self.fail(waiter, ErrorCode::NonEmptyGroup),
            classic::Ask::DeleteGroup => self.propose(slot, id, Change::Delete, done),
            classic::Ask::DeleteOffsets(offsets) => self.delete_offsets(slot, id, &offsets, waiter),
            classic::Ask::Describe => self.answer(waiter, AnyReply::Classic(classic::Reply::NotClassic)),
            classic::Ask::Join(join) => self.turn(now, view, id, |turn, group| turn.join(group, join, waiter)),
            classic::Ask::Sync(_) | classic::Ask::Heartbeat(_) if !self.has(id) => {
                self.fail(waiter, ErrorCode::UnknownMemberId);
            }
            classic::Ask::Sync(sync) => self.turn(now, view, id, |turn, group| turn.sync(group, sync, waiter)),
            classic::Ask::Heartbeat(caller) => {
                self.turn(now, view, id, |turn, group| turn.heartbeat(group, &caller, waiter));
            }
            classic::Ask::Leave(leavers) if self.has(id) => {
                self.turn(now, view, id, |turn, group| turn.leave_classic(group, &leavers, waiter));
            }
            classic::Ask::Leave(leavers) => {
                let each = classic::Reply::Each(vec![ErrorCode::UnknownMemberId; leavers.len()]);
                self.answer(waiter, AnyReply::Classic(each));
            }
        }
    }

    fn delete_offsets(&mut self, slot: Slot, id: &str, offsets: &[(String, Partition)], waiter: Waiter) {
        let live = self.live(id);
        let each = offsets.iter().map(|(topic, _)| match live.is_some_and(|live| live.is_subscribed_to(topic)) {
            true => ErrorCode::GroupSubscribedToTopic,
            false => ErrorCode::None,
        });
        let each: Vec<ErrorCode> = each.collect();
        let free = offsets.iter().zip(&each).filter(|(_, code)| **code == ErrorCode::None);
        let mut partitions: Vec<Partition> = free.map(|((_, partition), _)| *partition).collect();
        let reply = AnyReply::Classic(classic::Reply::Each(each));
        if partitions.is_empty() {
            return self.answer(waiter, reply);
        }
        partitions.sort_unstable();
        let change = Change::DeleteOffsets { partitions, until_ms: u64::MAX };
        self.propose(slot, id, change, Then::Answer(waiter, reply));
    }

    /// Proposes to forget what nobody needs any more: here offsets grow old from their commit on, while nobody is
    /// subscribed to their topic. `names` are those of the topics that exist.
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
            let subscribed = |partition: &Partition| {
                let name = names.get(&partition.topic);
                live.is_some_and(|live| name.is_some_and(|name| live.is_subscribed_to(name)))
            };
            let is_old = |committed: &Committed| {
                committed.at_ms.saturating_add(committed.retention_ms.unwrap_or(retention_ms)) <= clock_ms
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
