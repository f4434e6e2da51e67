//! Heartbeats (Kafka: `GroupMetadataManager.consumerGroupHeartbeat`, `consumerGroupLeave`).

use std::time::Duration;

use crate::group::Reply as AnyReply;
use crate::group::classic::Waiter;
use crate::group::consumer::ask::{Beat, Beaten, Reply};
use crate::group::consumer::coordinator::Turn;
use crate::group::consumer::live::{Live, Member};
use crate::group::consumer::reconcile::Goal;
use crate::group::consumer::{LEAVES, LEAVES_FOR_NOW};
use crate::protocol::ErrorCode;
use crate::shard::group::{Assignment, Current, Who};

/// Why not, for programs and for people.
type Refusal = (ErrorCode, String);

impl Turn<'_> {
    pub fn beat(&mut self, group: &mut Live, beat: Beat, waiter: Waiter) {
        let beaten = match beat.epoch {
            LEAVES | LEAVES_FOR_NOW => self.leave(group, &beat),
            _ => self.go_on(group, beat),
        };
        match beaten {
            Ok(beaten) => self.answer_when_saved(group, waiter, AnyReply::Consumer(Reply::Beaten(beaten))),
            Err((error, why)) => self.refuse(waiter, error, why),
        }
    }

    fn go_on(&mut self, group: &mut Live, beat: Beat) -> Result<Beaten, Refusal> {
        let max = self.settings.members_max;
        if group.members.len() >= max && !group.members.contains_key(&beat.member) {
            let why = format!("The consumer group has reached its maximum capacity of {max} members.");
            return Err((ErrorCode::GroupMaxSizeReached, why));
        }
        let is_new = self.find_or_add(group, &beat)?;
        let id = beat.member.as_str();
        let is_full =
            beat.epoch == 0 || (beat.rebalance_timeout_ms.is_some() && beat.topics.is_some() && beat.owned.is_some());
        let (owned, epoch) = (beat.owned.clone(), beat.epoch);
        let before = group.members[id].current.clone();
        let has_changed = update_who(group, &beat) || is_new;
        self.advance(group, id, has_changed, owned.as_ref());
        group.renew_session(id, self.session_timeout(), self.now);
        let current = &group.members[id].current;
        tracing::trace!(group = self.id, member = id, said = epoch, is = current.epoch, "a heartbeat");
        Ok(Beaten {
            member: beat.member.clone(),
            epoch: current.epoch,
            interval: self.heartbeat_interval(),
            assignment: (is_full || current.assigned != before.assigned).then(|| current.assigned.clone()),
        })
    }

    /// True for a new one. A static member takes the place of its former self, if that has said that it leaves.
    fn find_or_add(&mut self, group: &mut Live, beat: &Beat) -> Result<bool, Refusal> {
        let id = beat.member.as_str();
        let Some(instance) = &beat.instance else {
            return match group.members.get(id) {
                Some(member) => validate(member, beat).map(|()| false),
                None if beat.epoch == 0 => {
                    group.add(id, Member::default());
                    Ok(true)
                }
                None => Err((ErrorCode::UnknownMemberId, format!("Member {id} is not a member of group {}.", self.id))),
            };
        };
        let former = group.statics.get(instance).cloned();
        if beat.epoch != 0 {
            let Some(former) = former else {
                return Err((ErrorCode::UnknownMemberId, format!("Instance id {instance} is unknown.")));
            };
            if former != id {
                let why = format!("Static member {id} with instance id {instance} was fenced by member {former}.");
                return Err((ErrorCode::FencedInstanceId, why));
            }
            return validate(&group.members[id], beat).map(|()| false);
        }
        let Some(former) = former else {
            let is_new = !group.members.contains_key(id);
            if is_new {
                group.add(id, Member::default());
            }
            return Ok(is_new);
        };
        let holder = &group.members[&former];
        if holder.current.epoch != LEAVES_FOR_NOW && holder.who.classic.is_none() {
            let why = format!(
                "Static member {id} with instance id {instance} cannot join the group because the instance id is owned \
                 by {former} member."
            );
            return Err((ErrorCode::UnreleasedInstanceId, why));
        }
        group.replace(&former, id);
        Ok(false)
    }

    /// What follows from what a member said: perhaps a new epoch, new targets, and its own next step.
    pub fn advance(&mut self, group: &mut Live, id: &str, has_changed: bool, owned: Option<&Assignment>) {
        if has_changed || !group.resolved.is_of(self.view) {
            let topics_changed = group.resolve(self.view);
            if has_changed || topics_changed {
                group.set_epoch(group.epoch + 1);
                tracing::debug!(group = self.id, epoch = group.epoch, member = id, "a new epoch of a group");
            }
        }
        if group.epoch > group.assignment_epoch {
            group.retarget(self.settings.assignor_default());
        }
        self.reconcile(group, id, owned);
    }

    fn reconcile(&mut self, group: &mut Live, id: &str, owned: Option<&Assignment>) {
        let member = &group.members[id];
        let goal = Goal { epoch: group.assignment_epoch, target: &member.target, owned };
        let next = goal.next(&member.current, |partition| group.is_free(partition));
        if group.set_current(id, next) {
            group.watch_revocation(id, self.now);
        }
    }

    fn leave(&mut self, group: &mut Live, beat: &Beat) -> Result<Beaten, Refusal> {
        let id = beat.member.as_str();
        if let Some(instance) = &beat.instance {
            match group.statics.get(instance) {
                None => return Err((ErrorCode::UnknownMemberId, format!("Instance id {instance} is unknown."))),
                Some(current) if current != id => {
                    let why = format!("Static member {id} with instance id {instance} was fenced by member {current}.");
                    return Err((ErrorCode::FencedInstanceId, why));
                }
                Some(_) => {}
            }
        }
        let Some(member) = group.members.get(id) else {
            let why = format!("Member {id} is not a member of group {}.", self.id);
            return Err((ErrorCode::UnknownMemberId, why));
        };
        if beat.epoch == LEAVES_FOR_NOW {
            // It keeps what it has until its session ends.
            let revoking = Assignment::new();
            let away = Current { epoch: LEAVES_FOR_NOW, revoking, ..member.current.clone() };
            group.set_current(id, away);
            group.watch_revocation(id, self.now);
        } else {
            tracing::debug!(group = self.id, member = id, "leaves");
            self.fence(group, id);
        }
        Ok(Beaten { member: beat.member.clone(), epoch: beat.epoch, interval: Duration::ZERO, assignment: None })
    }

    /// It is no member any more, and has to let go of everything.
    fn fence(&mut self, group: &mut Live, id: &str) {
        // A group that becomes a classic one goes on with its epoch as its generation.
        let becomes_classic = group.is_classic_but(Some(id), self.settings);
        if group.remove(id).is_some() {
            group.resolve(self.view);
            if !becomes_classic {
                group.set_epoch(group.epoch + 1);
            }
        }
    }

    /// Its session or its time to let go of partitions has ended.
    pub fn expire(&mut self, group: &mut Live, id: &str) {
        let Some(member) = group.members.get(id) else { return };
        let is_silent = member.timers.session.is_some_and(|at| at <= self.now);
        tracing::info!(group = self.id, member = id, is_silent, "a member is out");
        self.fence(group, id);
    }
}

