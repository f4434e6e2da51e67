//! Members that speak the classic protocol in a group of this one (Kafka: `classicGroupJoinToConsumerGroup` and its like).
//! Each joins and syncs for itself: its generation is its epoch, and nobody leads.

use std::time::Duration;

use serde_bytes::ByteBuf;

use crate::group::Reply as AnyReply;
use crate::group::classic::{Caller, Join, JoinAnswer, Leaver, Reply, Sync, Waiter};
use crate::group::consumer::LEAVES_FOR_NOW;
use crate::group::consumer::coordinator::Turn;
use crate::group::consumer::embedded;
use crate::group::consumer::live::{Live, Member};
use crate::group::consumer::reconcile::each;
use crate::protocol::ErrorCode;
use crate::shard::group::{ClassicMember, MemberState, Who};
use crate::types::Partition;

const CONSUMER: &str = "consumer";

impl Turn<'_> {
    pub fn join(&mut self, group: &mut Live, join: Join, waiter: Waiter) {
        let member = join.member.clone();
        let reply = self
            .join_or_refuse(group, join)
            .unwrap_or_else(|(error, id)| Reply::JoinFailed { error, member: id.unwrap_or(member) });
        self.answer_when_saved(group, waiter, AnyReply::Classic(reply));
    }

    fn join_or_refuse(&mut self, group: &mut Live, join: Join) -> Result<Reply, (ErrorCode, Option<String>)> {
        let refused = |error| Err((error, None));
        let bytes = join.protocols.iter().map(|(_, metadata)| metadata.len()).sum::<usize>();
        let is_full = group.members.len() >= self.settings.members_max && !group.members.contains_key(&join.member);
        if is_full || group.classic_bytes() + bytes > self.settings.metadata_bytes_max {
            return refused(ErrorCode::GroupMaxSizeReached);
        }
        let metadata = join.protocols.first().map(|(_, metadata)| metadata);
        let said = metadata.and_then(|metadata| embedded::subscription(metadata, self.view));
        let Some(said) = said.filter(|_| join.protocol_type == CONSUMER && group.supports(&join)) else {
            return refused(ErrorCode::InconsistentGroupProtocol);
        };
        let id = match join.member.is_empty() {
            true => format!("{}-{}", join.instance.as_ref().unwrap_or(&join.client_id), join.unique),
            false => join.member.clone(),
        };
        if join.member.is_empty() && join.instance.is_none() && join.id_required {
            return Err((ErrorCode::MemberIdRequired, Some(id)));
        }
        let is_new = find_or_add(group, &join, &id).map_err(|error| (error, None))?;
        let was = &group.members[&id].who;
        let millis = |time: Duration| i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
        let protocols = join.protocols.iter().map(|(name, metadata)| (name.clone(), ByteBuf::from(metadata.to_vec())));
        let classic =
            ClassicMember { session_timeout_ms: millis(join.session_timeout), protocols: protocols.collect() };
        let who = Who {
            instance: join.instance,
            rack: said.rack.or_else(|| was.rack.clone()),
            client_id: join.client_id,
            client_host: join.client_host,
            rebalance_timeout_ms: millis(join.rebalance_timeout),
            topics: said.topics,
            pattern: None,
            assignor: None,
            classic: Some(classic),
        };
        let has_changed = is_new || who.topics != was.topics || was.pattern.is_some();
        let protocol_name = join.protocols.into_iter().next().map(|(name, _)| name);
        group.set_who(&id, who);
        self.advance(group, &id, has_changed, Some(&said.owned));
        group.renew_session(&id, self.session_timeout(), self.now);
        group.expect_step(&id, self.now + join.rebalance_timeout);
        Ok(Reply::Joined(JoinAnswer {
            generation: group.members[&id].current.epoch,
            protocol_type: Some(CONSUMER.into()),
            protocol_name,
            // Whoever is told that another leads does not assign.
            leader: String::new(),
            member: id,
            skip_assignment: false,
            members: Vec::new(),
        }))
    }

    pub fn sync(&mut self, group: &mut Live, sync: Sync, waiter: Waiter) {
        let reply = match self.check_sync(group, &sync) {
            Ok(()) => {
                let id = &sync.caller.member;
                let assignment = group.assignment_bytes(id);
                group.settle_step(id);
                group.renew_session(id, self.session_timeout(), self.now);
                let Sync { protocol_type, protocol_name, .. } = sync;
                Reply::Synced { protocol_type, protocol_name, assignment }
            }
            Err(error) => Reply::Failed(error),
        };
        self.answer_when_saved(group, waiter, AnyReply::Classic(reply));
    }

    fn check_sync(&mut self, group: &mut Live, sync: &Sync) -> Result<(), ErrorCode> {
        let member = group.classic_member(&sync.caller)?;
        let chosen = member.who.classic.as_ref().and_then(|classic| classic.protocols.first()).map(|(name, _)| name);
        let differs = sync.protocol_type.as_deref().is_some_and(|said| said != CONSUMER)
            || (sync.protocol_name.is_some() && sync.protocol_name.as_ref() != chosen);
        if differs {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        // Whoever has to let go of partitions first is told the others.
        if group.epoch > member.current.epoch && member.current.state != MemberState::Unrevoked {
            let by = self.now + member.rebalance_timeout();
            group.expect_step_if_none(&sync.caller.member, by);
            return Err(ErrorCode::RebalanceInProgress);
        }
        Ok(())
    }

    pub fn heartbeat(&mut self, group: &mut Live, caller: &Caller, waiter: Waiter) {
        let member = match group.classic_member(caller) {
            Ok(member) => member,
            Err(error) => return self.answer(waiter, AnyReply::Classic(Reply::Failed(error))),
        };
        let (state, by) = (member.current.state, self.now + member.rebalance_timeout());
        let is_late = member.current.epoch < group.epoch
            || state == MemberState::Unrevoked
            || (state == MemberState::Unreleased && !group.waits_for_others(member));
        group.renew_session(&caller.member, self.session_timeout(), self.now);
        let reply = match is_late {
            true => {
                group.expect_step_if_none(&caller.member, by);
                Reply::Failed(ErrorCode::RebalanceInProgress)
            }
            false => Reply::Done,
        };
        self.answer_when_saved(group, waiter, AnyReply::Classic(reply));
    }

    pub fn leave_classic(&mut self, group: &mut Live, leavers: &[Leaver], waiter: Waiter) {
        let mut each = Vec::with_capacity(leavers.len());
        for leaver in leavers {
            each.push(match group.leaving_member(leaver) {
                Ok(id) => {
                    group.remove(&id);
                    ErrorCode::None
                }
                Err(error) => error,
            });
        }
        if each.contains(&ErrorCode::None) {
            group.resolve(self.view);
            // A group that becomes a classic one goes on with its epoch as its generation.
            if !group.is_classic_but(None, self.settings) {
                group.set_epoch(group.epoch + 1);
            }
        }
        self.answer_when_saved(group, waiter, AnyReply::Classic(Reply::Each(each)));
    }
}

