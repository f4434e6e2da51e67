//! What readers see of transactions, at brokers with a replica and at one without. The producers' side is played by the
//! test: objects in the store, and the frames that brokers and coordinators send to the shard's leader.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use kafka_protocol::messages::*;
use milepost_raft::call_address;
use tokio::time::{Instant, timeout};

use crate::batch::build::Spec;
use crate::batch::{Header, records};
use crate::commit::{Ending, Endings, decode_outcome, with_shard};
use crate::index::Shards;
use crate::node::Node;
use crate::node::testing::{Client, Site, TOPIC, Topic, config, records_of, text};
use crate::object::{self, Durable, Paths, Store, layout};
use crate::peer::{self, Answer};
use crate::protocol::ErrorCode;
use crate::shard::{Append, Batch, Outcome, Part, Refusal, Sequence, Verdict};
use crate::types::{ObjectId, Partition, Producer, ShardId, StorageClass};

/// Ends a test that would hang; nothing is concluded from it.
const PATIENCE: Duration = Duration::from_secs(60);
/// The broker that the test plays.
const BROKER: i32 = 77;

/// Four brokers, a partition on three of them, and what the test writes with.
struct Stage {
    nodes: Vec<Node>,
    outsider: usize,
    topic: Topic,
    shard: ShardId,
    partition: Partition,
    store: Arc<dyn Store>,
    paths: Paths,
    sequence: u64,
    _site: Site,
}

impl Stage {
    async fn start() -> Stage {
        let site = Site::new(4);
        let mut nodes = Vec::new();
        for broker in 0..4 {
            nodes.push(site.start(broker, &[0]).await);
        }
        let topic = Topic::create_replicated(&mut Client::connect(&nodes[0]).await, 1, 3, &[]).await;
        let view = nodes[0].cluster().view();
        let record = view.topic_named(TOPIC).unwrap();
        let (shard, partition) = (record.placement[0], Partition { topic: record.id, index: 0 });
        let voters = &view.shard(shard).unwrap().voters;
        let outsider = view.brokers().find(|b| !voters.contains(&b.node)).expect("three of four have it").id as usize;
        let mut applied = nodes[outsider].cluster().root().applied();
        let known = |node: &Node| node.cluster().view().topic_named(TOPIC).is_some_and(|topic| topic.live == 1);
        while !known(&nodes[outsider]) {
            timeout(PATIENCE, applied.changed()).await.expect("the topic is never heard of").unwrap();
        }
        let store = config(&site.data_dir(0), &site.flags(0, "z0", &[0])).store;
        let store = object::open_all(&store, None).await.unwrap();
        let marker = object::marker::read(&*store, Instant::now() + PATIENCE).await.unwrap();
        let paths = marker.paths().unwrap();
        Stage { nodes, outsider, topic, shard, partition, store, paths, sequence: 0, _site: site }
    }

    /// One object with these batches, and what became of them.
    async fn append(&mut self, batches: &[(Spec, Option<u64>, i64)]) -> Vec<Verdict> {
        self.sequence += 1;
        let (broker, sequence, class) = (BROKER, self.sequence, StorageClass::Regional);
        let id = ObjectId { broker, epoch: 1, sequence, attempt: 1, class };
        let slices: Vec<Bytes> = batches.iter().map(|(spec, _, records)| records_of(*records, spec)).collect();
        let pointers = batches.iter().zip(&slices).map(|((spec, transaction, records), bytes)| {
            let claim = |transaction| Sequence { producer: spec.producer, base: spec.base_sequence, transaction };
            Batch {
                len: bytes.len() as u32,
                span: *records as u32,
                max_timestamp: Header::peek(bytes).unwrap().max_timestamp,
                sequence: (spec.producer.id >= 0).then(|| claim(*transaction)),
            }
        });
        let pointers: Vec<Batch> = pointers.collect();
        let mut builder = layout::Builder::new();
        let contents = layout::Contents {
            shard: self.shard,
            partition: self.partition,
            slices,
            batch_count: 1,
            record_count: 1,
            min_timestamp: 0,
            max_timestamp: 0,
        };
        builder.push(contents).unwrap();
        let (bytes, sections) = builder.finish();
        Durable::put(&*self.store, &self.paths, id, bytes, Instant::now() + PATIENCE).await.unwrap();
        let parts = vec![Part { slot: 0, start: sections[0].range.start, batches: pointers }];
        let append = Append { object: id, previous: self.sequence - 1, parts };
        match self.leader(peer::COMMIT, &append.encode()).await {
            Outcome::Taken(verdicts) => verdicts,
            other => panic!("{other:?}"),
        }
    }

