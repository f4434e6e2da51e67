//! Topics and where their partitions live: the root's side.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use milepost_raft::NodeId;
use serde::{Deserialize, Serialize};

use super::{LOG_APPEND_TIME, RootState, Shard};
use crate::admin::is_internal;
use crate::cluster::entry::{Configs, NewTopic, RootAnswer, RootRefusal};
use crate::types::{LeaderEpoch, ShardId, TopicId};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topic {
    pub id: TopicId,
    pub name: String,
    pub replication_factor: u16,
    pub configs: Configs,
    /// Where each partition lives. Those at or above `live` are still being created in their shards.
    pub placement: Vec<ShardId>,
    pub live: i32,
    pub deleting: bool,
    /// Its leader epochs are terms of its shards after this one. Clients take no smaller epoch than they have seen under its
    /// name for a while, though the topic is another (librdkafka, Java).
    #[serde(default)]
    pub epoch_base: LeaderEpoch,
    /// How often it changed whether appends are stamped.
    #[serde(default)]
    pub stamping_changes: u64,
    /// Which of those changes every shard knows.
    #[serde(default)]
    pub stamping_told: u64,
}

impl Topic {
    /// All partitions exist in their shards and nobody is deleting them.
    pub fn is_live(&self) -> bool {
        !self.deleting && self.live as usize == self.placement.len()
    }

    /// Its shards have something to be told.
    pub fn is_unfinished(&self) -> bool {
        !self.is_live() || self.stamping_told != self.stamping_changes
    }

    /// What it says itself of who stamps its records.
    pub(super) fn stamping(&self) -> Option<bool> {
        self.configs.get("message.timestamp.type").map(|who| who == LOG_APPEND_TIME)
    }
}

/// So many partitions of a topic in a row share a shard. A producer's object mostly holds batches of few topics: what it
/// tells other zones is one entry then, instead of one for every shard. Groups are work for their coordinator, so the
/// topics they live in are dealt out one by one.
pub(super) const RUN_PARTITIONS: usize = 256;
/// A shard is never taken away, and each costs its brokers memory.
const SHARDS_MAX: usize = 1000;

impl RootState {
    pub(super) fn create_topic(&mut self, new: NewTopic) -> RootAnswer {
        if let Some(existing) = self.names.get(&new.name) {
            // The same creation asked twice, after a lost answer, is the same topic.
            return match *existing == new.id {
                true => RootAnswer::Topic(new.id),
                false => RootAnswer::Refused(RootRefusal::TopicExists),
            };
        }
        let placement = match new.assigned.is_empty() {
            true => self.place(new.replication_factor, &[], new.partitions as usize, run_of(&new.name)),
            false => self.place_by_hand(&new.assigned),
        };
        let placement = match placement {
            Ok(placement) => placement,
            Err(refusal) => return RootAnswer::Refused(refusal),
        };
        let topic = Topic {
            id: new.id,
            name: new.name.clone(),
            replication_factor: new.replication_factor,
            configs: new.configs,
            placement,
            live: 0,
            deleting: false,
            epoch_base: self.epoch_floor,
            stamping_changes: 0,
            stamping_told: 0,
        };
        self.topics.insert(new.id, Arc::new(topic));
        self.names.insert(new.name, new.id);
        RootAnswer::Topic(new.id)
    }

    pub(super) fn add_partitions(&mut self, id: TopicId, partitions: i32, assigned: &[Vec<NodeId>]) -> RootAnswer {
        let Some(topic) = self.topics.get(&id).filter(|t| !t.deleting).cloned() else {
            return RootAnswer::Refused(RootRefusal::UnknownTopic);
        };
        let more = i64::from(partitions) - topic.placement.len() as i64;
        if more == 0 {
            // Asked twice, after a lost answer.
            return RootAnswer::Done;
        }
        if more < 0 {
            return RootAnswer::Refused(RootRefusal::NotGrowing);
        }
        let placement = match assigned.is_empty() {
            true => self.place(topic.replication_factor, &topic.placement, more as usize, run_of(&topic.name)),
            // Others have come meanwhile: which of these are meant is for whoever asked to say.
            false if assigned.len() as i64 != more => Err(RootRefusal::NotGrowing),
            false => self.place_by_hand(assigned),
        };
        let placement = match placement {
            Ok(placement) => placement,
            Err(refusal) => return RootAnswer::Refused(refusal),
        };
        self.change_topic(id, |topic| {
            topic.placement.extend(placement);
            // The new ones are told too, so that no change of before, which may be late, is news to them.
            topic.stamping_told = 0;
        })
    }

