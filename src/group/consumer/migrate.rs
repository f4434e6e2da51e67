//! Groups that come from the classic protocol, or leave for it.

use std::time::Duration;

use bytes::Bytes;
use serde_bytes::ByteBuf;
use tokio::time::Instant;

use crate::group::View;
use crate::group::consumer::coordinator::Coordinator;
use crate::group::consumer::embedded;
use crate::group::consumer::live::{Live, Member};
use crate::group::consumer::reconcile::each;
use crate::group::migrants::{Migrant, Migrants};
use crate::protocol::ErrorCode;
use crate::shard::Slot;
use crate::shard::group::{ClassicMember, Consumer, Current, Who};
use crate::types::Partition;

impl Coordinator {
    /// A classic group becomes one of this protocol: its members are where its last assignment left them (Kafka:
    /// `ConsumerGroup.fromClassicGroup`). Nothing is proposed before somebody who speaks this protocol joins. `logged` is the
    /// group as the log has it, if it is one of this protocol there: a group that goes back to the classic one has nothing
    /// written before its next assignment.
    ///
    /// # Errors
    /// It cannot; it stays what it is.
    pub fn receive(
        &mut self,
        now: Instant,
        view: &dyn View,
        (slot, id): (Slot, &str),
        migrants: Option<Migrants>,
        logged: Option<&Consumer>,
    ) -> Result<(), (ErrorCode, String)> {
        let refused = |why: &str| {
            tracing::info!(group = id, why, "stays a classic group");
            Err((ErrorCode::GroupIdNotFound, format!("Group {id} is not a consumer group: {why}.")))
        };
        let Some(migrants) = migrants.filter(|_| self.settings.upgrades) else {
            return refused("it has members of the classic protocol");
        };
        if migrants.members.len() >= self.settings.members_max {
            return Err((ErrorCode::GroupMaxSizeReached, "The group has as many members as it may have.".into()));
        }
        let mut group = Live::new(slot);
        group.epoch = migrants.generation;
        group.assignment_epoch = migrants.generation;
        group.saving.touch();
        for migrant in &migrants.members {
            let Some(member) = member(migrant, &migrants, view) else {
                return refused("what its members say of themselves cannot be read");
            };
            if each(&member.current.assigned).any(|(topic, index)| !group.is_free(&Partition { topic, index })) {
                return refused("a partition is assigned twice");
            }
            group.add(&migrant.id, member);
            group.renew_session(&migrant.id, migrant.session_timeout, now);
        }
        logged.into_iter().for_each(|logged| group.follow(logged));
        group.resolve(view);
        self.insert(id, group);
        tracing::info!(group = id, members = migrants.members.len(), "becomes a group of the consumer protocol");
        Ok(())
    }

    /// Groups that have become classic ones: they are not here any more.
    pub fn departures(&mut self) -> Vec<(Slot, String, Migrants)> {
        let mut departed = Vec::new();
        for id in std::mem::take(&mut self.leaving) {
            let is_ready = |group: &&Live| group.saving.is_idle() && group.is_classic_but(None, &self.settings);
            if self.live(&id).filter(is_ready).is_none() {
                continue;
            }
            let Some(group) = self.take(&id) else { continue };
            tracing::info!(group = id, members = group.members.len(), "becomes a classic group");
            departed.push((group.slot, id, group.migrants()));
        }
        departed
    }
}

fn member(migrant: &Migrant, all: &Migrants, view: &dyn View) -> Option<Member> {
    let chosen = migrant.protocols.iter().find(|(name, _)| Some(name) == all.protocol_name.as_ref());
    let (_, metadata) = chosen.or(migrant.protocols.first())?;
    let said = embedded::subscription(metadata, view)?;
    let assigned = embedded::assignment(&migrant.assignment, view)?;
    let millis = |time: Duration| i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
    let protocols = migrant.protocols.iter().map(|(name, metadata)| (name.clone(), ByteBuf::from(metadata.to_vec())));
    let classic = ClassicMember { session_timeout_ms: millis(migrant.session_timeout), protocols: protocols.collect() };
    let who = Who {
        instance: migrant.instance.clone(),
        rack: said.rack,
        client_id: migrant.client_id.clone(),
        client_host: migrant.client_host.clone(),
        rebalance_timeout_ms: millis(migrant.rebalance_timeout),
        topics: said.topics,
        pattern: None,
        assignor: None,
        classic: Some(classic),
    };
    let (epoch, target) = (all.generation, assigned.clone());
    let current = Current { epoch, previous_epoch: epoch, assigned, ..Current::default() };
    Some(Member { who, target, current, ..Member::default() })
}

impl Live {
    /// The next step follows on what the log has, which loses whoever has left since.
    fn follow(&mut self, logged: &Consumer) {
        self.revision = logged.revision;
        self.epoch = self.epoch.max(logged.epoch);
        for id in logged.members.keys().filter(|id| !self.members.contains_key(*id)) {
            self.saving.touch_member(id);
        }
    }

    fn migrants(&self) -> Migrants {
        let members = self.members.iter().filter_map(|(id, member)| {
            let classic = member.who.classic.as_ref()?;
            let millis = |ms: i32| Duration::from_millis(u64::try_from(ms).unwrap_or(0));
            let protocols = classic.protocols.iter();
            Some(Migrant {
                id: id.clone(),
                instance: member.who.instance.clone(),
                client_id: member.who.client_id.clone(),
                client_host: member.who.client_host.clone(),
                rebalance_timeout: member.rebalance_timeout(),
                session_timeout: millis(classic.session_timeout_ms),
                protocols: protocols.map(|(name, m)| (name.clone(), Bytes::from(m.to_vec()))).collect(),
                assignment: self.assignment_bytes(id),
            })
        });
        Migrants { generation: self.epoch, protocol_name: None, members: members.collect() }
    }

    /// What a member that speaks the classic protocol is told of its partitions.
    pub fn assignment_bytes(&self, id: &str) -> Bytes {
        let Some(member) = self.members.get(id) else { return Bytes::new() };
        let classic = member.who.classic.as_ref();
        let metadata = classic.and_then(|classic| classic.protocols.first()).map(|(_, metadata)| metadata.as_slice());
        embedded::to_bytes(&member.current.assigned, &self.resolved.names(), metadata.unwrap_or_default())
    }
}
