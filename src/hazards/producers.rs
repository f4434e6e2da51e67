//! Hazards: a batch comes again through a second broker while the first is uncommitted and the leader falls; Metadata
//! moves a producer between brokers with five batches in flight.
//!
//! Why it holds: sequences are checked at apply, from applied state, whichever broker brings them. A batch ahead of its
//! predecessor waits in replicated state. A producer that a partition does not know begins in the middle only when
//! nothing can come before it any more.

use crate::batch::build::Spec;
use crate::hazards::log::{Log, append, appended, claimed, object, taken};
use crate::hazards::network::{Three, until};
use crate::node::testing::{Client, TOPIC, Topic, batches, broker, claim, records_of};
use crate::object::fault::{Fault, Gate};
use crate::protocol::ErrorCode;
use crate::shard::{Append, Outcome, Refusal, Verdict};
use kafka_protocol::messages::{ApiKey, InitProducerIdRequest, InitProducerIdResponse, ProduceResponse};

#[test]
fn a_duplicate_through_a_second_broker_gets_one_offset_whether_or_not_the_first_survives_its_leader() {
    let first = append(object(0, 1, 1), 0, vec![claimed(7, 0)]);
    let second = append(object(1, 1, 1), 0, vec![claimed(7, 0)]);
    for survives in [true, false] {
        let mut log = Log::new();
        if survives {
            log.append(&first);
        }
        log.term += 1;
        let through_second = log.append(&second);
        // The first broker has had no answer, and asks the new leader.
        let through_first = log.append(&first);
        let expected = match survives {
            true => (appended(0), Verdict::Duplicate { base: 0, append_time: None }),
            false => (Verdict::Duplicate { base: 0, append_time: None }, appended(0)),
        };
        assert_eq!((through_first, through_second), (taken(&[expected.0]), taken(&[expected.1])));
        assert_eq!(log.partition().high_watermark, 1);
        // And so for ever.
        assert_eq!(log.append(&first), taken(&[expected.0]));
        assert_eq!(log.append(&second), taken(&[expected.1]));
    }
}

/// Five batches, each in an object of broker 0 or 1 as the bits say.
fn in_flight(through: u32) -> [Vec<Append>; 2] {
    let mut objects: [Vec<Append>; 2] = Default::default();
    for sequence in 0..5 {
        let broker = through >> sequence & 1;
        let own = &mut objects[broker as usize];
        let at = own.len() as u64 + 1;
        own.push(append(object(broker as i32, 1, at), at - 1, vec![claimed(7, sequence)]));
    }
    objects
}

/// Every order in which two brokers' objects can come: each broker's own stay in order.
fn merges(a: &[Append], b: &[Append]) -> Vec<Vec<Append>> {
    let (Some(first_a), Some(first_b)) = (a.first(), b.first()) else { return vec![[a, b].concat()] };
    let with = |first: &Append, rest: Vec<Vec<Append>>| {
        rest.into_iter().map(|rest| [vec![first.clone()], rest].concat()).collect::<Vec<_>>()
    };
    [with(first_a, merges(&a[1..], b)), with(first_b, merges(a, &b[1..]))].concat()
}

#[test]
fn five_batches_land_in_order_whichever_brokers_bring_them_in_whatever_order() {
    for through in 0..32 {
        let [a, b] = in_flight(through);
        for order in merges(&a, &b) {
            let mut log = Log::new();
            order.iter().for_each(|request| drop(log.append(request)));
            assert_eq!(log.partition().high_watermark, 5);
            for request in &order {
                let sequence = request.parts[0].batches[0].sequence.expect("claimed").base;
                assert_eq!(log.append(request), taken(&[appended(sequence.into())]), "{order:?}");
            }
        }
    }
}

#[test]
fn waits_that_end_too_early_cost_a_retry_and_never_order() {
    for through in 0..32 {
        let [a, b] = in_flight(through);
        for order in merges(&a, &b) {
            for ends_after in 0..order.len() {
                let mut log = Log::new();
                for (i, request) in order.iter().enumerate() {
                    assert_no_fatal_verdict(&log.append(request));
                    if i == ends_after {
                        log.release(7, false);
                    }
                }
                // The client sends all that it has no good answer to; at worst all of it.
                for sequence in 0..5 {
                    let again = append(object(2, 1, sequence + 1), sequence, vec![claimed(7, sequence as i32)]);
                    let Outcome::Taken(verdicts) = log.append(&again) else { panic!("in turn") };
                    let base = sequence as i64;
                    assert!(
                        [appended(base), Verdict::Duplicate { base, append_time: None }].contains(&verdicts[0]),
                        "{order:?}"
                    );
                }
                assert_eq!(log.partition().high_watermark, 5);
            }
        }
    }
}

/// OUT_OF_ORDER_SEQUENCE_NUMBER ends a producer of librdkafka.
fn assert_no_fatal_verdict(outcome: &Outcome) {
    let Outcome::Taken(verdicts) = outcome else { panic!("in turn") };
    assert!(!verdicts.contains(&Verdict::Refused(Refusal::OutOfOrderSequence)), "{verdicts:?}");
}

