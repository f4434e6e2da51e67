//! Several brokers in this process: joining, leaving, coming back.

use std::time::Duration;

use futures::future::join_all;
use tokio::time::timeout;

use crate::cluster::{JoinError, RootState, SeatError};
use crate::node::testing::Site;
use crate::node::{Error, Node};

const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until this broker has applied a root state like that.
async fn until(node: &Node, like_that: impl Fn(&RootState) -> bool) {
    let mut applied = node.cluster().root().applied();
    let reached = async {
        while !like_that(&node.cluster().view()) {
            applied.changed().await.unwrap();
        }
    };
    timeout(PATIENCE, reached).await.expect("the root state never became like that");
}

async fn until_root_has_voters(node: &Node, count: usize) {
    // Every change of voters is an entry of the root.
    let mut applied = node.cluster().root().applied();
    let reached = async {
        while node.cluster().root().voters().len() != count || node.cluster().root().is_joint() {
            applied.changed().await.unwrap();
        }
    };
    timeout(PATIENCE, reached).await.expect("the root never had so many voters");
}

async fn shut_down(nodes: Vec<Node>) {
    join_all(nodes.into_iter().map(Node::shut_down)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joining_needs_only_a_seed_that_knows_the_leader() {
    let site = Site::new(3);
    let founder = site.start(0, &[0]).await;
    let follower = site.start(1, &[0]).await;
    assert_eq!(follower.cluster().controller(), Some(0));
    let newcomer = site.start(2, &[1]).await;
    until(&founder, |view| view.broker(2).is_some_and(|b| b.alive)).await;
    shut_down(vec![newcomer, follower, founder]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_whose_brokers_have_all_moved_finds_itself_by_its_seeds() {
    let mut site = Site::new(3);
    let mut nodes = Vec::new();
    for broker in 0..3 {
        nodes.push(site.start(broker, &[0, 1, 2]).await);
    }
    until_root_has_voters(&nodes[0], 3).await;
    let epochs: Vec<u64> = nodes.iter().map(|node| node.cluster().epoch()).collect();
    shut_down(nodes).await;
    site.move_all();
    let starts = (0..3).map(|broker| site.start(broker, &[0, 1, 2]));
    let nodes = timeout(PATIENCE, join_all(starts)).await.expect("the brokers do not find each other");
    assert!(nodes.iter().zip(epochs).all(|(node, before)| node.cluster().epoch() > before));
    shut_down(nodes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_was_replaced_does_not_come_back() {
    let site = Site::new(3);
    let founder = site.start(0, &[0]).await;
    let first = site.start(1, &[0]).await;
    let first_id = first.cluster().node_id();
    first.shut_down().await;
    let emptied = site.data_dir(2);
    let second = site.start_in(&emptied, 1, &[0]).await.unwrap();
    until(&founder, |view| view.broker(1).is_some_and(|b| b.alive && b.node != first_id)).await;
    second.shut_down().await;
    let back = timeout(PATIENCE, site.start_in(&site.data_dir(1), 1, &[0])).await.expect("it waits for ever");
    assert!(matches!(back, Err(Error::Seat(SeatError::Replaced { broker: 1, node })) if node == first_id));
    founder.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_stops_stays_away() {
    let site = Site::new(3);
    let mut nodes = Vec::new();
    for broker in 0..3 {
        nodes.push(site.start(broker, &[0, 1, 2]).await);
    }
    until_root_has_voters(&nodes[0], 3).await;
    let leaving = nodes.remove(0);
    // It was the root's leader, and goes on acknowledging beats of its successor while it stops.
    leaving.shut_down().await;
    until(&nodes[0], |view| view.broker(0).is_some_and(|b| !b.ready && !b.alive)).await;
    assert_ne!(nodes[0].cluster().controller(), Some(0));
    shut_down(nodes).await;
}

#[tokio::test]
async fn a_node_that_lost_its_log_does_not_start_over() {
    let site = Site::new(1);
    site.start(0, &[0]).await.shut_down().await;
    std::fs::remove_dir_all(site.data_dir(0).join("raft")).unwrap();
    let started = site.start_in(&site.data_dir(0), 0, &[0]).await;
    assert!(matches!(started, Err(Error::Raft(milepost_raft::Error::LogMissing(_)))));
    // And not because it was taken for another directory.
    assert!(!matches!(started, Err(Error::Join(JoinError::NoSeeds { .. }))));
}
