use super::topics::RUN_PARTITIONS;
use super::*;
use crate::cluster::{NewTopic, QuotaName};

fn issued(state: &mut RootState, directory: &str) -> NodeId {
    match state.apply(RootEntry::IssueNode { directory: directory.into() }) {
        RootAnswer::Node(node) => node,
        other => panic!("{other:?}"),
    }
}

fn register(state: &mut RootState, broker: BrokerId, node: NodeId) -> RootAnswer {
    register_life(state, broker, node, 0)
}

fn register_life(state: &mut RootState, broker: BrokerId, node: NodeId, life: u64) -> RootAnswer {
    let (zone, host, internal) = ("a".into(), "h".into(), "h:2".into());
    state.apply(RootEntry::RegisterBroker(Registration {
        broker,
        node,
        zone,
        host,
        port: 1,
        internal,
        listeners: Vec::new(),
        life,
    }))
}

fn registered(state: &mut RootState, broker: BrokerId, directory: &str) -> (NodeId, RootAnswer) {
    let node = issued(state, directory);
    (node, register(state, broker, node))
}

#[test]
fn a_broker_is_alive_once_it_is_ready_and_only_in_its_own_epoch() {
    let mut state = RootState::default();
    registered(&mut state, 0, "x");
    let alive = |state: &RootState| state.broker(0).unwrap().alive;
    state.apply(RootEntry::SetAlive { broker: 0, epoch: 1, alive: true });
    assert!(!alive(&state));
    state.apply(RootEntry::SetReady { broker: 0, epoch: 1 });
    assert!(alive(&state));
    registered(&mut state, 0, "x");
    state.apply(RootEntry::SetReady { broker: 0, epoch: 1 });
    assert!(!alive(&state));
}

/// Found by the simulation: the broker went on in the epoch it was told first, and was never named to clients.
#[test]
fn a_start_that_registers_twice_keeps_its_epoch_and_a_late_one_changes_nothing() {
    let mut state = RootState::default();
    let node = issued(&mut state, "x");
    // Let in, then started.
    assert_eq!(register_life(&mut state, 0, node, 0), RootAnswer::Epoch(1));
    assert_eq!(register_life(&mut state, 0, node, 1), RootAnswer::Epoch(2));
    state.apply(RootEntry::SetReady { broker: 0, epoch: 2 });
    let ready = state.clone();
    for late in [1, 0] {
        assert_eq!(register_life(&mut state, 0, node, late), RootAnswer::Epoch(2));
        assert_eq!(state, ready);
    }
    assert_eq!(register_life(&mut state, 0, node, 2), RootAnswer::Epoch(3));
    assert_eq!(register_life(&mut state, 0, node, 1), RootAnswer::Epoch(3));
}

#[test]
fn a_broker_that_said_goodbye_is_not_revived_by_its_last_beats() {
    let mut state = RootState::default();
    let alive = |state: &RootState| state.broker(0).unwrap().alive;
    registered(&mut state, 0, "x");
    state.apply(RootEntry::SetReady { broker: 0, epoch: 1 });
    state.apply(RootEntry::Leave { broker: 0, epoch: 1 });
    state.apply(RootEntry::SetAlive { broker: 0, epoch: 1, alive: true });
    assert!(!alive(&state));
    registered(&mut state, 0, "x");
    state.apply(RootEntry::SetReady { broker: 0, epoch: 2 });
    state.apply(RootEntry::Leave { broker: 0, epoch: 1 });
    assert!(alive(&state));
}

#[test]
fn a_late_registration_does_not_replace_a_newer_node() {
    let mut state = RootState::default();
    let (late, current) = (issued(&mut state, "x"), issued(&mut state, "y"));
    assert_eq!(register(&mut state, 0, current), RootAnswer::Epoch(1));
    assert_eq!(register(&mut state, 0, late), RootAnswer::Refused(RootRefusal::UnknownNode));
    assert_eq!(state.broker(0).unwrap().node, current);
}