    /// Asks one broker after the other until one answers as the leader.
    async fn leader(&self, kind: u8, body: &[u8]) -> Outcome {
        let asking = async {
            for node in self.nodes.iter().cycle() {
                let address = node.cluster().node().listen_addr().to_string();
                let body = with_shard(self.shard, body);
                let answer = call_address(&address, node.cluster().cluster_id(), kind, body, PATIENCE).await;
                if let Ok(Answer::Done(body)) = Answer::decode(answer.unwrap()) {
                    return decode_outcome(&body).unwrap();
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            unreachable!("there is always another broker")
        };
        timeout(PATIENCE, asking).await.expect("nobody leads")
    }

    /// As a coordinator on the broker without a replica.
    async fn end(&self, producer: Producer, txn_no: u64, commit: bool) -> Result<(), Refusal> {
        let endings = Endings::new(self.nodes[self.outsider].cluster().clone(), Arc::new(Shards::default()));
        let ending = Ending { producer, txn_no, commit, coordinator_epoch: 5 };
        endings.end(self.shard, &ending, &[self.partition], PATIENCE).await.unwrap()[0]
    }

    async fn clients(&self) -> Vec<Client> {
        let mut clients = Vec::new();
        for node in &self.nodes {
            clients.push(Client::connect(node).await);
        }
        clients
    }

    async fn fetched(&self, client: &mut Client, offset: i64, isolation: i8, wait_ms: i32) -> PartitionData {
        let request = self.topic.fetch(12, offset, 1 << 20, wait_ms).with_isolation_level(isolation);
        let response: FetchResponse = client.ask(ApiKey::Fetch, 12, &request).await;
        response.responses[0].partitions[0].clone()
    }

    async fn latest(&self, client: &mut Client, isolation: i8, timestamp: i64) -> i64 {
        self.topic.list_offsets_as(client, timestamp, isolation).await.offset
    }

    /// Until this broker's replica, or the one it asks, has applied so much.
    async fn caught_up(&self, client: &mut Client, high_watermark: i64) -> PartitionData {
        let reading = async {
            loop {
                let fetched = self.fetched(client, 0, COMMITTED, 20).await;
                if fetched.error_code == 0 && fetched.high_watermark >= high_watermark {
                    return fetched;
                }
            }
        };
        timeout(PATIENCE, reading).await.expect("never caught up")
    }

    async fn stop(self) {
        futures::future::join_all(self.nodes.into_iter().map(Node::shut_down)).await;
    }
}

const UNCOMMITTED: i8 = 0;
const COMMITTED: i8 = 1;

const SEVEN: Producer = Producer { id: 7, epoch: 0 };
const EIGHT: Producer = Producer { id: 8, epoch: 0 };

fn in_txn(producer: Producer, base_sequence: i32, txn_no: u64, records: i64) -> (Spec, Option<u64>, i64) {
    (Spec { producer, base_sequence, transactional: true, ..Spec::default() }, Some(txn_no), records)
}

fn plain(records: i64) -> (Spec, Option<u64>, i64) {
    (Spec::default(), None, records)
}

/// The offsets that a consumer hands on: what it is told to pass over left out, by the rules of Kafka's clients.
fn seen(partition: &PartitionData) -> Vec<i64> {
    let mut aborted = partition.aborted_transactions.clone().unwrap_or_default();
    assert!(aborted.is_sorted_by_key(|one| one.first_offset));
    let mut passed_over = std::collections::HashSet::new();
    let mut rest = partition.records.clone().unwrap_or_default();
    let mut seen = Vec::new();
    while !rest.is_empty() {
        let header = Header::peek(&rest).unwrap();
        let bytes = rest.split_to(header.total_len);
        let last = header.base_offset + i64::from(header.last_offset_delta);
        aborted.retain(|one| {
            let begun = one.first_offset <= last;
            if begun {
                passed_over.insert(one.producer_id.0);
            }
            !begun
        });
        if header.attributes.is_control() {
            passed_over.remove(&header.producer.id);
        } else if !(header.attributes.is_transactional() && passed_over.contains(&header.producer.id)) {
            let deltas = records::iter(&bytes, 1 << 20).unwrap().map(|record| i64::from(record.unwrap().offset_delta));
            seen.extend(deltas.map(|delta| header.base_offset + delta));
        }
    }
    seen
}

fn aborted(partition: &PartitionData) -> Vec<(i64, i64)> {
    let all = partition.aborted_transactions.as_ref().expect("asked for what is committed");
    all.iter().map(|one| (one.producer_id.0, one.first_offset)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_of_committed_records_sees_exactly_those_at_every_broker() {
    let mut stage = Stage::start().await;
    let taken = stage.append(&[plain(3), in_txn(SEVEN, 0, 1, 2), in_txn(EIGHT, 0, 1, 2)]).await;
    assert!(taken.iter().all(|verdict| matches!(verdict, Verdict::Appended { .. })), "{taken:?}");
    assert_eq!(stage.end(EIGHT, 1, true).await, Ok(()));
    let mut clients = stage.clients().await;
    for client in &mut clients {
        let fetched = stage.caught_up(client, 8).await;
        assert_eq!((fetched.last_stable_offset, seen(&fetched)), (3, vec![0, 1, 2]));
        assert!(aborted(&fetched).is_empty());
        let undecided = stage.fetched(client, 4, COMMITTED, 0).await;
        assert_eq!((undecided.error_code, undecided.records.unwrap_or_default().len()), (0, 0));
        let all = stage.fetched(client, 0, UNCOMMITTED, 0).await;
        assert_eq!((all.aborted_transactions.clone(), seen(&all)), (None, (0..7).collect()));
        let ends = (stage.latest(client, COMMITTED, -1).await, stage.latest(client, UNCOMMITTED, -1).await);
        assert_eq!(ends, (3, 8));
        let marker_s_time = (stage.latest(client, UNCOMMITTED, -3).await, stage.latest(client, COMMITTED, -3).await);
        assert_eq!(marker_s_time, (7, -1), "the newest is a marker that is not stable yet");
    }

    // Whoever waits at the undecided is woken by its end.
    let mut waiting = Vec::new();
    for client in &mut clients {
        let request = stage.topic.fetch(12, 3, 1 << 20, 50_000).with_isolation_level(COMMITTED);
        client.send(ApiKey::Fetch, 12, &request).await;
        waiting.push(client);
    }
    assert_eq!(stage.end(SEVEN, 1, false).await, Ok(()));
    for client in waiting {
        let woken: FetchResponse = timeout(PATIENCE / 2, client.receive(ApiKey::Fetch, 12)).await.expect("not woken");
        let woken = &woken.responses[0].partitions[0];
        assert_eq!((woken.last_stable_offset, seen(woken), aborted(woken)), (9, vec![5, 6], vec![(7, 3)]));
    }
    let mut whole: Vec<Bytes> = Vec::new();
    for client in &mut clients {
        let fetched = stage.caught_up(client, 9).await;
        assert_eq!((seen(&fetched), aborted(&fetched)), (vec![0, 1, 2, 5, 6], vec![(7, 3)]));
        let later = stage.fetched(client, 8, COMMITTED, 0).await;
        assert_eq!((seen(&later), aborted(&later)), (vec![], vec![(7, 3)]), "its marker alone");
        whole.push(fetched.records.unwrap());
    }
    assert!(whole.iter().all(|records| *records == whole[0]), "markers are the same bytes everywhere");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_transaction_is_found_and_ended_through_any_broker() {
    let mut stage = Stage::start().await;
    assert_eq!(stage.end(SEVEN, 1, true).await, Ok(()));
    stage.append(&[in_txn(SEVEN, 0, 2, 5)]).await;
    let mut outsider = Client::connect(&stage.nodes[stage.outsider]).await;
    let topic = describe_producers_request::TopicRequest::default()
        .with_name(text(TOPIC).into())
        .with_partition_indexes(vec![0, 4]);
    let describe = DescribeProducersRequest::default().with_topics(vec![topic]);
    let described: DescribeProducersResponse = outsider.ask(ApiKey::DescribeProducers, 0, &describe).await;
    let partitions = &described.topics[0].partitions;
    let found = &partitions[0].active_producers[0];
    assert_eq!((found.producer_id.0, found.producer_epoch, found.last_sequence), (7, 0, 4));
    assert_eq!((found.coordinator_epoch, found.current_txn_start_offset), (5, 1));
    assert_eq!(partitions[1].error_code, ErrorCode::UnknownTopicOrPartition.code());

    let topic = WritableTxnMarkerTopic::default().with_name(text(TOPIC).into()).with_partition_indexes(vec![0, 4]);
    let marker = |coordinator_epoch| {
        let marker = WritableTxnMarker::default().with_producer_id(7.into()).with_producer_epoch(0);
        marker.with_topics(vec![topic.clone()]).with_coordinator_epoch(coordinator_epoch)
    };
    let abort = WriteTxnMarkersRequest::default().with_markers(vec![marker(4), marker(5)]);
    let answer: WriteTxnMarkersResponse = outsider.ask(ApiKey::WriteTxnMarkers, 1, &abort).await;
    let errors = answer.markers.iter().flat_map(|marker| &marker.topics[0].partitions).map(|p| p.error_code);
    let (fenced, unknown) = (ErrorCode::TransactionCoordinatorFenced, ErrorCode::UnknownTopicOrPartition);
    assert_eq!(errors.collect::<Vec<_>>(), [fenced.code(), unknown.code(), 0, unknown.code()]);
    assert_eq!(stage.latest(&mut outsider, COMMITTED, -1).await, 7);
    let late = stage.append(&[in_txn(SEVEN, 5, 2, 1)]).await;
    assert_eq!(late, [Verdict::Refused(Refusal::WrongTransaction)]);
    stage.stop().await;
}

/// A broker whose replica shows the transaction open does not ask for it, and what it takes is part of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_transaction_goes_on_without_its_coordinator() {
    let mut stage = Stage::start().await;
    stage.append(&[in_txn(SEVEN, 0, 3, 1)]).await;
    let inside = (0..4).find(|broker| *broker != stage.outsider).unwrap();
    let mut client = Client::connect(&stage.nodes[inside]).await;
    stage.caught_up(&mut client, 1).await;
    let (spec, ..) = in_txn(SEVEN, 1, 3, 1);
    let request = stage.topic.produce(9, -1, &[records_of(2, &spec)]).with_transactional_id(Some(text("x").into()));
    let response: ProduceResponse = client.ask(ApiKey::Produce, 9, &request).await;
    let answer = &response.responses[0].partition_responses[0];
    assert_eq!((answer.error_code, answer.base_offset), (0, 1));
    assert_eq!(stage.end(SEVEN, 3, false).await, Ok(()));
    let fetched = stage.caught_up(&mut client, 4).await;
    assert_eq!((fetched.last_stable_offset, seen(&fetched), aborted(&fetched)), (4, vec![], vec![(7, 0)]));
    stage.stop().await;
}