    /// Gives a topic's next partitions to shards of its replication factor: in runs of `run`, each to the emptiest shard;
    /// what is there already fills its run first. A shard that has lost its leader or a voter may have lost its quorum for
    /// good, so it gets new partitions only when all shards have.
    fn place(
        &mut self,
        replication_factor: u16,
        there: &[ShardId],
        more: usize,
        run: usize,
    ) -> Result<Vec<ShardId>, RootRefusal> {
        let of_factor = || self.placeable(replication_factor);
        let mut load: Vec<(u64, ShardId)> =
            of_factor().filter(|s| self.is_well(s)).map(|s| (s.partitions, s.id)).collect();
        if load.is_empty() {
            load = of_factor().map(|s| (s.partitions, s.id)).collect();
        }
        if load.is_empty() {
            return Err(RootRefusal::NoShard);
        }
        let mut current = there.last().and_then(|last| load.iter().position(|(_, id)| id == last));
        let placement = (there.len()..there.len() + more).map(|index| {
            let emptiest = || (0..load.len()).min_by_key(|at| load[*at]).expect("checked not empty");
            let at = current.filter(|_| index % run != 0).unwrap_or_else(emptiest);
            current = Some(at);
            load[at].0 += 1;
            load[at].1
        });
        let placement: Vec<ShardId> = placement.collect();
        for (partitions, id) in load {
            if let Some(shard) = self.shards.get_mut(&id).filter(|s| s.partitions != partitions) {
                Arc::make_mut(shard).partitions = partitions;
            }
        }
        Ok(placement)
    }

    /// A shard for each list of replicas, the first of which is to lead: one that has just these, else a new one.
    fn place_by_hand(&mut self, assigned: &[Vec<NodeId>]) -> Result<Vec<ShardId>, RootRefusal> {
        let nodes: BTreeSet<NodeId> = self.brokers.values().map(|broker| broker.node).collect();
        if assigned.iter().any(|replicas| replicas.is_empty() || replicas.iter().any(|node| !nodes.contains(node))) {
            return Err(RootRefusal::UnknownNode);
        }
        let fits = |shard: &&Arc<Shard>| shard.moving_from.is_empty() && shard.voters.first() == Some(&shard.preferred);
        // Of several the oldest.
        let fitting = self.shards.values().rev().filter(fits);
        let mut found: BTreeMap<Vec<NodeId>, ShardId> = fitting.map(|shard| (shard.voters.clone(), shard.id)).collect();
        let lacking: BTreeSet<&Vec<NodeId>> =
            assigned.iter().filter(|replicas| !found.contains_key(*replicas)).collect();
        if self.shards.len() + lacking.len() > SHARDS_MAX {
            return Err(RootRefusal::TooManyShards);
        }
        for replicas in lacking {
            let shard = self.create_shard(replicas.clone(), replicas[0], true);
            found.insert(replicas.clone(), shard);
        }
        let placement: Vec<ShardId> = assigned.iter().map(|replicas| found[replicas]).collect();
        for id in &placement {
            Arc::make_mut(self.shards.get_mut(id).expect("of this state")).partitions += 1;
        }
        Ok(placement)
    }

    fn is_well(&self, shard: &Shard) -> bool {
        self.broker_of(shard.preferred).is_some_and(|b| b.alive)
            && shard.voters.iter().all(|node| self.broker_of(*node).is_some())
            && self.could_agree(shard, None)
    }

    pub(super) fn delete_topic(&mut self, id: TopicId, epoch: LeaderEpoch) -> RootAnswer {
        self.epoch_floor = self.epoch_floor.max(epoch);
        let answer = self.change_topic(id, |topic| topic.deleting = true);
        // The name is free at once: a topic created again under it has another id.
        self.names.retain(|_, named| *named != id);
        answer
    }

    pub(super) fn gone(&mut self, id: TopicId) -> RootAnswer {
        let Some(topic) = self.topics.remove(&id) else { return RootAnswer::Done };
        for shard in &topic.placement {
            if let Some(shard) = self.shards.get_mut(shard) {
                let shard = Arc::make_mut(shard);
                shard.partitions = shard.partitions.saturating_sub(1);
            }
        }
        RootAnswer::Done
    }

    pub(super) fn change_topic(&mut self, id: TopicId, change: impl FnOnce(&mut Topic)) -> RootAnswer {
        match self.topics.get_mut(&id) {
            Some(topic) => {
                change(Arc::make_mut(topic));
                RootAnswer::Done
            }
            None => RootAnswer::Refused(RootRefusal::UnknownTopic),
        }
    }
}

fn run_of(topic: &str) -> usize {
    if is_internal(topic) { 1 } else { RUN_PARTITIONS }
}
