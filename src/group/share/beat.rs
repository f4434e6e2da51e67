//! Heartbeats (Kafka: `GroupMetadataManager.shareGroupHeartbeat`, `shareGroupLeave`).

use std::time::Duration;

use crate::group::classic::Waiter;
use crate::group::consumer::Beaten;
use crate::group::share::coordinator::Turn;
use crate::group::share::live::Live;
use crate::group::share::{Beat, LEAVES, Reply};
use crate::protocol::ErrorCode;
use crate::shard::group::{Epochs, ShareWho};

/// Why not, for programs and for people.
type Refusal = (ErrorCode, String);

impl Turn<'_> {
    pub fn beat(&mut self, group: &mut Live, beat: &Beat, waiter: Waiter) {
        let beaten = match beat.epoch {
            LEAVES => self.leave(group, beat),
            _ => self.go_on(group, beat),
        };
        match beaten {
            Ok(beaten) => self.answer_when_saved(group, waiter, Reply::Beaten(beaten)),
            Err((error, why)) => self.answer(waiter, Reply::failed(error, why)),
        }
    }

    fn go_on(&mut self, group: &mut Live, beat: &Beat) -> Result<Beaten, Refusal> {
        let (id, max) = (beat.member.as_str(), self.settings.members_max);
        let is_new = match group.members.get(id) {
            Some(member) => validate(member.saved.epochs, beat.epoch).map(|()| false)?,
            None if group.members.len() >= max => {
                let why = format!("The share group has reached its maximum capacity of {max} members.");
                return Err((ErrorCode::GroupMaxSizeReached, why));
            }
            None if beat.epoch != 0 => return Err(self.unknown(id)),
            None => true,
        };
        if is_new {
            group.add(id);
        }
        let was = &group.members[id].saved.who;
        let who = ShareWho {
            rack: beat.rack.clone().or_else(|| was.rack.clone()),
            client_id: beat.client_id.clone(),
            client_host: beat.client_host.clone(),
            topics: beat.topics.clone().unwrap_or_else(|| was.topics.clone()),
        };
        let has_changed = group.set_who(id, who) || is_new;
        self.advance(group, id, has_changed);
        group.bring_up(id);
        group.renew_session(id, self.session_timeout(), self.now);
        let epoch = group.members[id].saved.epochs.now;
        tracing::trace!(group = self.id, member = id, said = beat.epoch, is = epoch, "a heartbeat");
        let is_told = beat.topics.is_some() || beat.epoch != epoch;
        Ok(Beaten {
            member: id.to_owned(),
            epoch,
            interval: self.heartbeat_interval(),
            assignment: is_told.then(|| group.assignment(id)),
        })
    }

    /// What follows from what a member said: perhaps a new epoch, and other partitions.
    fn advance(&mut self, group: &mut Live, id: &str, has_changed: bool) {
        if has_changed || !group.has_newest(self.view) {
            let topics_changed = group.resolve(self.view);
            if has_changed || topics_changed {
                group.set_epoch(group.epoch + 1);
                tracing::debug!(group = self.id, epoch = group.epoch, member = id, "a new epoch of a share group");
            }
        }
        if group.epoch > group.assignment_epoch {
            group.assign();
        }
    }

    fn leave(&mut self, group: &mut Live, beat: &Beat) -> Result<Beaten, Refusal> {
        let id = beat.member.as_str();
        if !group.members.contains_key(id) {
            return Err(self.unknown(id));
        }
        tracing::debug!(group = self.id, member = id, "leaves");
        self.fence(group, id);
        Ok(Beaten { member: id.to_owned(), epoch: beat.epoch, interval: Duration::ZERO, assignment: None })
    }

    /// It is no member any more.
    fn fence(&mut self, group: &mut Live, id: &str) {
        group.remove(id);
        group.resolve(self.view);
        group.set_epoch(group.epoch + 1);
    }

    /// A member's session has ended.
    pub fn expire(&mut self, group: &mut Live, id: &str) {
        if group.members.contains_key(id) {
            tracing::info!(group = self.id, member = id, "a member is out");
            self.fence(group, id);
        }
    }

    fn unknown(&self, id: &str) -> Refusal {
        (ErrorCode::UnknownMemberId, format!("Member {id} is not a member of group {}.", self.id))
    }
}

/// Of this epoch; or of the one before, when the answer that told of the new one may be lost. Whoever joins again says 0.
fn validate(is: Epochs, said: i32) -> Result<(), Refusal> {
    if said == 0 || said == is.now || (said < is.now && said == is.before) {
        return Ok(());
    }
    let (than, but) = match said > is.now {
        true => ("greater", String::new()),
        false => ("smaller", format!(", and it does not match the previous member epoch ({})", is.before)),
    };
    let why = format!(
        "The share group member has a {than} member epoch ({said}) than the one known by the group coordinator \
         ({}){but}. The member must abandon all its partitions and rejoin.",
        is.now
    );
    Err((ErrorCode::FencedMemberEpoch, why))
}
