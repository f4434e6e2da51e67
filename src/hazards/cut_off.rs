//! Hazard: a replica is cut from its peers but not from its clients. It stops serving when it has not heard a leader for
//! two election timeouts; until then it shows what was committed; it never calls an offset out of range that it has not
//! seen, and never answers a latest offset without a majority. With the leader cut: a batch that it proposed alone, and
//! that came again through another broker, has one offset.
//!
//! Why it holds: latest and out-of-range need a read index, which needs a majority; what is applied is committed.

use kafka_protocol::messages::{ApiKey, ProduceResponse};

use crate::hazards::network::{Three, until};
use crate::node::testing::{Client, Topic, batches, claim, records_of};
use crate::protocol::ErrorCode;

const LATEST: i64 = -1;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_is_cut_off_stops_serving_and_never_misleads() {
    let three = Three::start().await;
    let topic = create(&three).await;
    let leader = three.leader();
    cut_off(three, topic, (leader + 1) % 3, leader).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_stops_serving_and_its_lonely_batch_gets_one_offset() {
    let three = Three::start().await;
    let topic = create(&three).await;
    let leader = three.leader();
    cut_off(three, topic, leader, (leader + 1) % 3).await;
}

async fn create(three: &Three) -> Topic {
    Topic::create_replicated(&mut three.client(0).await, 1, 3, &[]).await
}

async fn cut_off(three: Three, topic: Topic, victim: usize, other: usize) {
    let (mut at_victim, mut at_other) = (three.client(victim).await, three.client(other).await);
    produce(&topic, &mut at_other, 0).await;
    until("the victim to show the first record", async || {
        topic.fetched(&mut at_victim, 12, 0, 1 << 20).await.high_watermark == 1
    })
    .await;

    three.cut(victim);
    // Through the victim, and, since no answer comes, through another broker.
    let mut lonely = three.client(victim).await;
    lonely.send(ApiKey::Produce, 9, &topic.produce(9, -1, &[records_of(1, &claim(0, 1))])).await;
    produce(&topic, &mut at_other, 1).await;
    // Acknowledged elsewhere: from here on a latest offset of 1 would be stale.
    let mut asking = three.client(victim).await;
    let latest = topic.list_offsets(&mut asking, LATEST).await;
    assert_ne!(latest.error_code, 0, "no majority could be asked, yet the latest offset is {}", latest.offset);
    until("the victim to stop serving", async || {
        // Its own end, and the end that a client knows from elsewhere.
        let looks = [topic.fetched(&mut at_victim, 12, 1, 1 << 20).await, topic.fetched(&mut at_victim, 12, 2, 1 << 20).await];
        let stopped = ErrorCode::NotLeaderOrFollower.code();
        assert!(looks.iter().all(|look| [0, stopped].contains(&look.error_code)), "{looks:?}");
        assert!(looks.iter().all(|look| look.error_code == stopped || look.high_watermark == 1));
        looks.iter().all(|look| look.error_code == stopped)
    })
    .await;
    assert_eq!(topic.list_offsets(&mut asking, LATEST).await.error_code, ErrorCode::NotLeaderOrFollower.code());

    three.heal();
    // Its answer is the one offset, or that the outcome was unknown when the client's time was over.
    let answer: ProduceResponse = lonely.receive(ApiKey::Produce, 9).await;
    let answer = &answer.responses[0].partition_responses[0];
    match answer.error_code {
        0 => assert_eq!(answer.base_offset, 1),
        error => assert_eq!(error, ErrorCode::RequestTimedOut.code()),
    }
    until("the victim to serve again", async || {
        let look = topic.fetched(&mut at_victim, 12, 0, 1 << 20).await;
        look.error_code == 0 && look.high_watermark == 2
    })
    .await;
    produce(&topic, &mut at_victim, 1).await;
    produce(&topic, &mut at_victim, 2).await;
    for client in [&mut at_victim, &mut at_other] {
        until("everything once and in order", async || {
            let found = topic.fetched(client, 12, 0, 1 << 20).await;
            assert_eq!(found.error_code, 0);
            let bases: Vec<i64> = batches(&found).iter().map(|b| b.0).collect();
            assert!([0, 1, 2].starts_with(&bases), "{bases:?}");
            bases.len() == 3
        })
        .await;
    }
    three.agree().await;
    three.stop().await;
}

/// As an idempotent client does: the same sequence until it is acknowledged. It gets the offset of its number.
async fn produce(topic: &Topic, client: &mut Client, sequence: i32) {
    let again = [ErrorCode::NotLeaderOrFollower, ErrorCode::NotEnoughReplicas, ErrorCode::RequestTimedOut];
    until("an acknowledgement", async || {
        let answer = topic.produced(client, 9, &[records_of(1, &claim(0, sequence))]).await;
        if again.iter().any(|e| e.code() == answer.error_code) {
            return false;
        }
        assert_eq!((answer.error_code, answer.base_offset), (0, sequence.into()));
        true
    })
    .await;
}
