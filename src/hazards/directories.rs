//! Hazards: a wiped disk under the old broker id; a lost log under a kept identity; a new cluster on an old bucket.
//!
//! Why it holds: the Raft node id belongs to the data directory, not to the broker. An emptied directory gets a new id and
//! takes the old one's place as a learner first; the old id never votes again. A directory that ran refuses to start
//! without its log. The bucket's marker names one founder, and keys begin with the cluster's id and incarnation.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::cluster::JoinError;
use crate::hazards::log::object;
use crate::hazards::network::{Three, until};
use crate::node::Error;
use crate::node::testing::{Client, Topic, batches, claim, records_of, start_on};
use crate::object::{Durable, Error as StoreError, Memory, Paths, Store};

const FLAGS: [&str; 1] = ["--store=memory://"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wiped_broker_comes_back_as_another_node_and_its_old_vote_is_gone() {
    let mut three = Three::start().await;
    let topic = Topic::create_replicated(&mut three.client(0).await, 1, 3, &[]).await;
    for sequence in 0..3 {
        let answer = topic.produced(&mut three.client(0).await, 9, &[records_of(1, &claim(0, sequence))]).await;
        assert_eq!((answer.error_code, answer.base_offset), (0, sequence.into()));
    }
    let wiped = three.nodes.pop().expect("three");
    let old = wiped.cluster().node_id();
    wiped.shut_down().await;
    std::fs::remove_dir_all(three.data_dir(2)).unwrap();
    let wiped = three.start_broker(2).await;
    let new = wiped.cluster().node_id();
    assert!(new > old, "ids are issued once: {old} and then {new}");
    three.nodes.push(wiped);
    // The root group's own voters, and the shard's as the root names them.
    until("the new node in the old one's place", async || {
        let voters = three.nodes.iter().map(|node| node.cluster().root().voters());
        let shard = three.nodes[0].cluster().view().shard(three.shard()).expect("placed").voters.clone();
        voters.clone().all(|v| v.contains(&new) && !v.contains(&old)) && shard.contains(&new) && !shard.contains(&old)
    })
    .await;
    let state = three.agree().await;
    assert_eq!(state.partitions().next().expect("one").high_watermark, 3);
    let mut client = three.client(2).await;
    until("the wiped broker to serve everything", async || {
        batches(&topic.fetched(&mut client, 12, 0, 1 << 20).await).len() == 3
    })
    .await;
    let answer = topic.produced(&mut client, 9, &[records_of(1, &claim(0, 3))]).await;
    assert_eq!((answer.error_code, answer.base_offset), (0, 3));
    three.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_lost_its_log_does_not_vote_again() {
    let (store, dir) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    start_on(store.clone(), dir.path(), &FLAGS).await.unwrap().shut_down().await;
    start_on(store.clone(), dir.path(), &FLAGS).await.unwrap().shut_down().await;
    std::fs::remove_dir_all(crate::cluster::raft_dir(dir.path()).join("log")).unwrap();
    let refused = start_on(store, dir.path(), &FLAGS).await.err();
    assert!(matches!(refused, Some(Error::Raft(milepost_raft::Error::LogMissing(_)))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_directory_founds_nothing_in_an_old_bucket_and_an_old_one_refuses_another_bucket() {
    let (store, dir) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let node = start_on(store.clone(), dir.path(), &FLAGS).await.unwrap();
    let topic = Topic::create(&mut Client::connect(&node).await, 1, &[]).await;
    topic.produced(&mut Client::connect(&node).await, 9, &[records_of(1, &claim(0, 0))]).await;
    node.shut_down().await;

    let newcomer = tempfile::tempdir().unwrap();
    let refused = start_on(store.clone(), newcomer.path(), &FLAGS).await.err();
    assert!(matches!(refused, Some(Error::Join(JoinError::NoSeeds { .. }))), "{refused:?}");
    let refused = start_on(Arc::new(Memory::new()), dir.path(), &FLAGS).await.err();
    assert!(matches!(refused, Some(Error::Join(JoinError::NoMarker { .. }))), "{refused:?}");

    // Neither attempt did any harm.
    let node = start_on(store, dir.path(), &FLAGS).await.unwrap();
    let mut client = Client::connect(&node).await;
    let answer = topic.produced(&mut client, 9, &[records_of(1, &claim(0, 1))]).await;
    assert_eq!((answer.error_code, answer.base_offset), (0, 1));
    node.shut_down().await;
}

/// Even where an operator gave the new cluster the old one's id and removed the marker: what is there stays what it is.
#[tokio::test]
async fn keys_of_two_clusters_never_meet_and_a_key_that_is_taken_is_not_taken_for_ones_own() {
    let id = object(0, 1, 1);
    let roots =
        [("a", 1), ("a", 11), ("a-1", 1), ("b", 1)].map(|(id, incarnation)| Paths::new(id, incarnation).unwrap());
    for (i, one) in roots.iter().enumerate() {
        for other in &roots[..i] {
            assert_ne!(one.key(id), other.key(id));
            assert_eq!(other.name(&one.key(id)), None);
        }
    }
    let store = Memory::new();
    let put = |bytes: &'static [u8]| {
        let deadline = Instant::now() + Duration::from_secs(30);
        Durable::put(&store, &roots[0], id, Bytes::from_static(bytes), deadline)
    };
    put(b"of the old cluster").await.unwrap();
    assert!(matches!(put(b"of the new cluster").await, Err(StoreError::AlreadyExists { .. })));
    assert_eq!(store.get(&roots[0].key(id)).await.unwrap(), "of the old cluster");
}
