use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use milepost_raft::NodeId;
use serde::{Deserialize, Serialize};

use crate::cluster::entry::{
    Configs, Limit, QuotaEntity, Registration, Resource, RootAnswer, RootEntry, RootRefusal, ZoneAddress,
};
use crate::protocol::TopicRef;
use crate::types::{BrokerEpoch, BrokerId, LeaderEpoch, ROOT_SHARD, ShardId, TopicId, arc_map};

#[path = "moves.rs"]
mod moves;
#[path = "topics.rs"]
mod topics;

pub use topics::Topic;

/// What the root shard knows: the cluster. Pure, like a shard's state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootState {
    node_next: NodeId,
    /// Data directory → the node id it was given.
    directories: BTreeMap<String, NodeId>,
    #[serde(with = "arc_map")]
    brokers: BTreeMap<BrokerId, Arc<Broker>>,
    epoch_next: BrokerEpoch,
    #[serde(with = "arc_map")]
    shards: BTreeMap<ShardId, Arc<Shard>>,
    #[serde(with = "arc_map")]
    topics: BTreeMap<TopicId, Arc<Topic>>,
    names: BTreeMap<String, TopicId>,
    producer_id_next: i64,
    /// Topics that are created begin above this leader epoch.
    #[serde(default)]
    epoch_floor: LeaderEpoch,
    /// Levels that were changed, of features.
    #[serde(default)]
    features: BTreeMap<String, i16>,
    /// How often.
    #[serde(default)]
    features_epoch: i64,
    /// Settings of everything but topics.
    #[serde(default)]
    configs: BTreeMap<Resource, Configs>,
    #[serde(default)]
    quotas: BTreeMap<QuotaEntity, BTreeMap<String, Limit>>,
    /// How often limits were changed.
    #[serde(default)]
    quotas_version: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broker {
    pub id: BrokerId,
    pub node: NodeId,
    pub epoch: BrokerEpoch,
    pub zone: String,
    pub host: String,
    pub port: u16,
    pub internal: String,
    /// Has said, in this epoch, that it can serve what it replicates, and not that it leaves.
    pub ready: bool,
    /// Ready and heard of lately: named to clients, given new replicas.
    pub alive: bool,
    #[serde(default)]
    pub listeners: Vec<ZoneAddress>,
    #[serde(default)]
    pub life: u64,
}

impl Broker {
    /// What clients connect to that came by the listener of this zone, if they came by one.
    pub fn address_for(&self, listener: Option<&str>) -> (&str, u16) {
        let own = self.listeners.iter().find(|address| Some(address.zone.as_str()) == listener);
        own.map_or((&self.host, self.port), |address| (&address.host, address.port))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    pub id: ShardId,
    pub replication_factor: u16,
    pub voters: Vec<NodeId>,
    /// The voters it was created with: only these may found the Raft group.
    pub founders: Vec<NodeId>,
    /// The voter that should lead while it is well.
    pub preferred: NodeId,
    /// Partitions placed here, to place the next ones elsewhere.
    pub partitions: u64,
    /// The voters before a move, until it has been made; empty otherwise.
    #[serde(default)]
    pub moving_from: Vec<NodeId>,
    /// Made for partitions whose replicas somebody chose: nothing else is placed here.
    #[serde(default)]
    pub by_hand: bool,
    /// What the Raft group may have for voters instead of `voters`, without nodes that are gone: empty once it is known to
    /// have those.
    #[serde(default)]
    pub may_have: BTreeSet<BTreeSet<NodeId>>,
}

const LOG_APPEND_TIME: &str = "LogAppendTime";
/// The setting of all brokers for topics that do not say. One broker cannot have another: shards decide, not brokers.
pub const STAMPING: &str = "log.message.timestamp.type";

impl RootState {
    pub fn apply(&mut self, entry: RootEntry) -> RootAnswer {
        match entry {
            RootEntry::IssueNode { directory } => {
                let next = self.node_next.max(1);
                let node = *self.directories.entry(directory).or_insert(next);
                self.node_next = next.max(node + 1);
                RootAnswer::Node(node)
            }
            RootEntry::RegisterBroker(registration) => self.register(registration),
            RootEntry::SetReady { broker, epoch } => self.change_broker(broker, epoch, |b| {
                b.ready = true;
                b.alive = true;
            }),
            RootEntry::Leave { broker, epoch } => self.change_broker(broker, epoch, |b| {
                b.ready = false;
                b.alive = false;
            }),
            RootEntry::SetAlive { broker, epoch, alive } => {
                self.change_broker(broker, epoch, |b| b.alive = alive && b.ready)
            }
            RootEntry::CreateShard { replication_factor, voters, preferred } => {
                let mut placed = self.placeable(replication_factor);
                if let Some(existing) = placed.find(|shard| shard.preferred == preferred) {
                    return RootAnswer::Shard(existing.id);
                }
                drop(placed);
                RootAnswer::Shard(self.create_shard(voters, preferred, false))
            }
            RootEntry::SetVoters { shard, voters } => self.set_voters(shard, voters),
            RootEntry::MoveShard { shard, from, to } => self.move_shard(shard, &from, to),
            RootEntry::CancelMove { shard } => self.cancel_move(shard),
            RootEntry::Moved { shard, voters } => self.moved(shard, &voters),
            RootEntry::RemoveBroker { broker, epoch } => self.remove_broker(broker, epoch),
            RootEntry::CreateTopic(new) => self.create_topic(new),
            RootEntry::SetLive { topic, partitions } => self.change_topic(topic, |t| t.live = t.live.max(partitions)),
            RootEntry::AddPartitions { topic, partitions, assigned } => {
                self.add_partitions(topic, partitions, &assigned)
            }
            RootEntry::DeleteTopic { topic, epoch } => self.delete_topic(topic, epoch),
            RootEntry::Gone { topic } => self.gone(topic),
            RootEntry::IssueProducerIds { count } => self.issue_producer_ids(count),
            RootEntry::UpdateFeatures { levels } => {
                self.features.extend(levels);
                self.features_epoch += 1;
                RootAnswer::Done
            }
            RootEntry::AlterConfigs { resource, before, after } => self.alter_configs(resource, &before, after),
            RootEntry::StampingTold { topic, change, partitions } => self.change_topic(topic, |t| {
                if t.placement.len() == partitions as usize {
                    t.stamping_told = t.stamping_told.max(change);
                }
            }),
            RootEntry::AlterQuotas { entity, changes } => self.alter_quotas(entity, changes),
        }
    }