/// True for a new one.
fn find_or_add(group: &mut Live, join: &Join, id: &str) -> Result<bool, ErrorCode> {
    let former = join.instance.as_ref().and_then(|instance| group.statics.get(instance)).cloned();
    if join.instance.is_some() && !join.member.is_empty() {
        return match former {
            None => Err(ErrorCode::UnknownMemberId),
            Some(former) if former != join.member => Err(ErrorCode::FencedInstanceId),
            Some(_) => Ok(false),
        };
    }
    if let Some(former) = former {
        group.replace(&former, id);
        return Ok(false);
    }
    let is_new = !group.members.contains_key(id);
    if is_new {
        group.add(id, Member::default());
    }
    Ok(is_new)
}

impl Live {
    fn classic_bytes(&self) -> usize {
        let all = self.members.values().filter_map(|member| member.who.classic.as_ref());
        all.flat_map(|classic| &classic.protocols).map(|(_, metadata)| metadata.len()).sum()
    }

    /// There is a protocol that all who speak the classic one know, this one too.
    fn supports(&self, join: &Join) -> bool {
        let knows = |classic: &&ClassicMember, name: &String| classic.protocols.iter().any(|(known, _)| known == name);
        let others = self.members.iter().filter(|(id, _)| **id != join.member);
        let others: Vec<&ClassicMember> = others.filter_map(|(_, member)| member.who.classic.as_ref()).collect();
        join.protocols.iter().any(|(name, _)| others.iter().all(|classic| knows(classic, name)))
    }

    fn classic_member(&self, caller: &Caller) -> Result<&Member, ErrorCode> {
        if let Some(instance) = &caller.instance {
            match self.statics.get(instance) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(current) if *current != caller.member => return Err(ErrorCode::FencedInstanceId),
                Some(_) => {}
            }
        }
        let member = self.members.get(&caller.member).filter(|member| member.who.classic.is_some());
        let member = member.ok_or(ErrorCode::UnknownMemberId)?;
        (member.current.epoch == caller.generation).then_some(member).ok_or(ErrorCode::IllegalGeneration)
    }

    /// Whichever protocol it speaks: tools remove members of both this way, static ones by their instance alone.
    fn leaving_member(&self, leaver: &Leaver) -> Result<String, ErrorCode> {
        let id = match &leaver.instance {
            None => &leaver.member,
            Some(instance) => {
                let id = self.statics.get(instance).ok_or(ErrorCode::UnknownMemberId)?;
                if !leaver.member.is_empty() && leaver.member != *id {
                    return Err(ErrorCode::FencedInstanceId);
                }
                id
            }
        };
        self.members.contains_key(id).then(|| id.clone()).ok_or(ErrorCode::UnknownMemberId)
    }

    /// Somebody still has what it is to get.
    fn waits_for_others(&self, member: &Member) -> bool {
        each(&member.target).any(|(topic, index)| {
            let has = member.current.assigned.get(&topic).is_some_and(|assigned| assigned.contains(&index));
            !has && !self.is_free(&Partition { topic, index })
        })
    }

    fn expect_step(&mut self, id: &str, by: tokio::time::Instant) {
        if let Some(member) = self.members.get_mut(id) {
            member.timers.step = Some(by);
            self.watch(id);
        }
    }

    fn expect_step_if_none(&mut self, id: &str, by: tokio::time::Instant) {
        if self.members.get(id).is_some_and(|member| member.timers.step.is_none()) {
            self.expect_step(id, by);
        }
    }

    fn settle_step(&mut self, id: &str) {
        self.members.get_mut(id).into_iter().for_each(|member| member.timers.step = None);
    }

    /// Whether it may commit in this epoch.
    pub fn validate_classic(&self, member: &Member, generation: i32) -> Result<(), ErrorCode> {
        let is_now = generation == member.current.epoch && generation != LEAVES_FOR_NOW;
        is_now.then_some(()).ok_or(ErrorCode::IllegalGeneration)
    }
}
