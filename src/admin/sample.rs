//! Root states for this room's tests, made as real ones are: by applying entries.

use std::collections::BTreeMap;

use milepost_raft::NodeId;

use crate::admin::{Defaults, Settings};
use crate::cluster::{NewTopic, Registration, RootAnswer, RootEntry, RootState};
use crate::types::{StorageClass, TopicId};
use crate::zone::Zones;

pub fn topic_id(byte: u8) -> TopicId {
    TopicId::from_bytes([byte; 16])
}

/// A broker, and the node it got.
pub fn join(view: &mut RootState, broker: i32, zone: &str) -> NodeId {
    let RootAnswer::Node(node) = view.apply(RootEntry::IssueNode { directory: format!("dir{broker}") }) else {
        unreachable!("a node id is always issued")
    };
    let (host, internal) = (format!("host{broker}"), "h:1".into());
    let registration =
        Registration { broker, node, zone: zone.into(), host, port: 9092, internal, listeners: Vec::new(), life: 0 };
    let RootAnswer::Epoch(epoch) = view.apply(RootEntry::RegisterBroker(registration)) else {
        unreachable!("the node was issued above")
    };
    view.apply(RootEntry::SetReady { broker, epoch });
    node
}

/// Broker i is in `zones[i]`, on node i + 1; shard i + 1 is replicated by all and prefers broker i.
pub fn cluster(zones: &[&str]) -> RootState {
    let mut view = RootState::default();
    let nodes: Vec<NodeId> = (0..).zip(zones).map(|(id, zone)| join(&mut view, id, zone)).collect();
    for (i, preferred) in nodes.iter().enumerate() {
        let mut voters = nodes.clone();
        voters.rotate_left(i);
        let replication_factor = zones.len() as u16;
        view.apply(RootEntry::CreateShard { replication_factor, voters, preferred: *preferred });
    }
    view
}

pub fn set_dead(view: &mut RootState, broker: i32) {
    let epoch = view.broker(broker).expect("registered").epoch;
    view.apply(RootEntry::SetAlive { broker, epoch, alive: false });
}

/// A topic of which the first `live` partitions exist.
pub fn topic(view: &mut RootState, name: &str, id: u8, partitions: i32, live: i32) -> TopicId {
    let replication_factor = view.shards().next().expect("a shard").replication_factor;
    let (id, name, configs) = (topic_id(id), name.to_string(), BTreeMap::new());
    view.apply(RootEntry::CreateTopic(NewTopic {
        id,
        name,
        partitions,
        replication_factor,
        configs,
        assigned: Vec::new(),
    }));
    view.apply(RootEntry::SetLive { topic: id, partitions: live });
    id
}

pub fn settings() -> Settings {
    Settings {
        auto_create_topics: true,
        num_partitions: 4,
        default_replication_factor: -1,
        offsets_topic_partitions: 50,
        transaction_topic_partitions: 50,
        defaults: Defaults::default(),
        zones: Zones::default(),
        store: "memory://".into(),
        classes: vec![StorageClass::Regional],
    }
}
