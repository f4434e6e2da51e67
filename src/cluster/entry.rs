//! ▲ What the root shard's log carries: a version byte, then one MessagePack value (positional, variants by short name).
//! A field is only ever added together with a new version and the feature level that allows writing it.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};
use milepost_raft::NodeId;
use serde::{Deserialize, Serialize};

use crate::types::{BrokerEpoch, BrokerId, LeaderEpoch, ShardId, TopicId};

const VERSION: u8 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RootEntry {
    /// A data directory asks for a Raft node id. The same directory gets the same id.
    #[serde(rename = "node")]
    IssueNode { directory: String },
    /// A broker starts: it gets a new epoch, which fences its earlier life. A new node under an old broker id replaces the old node.
    #[serde(rename = "broker")]
    RegisterBroker(Registration),
    /// The broker has caught up after its start: clients may be sent to it.
    #[serde(rename = "ready")]
    SetReady { broker: BrokerId, epoch: BrokerEpoch },
    /// The broker is about to stop: clients and leadership go elsewhere until it registers again.
    #[serde(rename = "leave")]
    Leave { broker: BrokerId, epoch: BrokerEpoch },
    #[serde(rename = "alive")]
    SetAlive { broker: BrokerId, epoch: BrokerEpoch, alive: bool },
    /// A shard of this replication factor led by `preferred`, unless there is one.
    #[serde(rename = "shard")]
    CreateShard { replication_factor: u16, voters: Vec<NodeId>, preferred: NodeId },
    /// The shard's Raft membership is to change to these voters: nodes that are gone have others in their place.
    #[serde(rename = "voters")]
    SetVoters { shard: ShardId, voters: Vec<NodeId> },
    /// Replicas are to be at these voters instead of those; the first is to lead.
    #[serde(rename = "move")]
    MoveShard { shard: ShardId, from: Vec<NodeId>, to: Vec<NodeId> },
    #[serde(rename = "move_back")]
    CancelMove { shard: ShardId },
    /// The shard's Raft membership is what the root asked for.
    #[serde(rename = "moved")]
    Moved { shard: ShardId, voters: Vec<NodeId> },
    /// A broker that is away, in this epoch, does not come back.
    #[serde(rename = "remove")]
    RemoveBroker { broker: BrokerId, epoch: BrokerEpoch },
    #[serde(rename = "topic")]
    CreateTopic(NewTopic),
    /// Every shard has the partitions up to `partitions`: clients may use them.
    #[serde(rename = "live")]
    SetLive { topic: TopicId, partitions: i32 },
    #[serde(rename = "grow")]
    AddPartitions {
        topic: TopicId,
        partitions: i32,
        /// Of the partitions that are new, as in [`NewTopic`].
        #[serde(default)]
        assigned: Vec<Vec<NodeId>>,
    },
    #[serde(rename = "delete")]
    DeleteTopic {
        topic: TopicId,
        /// The largest leader epoch that clients may have seen of it.
        epoch: LeaderEpoch,
    },
    /// Every shard has forgotten the topic.
    #[serde(rename = "gone")]
    Gone { topic: TopicId },
    #[serde(rename = "ids")]
    IssueProducerIds { count: i64 },
    /// Levels of features that change, together.
    #[serde(rename = "features")]
    UpdateFeatures { levels: BTreeMap<String, i16> },
    /// The settings of `resource` become `after`, if they are `before`: who changes them has seen what they were.
    #[serde(rename = "configs")]
    AlterConfigs { resource: Resource, before: Configs, after: Configs },
    /// These partitions of the topic, in every shard, know whether appends are stamped, as decided by this change.
    #[serde(rename = "stamping")]
    StampingTold { topic: TopicId, change: u64, partitions: i32 },
    /// Limits of one kind of clients that change; those without a value are no more.
    #[serde(rename = "quotas")]
    AlterQuotas { entity: QuotaEntity, changes: BTreeMap<String, Option<Limit>> },
}

/// Settings by name, as text.
pub type Configs = BTreeMap<String, String>;

/// What settings belong to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Resource {
    #[serde(rename = "t")]
    Topic(TopicId),
    #[serde(rename = "b")]
    Broker(BrokerId),
    /// All brokers, where one has no setting of its own.
    #[serde(rename = "a")]
    AllBrokers,
    #[serde(rename = "g")]
    Group(String),
    /// A subscription to clients' metrics (KIP-714).
    #[serde(rename = "m")]
    ClientMetrics(String),
}