/// True if the member is subscribed to something else than before, or wants another assignor.
fn update_who(group: &mut Live, beat: &Beat) -> bool {
    let Some(member) = group.members.get(&beat.member) else { return false };
    let was = &member.who;
    let pattern = match &beat.pattern {
        Some(pattern) => Some(pattern.clone()).filter(|pattern| !pattern.is_empty()),
        None => was.pattern.clone(),
    };
    let who = Who {
        instance: beat.instance.clone().or_else(|| was.instance.clone()),
        rack: beat.rack.clone().or_else(|| was.rack.clone()),
        client_id: beat.client_id.clone(),
        client_host: beat.client_host.clone(),
        rebalance_timeout_ms: beat.rebalance_timeout_ms.unwrap_or(was.rebalance_timeout_ms),
        topics: beat.topics.clone().unwrap_or_else(|| was.topics.clone()),
        pattern,
        assignor: beat.assignor.clone().or_else(|| was.assignor.clone()),
        classic: None,
    };
    let changed = (&who.topics, &who.pattern, &who.assignor) != (&was.topics, &was.pattern, &was.assignor);
    group.set_who(&beat.member, who);
    changed
}

/// Of this epoch; or of the one before, when the answer that told of the new one may be lost. Whoever joins again (0) has
/// nothing.
fn validate(member: &Member, beat: &Beat) -> Result<(), Refusal> {
    let current = &member.current;
    let has_no_more = |owned: &Assignment| {
        owned.iter().all(|(topic, all)| current.assigned.get(topic).is_some_and(|assigned| all.is_subset(assigned)))
    };
    let is_late = || beat.epoch == current.previous_epoch && beat.owned.as_ref().is_some_and(has_no_more);
    if beat.epoch == 0 || beat.epoch == current.epoch || (beat.epoch < current.epoch && is_late()) {
        return Ok(());
    }
    let than = if beat.epoch > current.epoch { "greater" } else { "smaller" };
    let why = format!(
        "The consumer group member has a {than} member epoch ({}) than the one known by the group coordinator ({}). The \
         member must abandon all its partitions and rejoin.",
        beat.epoch, current.epoch
    );
    Err((ErrorCode::FencedMemberEpoch, why))
}
