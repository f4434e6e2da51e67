use super::*;

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
    let grown = RootEntry::AddPartitions { topic: TopicId::from_bytes([1; 16]), partitions: 9 };
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
    state.apply(RootEntry::AddPartitions { topic, partitions: 2 * run + 7 });
    assert_eq!(load(&state), vec![run as u64, run as u64, 7]);
}

#[test]
fn partitions_that_groups_live_in_are_spread_evenly() {
    let mut state = with_shards(3);
    state.apply(topic(crate::admin::CONSUMER_OFFSETS, 1, 50));
    assert_eq!(load(&state), vec![17, 17, 16]);
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
    state.apply(RootEntry::DeleteTopic { topic: id });
    assert_eq!(state.apply(topic("t", 2, 1)), RootAnswer::Topic(TopicId::from_bytes([2; 16])));
    state.apply(RootEntry::Gone { topic: id });
    assert_eq!(state.shards().next().unwrap().partitions, 1);
}

#[test]
fn growing_to_the_same_count_again_is_done() {
    let mut state = with_shards(1);
    state.apply(topic("t", 1, 1));
    let mut grow =
        |partitions| state.apply(RootEntry::AddPartitions { topic: TopicId::from_bytes([1; 16]), partitions });
    assert_eq!(grow(3), RootAnswer::Done);
    assert_eq!(grow(3), RootAnswer::Done);
    assert_eq!(grow(2), RootAnswer::Refused(RootRefusal::NotGrowing));
}

#[test]
fn the_horizon_passes_blocks_older_than_the_expiry() {
    let mut state = RootState::default();
    state.apply(RootEntry::IssueProducerIds { count: 1000, time: 0 });
    assert_eq!(state.producer_id_horizon(), 0);
    state.apply(RootEntry::IssueProducerIds { count: 1000, time: PRODUCER_EXPIRY_MS + 1 });
    assert_eq!(state.producer_id_horizon(), 1000);
}

#[test]
fn entries_read_back_as_written() {
    let entry = topic("t", 1, 3);
    assert_eq!(RootEntry::decode(&entry.encode()).unwrap(), entry);
    assert!(RootEntry::decode(&[7]).is_err());
    assert!(RootEntry::decode(&[]).is_err());
}
