use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::testing::{Cluster, Journal, PATIENCE, TestNode, eventually};
use crate::*;

fn defaults(_: &mut Config) {}

fn short_log(config: &mut Config) {
    config.snapshot_entries = 50;
    config.kept_entries = 5;
    config.segment_bytes = 16 << 10;
}

fn lines(count: usize) -> Vec<Bytes> {
    (0..count).map(|nth| Bytes::from(format!("line {nth}"))).collect()
}

#[test]
fn three_nodes_elect_a_leader_and_apply_the_same() {
    let cluster = Cluster::start(3, 1, defaults);
    let leader = cluster.leader();
    for (nth, line) in lines(20).into_iter().enumerate() {
        let (_, count) = leader.write(&line).expect("committed");
        assert_eq!(count, nth + 1);
    }
    for node in &cluster.nodes {
        assert_eq!(node.wait_for_lines(20), lines(20));
        assert_eq!(node.group().voters(), BTreeSet::from([1, 2, 3]));
        assert_eq!(node.group().leadership().borrow().leader, Some(leader.id()));
    }
    let heard = leader.group().heard_within(PATIENCE);
    assert_eq!(heard, [(1, true), (2, true), (3, true)].into());
    assert!(leader.group().last_heard().is_some());
}

#[test]
fn every_replica_hears_of_an_entry_when_it_comes_into_the_log() {
    let cluster = Cluster::start(3, 1, defaults);
    let leader = cluster.leader();
    for line in lines(20) {
        leader.write(&line).expect("committed");
    }
    for node in &cluster.nodes {
        // Twice, where an append was repeated.
        eventually(|| {
            let appended = node.group().machine().appended();
            lines(20).iter().all(|line| appended.contains(line))
        });
    }
}

#[test]
fn pipelined_proposals_keep_their_order() {
    let cluster = Cluster::start(3, 1, defaults);
    let leader = cluster.leader();
    let term = leader.group().leadership().borrow().term;
    let positions = leader.run(async {
        let mut proposals = Vec::new();
        for line in lines(2_000) {
            proposals.push(leader.group().propose(line, term).await.expect("enqueued"));
        }
        futures::future::try_join_all(proposals).await.expect("committed")
    });
    assert!(positions.windows(2).all(|pair| pair[0].0.index + 1 == pair[1].0.index && pair[0].1 + 1 == pair[1].1));
    for node in &cluster.nodes {
        assert_eq!(node.wait_for_lines(2_000), lines(2_000));
    }
}

#[test]
fn a_killed_leader_is_replaced_and_nothing_acknowledged_is_lost() {
    let mut cluster = Cluster::start(3, 1, defaults);
    let first = cluster.leader_id();
    for line in lines(50) {
        cluster.node(first).write(&line).expect("committed");
    }
    cluster.take(first).kill();
    let second = cluster.leader();
    assert_ne!(second.id(), first);
    assert_eq!(second.group().machine().lines(), lines(50));
    let (_, count) = second.write(b"after").expect("two of three commit");
    assert_eq!(count, 51);
    cluster.add(first);
    assert_eq!(cluster.node(first).wait_for_lines(51)[..50], lines(50));
}

#[test]
fn a_leader_whose_process_has_ended_is_replaced_before_its_lease_is_over() {
    let for_ever = |config: &mut Config| {
        config.election_min = PATIENCE * 10;
        config.election_max = PATIENCE * 20;
    };
    // Both survivors are heirs, each of some of the groups.
    let mut cluster = Cluster::start(3, 2, for_ever);
    let first = cluster.leader_id();
    let survivor = cluster.nodes.iter().map(|node| node.id()).find(|id| *id != first).expect("three nodes");
    let has_ended = |cluster: &Cluster, at: NodeId, node: NodeId| {
        let asked = cluster.node(at);
        asked.run(asked.node.has_ended(node))
    };
    assert!(!has_ended(&cluster, first, survivor));
    cluster.take(first).kill();
    let led_by_survivors = |node: &TestNode| {
        node.groups.iter().all(|group| {
            let now = *group.leadership().borrow();
            now.leader.is_some_and(|leader| leader != first)
        })
    };
    eventually(|| cluster.nodes.iter().all(led_by_survivors));
    assert!(has_ended(&cluster, survivor, first));
    cluster.leader().write(b"after").expect("two of three commit");
    cluster.add(first);
    // At once, whatever was known before.
    assert!(!has_ended(&cluster, survivor, first));
}

