//! Hazards: COMMIT frames of an old connection that are read late (after newer ones, after their object was given up,
//! after the broker's restart); object 5 lost and 6 sent. A real leader's sequencer and log, asked by a broker that the
//! test plays.
//!
//! Why it holds: apply knows the newest object of every broker and its epoch. An older frame is answered with what was
//! decided when its object came, or that it is not known; a frame of an older epoch is fenced. Neither appends.

use std::time::Duration;

use milepost_raft::call_address;

use crate::commit::{decode_outcome, with_shard};
use crate::hazards::log::{append, appended, claimed, object, plain, taken};
use crate::hazards::network::{internal_address, state_of};
use crate::node::Node;
use crate::node::testing::{Client, Topic, broker};
use crate::peer::{self, Answer};
use crate::shard::{Append, Outcome, Refusal, Verdict, invariants};
use crate::types::ShardId;

/// The broker that the test plays.
const BROKER: i32 = 7;

struct Leader {
    node: Node,
    shard: ShardId,
    _dir: tempfile::TempDir,
}

impl Leader {
    async fn start() -> Leader {
        let (node, mut client, dir): (Node, Client, _) = broker().await;
        Topic::create(&mut client, 1, &[]).await;
        let shard = node.cluster().view().topics().next().expect("created").placement[0];
        Leader { node, shard, _dir: dir }
    }

    /// One frame on a connection of its own.
    async fn commit(&self, append: &Append) -> Outcome {
        let (address, cluster) = (internal_address(&self.node), self.node.cluster().cluster_id());
        let body = with_shard(self.shard, &append.encode());
        let answer = call_address(&address, cluster, peer::COMMIT, body, Duration::from_secs(10)).await.unwrap();
        match Answer::decode(answer).unwrap() {
            Answer::Done(body) => decode_outcome(&body).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    async fn high_watermark(&self) -> i64 {
        let state = state_of(&self.node, self.shard).await;
        assert!(invariants::hold(&state));
        state.slot(0).expect("created").high_watermark
    }

    async fn stop(self) {
        self.node.shut_down().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn object_six_is_sent_back_until_five_is_there() {
    let leader = Leader::start().await;
    for sequence in 1..=4 {
        leader.commit(&append(object(BROKER, 1, sequence), sequence - 1, vec![plain()])).await;
    }
    let (five, six) = (append(object(BROKER, 1, 5), 4, vec![plain()]), append(object(BROKER, 1, 6), 5, vec![plain()]));
    assert_eq!(leader.commit(&six).await, Outcome::OutOfTurn { last: 4 });
    assert_eq!(leader.commit(&five).await, taken(&[appended(4)]));
    assert_eq!(leader.commit(&six).await, taken(&[appended(5)]));
    assert_eq!(leader.high_watermark().await, 6);
    leader.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_read_after_newer_ones_hears_the_first_verdict() {
    let leader = Leader::start().await;
    let objects: Vec<Append> = (1..=5u64)
        .map(|at| append(object(BROKER, 1, at), at - 1, vec![claimed(7, at as i32 - 1), claimed(7, 0)]))
        .collect();
    let mut first = Vec::new();
    for object in &objects {
        first.push(leader.commit(object).await);
    }
    assert_eq!(first[3], taken(&[appended(3), Verdict::Duplicate { base: 0, append_time: None }]));
    for (object, first) in objects.iter().zip(&first).rev() {
        assert_eq!(leader.commit(object).await, *first);
    }
    assert_eq!(leader.high_watermark().await, 5);
    leader.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_read_after_its_object_was_given_up_appends_nothing() {
    let leader = Leader::start().await;
    leader.commit(&append(object(BROKER, 1, 1), 0, vec![plain()])).await;
    let given_up = append(object(BROKER, 1, 2), 1, vec![plain(), claimed(7, 0)]);
    leader.commit(&append(object(BROKER, 1, 3), 1, vec![claimed(7, 0)])).await;
    let late = leader.commit(&given_up).await;
    assert_eq!(late, taken(&[Verdict::Refused(Refusal::Forgotten), Verdict::Duplicate { base: 1, append_time: None }]));
    assert_eq!(leader.high_watermark().await, 2);
    leader.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_of_an_old_epoch_read_after_the_restart_is_fenced() {
    let leader = Leader::start().await;
    let old = append(object(BROKER, 1, 1), 0, vec![plain()]);
    let uploading = append(object(BROKER, 1, 2), 1, vec![plain()]);
    leader.commit(&old).await;
    let restarted = append(object(BROKER, 2, 1), 0, vec![claimed(7, 0), claimed(7, 0)]);
    assert_eq!(
        leader.commit(&restarted).await,
        taken(&[appended(1), Verdict::Duplicate { base: 1, append_time: None }])
    );
    // What it had sent, and what it was still uploading.
    assert_eq!(leader.commit(&old).await, Outcome::Fenced);
    assert_eq!(leader.commit(&uploading).await, Outcome::Fenced);
    assert_eq!(leader.high_watermark().await, 2);
    // Asked without a turn, as for held batches: what is remembered of the new epoch's object 1 says nothing of the old one's.
    let state = state_of(&leader.node, leader.shard).await;
    let of_old = append(object(BROKER, 1, 1), 0, vec![plain(), claimed(9, 5)]);
    assert_eq!(state.verdicts(&of_old), vec![appended(0), Verdict::Refused(Refusal::Forgotten)]);
    leader.stop().await;
}