/// Which clients a limit is for (KIP-546): what is not said does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct QuotaEntity {
    pub user: Option<QuotaName>,
    pub client_id: Option<QuotaName>,
    pub ip: Option<QuotaName>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum QuotaName {
    /// Whoever has no limit by name.
    #[serde(rename = "d")]
    Default,
    #[serde(rename = "n")]
    Named(String),
}

/// A number as Kafka's quotas have them, comparable bit by bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit(u64);

impl Limit {
    pub fn new(value: f64) -> Limit {
        Limit(value.to_bits())
    }

    pub fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    pub broker: BrokerId,
    pub node: NodeId,
    pub zone: String,
    /// What clients connect to.
    pub host: String,
    pub port: u16,
    /// What other brokers connect to, `host:port`.
    pub internal: String,
    /// What clients of these zones connect to instead. Absent in entries of brokers that could have none.
    #[serde(default)]
    pub listeners: Vec<ZoneAddress>,
    /// Counts the starts of the data directory: one start registers once, however often its request comes, and never
    /// after the next. 0 in what comes before the first start.
    #[serde(default)]
    pub life: u64,
}

/// Where clients of one zone connect to a broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneAddress {
    pub zone: String,
    pub host: String,
    pub port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTopic {
    pub id: TopicId,
    pub name: String,
    pub partitions: i32,
    pub replication_factor: u16,
    pub configs: BTreeMap<String, String>,
    /// The replicas of each partition, the preferred one first, where they were assigned by hand.
    #[serde(default)]
    pub assigned: Vec<Vec<NodeId>>,
}

/// What the root decided about an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RootAnswer {
    #[serde(rename = "ok")]
    Done,
    #[serde(rename = "node")]
    Node(NodeId),
    #[serde(rename = "epoch")]
    Epoch(BrokerEpoch),
    #[serde(rename = "ids")]
    FirstProducerId(i64),
    #[serde(rename = "shard")]
    Shard(ShardId),
    #[serde(rename = "topic")]
    Topic(TopicId),
    #[serde(rename = "no")]
    Refused(RootRefusal),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum RootRefusal {
    #[error("a topic of this name exists")]
    TopicExists,
    #[error("This server does not host this topic-partition.")]
    UnknownTopic,
    #[error("no shard with this replication factor exists yet")]
    NoShard,
    #[error("the number of partitions can only grow")]
    NotGrowing,
    #[error("the cluster has as many shards as it can, and none has just these replicas: assign them as others are")]
    TooManyShards,
    #[error("the node is not known, or was replaced")]
    UnknownNode,
    #[error(
        "another node is alive under this broker id: if it was replaced, wait until it is silent; if not, change broker_id"
    )]
    BrokerInUse,
    #[error("the shard's replicas are moving: wait until they have moved, or cancel that")]
    Moving,
    #[error("the replicas are not moving")]
    NotMoving,
    #[error("the shard's replicas are others by now, or cannot become what was asked for")]
    ShardChanged,
    #[error("there is no broker of this id")]
    UnknownBroker,
    #[error("the broker is alive: stop it first")]
    BrokerAlive,
    #[error(
        "without this broker a shard may have no majority of replicas left: wait until changes of them that are under \
         way have been made, bring the others back first, or delete its topics"
    )]
    LastReplicas,
    /// Look again, and decide again.
    #[error("the settings were changed by somebody else at the same time")]
    ConfigsChanged,
}

#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    #[error("root entry version {0} is not known to this build")]
    Version(u8),
    #[error("root entry is empty")]
    Empty,
    #[error("root entry is malformed: {0}")]
    Malformed(#[from] rmp_serde::decode::Error),
}

impl RootEntry {
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new().writer();
        out.get_mut().put_u8(VERSION);
        rmp_serde::encode::write(&mut out, self).expect("writing to memory does not fail");
        out.into_inner().freeze()
    }

    pub fn decode(bytes: &[u8]) -> Result<RootEntry, DecodeError> {
        let (version, body) = bytes.split_first().ok_or(DecodeError::Empty)?;
        if *version != VERSION {
            return Err(DecodeError::Version(*version));
        }
        Ok(rmp_serde::from_slice(body)?)
    }
}
