//! Client bytes in, bytes out: the write and the read path over a socket of a real broker.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::*;
use milepost_raft::call_address;
use tokio::time::timeout;

use crate::batch::build::Spec;
use crate::batch::{Codec, Header, TimestampType, records};
use crate::commit::with_shard;
use crate::node::testing::{Client, Site, T0, TOPIC, Topic, batches, broker, broker_in, claim, records_of};
use crate::peer;
use crate::protocol::ErrorCode;
use crate::shard::Append;
use crate::types::{ObjectId, StorageClass};

/// Ends a test that would hang; nothing is concluded from it.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_version_produces_and_fetches() {
    let (node, mut client, _dir) = broker().await;
    let topic = Topic::create(&mut client, 1, &[]).await;
    for (i, version) in (3..=13).enumerate() {
        let answer = topic.produced(&mut client, version, &[records_of(2, &Spec::default())]).await;
        assert_eq!((answer.error_code, answer.base_offset), (0, 2 * i as i64), "Produce {version}");
    }
    for version in 4..=18 {
        let answer = topic.fetched(&mut client, version, 0, 1 << 20).await;
        assert_eq!((answer.error_code, answer.high_watermark), (0, 22), "Fetch {version}");
        let bases: Vec<i64> = batches(&answer).iter().map(|(base, ..)| *base).collect();
        assert_eq!(bases, (0..11).map(|i| 2 * i).collect::<Vec<_>>(), "Fetch {version}");
    }
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fetch_gives_the_batch_that_contains_the_offset_and_keeps_its_limits() {
    let (node, mut client, _dir) = broker().await;
    let topic = Topic::create(&mut client, 1, &[]).await;
    let all = [records_of(10, &Spec::default()), records_of(10, &Spec::default()), records_of(10, &Spec::default())];
    assert_eq!(topic.produced(&mut client, 9, &all).await.base_offset, 0);
    let bases = |partition: &PartitionData| batches(partition).iter().map(|b| b.0).collect::<Vec<_>>();
    assert_eq!(bases(&topic.fetched(&mut client, 12, 15, 1 << 20).await), [10, 20]);
    // The first batch comes whole whatever the limit says; the next only if it fits.
    assert_eq!(bases(&topic.fetched(&mut client, 12, 15, 1).await), [10]);
    let two = (all[0].len() * 2) as i32;
    assert_eq!(bases(&topic.fetched(&mut client, 12, 0, two).await), [0, 10]);
    assert_eq!(bases(&topic.fetched(&mut client, 12, 0, two - 1).await), [0]);
    assert_eq!(topic.fetched(&mut client, 12, 30, 1 << 20).await.error_code, 0);
    for outside in [-1, 31] {
        let answer = topic.fetched(&mut client, 12, outside, 1 << 20).await;
        assert_eq!(answer.error_code, ErrorCode::OffsetOutOfRange.code());
    }
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_fetch_wakes_when_something_is_appended() {
    let (node, mut client, _dir) = broker().await;
    let topic = Topic::create(&mut client, 1, &[]).await;
    let mut reader = Client::connect(&node).await;
    reader.send(ApiKey::Fetch, 12, &topic.fetch(12, 0, 1 << 20, 60_000)).await;
    topic.produced(&mut client, 9, &[records_of(1, &Spec::default())]).await;
    let answer: FetchResponse = reader.receive(ApiKey::Fetch, 12).await;
    assert_eq!(answer.responses[0].partitions[0].high_watermark, 1);
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idempotent_batches_get_one_offset_and_gaps_are_not_fatal() {
    let (node, mut client, _dir) = broker().await;
    let topic = Topic::create(&mut client, 1, &[]).await;
    let init = InitProducerIdRequest::default().with_transactional_id(None);
    let given: InitProducerIdResponse = client.ask(ApiKey::InitProducerId, 4, &init).await;
    let id = given.producer_id.0;
    assert_eq!(topic.produced(&mut client, 9, &[records_of(3, &claim(id, 0))]).await.base_offset, 0);
    assert_eq!(topic.produced(&mut client, 9, &[records_of(3, &claim(id, 0))]).await.base_offset, 0);
    // Ahead of its predecessor: held, then refused in a way that every client tries again.
    let ahead = topic.produced(&mut client, 9, &[records_of(3, &claim(id, 6))]).await;
    assert_eq!(ahead.error_code, ErrorCode::NotEnoughReplicas.code());
    assert_eq!(topic.produced(&mut client, 9, &[records_of(3, &claim(id, 3))]).await.base_offset, 3);
    assert_eq!(topic.produced(&mut client, 9, &[records_of(3, &claim(id, 6))]).await.base_offset, 6);
    // A producer whose first batch has not come: it may yet.
    let given: InitProducerIdResponse = client.ask(ApiKey::InitProducerId, 4, &init).await;
    let id = given.producer_id.0;
    let unknown = topic.produced(&mut client, 9, &[records_of(3, &claim(id, 3))]).await;
    assert_eq!(unknown.error_code, ErrorCode::NotEnoughReplicas.code());
    assert_eq!(topic.produced(&mut client, 9, &[records_of(3, &claim(id, 0))]).await.base_offset, 9);
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_batch_is_appended_when_its_predecessor_comes() {
    let (node, mut client, _dir) = broker().await;
    let topic = Topic::create(&mut client, 1, &[]).await;
    assert_eq!(topic.produced(&mut client, 9, &[records_of(1, &claim(0, 0))]).await.base_offset, 0);
    let mut other = Client::connect(&node).await;
    other.send(ApiKey::Produce, 9, &topic.produce(9, -1, &[records_of(1, &claim(0, 2))])).await;
    assert_eq!(topic.produced(&mut client, 9, &[records_of(1, &claim(0, 1))]).await.base_offset, 1);
    let held: ProduceResponse = other.receive(ApiKey::Produce, 9).await;
    let held = &held.responses[0].partition_responses[0];
    assert_eq!((held.error_code, held.base_offset), (0, 2));
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_are_found_to_the_record_in_every_codec() {
    let (node, mut client, _dir) = broker().await;
    let topic = Topic::create(&mut client, 1, &[]).await;
    assert_eq!(topic.offset_of(&mut client, T0).await, (-1, -1));
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        topic.produced(&mut client, 9, &[records_of(10, &Spec { codec, ..Spec::default() })]).await;
    }
    assert_eq!(topic.offset_of(&mut client, 0).await, (0, T0));
    assert_eq!(topic.offset_of(&mut client, T0 + 7).await, (7, T0 + 7));
    assert_eq!(topic.offset_of(&mut client, T0 + 10).await, (-1, -1));
    assert_eq!(topic.offset_of(&mut client, -3).await, (9, T0 + 9));
    assert_eq!(topic.offset_of(&mut client, -2).await.0, 0);
    assert_eq!(topic.offset_of(&mut client, -1).await.0, 50);
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn append_time_is_stamped_with_a_right_checksum() {
    let (node, mut client, _dir) = broker().await;
    let topic = Topic::create(&mut client, 1, &[("message.timestamp.type", "LogAppendTime")]).await;
    let answer = topic.produced(&mut client, 9, &[records_of(3, &Spec::default())]).await;
    assert!(answer.log_append_time_ms > T0);
    let fetched = topic.fetched(&mut client, 12, 0, 1 << 20).await.records.unwrap();
    let header = Header::peek(&fetched).unwrap();
    assert_eq!(header.attributes.timestamp_type(), TimestampType::LogAppendTime);
    assert_eq!(header.max_timestamp, answer.log_append_time_ms);
    assert_eq!(crate::object::crc32c(&fetched[21..]), header.crc);
    let times: BTreeSet<i64> =
        records::iter(&fetched, 1 << 20).unwrap().map(|record| record.unwrap().timestamp).collect();
    assert_eq!(times, BTreeSet::from([answer.log_append_time_ms]));
    assert_eq!(topic.offset_of(&mut client, answer.log_append_time_ms).await, (0, answer.log_append_time_ms));
    // A retry is told the time that the log gave, not none.
    let first = topic.produced(&mut client, 9, &[records_of(1, &claim(7, 0))]).await;
    let again = topic.produced(&mut client, 9, &[records_of(1, &claim(7, 0))]).await;
    assert_eq!((again.base_offset, again.log_append_time_ms), (first.base_offset, first.log_append_time_ms));
    assert!(again.log_append_time_ms > T0);
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_batches_get_kafkas_errors_and_good_ones_are_still_taken() {
    let (node, mut client, _dir) = broker().await;
    let topic = Topic::create(&mut client, 1, &[("max.message.bytes", "2000")]).await;
    let mut damaged = records_of(2, &Spec::default()).to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    let mut old = records_of(2, &Spec::default()).to_vec();
    old[16] = 1;
    let cases = [
        (Bytes::from(damaged), ErrorCode::CorruptMessage),
        (Bytes::from(old), ErrorCode::InvalidRecord),
        (records_of(40, &Spec::default()), ErrorCode::MessageTooLarge),
        (Bytes::new(), ErrorCode::InvalidRecord),
        (records_of(1, &Spec { transactional: true, ..claim(1, 0) }), ErrorCode::TransactionalIdAuthorizationFailed),
        (records_of(1, &Spec { control: true, ..Spec::default() }), ErrorCode::InvalidRecord),
    ];
    for (bytes, error) in cases {
        assert_eq!(topic.produced(&mut client, 9, &[bytes]).await.error_code, error.code(), "{error:?}");
    }
    let zstd = records_of(1, &Spec { codec: Codec::Zstd, ..Spec::default() });
    let answer = topic.produced(&mut client, 6, &[zstd]).await;
    assert_eq!(answer.error_code, ErrorCode::UnsupportedCompressionType.code());
    assert_eq!(topic.produced(&mut client, 9, &[records_of(2, &Spec::default())]).await.base_offset, 0);
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_few_live_replicas_refuse_only_those_who_ask_for_all_acks() {
    let site = Site::new(3);
    let mut nodes = Vec::new();
    for broker in 0..3 {
        nodes.push(site.start(broker, &[0]).await);
    }
    let mut client = Client::connect(&nodes[0]).await;
    // More than there are means all.
    let topic = Topic::create_replicated(&mut client, 1, 3, &[("min.insync.replicas", "4")]).await;
    let one = [records_of(1, &Spec::default())];
    assert_eq!(topic.produced(&mut client, 9, &one).await.error_code, 0);
    nodes.pop().unwrap().shut_down().await;
    let mut applied = nodes[0].cluster().root().applied();
    while nodes[0].cluster().view().broker(2).unwrap().alive {
        applied.changed().await.unwrap();
    }
    assert_eq!(topic.produced(&mut client, 9, &one).await.error_code, ErrorCode::NotEnoughReplicas.code());
    let request = topic.produce(9, 1, &one);
    let taken: ProduceResponse = client.ask(ApiKey::Produce, 9, &request).await;
    assert_eq!(taken.responses[0].partition_responses[0].error_code, 0);
    for node in nodes {
        node.shut_down().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_acks_success_is_silent_and_failure_closes() {
    let (node, mut client, _dir) = broker().await;
    let topic = Topic::create(&mut client, 1, &[]).await;
    client.send(ApiKey::Produce, 9, &topic.produce(9, 0, &[records_of(2, &Spec::default())])).await;
    // The next answer on the connection is the next request's.
    assert_eq!(topic.produced(&mut client, 9, &[records_of(1, &Spec::default())]).await.base_offset, 2);
    client.send(ApiKey::Produce, 9, &topic.produce(9, 0, &[Bytes::from_static(b"no batch at all, but bytes")])).await;
    assert!(client.is_closed().await);
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (node, mut client) = broker_in(dir.path(), &[]).await;
    let topic = Topic::create(&mut client, 1, &[]).await;
    for i in 0..20 {
        let answer = topic.produced(&mut client, 9, &[records_of(5, &claim(0, 5 * i))]).await;
        assert_eq!(answer.base_offset, i64::from(5 * i));
    }
    node.shut_down().await;
    let (node, mut client) = broker_in(dir.path(), &[]).await;
    let found = topic.fetched(&mut client, 13, 0, 1 << 20).await;
    assert_eq!(batches(&found).iter().map(|b| b.2).sum::<i32>(), 100);
    // What producers sent before is remembered: the last batch again gets its old offset, the next a new one.
    assert_eq!(topic.produced(&mut client, 9, &[records_of(5, &claim(0, 95))]).await.base_offset, 95);
    assert_eq!(topic.produced(&mut client, 9, &[records_of(5, &claim(0, 100))]).await.base_offset, 100);
    let epochs: Vec<i32> = batches(&topic.fetched(&mut client, 13, 90, 1 << 20).await).iter().map(|b| b.1).collect();
    assert!(epochs.is_sorted() && epochs.first() < epochs.last());
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_whose_later_life_has_written_sends_clients_elsewhere_and_ends() {
    let (node, mut client, _dir) = broker().await;
    let topic = Topic::create(&mut client, 1, &[]).await;
    assert_eq!(topic.produced(&mut client, 9, &[records_of(1, &Spec::default())]).await.error_code, 0);
    let shard = node.cluster().view().topic_named(TOPIC).unwrap().placement[0];
    let later = node.cluster().epoch() + 1;
    let object = ObjectId { broker: 0, epoch: later, sequence: 1, attempt: 1, class: StorageClass::Regional };
    let append = with_shard(shard, &Append { object, previous: 0, parts: Vec::new() }.encode());
    let address = node.cluster().node().listen_addr().to_string();
    call_address(&address, node.cluster().cluster_id(), peer::COMMIT, append, PATIENCE).await.unwrap();
    let refused = topic.produced(&mut client, 9, &[records_of(1, &Spec::default())]).await;
    assert_eq!(refused.error_code, ErrorCode::NotLeaderOrFollower.code());
    assert!(timeout(PATIENCE, node.failed()).await.unwrap().contains("replaced"));
    node.shut_down().await;
}