#[test]
fn all_nodes_restart_from_disk() {
    let mut cluster = Cluster::start(3, 1, short_log);
    let leader = cluster.leader();
    for line in lines(120) {
        leader.write(&line).expect("committed");
    }
    leader.run(leader.group().snapshot_now()).expect("written");
    leader.write(b"line 120").expect("committed");
    let term = leader.group().leadership().borrow().term;
    for id in [1, 2, 3] {
        cluster.take(id).kill();
    }
    (1..=3).for_each(|id| cluster.add(id));
    let leader = cluster.leader();
    assert!(leader.group().leadership().borrow().term > term, "a term is led once");
    assert_eq!(leader.wait_for_lines(121), lines(121));
    assert_eq!(leader.node.groups_on_disk(), [1]);
    leader.write(b"line 121").expect("committed");
    for node in &cluster.nodes {
        assert_eq!(node.wait_for_lines(122), lines(122));
    }
}

#[test]
fn an_emptied_directory_comes_back_under_a_new_id_through_a_snapshot() {
    let mut cluster = Cluster::start(3, 1, short_log);
    let lost = cluster.nodes.iter().map(|node| node.id()).find(|id| *id != cluster.leader_id()).expect("a follower");
    for line in lines(200) {
        cluster.leader().write(&line).expect("committed");
    }
    cluster.take(lost).kill();
    let leader = cluster.leader();
    leader.run(leader.group().snapshot_now()).expect("written");
    cluster.add(4);
    let leader = cluster.leader();
    leader.run(leader.group().add_learner(4)).expect("committed");
    assert_eq!(cluster.node(4).wait_for_lines(200), lines(200));
    assert!(cluster.store.len() > 0, "the log alone could not have brought it up");
    eventually(|| leader.group().caught_up(4));
    let voters: BTreeSet<NodeId> = [1, 2, 3, 4].into_iter().filter(|id| *id != lost).collect();
    leader.run(leader.group().change_voters(voters.clone(), false)).expect("committed");
    assert_eq!(leader.group().voters(), voters);
    assert_eq!(leader.group().learners(), BTreeSet::new());
    leader.write(b"line 200").expect("committed");
    assert_eq!(cluster.node(4).wait_for_lines(201), lines(201));
    // The new one has its snapshot on its own disk now.
    cluster.take(4).kill();
    cluster.add(4);
    assert_eq!(cluster.node(4).wait_for_lines(201), lines(201));
}

#[test]
fn a_change_of_voters_that_was_given_up_halfway_shows_and_can_be_finished() {
    let mut cluster = Cluster::start(1, 1, defaults);
    cluster.add(2);
    let leader = cluster.leader();
    leader.run(leader.group().add_learner(2)).expect("committed");
    assert!(!leader.group().is_joint());
    let voters = BTreeSet::from([1, 2]);
    // Without the second voter the first half is not committed, so the second half is not asked for.
    cluster.take(2).kill();
    let leader = cluster.leader();
    let change = leader.group().change_voters(voters.clone(), false);
    leader.run(async {
        tokio::select! {
            result = change => panic!("the second voter is down: {result:?}"),
            () = async {
                while !leader.group().is_joint() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            } => {}
        }
    });
    cluster.add(2);
    eventually(|| cluster.leader().write(b"x").is_ok());
    let leader = cluster.leader();
    assert!(leader.group().is_joint(), "nobody goes on by himself");
    leader.run(leader.group().change_voters(voters.clone(), false)).expect("committed");
    assert!(!leader.group().is_joint());
    assert_eq!(leader.group().voters(), voters);
}

#[test]
fn shutdown_hands_leadership_over_first() {
    let mut cluster = Cluster::start(3, 1, defaults);
    cluster.leader().write(b"before").expect("committed");
    let first = cluster.leader_id();
    let leaving = cluster.take(first);
    let term = leaving.group().leadership().borrow().term;
    leaving.run(leaving.node.shutdown());
    assert_eq!(leaving.group().stopped().as_deref(), Some("node is shut down"));
    let leader = cluster.leader();
    assert_ne!(leader.id(), first);
    assert_eq!(
        leader.group().leadership().borrow().term,
        term + 1,
        "an election by timeout would need more terms or time"
    );
    leader.write(b"after").expect("committed");
    assert!(matches!(leaving.write(b"too late"), Err(ProposeError::Stopped)));
}