    pub fn brokers(&self) -> impl Iterator<Item = &Arc<Broker>> {
        self.brokers.values()
    }

    pub fn broker(&self, id: BrokerId) -> Option<&Arc<Broker>> {
        self.brokers.get(&id)
    }

    pub fn broker_of(&self, node: NodeId) -> Option<&Arc<Broker>> {
        self.brokers.values().find(|b| b.node == node)
    }

    /// The name of a node's data directory.
    pub fn directory_of(&self, node: NodeId) -> Option<&str> {
        self.directories.iter().find(|(_, of)| **of == node).map(|(directory, _)| directory.as_str())
    }

    pub fn shards(&self) -> impl Iterator<Item = &Arc<Shard>> {
        self.shards.values()
    }

    pub fn shard(&self, id: ShardId) -> Option<&Arc<Shard>> {
        self.shards.get(&id)
    }

    pub fn topics(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.topics.values()
    }

    pub fn topic(&self, id: TopicId) -> Option<&Arc<Topic>> {
        self.topics.get(&id)
    }

    pub fn topic_named(&self, name: &str) -> Option<&Arc<Topic>> {
        self.topics.get(self.names.get(name)?)
    }

    /// The topic a client means, unless it is being deleted.
    pub fn find(&self, topic: &TopicRef) -> Option<&Arc<Topic>> {
        match topic {
            TopicRef::Name(name) => self.topic_named(name),
            TopicRef::Id(id) => self.topic(*id).filter(|topic| !topic.deleting),
        }
    }

    /// Live topics, by name.
    pub fn live_topics(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.names.values().filter_map(|id| self.topics.get(id)).filter(|t| t.live > 0)
    }

    /// The level that was set, if one was.
    pub fn feature_level(&self, name: &str) -> Option<i16> {
        self.features.get(name).copied()
    }

    /// Grows with every change of a feature's level.
    pub fn features_epoch(&self) -> i64 {
        self.features_epoch
    }

    /// Whether a topic's records get the time of their append: as it says itself, else as all brokers say.
    pub fn is_stamped(&self, topic: &Topic) -> bool {
        topic.stamping().unwrap_or_else(|| stamps_by_default(self.configs(&Resource::AllBrokers)))
    }

    /// The settings that something has of its own.
    pub fn configs(&self, resource: &Resource) -> Option<&Configs> {
        match resource {
            Resource::Topic(id) => self.topics.get(id).map(|topic| &topic.configs),
            other => self.configs.get(other),
        }
    }

    /// What has settings of its own, topics apart.
    pub fn configured(&self) -> impl Iterator<Item = (&Resource, &Configs)> {
        self.configs.iter()
    }

    pub fn quotas(&self) -> &BTreeMap<QuotaEntity, BTreeMap<String, Limit>> {
        &self.quotas
    }

    /// Grows with every change of a limit.
    pub fn quotas_version(&self) -> u64 {
        self.quotas_version
    }

