use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use bytes::Bytes;

use crate::group::classic::ask::{Caller, Described, JoinAnswer, MemberDescribed, Waiter};
use crate::group::classic::subscription::{self, CONSUMER};
use crate::protocol::ErrorCode;
use crate::shard::{Slot, group as shard};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupState {
    Empty,
    PreparingRebalance,
    CompletingRebalance,
    Stable,
}

impl GroupState {
    pub fn name(self) -> &'static str {
        match self {
            GroupState::Empty => "Empty",
            GroupState::PreparingRebalance => "PreparingRebalance",
            GroupState::CompletingRebalance => "CompletingRebalance",
            GroupState::Stable => "Stable",
        }
    }
}

/// A group with members, or with somebody who wants to become one.
#[derive(Debug)]
pub(super) struct Live {
    pub slot: Slot,
    pub state: GroupState,
    pub generation: i32,
    pub protocol_type: Option<String>,
    pub protocol_name: Option<String>,
    pub leader: Option<String>,
    pub members: BTreeMap<String, Member>,
    /// Instance → member.
    pub statics: BTreeMap<String, String>,
    /// Ids that were given out and not come back yet (KIP-394), and until when they are waited for.
    pub pending: BTreeMap<String, Instant>,
    /// Members that know the generation and have not asked for their assignment.
    pub pending_sync: BTreeSet<String>,
    /// What consumers are subscribed to; `None` when it cannot be told.
    pub subscribed: Option<BTreeSet<String>>,
    pub join_timer: Option<JoinTimer>,
    pub sync_deadline: Option<Instant>,
    /// Changes of this group on their way to the log.
    pub saving: usize,
    /// When the coordinator will look at this group's timers.
    pub queued: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct JoinTimer {
    pub at: Instant,
    /// The group was empty before: it waits a little for more members, whoever has joined.
    pub initial: Option<InitialDelay>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct InitialDelay {
    pub delay: Duration,
    pub remaining: Duration,
    pub new_member_added: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Member {
    pub instance: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub rebalance_timeout: Duration,
    pub session_timeout: Duration,
    pub protocols: Vec<(String, Bytes)>,
    pub assignment: Bytes,
    pub joining: Option<Waiter>,
    pub syncing: Option<Waiter>,
    /// Has not been told its first generation: it cannot send heartbeats yet.
    pub is_new: bool,
    /// Removed then, unless it is waiting for the group itself.
    pub deadline: Option<Instant>,
}

impl Member {
    pub fn metadata(&self, protocol: Option<&str>) -> Bytes {
        let of = self.protocols.iter().find(|(name, _)| Some(name.as_str()) == protocol);
        of.map(|(_, metadata)| metadata.clone()).unwrap_or_default()
    }

    /// Members that wait for the group need no heartbeats, except new ones: they may have gone away meanwhile.
    pub fn is_excused(&self) -> bool {
        !self.is_new && (self.joining.is_some() || self.syncing.is_some())
    }
}

impl Live {
    pub fn new(slot: Slot) -> Live {
        Live {
            slot,
            state: GroupState::Empty,
            generation: 0,
            protocol_type: None,
            protocol_name: None,
            leader: None,
            members: BTreeMap::new(),
            statics: BTreeMap::new(),
            pending: BTreeMap::new(),
            pending_sync: BTreeSet::new(),
            subscribed: None,
            join_timer: None,
            sync_deadline: None,
            saving: 0,
            queued: None,
        }
    }

    /// As the log has it. Members get a whole session: nobody knows how long they have been silent.
    pub fn load(slot: Slot, classic: &shard::Classic, now: Instant) -> Live {
        let mut live = Live::new(slot);
        live.generation = classic.generation;
        live.protocol_type = Some(classic.protocol_type.clone());
        live.protocol_name = classic.protocol_name.clone();
        live.leader = classic.leader.clone();
        for saved in &classic.members {
            let session_timeout = duration(saved.session_timeout_ms);
            let protocol = (classic.protocol_name.clone().unwrap_or_default(), Bytes::from(saved.metadata.clone()));
            let member = Member {
                instance: saved.instance.clone(),
                client_id: saved.client_id.clone(),
                client_host: saved.client_host.clone(),
                rebalance_timeout: duration(saved.rebalance_timeout_ms),
                session_timeout,
                protocols: vec![protocol],
                assignment: Bytes::from(saved.assignment.clone()),
                joining: None,
                syncing: None,
                is_new: false,
                deadline: Some(now + session_timeout),
            };
            saved.instance.iter().for_each(|instance| drop(live.statics.insert(instance.clone(), saved.id.clone())));
            live.members.insert(saved.id.clone(), member);
        }
        if !live.members.is_empty() {
            live.state = GroupState::Stable;
        }
        live.subscribed = live.subscribed_topics();
        live
    }

    /// For the log: the group as it will be with these assignments.
    pub fn to_saved(&self, assignment: impl Fn(&str, &Member) -> Bytes) -> shard::Classic {
        let members = self.members.iter().map(|(id, member)| shard::Member {
            id: id.clone(),
            instance: member.instance.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            rebalance_timeout_ms: millis(member.rebalance_timeout),
            session_timeout_ms: millis(member.session_timeout),
            metadata: member.metadata(self.protocol_name.as_deref()).to_vec(),
            assignment: assignment(id, member).to_vec(),
        });
        shard::Classic {
            generation: self.generation,
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol_name: self.protocol_name.clone(),
            leader: self.leader.clone(),
            members: members.collect(),
            since_ms: 0,
        }
    }

    /// Everything about it is in the log, and nothing is waited for.
    pub fn is_idle(&self) -> bool {
        self.state == GroupState::Empty && self.members.is_empty() && self.pending.is_empty() && self.saving == 0
    }

    pub fn is_leader(&self, member: &str) -> bool {
        self.leader.as_deref() == Some(member)
    }

    pub fn awaiting_join(&self) -> usize {
        self.members.values().filter(|member| member.joining.is_some()).count()
    }

    pub fn has_all_joined(&self) -> bool {
        self.pending.is_empty() && self.members.values().all(|member| member.joining.is_some())
    }

    /// The longest that any member asked for.
    pub fn rebalance_timeout(&self) -> Duration {
        self.members.values().map(|member| member.rebalance_timeout).max().unwrap_or_default()
    }

    pub fn metadata_bytes(&self) -> usize {
        let of = |member: &Member| member.protocols.iter().map(|(_, metadata)| metadata.len()).sum::<usize>();
        self.members.values().map(of).sum()
    }

    /// # Errors
    /// UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID when another member has taken the instance's place.
    pub fn validate(&self, member: &str, instance: Option<&str>) -> Result<(), ErrorCode> {
        if let Some(instance) = instance {
            match self.statics.get(instance) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(current) if current != member => return Err(ErrorCode::FencedInstanceId),
                Some(_) => {}
            }
        }
        self.members.contains_key(member).then_some(()).ok_or(ErrorCode::UnknownMemberId)
    }

    /// As [`Live::validate`], of the current generation.
    ///
    /// # Errors
    /// Also ILLEGAL_GENERATION.
    pub fn validate_generation(&self, caller: &Caller) -> Result<(), ErrorCode> {
        self.validate(&caller.member, caller.instance.as_deref())?;
        (caller.generation == self.generation).then_some(()).ok_or(ErrorCode::IllegalGeneration)
    }

    /// There is a protocol that this member and all others know.
    pub fn supports(&self, protocol_type: &str, protocols: &[(String, Bytes)]) -> bool {
        if self.state == GroupState::Empty {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        self.protocol_type.as_deref() == Some(protocol_type)
            && protocols.iter().any(|(name, _)| self.members.values().all(|member| knows(member, name)))
    }

    /// The protocol that most members prefer among those that all know; the leader's order decides between equals.
    pub fn select_protocol(&self) -> Option<String> {
        let candidates: BTreeSet<&str> = self
            .members
            .values()
            .flat_map(|member| member.protocols.iter().map(|(name, _)| name.as_str()))
            .filter(|name| self.members.values().all(|member| knows(member, name)))
            .collect();
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.members.values() {
            let preferred = member.protocols.iter().map(|(name, _)| name.as_str()).find(|n| candidates.contains(n));
            preferred.into_iter().for_each(|name| *votes.entry(name).or_default() += 1);
        }
        let judge = self.leader.as_ref().and_then(|id| self.members.get(id)).or(self.members.values().next())?;
        let rank = |name: &str| judge.protocols.iter().position(|(known, _)| known == name);
        votes.into_iter().max_by_key(|(name, votes)| (*votes, std::cmp::Reverse(rank(name)))).map(|(n, _)| n.to_owned())
    }

    pub fn subscribed_topics(&self) -> Option<BTreeSet<String>> {
        if self.protocol_type.as_deref() != Some(CONSUMER) {
            return None;
        }
        let protocol = self.protocol_name.as_deref();
        let of_each = self.members.values().map(|member| subscription::topics(&member.metadata(protocol)));
        of_each.collect::<Option<Vec<_>>>().map(|topics| topics.into_iter().flatten().collect())
    }

    /// A consumer group whose subscriptions cannot be read may be subscribed to anything.
    pub fn is_subscribed_to(&self, topic: &str) -> bool {
        match &self.subscribed {
            Some(topics) => topics.contains(topic),
            None => self.protocol_type.as_deref() == Some(CONSUMER),
        }
    }

    pub fn add(&mut self, id: String, member: Member) {
        self.leader.get_or_insert_with(|| id.clone());
        member.instance.iter().for_each(|instance| drop(self.statics.insert(instance.clone(), id.clone())));
        self.pending.remove(&id);
        self.members.insert(id, member);
    }

    pub fn remove(&mut self, id: &str) -> Option<Member> {
        let removed = self.members.remove(id);
        if let Some(instance) = removed.as_ref().and_then(|member| member.instance.as_ref()) {
            self.statics.remove(instance);
        }
        if self.is_leader(id) {
            self.leader = self.members.keys().next().cloned();
        }
        self.pending.remove(id);
        self.pending_sync.remove(id);
        removed
    }

    /// A leader that has not joined loses its place to a member that has. False when none has joined.
    pub fn elect_joined_leader(&mut self) -> bool {
        let has_joined = |id: &String| self.members.get(id).is_some_and(|member| member.joining.is_some());
        if !self.leader.as_ref().is_some_and(has_joined) {
            let joined = self.members.keys().find(|id| has_joined(id)).cloned();
            match joined {
                Some(id) => self.leader = Some(id),
                None => return false,
            }
        }
        true
    }

    /// What a member is told of the current generation.
    pub fn join_answer(&self, member: &str) -> JoinAnswer {
        let protocol = self.protocol_name.as_deref();
        let told = |(id, m): (&String, &Member)| (id.clone(), m.instance.clone(), m.metadata(protocol));
        let members = if self.is_leader(member) { self.members.iter().map(told).collect() } else { Vec::new() };
        JoinAnswer {
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            leader: self.leader.clone().unwrap_or_default(),
            member: member.to_owned(),
            skip_assignment: false,
            members,
        }
    }

    /// Metadata is told of stable groups only; assignments are those that members were told last (Kafka:
    /// `ClassicGroupMember.describeNoMetadata`).
    pub fn described(&self) -> Described {
        let protocol = self.protocol_name.as_deref().filter(|_| self.state == GroupState::Stable);
        let members = self.members.iter().map(|(id, member)| MemberDescribed {
            id: id.clone(),
            instance: member.instance.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            metadata: member.metadata(protocol),
            assignment: member.assignment.clone(),
        });
        Described {
            state: self.state.name(),
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol_name: protocol.unwrap_or_default().to_owned(),
            members: members.collect(),
        }
    }

    /// The next moment at which something here is late.
    pub fn next_deadline(&self) -> Option<Instant> {
        let members = self.members.values().filter_map(|member| member.deadline);
        let group = self.join_timer.map(|timer| timer.at).into_iter().chain(self.sync_deadline);
        members.chain(self.pending.values().copied()).chain(group).min()
    }

    /// The member is alive.
    pub fn renew_session(&mut self, id: &str, now: Instant) {
        if let Some(member) = self.members.get_mut(id) {
            member.deadline = Some(now + member.session_timeout);
        }
    }
}

fn knows(member: &Member, protocol: &str) -> bool {
    member.protocols.iter().any(|(name, _)| name == protocol)
}

pub(super) fn duration(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}