#[test]
fn leadership_moves_on_request() {
    let cluster = Cluster::start(3, 1, defaults);
    let leader = cluster.leader();
    leader.write(b"x").expect("committed");
    let to = leader.id() % 3 + 1;
    leader.run(leader.group().transfer_leader(to)).expect("handed over");
    assert_eq!(cluster.leader_id(), to);
    let refused = leader.run(leader.group().transfer_leader(to));
    assert!(matches!(refused, Err(Error::NotLeader { leader: Some(id) }) if id == to));
}

#[test]
fn a_proposal_for_another_term_is_refused() {
    let cluster = Cluster::start(3, 1, defaults);
    let leader = cluster.leader();
    let term = leader.group().leadership().borrow().term;
    for wrong in [term - 1, term + 1] {
        let result = leader.run(async { leader.group().propose(Bytes::from_static(b"stale"), wrong).await?.await });
        assert!(matches!(result, Err(ProposeError::NotLeader { .. })), "{result:?}");
    }
    let follower = cluster.nodes.iter().find(|node| node.id() != leader.id()).expect("a follower");
    let refused = follower.write(b"not here");
    assert_eq!(refused, Err(ProposeError::NotLeader { leader: Some(leader.id()) }));
    leader.write(b"fresh").expect("committed");
    assert_eq!(leader.group().machine().lines(), ["fresh"]);
}

#[test]
fn a_read_index_covers_what_was_acknowledged() {
    let cluster = Cluster::start(3, 1, defaults);
    let leader = cluster.leader();
    let (at, _) = leader.write(b"x").expect("committed");
    let index = leader.run(leader.group().read_index()).expect("a majority answers");
    assert!(index >= at.index);
    leader.run(leader.group().wait_applied(index, PATIENCE)).expect("applied");
    let follower = cluster.nodes.iter().find(|node| node.id() != leader.id()).expect("a follower");
    let refused = follower.run(follower.group().read_index());
    assert_eq!(refused, Err(ReadError::NotLeader { leader: Some(leader.id()) }));
    let late = follower.run(follower.group().wait_applied(index + 1_000, Duration::from_millis(1)));
    assert_eq!(late, Err(WaitError::Timeout));
}

#[test]
fn groups_share_a_log() {
    let cluster = Cluster::start(1, 16, defaults);
    let node = cluster.leader();
    node.run(async {
        for group in &node.groups {
            group.leadership().wait_for(|now| now.ready).await.expect("running");
        }
        let before = node.node.log_syncs();
        for _ in 0..20 {
            let proposals = node.groups.iter().map(|group| async move {
                let term = group.leadership().borrow().term;
                group.propose(Bytes::from_static(b"x"), term).await?.await
            });
            futures::future::try_join_all(proposals).await.expect("committed");
        }
        let after = node.node.log_syncs();
        assert_eq!(after.operations - before.operations, 320);
        // How many share a sync depends on the disk; the log's own test holds it still to see.
        assert!((1..=320).contains(&(after.syncs - before.syncs)), "{before:?} {after:?}");
    });
}

#[test]
fn an_entry_the_machine_cannot_take_stops_the_replica() {
    let cluster = Cluster::start(1, 1, defaults);
    let node = cluster.leader();
    node.write(b"fine").expect("committed");
    let result = node.write(b"unknown kind");
    assert!(matches!(result, Err(ProposeError::Unknown { .. })), "{result:?}");
    let waited = node.run(node.group().wait_applied(u64::MAX, PATIENCE));
    assert_eq!(waited, Err(WaitError::Stopped));
    assert!(node.group().stopped().is_some_and(|why| why.contains("unknown kind")), "{:?}", node.group().stopped());
    assert!(matches!(node.write(b"later"), Err(ProposeError::Stopped)));
}

#[test]
fn a_removed_group_is_forgotten_and_can_come_back_empty() {
    let mut cluster = Cluster::start(1, 2, defaults);
    cluster.leader().write(b"x").expect("committed");
    let node = cluster.take(1);
    node.run(node.node.remove_group(1)).expect("removed");
    assert!(node.group().stopped().is_some());
    assert_eq!(node.node.groups_on_disk(), [2]);
    node.run(node.node.shutdown());
    node.kill();
    cluster.add(1);
    assert_eq!(cluster.node(1).group().machine().lines(), Vec::<Bytes>::new());
    assert_eq!(cluster.node(1).group().voters(), BTreeSet::new());
}