/// The broker that brought them is gone, so nobody ends their wait; five are as many as may wait.
#[test]
fn batches_held_for_a_broker_that_is_gone_do_not_shut_their_producer_out() {
    let mut log = Log::new();
    let five = |broker| append(object(broker, 1, 1), 0, (40..45).map(|base| claimed(7, base)).collect());
    assert_eq!(log.append(&five(0)), taken(&[Verdict::Held; 5]));
    // The producer repeats them through another broker, which takes over their wait.
    assert_eq!(log.append(&five(1)), taken(&[Verdict::Held; 5]));
    assert_eq!(log.append(&five(0)), taken(&[Verdict::Refused(Refusal::SequenceGap); 5]));
    log.release(7, true);
    assert_eq!(log.append(&five(1)), taken(&[0, 1, 2, 3, 4].map(appended)));
    assert_eq!(log.partition().high_watermark, 5);
}

/// The common case of a producer older than the partition: it got its id, then its topic was created. Its batches 0 and 1
/// are late through another broker when 2 has waited long enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_producer_older_than_its_partition_does_not_begin_in_the_middle_while_its_first_batches_are_late() {
    let (node, mut client, _dir) = broker().await;
    let id = older_producer(&mut client).await;
    let topic = Topic::create(&mut client, 1, &[]).await;
    let early = topic.produced(&mut client, 9, &[records_of(1, &claim(id, 2))]).await;
    assert_eq!(early.error_code, ErrorCode::NotEnoughReplicas.code());
    for sequence in 0..3 {
        let answer = topic.produced(&mut client, 9, &[records_of(1, &claim(id, sequence))]).await;
        assert_eq!((answer.error_code, answer.base_offset), (0, sequence.into()));
    }
    // Others are not kept waiting.
    let other = topic.produced(&mut client, 9, &[records_of(1, &Spec::default())]).await;
    assert_eq!(other.base_offset, 3);
    assert_eq!(batches(&topic.fetched(&mut client, 12, 0, 1 << 20).await).len(), 4);
    node.shut_down().await;
}

/// A producer that goes on with the sequences it had where its topic was created anew, and one that lost a batch for good.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gap_is_one_as_soon_as_no_broker_has_anything_that_may_fill_it() {
    let three = Three::start().await;
    let (mut one, mut other) = (three.client(0).await, three.client(1).await);
    let (late, anew) = (older_producer(&mut one).await, older_producer(&mut one).await);
    let topic = Topic::create_replicated(&mut one, 1, 3, &[]).await;
    until("the topic at both", async || {
        three.nodes.iter().all(|node| node.cluster().view().topic_named(TOPIC).is_some_and(|t| t.live == 1))
    })
    .await;
    let again = (ErrorCode::NotEnoughReplicas.code(), -1);

    let storing = Gate::default();
    three.store.next_put(Fault::Gate(storing.clone()));
    let first = topic.produce(9, -1, &[records_of(1, &claim(late, 0))]);
    other.send(ApiKey::Produce, 9, &first).await;
    storing.arrival().await;
    // Asked for twice as often as is enough where nothing is on its way.
    for _ in 0..4 {
        assert_eq!(produced(&topic, &mut one, late, 1).await, again);
    }
    storing.open();
    let stored: ProduceResponse = other.receive(ApiKey::Produce, 9).await;
    assert_eq!(stored.responses[0].partition_responses[0].base_offset, 0);
    assert_eq!(produced(&topic, &mut one, late, 1).await, (0, 1));

    // Each try waits for a second, and everything on its way is given up after 45: so it is not that.
    assert_eq!(first_but(again, async || produced(&topic, &mut one, anew, 40).await).await, (0, 2));
    assert_eq!(produced(&topic, &mut other, anew, 41).await, (0, 3));

    // Its batch 42 was refused for good, as one that is too large: Kafka says the same, at once.
    let gap = (ErrorCode::OutOfOrderSequenceNumber.code(), -1);
    assert_eq!(first_but(again, async || produced(&topic, &mut one, anew, 43).await).await, gap);
    assert_eq!(produced(&topic, &mut other, anew, 42).await, (0, 4));
    assert_eq!(produced(&topic, &mut one, anew, 43).await, (0, 5));
    assert_eq!(three.agree().await.partitions().next().expect("created").high_watermark, 6);
    three.stop().await;
}

/// The first answer that is another one, of ten.
async fn first_but(again: (i16, i64), mut ask: impl AsyncFnMut() -> (i16, i64)) -> (i16, i64) {
    for _ in 0..10 {
        let told = ask().await;
        if told != again {
            return told;
        }
    }
    again
}

/// (error, base offset) of one record under this sequence.
async fn produced(topic: &Topic, client: &mut Client, id: i64, sequence: i32) -> (i16, i64) {
    let answer = topic.produced(client, 9, &[records_of(1, &claim(id, sequence))]).await;
    (answer.error_code, answer.base_offset)
}

pub async fn older_producer(client: &mut Client) -> i64 {
    let init = InitProducerIdRequest::default().with_transactional_id(None);
    let given: InitProducerIdResponse = client.ask(ApiKey::InitProducerId, 4, &init).await;
    given.producer_id.0
}