#[test]
fn a_broker_that_is_alive_is_not_replaced() {
    let mut state = RootState::default();
    registered(&mut state, 0, "x");
    state.apply(RootEntry::SetReady { broker: 0, epoch: 1 });
    assert_eq!(registered(&mut state, 0, "y").1, RootAnswer::Refused(RootRefusal::BrokerInUse));
    assert_eq!(registered(&mut state, 0, "x"), (1, RootAnswer::Epoch(2)));
    state.apply(RootEntry::SetReady { broker: 0, epoch: 2 });
    state.apply(RootEntry::SetAlive { broker: 0, epoch: 2, alive: false });
    assert_eq!(registered(&mut state, 0, "y"), (2, RootAnswer::Epoch(3)));
}

fn topic(name: &str, id: u8, partitions: i32) -> RootEntry {
    RootEntry::CreateTopic(NewTopic {
        id: TopicId::from_bytes([id; 16]),
        name: name.into(),
        partitions,
        replication_factor: 1,
        configs: BTreeMap::new(),
        assigned: Vec::new(),
    })
}

fn with_shards(count: u64) -> RootState {
    let mut state = RootState::default();
    for node in 1..=count {
        state.apply(RootEntry::CreateShard { replication_factor: 1, voters: vec![node], preferred: node });
    }
    state
}

#[test]
fn a_directory_keeps_its_node_and_an_emptied_one_gets_another() {
    let mut state = RootState::default();
    assert_eq!(registered(&mut state, 0, "x"), (1, RootAnswer::Epoch(1)));
    assert_eq!(registered(&mut state, 0, "x"), (1, RootAnswer::Epoch(2)));
    assert_eq!(registered(&mut state, 0, "y"), (2, RootAnswer::Epoch(3)));
    // The replaced directory is forgotten: it can't come back under its old node id.
    assert_eq!(registered(&mut state, 1, "x"), (3, RootAnswer::Epoch(4)));
}

fn load(state: &RootState) -> Vec<u64> {
    state.shards().map(|s| s.partitions).collect()
}

#[test]
fn a_topic_stays_together_and_topics_are_spread() {
    let mut state = with_shards(3);
    state.apply(topic("t", 1, 4));
    state.apply(topic("u", 2, 5));
    state.apply(topic("v", 3, 3));
    assert_eq!(load(&state), vec![4, 5, 3]);
    let grown = RootEntry::AddPartitions { topic: TopicId::from_bytes([1; 16]), partitions: 9, assigned: Vec::new() };
    state.apply(grown);
    assert_eq!(load(&state), vec![9, 5, 3]);
}

#[test]
fn a_large_topic_is_spread_in_runs() {
    let mut state = with_shards(3);
    let run = RUN_PARTITIONS as i32;
    state.apply(topic("t", 1, run + 1));
    assert_eq!(load(&state), vec![run as u64, 1, 0]);
    // What grows fills the run that was begun, then goes to the emptiest.
    let topic = TopicId::from_bytes([1; 16]);
    state.apply(RootEntry::AddPartitions { topic, partitions: 2 * run + 7, assigned: Vec::new() });
    assert_eq!(load(&state), vec![run as u64, run as u64, 7]);
}

#[test]
fn partitions_that_groups_live_in_are_spread_evenly() {
    let mut state = with_shards(3);
    state.apply(topic(crate::admin::CONSUMER_OFFSETS, 1, 50));
    assert_eq!(load(&state), vec![17, 17, 16]);
}