#[test]
fn a_closed_group_opens_again_with_what_it_had() {
    let cluster = Cluster::start(1, 1, defaults);
    let node = cluster.leader();
    node.write(b"x").expect("committed");
    node.run(node.node.close_group(1));
    assert!(node.group().stopped().is_some());
    assert_eq!(node.node.groups_on_disk(), [1]);
    let opened = node.run(node.node.open_group(1, Arc::new(Journal::default()))).expect("closed before");
    assert_eq!(opened.voters(), BTreeSet::from([node.id()]));
    let ready = node.run(async { opened.leadership().wait_for(|now| now.ready).await.map(|now| now.term) });
    assert!(ready.expect("it elects itself") > 1);
    assert_eq!(opened.machine().lines(), [Bytes::from_static(b"x")]);
}

/// openraft backs off inside the stream of requests: a network that dials before it takes one from there spins.
#[test]
fn a_dead_peer_is_not_dialled_in_a_busy_loop() {
    let mut cluster = Cluster::start(3, 1, defaults);
    let dead = cluster.nodes.iter().map(|node| node.id()).find(|id| *id != cluster.leader_id()).expect("a follower");
    cluster.leader().write(b"x").expect("committed");
    cluster.take(dead).kill();
    let leader = cluster.leader();
    let before = leader.node.attempts(dead);
    let began = std::time::Instant::now();
    let mut writes = 0;
    while began.elapsed() < Duration::from_secs(2) {
        leader.write(b"y").expect("two of three commit");
        writes += 1;
    }
    let attempts = leader.node.attempts(dead) - before;
    // Twenty beats, and appends that back off to two a second.
    assert!(attempts < 100, "{attempts} attempts beside {writes} writes");
}

#[test]
fn the_log_can_be_inspected_while_the_node_runs() {
    let cluster = Cluster::start(1, 1, defaults);
    let node = cluster.leader();
    for line in lines(3) {
        node.write(&line).expect("committed");
    }
    let entries: Vec<_> =
        inspect::entries(&cluster.data_dir(1)).expect("a log").collect::<Result<_, _>>().expect("undamaged");
    let kinds: Vec<_> = entries.iter().map(|entry| entry.kind).collect();
    use inspect::EntryKind::*;
    assert_eq!(kinds, [Membership, Blank, Normal, Normal, Normal]);
    let payloads: Vec<_> = entries[2..].iter().map(|entry| entry.payload.clone()).collect();
    assert_eq!(payloads, lines(3));
    assert!(entries.iter().all(|entry| entry.group == 1 && entry.bytes_on_disk > 18));
    assert!(entries.windows(2).all(|pair| pair[0].index + 1 == pair[1].index));
}

#[test]
fn a_directory_is_used_by_one_node_at_a_time() {
    let cluster = Cluster::start(1, 1, defaults);
    let config = Config::new(([127, 0, 0, 1], 0).into(), cluster.data_dir(1));
    let identity = Identity { cluster_id: "test".into(), node_id: 1 };
    let store = std::sync::Arc::new(cluster.store.clone());
    let service = std::sync::Arc::new(crate::testing::Echo);
    let second = cluster.nodes[0].run(Node::start(config, identity, store, service));
    assert!(matches!(second, Err(Error::Locked(_))));
}

#[test]
fn a_node_that_has_run_before_does_not_start_without_its_log() {
    let mut cluster = Cluster::start(1, 1, defaults);
    cluster.leader().write(b"x").expect("committed");
    let node = cluster.take(1);
    node.run(node.node.shutdown());
    node.kill();
    cluster.adjust = |config| config.must_exist = true;
    cluster.add(1);
    assert_eq!(cluster.node(1).wait_for_lines(1), ["x"]);
    let node = cluster.take(1);
    node.run(node.node.shutdown());
    std::fs::remove_dir_all(cluster.data_dir(1).join("log")).expect("removed");
    let mut config = Config::new(([127, 0, 0, 1], 0).into(), cluster.data_dir(1));
    config.must_exist = true;
    let opened = crate::data_dir::open_data_dir(&config, node.node.identity());
    assert!(matches!(opened, Err(Error::LogMissing(_))));
}