    fn alter_configs(&mut self, resource: Resource, before: &Configs, after: Configs) -> RootAnswer {
        let topic = match resource {
            Resource::Topic(id) => match self.topics.get(&id) {
                Some(topic) if !topic.deleting => Some(id),
                _ => return RootAnswer::Refused(RootRefusal::UnknownTopic),
            },
            _ => None,
        };
        let none = Configs::new();
        let present = self.configs(&resource).unwrap_or(&none);
        if *present == after {
            // Asked twice, after a lost answer.
            return RootAnswer::Done;
        }
        if present != before {
            return RootAnswer::Refused(RootRefusal::ConfigsChanged);
        }
        let stamps = stamps_by_default(self.configs(&Resource::AllBrokers));
        match topic {
            Some(id) => self.change_topic(id, |topic| {
                let stamped = topic.stamping().unwrap_or(stamps);
                topic.configs = after;
                topic.stamping_changes += u64::from(topic.stamping().unwrap_or(stamps) != stamped);
            }),
            None => {
                match after.is_empty() {
                    true => self.configs.remove(&resource),
                    false => self.configs.insert(resource, after),
                };
                if stamps_by_default(self.configs(&Resource::AllBrokers)) != stamps {
                    for topic in self.topics.values_mut().filter(|topic| topic.stamping().is_none()) {
                        Arc::make_mut(topic).stamping_changes += 1;
                    }
                }
                RootAnswer::Done
            }
        }
    }

    fn alter_quotas(&mut self, entity: QuotaEntity, changes: BTreeMap<String, Option<Limit>>) -> RootAnswer {
        let limits = self.quotas.entry(entity.clone()).or_default();
        for (key, limit) in changes {
            match limit {
                Some(limit) => limits.insert(key, limit),
                None => limits.remove(&key),
            };
        }
        if limits.is_empty() {
            self.quotas.remove(&entity);
        }
        self.quotas_version += 1;
        RootAnswer::Done
    }

    fn register(&mut self, new: Registration) -> RootAnswer {
        if !self.directories.values().any(|node| *node == new.node) {
            return RootAnswer::Refused(RootRefusal::UnknownNode);
        }
        // Node ids ascend: a registration that was late must not undo a newer directory's.
        if self.brokers.get(&new.broker).is_some_and(|current| current.node > new.node) {
            return RootAnswer::Refused(RootRefusal::UnknownNode);
        }
        // An emptied directory is let in once its old node is silent; a second broker under one id never is.
        if self.brokers.get(&new.broker).is_some_and(|current| current.node != new.node && current.alive) {
            return RootAnswer::Refused(RootRefusal::BrokerInUse);
        }
        // A request that comes twice, or so late that the broker has started again since.
        let known = self.brokers.get(&new.broker).filter(|current| current.node == new.node && current.life > 0);
        if let Some(current) = known.filter(|current| new.life <= current.life) {
            return RootAnswer::Epoch(current.epoch);
        }
        let epoch = self.epoch_next.max(1);
        self.epoch_next = epoch + 1;
        let broker = Broker {
            id: new.broker,
            node: new.node,
            epoch,
            zone: new.zone,
            host: new.host,
            port: new.port,
            internal: new.internal,
            ready: false,
            alive: false,
            listeners: new.listeners,
            life: new.life,
        };
        let replaced = self.brokers.insert(new.broker, Arc::new(broker)).filter(|old| old.node != new.node);
        if let Some(old) = replaced {
            self.directories.retain(|_, node| *node != old.node);
        }
        RootAnswer::Epoch(epoch)
    }

    /// Nothing is said of an earlier life.
    fn change_broker(&mut self, id: BrokerId, epoch: BrokerEpoch, change: impl FnOnce(&mut Broker)) -> RootAnswer {
        if let Some(broker) = self.brokers.get_mut(&id).filter(|b| b.epoch == epoch) {
            change(Arc::make_mut(broker));
        }
        RootAnswer::Done
    }

    /// The shards that are dealt partitions of this replication factor.
    pub fn placeable(&self, replication_factor: u16) -> impl Iterator<Item = &Arc<Shard>> {
        self.shards.values().filter(move |s| s.replication_factor == replication_factor && !s.by_hand)
    }

    fn create_shard(&mut self, voters: Vec<NodeId>, preferred: NodeId, by_hand: bool) -> ShardId {
        let id = self.shards.keys().last().map_or(ROOT_SHARD, |id| *id) + 1;
        let (replication_factor, founders, moving_from) = (voters.len() as u16, voters.clone(), Vec::new());
        let (partitions, may_have) = (0, BTreeSet::new());
        let shard =
            Shard { id, replication_factor, founders, voters, preferred, partitions, moving_from, by_hand, may_have };
        self.shards.insert(id, Arc::new(shard));
        id
    }

    fn issue_producer_ids(&mut self, count: i64) -> RootAnswer {
        let first = self.producer_id_next;
        self.producer_id_next += count.max(1);
        RootAnswer::FirstProducerId(first)
    }
}

fn stamps_by_default(all_brokers: Option<&Configs>) -> bool {
    all_brokers.and_then(|configs| configs.get(STAMPING)).is_some_and(|who| who == LOG_APPEND_TIME)
}

#[cfg(test)]
#[path = "state_test.rs"]
mod tests;