#[test]
fn replicas_by_hand_are_a_shard_of_their_own_that_nothing_else_is_placed_in() {
    let mut state = RootState::default();
    let nodes: Vec<NodeId> = (0..3).map(|broker| registered(&mut state, broker, &format!("dir{broker}")).0).collect();
    let [a, b, c] = nodes[..] else { unreachable!() };
    let automatic = |preferred| RootEntry::CreateShard { replication_factor: 2, voters: vec![a, b], preferred };
    state.apply(automatic(a));
    let by_hand = |id: u8, assigned: Vec<Vec<NodeId>>| {
        let (name, partitions) = (id.to_string(), assigned.len() as i32);
        let (id, configs, replication_factor) = (TopicId::from_bytes([id; 16]), Configs::new(), 2);
        RootEntry::CreateTopic(NewTopic { id, name, partitions, replication_factor, configs, assigned })
    };
    let placement = |state: &RootState, id: u8| state.topic(TopicId::from_bytes([id; 16])).unwrap().placement.clone();
    state.apply(by_hand(1, vec![vec![a, b], vec![b, a], vec![c, a], vec![b, a]]));
    assert_eq!(placement(&state, 1), [1, 2, 3, 2]);
    let shard = state.shard(2).unwrap();
    assert_eq!((shard.voters.clone(), shard.preferred, shard.partitions), (vec![b, a], b, 2));
    let automatically = NewTopic {
        id: TopicId::from_bytes([2; 16]),
        name: "u".into(),
        partitions: 300,
        replication_factor: 2,
        configs: Configs::new(),
        assigned: Vec::new(),
    };
    state.apply(RootEntry::CreateTopic(automatically));
    assert!(placement(&state, 2).iter().all(|shard| *shard == 1));
    let topic = TopicId::from_bytes([2; 16]);
    let grow = |partitions, assigned| RootEntry::AddPartitions { topic, partitions, assigned };
    assert_eq!(state.apply(grow(302, vec![vec![c, a]])), RootAnswer::Refused(RootRefusal::NotGrowing));
    state.apply(grow(301, vec![vec![c, a]]));
    assert_eq!(placement(&state, 2).last(), Some(&3));
    // A leader chosen by hand does not stand for the one that places lack.
    assert_eq!(state.apply(automatic(c)), RootAnswer::Shard(4));
    let before = state.clone();
    for wrong in [vec![vec![a, 9]], vec![vec![]]] {
        assert_eq!(state.apply(by_hand(3, wrong)), RootAnswer::Refused(RootRefusal::UnknownNode));
    }
    assert_eq!(state, before);
}

#[test]
fn lists_of_replicas_make_no_more_shards_than_a_cluster_can_have() {
    let mut state = RootState::default();
    let nodes: Vec<NodeId> = (0..40).map(|broker| registered(&mut state, broker, &format!("dir{broker}")).0).collect();
    let pairs = nodes.iter().flat_map(|a| nodes.iter().filter(move |b| a != *b).map(move |b| vec![*a, *b]));
    let by_hand = |id: u8, assigned: Vec<Vec<NodeId>>| {
        let (name, partitions) = (id.to_string(), assigned.len() as i32);
        let (id, configs, replication_factor) = (TopicId::from_bytes([id; 16]), Configs::new(), 2);
        RootEntry::CreateTopic(NewTopic { id, name, partitions, replication_factor, configs, assigned })
    };
    let empty = state.clone();
    let refused = RootAnswer::Refused(RootRefusal::TooManyShards);
    assert_eq!(state.apply(by_hand(1, pairs.clone().take(1001).collect())), refused);
    assert_eq!(state, empty);
    let all: Vec<_> = pairs.take(1000).collect();
    for id in 2..4 {
        assert!(matches!(state.apply(by_hand(id, all.clone())), RootAnswer::Topic(_)));
        assert_eq!(state.shards().count(), 1000);
    }
}

#[test]
fn shards_that_are_not_well_get_partitions_only_when_all_are() {
    let mut state = RootState::default();
    for broker in 0..3 {
        let (node, answer) = registered(&mut state, broker, &format!("dir{broker}"));
        let RootAnswer::Epoch(epoch) = answer else { panic!("{answer:?}") };
        state.apply(RootEntry::SetReady { broker, epoch });
        state.apply(RootEntry::CreateShard { replication_factor: 1, voters: vec![node], preferred: node });
    }
    // The first is away, the second has another directory now.
    state.apply(RootEntry::Leave { broker: 0, epoch: 1 });
    state.apply(RootEntry::Leave { broker: 1, epoch: 2 });
    let (_, answer) = registered(&mut state, 1, "emptied");
    let RootAnswer::Epoch(epoch) = answer else { panic!("{answer:?}") };
    state.apply(RootEntry::SetReady { broker: 1, epoch });
    state.apply(topic("t", 1, 3));
    assert_eq!(load(&state), vec![0, 0, 3]);
    state.apply(RootEntry::Leave { broker: 2, epoch: 3 });
    state.apply(topic("u", 2, 3));
    assert_eq!(load(&state), vec![3, 0, 3]);
}

#[test]
fn a_name_is_free_as_soon_as_its_topic_is_being_deleted() {
    let mut state = with_shards(1);
    state.apply(topic("t", 1, 1));
    assert_eq!(state.apply(topic("t", 2, 1)), RootAnswer::Refused(RootRefusal::TopicExists));
    let id = TopicId::from_bytes([1; 16]);
    assert_eq!(state.apply(topic("t", 1, 1)), RootAnswer::Topic(id));
    state.apply(RootEntry::DeleteTopic { topic: id, epoch: 7 });
    let next = TopicId::from_bytes([2; 16]);
    assert_eq!(state.apply(topic("t", 2, 1)), RootAnswer::Topic(next));
    assert_eq!(state.topic(next).unwrap().epoch_base, 7, "its epochs go on");
    state.apply(RootEntry::Gone { topic: id });
    assert_eq!(state.shards().next().unwrap().partitions, 1);
}

#[test]
fn growing_to_the_same_count_again_is_done() {
    let mut state = with_shards(1);
    state.apply(topic("t", 1, 1));
    let mut grow = |partitions| {
        state.apply(RootEntry::AddPartitions { topic: TopicId::from_bytes([1; 16]), partitions, assigned: Vec::new() })
    };
    assert_eq!(grow(3), RootAnswer::Done);
    assert_eq!(grow(3), RootAnswer::Done);
    assert_eq!(grow(2), RootAnswer::Refused(RootRefusal::NotGrowing));
}

#[test]
fn entries_read_back_as_written() {
    let entry = topic("t", 1, 3);
    assert_eq!(RootEntry::decode(&entry.encode()).unwrap(), entry);
    assert!(RootEntry::decode(&[7]).is_err());
    assert!(RootEntry::decode(&[]).is_err());
}

fn configs(pairs: &[(&str, &str)]) -> Configs {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn settings_change_only_from_what_they_were_seen_to_be() {
    let mut state = RootState::default();
    let mut alter = |before: &[(&str, &str)], after: &[(&str, &str)]| {
        let (resource, before, after) = (Resource::Group("g".into()), configs(before), configs(after));
        state.apply(RootEntry::AlterConfigs { resource, before, after })
    };
    let changed = RootAnswer::Refused(RootRefusal::ConfigsChanged);
    assert_eq!(alter(&[], &[("a", "1")]), RootAnswer::Done);
    // Its answer was lost.
    assert_eq!(alter(&[], &[("a", "1")]), RootAnswer::Done);
    assert_eq!(alter(&[], &[("a", "2")]), changed);
    assert_eq!(alter(&[("a", "1")], &[("a", "1"), ("b", "2")]), RootAnswer::Done);
    assert_eq!(alter(&[("a", "1")], &[]), changed);
    assert_eq!(alter(&[("a", "1"), ("b", "2")], &[]), RootAnswer::Done);
    assert_eq!(state.configured().count(), 0);
}

#[test]
fn settings_of_a_topic_go_with_it() {
    let mut state = with_shards(1);
    let id = TopicId::from_bytes([1; 16]);
    let alter = |after: &[(&str, &str)]| {
        let (resource, before) = (Resource::Topic(id), Configs::new());
        RootEntry::AlterConfigs { resource, before, after: configs(after) }
    };
    let unknown = RootAnswer::Refused(RootRefusal::UnknownTopic);
    assert_eq!(state.apply(alter(&[("retention.ms", "1")])), unknown);
    state.apply(topic("t", 1, 1));
    assert_eq!(state.apply(alter(&[("retention.ms", "1")])), RootAnswer::Done);
    assert_eq!(state.topic(id).unwrap().configs["retention.ms"], "1");
    state.apply(RootEntry::DeleteTopic { topic: id, epoch: 0 });
    assert_eq!(state.apply(alter(&[])), unknown);
}

#[test]
fn a_topic_is_unfinished_until_all_its_partitions_know_whether_they_are_stamped() {
    let mut state = with_shards(1);
    let id = TopicId::from_bytes([1; 16]);
    state.apply(topic("t", 1, 1));
    state.apply(RootEntry::SetLive { topic: id, partitions: 1 });
    let unfinished = |state: &RootState| state.topic(id).unwrap().is_unfinished();
    assert!(!unfinished(&state));
    let stamped = configs(&[("message.timestamp.type", "LogAppendTime")]);
    state.apply(RootEntry::AlterConfigs {
        resource: Resource::Topic(id),
        before: Configs::new(),
        after: stamped.clone(),
    });
    assert!(unfinished(&state));
    // It grows while the first partition is told.
    state.apply(RootEntry::AddPartitions { topic: id, partitions: 2, assigned: Vec::new() });
    state.apply(RootEntry::StampingTold { topic: id, change: 1, partitions: 1 });
    state.apply(RootEntry::SetLive { topic: id, partitions: 2 });
    assert!(unfinished(&state));
    state.apply(RootEntry::StampingTold { topic: id, change: 1, partitions: 2 });
    assert!(!unfinished(&state));
    // Other settings are nothing to shards.
    let both = configs(&[("message.timestamp.type", "LogAppendTime"), ("retention.ms", "1")]);
    state.apply(RootEntry::AlterConfigs { resource: Resource::Topic(id), before: stamped, after: both });
    assert!(!unfinished(&state));
}

#[test]
fn limits_are_set_and_taken_away_one_by_one() {
    let mut state = RootState::default();
    let entity = || QuotaEntity { user: Some(QuotaName::Default), ..QuotaEntity::default() };
    let mut alter = |key: &str, limit: Option<f64>| {
        let changes = BTreeMap::from([(key.to_owned(), limit.map(Limit::new))]);
        state.apply(RootEntry::AlterQuotas { entity: entity(), changes });
        state.quotas().get(&entity()).map_or(0, BTreeMap::len)
    };
    let left =
        [alter("a", Some(0.5)), alter("b", Some(1.0)), alter("a", Some(2.0)), alter("a", None), alter("b", None)];
    assert_eq!(left, [1, 2, 2, 1, 0]);
    assert_eq!((state.quotas().len(), state.quotas_version()), (0, 5));
}

#[test]
fn what_a_snapshot_holds_comes_back() {
    let mut state = with_shards(1);
    state.apply(topic("t", 1, 1));
    state.apply(RootEntry::UpdateFeatures { levels: BTreeMap::from([("f".into(), 2)]) });
    for resource in [Resource::Broker(1), Resource::AllBrokers, Resource::ClientMetrics("m".into())] {
        state.apply(RootEntry::AlterConfigs { resource, before: Configs::new(), after: configs(&[("a", "1")]) });
    }
    let ip = Some(QuotaName::Named("::1".into()));
    let changes = BTreeMap::from([("k".to_owned(), Some(Limit::new(1.5)))]);
    state.apply(RootEntry::AlterQuotas { entity: QuotaEntity { ip, ..QuotaEntity::default() }, changes });
    let bytes = rmp_serde::to_vec(&state).unwrap();
    assert_eq!(rmp_serde::from_slice::<RootState>(&bytes).unwrap(), state);
}

#[test]
fn who_stamps_is_said_by_the_topic_or_else_for_all_brokers() {
    let mut state = with_shards(1);
    state.apply(topic("t", 1, 1));
    state.apply(topic("u", 2, 1));
    let ids = [1, 2].map(|id| TopicId::from_bytes([id; 16]));
    for id in ids {
        state.apply(RootEntry::SetLive { topic: id, partitions: 1 });
    }
    let own = configs(&[("message.timestamp.type", "CreateTime")]);
    state.apply(RootEntry::AlterConfigs { resource: Resource::Topic(ids[1]), before: Configs::new(), after: own });
    let after = configs(&[(STAMPING, "LogAppendTime")]);
    state.apply(RootEntry::AlterConfigs { resource: Resource::AllBrokers, before: Configs::new(), after });
    let seen = ids.map(|id| state.topic(id).unwrap()).map(|t| (state.is_stamped(t), t.is_unfinished()));
    assert_eq!(seen, [(true, true), (false, false)]);
}
