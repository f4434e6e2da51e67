//! The whole room over sockets of real brokers.

use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::*;

use crate::admin::TRANSACTION_STATE;
use crate::commit::{Ending, Endings, with_shard};
use crate::group::place_in;
use crate::node::Node;
use crate::node::testing::{Client, Site, broker_in, text};
use crate::peer;
use crate::protocol::{ErrorCode, StrBytes};
use crate::shard::transaction::{Change, TransactionEntry};
use crate::shard::{Create, Entry, Refusal, State};
use crate::transaction::testing::{FEW, T, Transacts, alone, at, id_of};
use crate::types::varint::Reader;
use crate::types::{Partition, Producer, TopicId};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_version_of_every_transaction_api_is_answered() {
    let (node, mut client, _dir) = alone().await;
    for version in 0..=5 {
        let mut producer = client.init(version, "x", None).await.unwrap();
        for round in 0..2 {
            let sequence = if version < 5 { 2 * round } else { 0 };
            assert_eq!(client.add(version, "x", producer, T).await, 0, "{version}");
            assert_eq!(client.add_group(version.min(4), "x", producer, "g").await, 0, "{version}");
            assert_eq!(client.commit_offset(version, "x", producer, "g", 3).await, 0, "{version}");
            client.write(11, "x", producer, sequence).await.unwrap();
            let state = client.describe("x").await;
            assert_eq!((state.transaction_state.as_str(), state.transaction_timeout_ms), ("Ongoing", 60_000));
            let topics: Vec<&str> = state.topics.iter().map(|topic| topic.topic.as_str()).collect();
            assert_eq!(topics.len(), 2, "{topics:?}");
            let next = client.end(version, "x", producer, round == 0).await.unwrap();
            match version {
                5 => producer = Producer { epoch: producer.epoch + 1, ..producer },
                _ => assert_eq!(next, at(-1, -1)),
            }
        }
        assert_eq!(client.completed("x").await.transaction_state.as_str(), "CompleteAbort");
    }
    for version in 0..=1 {
        let list = async |client: &mut Client, request: ListTransactionsRequest| {
            let answer: ListTransactionsResponse = client.ask(ApiKey::ListTransactions, version, &request).await;
            assert_eq!(answer.error_code, 0);
            (answer.transaction_states.len(), answer.unknown_state_filters)
        };
        let all = ListTransactionsRequest::default().with_duration_filter(-1);
        assert_eq!(list(&mut client, all.clone()).await, (1, vec![]));
        let ongoing = all.clone().with_state_filters(vec![text("Ongoing"), text("Odd")]);
        assert_eq!(list(&mut client, ongoing).await, (0, vec![text("Odd")]));
        let other = all.with_producer_id_filters(vec![77.into()]);
        assert_eq!(list(&mut client, other).await, (0, vec![]));
    }
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_committed_counts_and_what_is_aborted_does_not() {
    let (node, mut client, _dir) = alone().await;
    let mut producer = client.init(5, "x", None).await.unwrap();
    for (commit, offset, expected) in [(true, 7, 7), (false, 9, 7), (true, 11, 11)] {
        let begin = client.end_offset(0).await;
        assert_eq!(client.write(12, "x", producer, 0).await, Ok(begin), "the batch adds its partition itself");
        let nameless = client.write_as(12, None, producer, 2).await;
        assert_eq!(nameless, Err(ErrorCode::TransactionalIdAuthorizationFailed.code()));
        assert_eq!(client.commit_offset(5, "x", producer, "g", offset).await, 0);
        assert_eq!((client.end_offset(0).await, client.end_offset(1).await), (begin + 2, begin));
        producer = client.end(5, "x", producer, commit).await.unwrap();
        client.completed("x").await;
        assert_eq!((client.end_offset(0).await, client.end_offset(1).await), (begin + 3, begin + 3), "with its marker");
        assert_eq!(client.committed("g").await, expected);
    }
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zombie_is_fenced_wherever_it_tries() {
    let (node, mut client, _dir) = alone().await;
    let zombie = client.init(4, "x", None).await.unwrap();
    assert_eq!(client.add(3, "x", zombie, T).await, 0);
    client.write(11, "x", zombie, 0).await.unwrap();
    // Aborts what is open, and is answered when that is done.
    let heir = client.init(4, "x", None).await.unwrap();
    assert_eq!((heir.id, client.describe("x").await.transaction_state.as_str()), (zombie.id, "Empty"));
    let (fenced, epoch) = (ErrorCode::ProducerFenced.code(), ErrorCode::InvalidProducerEpoch.code());
    assert_eq!(client.add(3, "x", zombie, T).await, fenced);
    assert_eq!(client.add(1, "x", zombie, T).await, epoch, "an older client");
    assert_eq!(client.add_group(3, "x", zombie, "g").await, fenced);
    assert_eq!(client.add_group(1, "x", zombie, "g").await, epoch);
    assert_eq!(client.end(3, "x", zombie, true).await, Err(fenced));
    assert_eq!(client.end(1, "x", zombie, true).await, Err(epoch));
    assert_eq!(client.end(5, "x", zombie, false).await, Err(fenced));
    assert_eq!(client.init(5, "x", Some(zombie)).await, Err(fenced));
    assert_eq!(client.init(3, "x", Some(zombie)).await, Err(epoch));
    assert_eq!(client.write(11, "x", zombie, 2).await, Err(epoch));
    assert_eq!(client.write(12, "x", zombie, 2).await, Err(epoch));
    assert_eq!(client.commit_offset(3, "x", zombie, "g", 1).await, epoch);
    assert_eq!(client.end_offset(1).await, 3);
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_a_request_is_said_in_kafkas_words() {
    let (node, mut client, _dir) = alone().await;
    let init = async |client: &mut Client, id: &'static str, timeout_ms: i32| {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(id_of(id)))
            .with_transaction_timeout_ms(timeout_ms);
        let answer: InitProducerIdResponse = client.ask(ApiKey::InitProducerId, 2, &request).await;
        answer.error_code
    };
    let timeout = ErrorCode::InvalidTransactionTimeout.code();
    assert_eq!(init(&mut client, "x", 60_001).await, timeout);
    assert_eq!(init(&mut client, "x", 0).await, timeout);
    assert_eq!(init(&mut client, "x", -1).await, timeout);
    assert_eq!(init(&mut client, "", 1000).await, ErrorCode::InvalidRequest.code());
    let nobody = at(12_345, 0);
    let unknown = ErrorCode::InvalidProducerIdMapping.code();
    assert_eq!(client.add(3, "x", nobody, T).await, unknown);
    assert_eq!(client.end(3, "x", nobody, true).await, Err(unknown));
    assert_eq!(client.write(11, "x", nobody, 0).await, Err(unknown));
    assert_eq!(client.describe("x").await.error_code, ErrorCode::TransactionalIdNotFound.code());
    let producer = client.init(4, "x", None).await.unwrap();
    let state = ErrorCode::InvalidTxnState.code();
    assert_eq!(client.end(3, "x", producer, true).await, Err(state));
    assert_eq!(client.write(10, "x", producer, 0).await, Err(state), "its partition was not added");
    let abortable = ErrorCode::TransactionAbortable.code();
    assert_eq!(client.write(11, "x", producer, 0).await, Err(abortable), "a producer that knows the word");
    assert_eq!(client.commit_offset(3, "x", producer, "g", 1).await, state);
    assert_eq!(client.commit_offset(4, "x", producer, "g", 1).await, abortable);
    assert_eq!(client.add(3, "x", producer, "nowhere").await, ErrorCode::UnknownTopicOrPartition.code());
    let hidden = ErrorCode::TopicAuthorizationFailed.code();
    assert_eq!(client.add(3, "x", producer, "__transaction_state").await, hidden);
    assert_eq!(client.end_offset(0).await, 0);
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_ends_though_a_topic_of_it_was_deleted() {
    let (node, mut client, _dir) = alone().await;
    client.topic("gone").await;
    let producer = client.init(4, "x", None).await.unwrap();
    assert_eq!(client.add(3, "x", producer, "gone").await, 0);
    assert_eq!(client.add(3, "x", producer, T).await, 0);
    let gone = DeleteTopicState::default().with_name(Some(text("gone").into()));
    let request = DeleteTopicsRequest::default().with_topics(vec![gone]).with_timeout_ms(30_000);
    let deleted: DeleteTopicsResponse = client.ask(ApiKey::DeleteTopics, 6, &request).await;
    assert_eq!(deleted.responses[0].error_code, 0);
    let topics: Vec<StrBytes> = client.describe("x").await.topics.into_iter().map(|topic| topic.topic.0).collect();
    assert_eq!(topics, [text(T)]);
    client.end(3, "x", producer, true).await.unwrap();
    assert_eq!(client.completed("x").await.transaction_state.as_str(), "CompleteCommit");
    assert_eq!(client.end_offset(1).await, 1, "a marker where nothing was written");
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (node, mut client) = broker_in(dir.path(), FEW).await;
    client.topic(T).await;
    client.coordinator(1, "x").await;
    let producer = client.init(5, "x", None).await.unwrap();
    client.write(12, "x", producer, 0).await.unwrap();
    node.shut_down().await;
    let (node, mut client) = broker_in(dir.path(), FEW).await;
    assert_eq!(client.coordinator(1, "x").await.0, 0);
    assert_eq!(client.write(12, "x", producer, 2).await, Ok(2));
    let next = client.end(5, "x", producer, true).await.unwrap();
    assert_eq!(next, Producer { epoch: producer.epoch + 1, ..producer });
    client.completed("x").await;
    assert_eq!(client.end_offset(1).await, 5);
    node.shut_down().await;
}

/// Asks until the answer is what is waited for.
async fn coordinator_of(nodes: &[Node], id: &'static str, is: impl Fn(i32) -> bool) -> usize {
    let mut client = Client::connect(nodes.last().unwrap()).await;
    let found = async {
        loop {
            let (error, broker) = client.coordinator(1, id).await;
            let at = nodes.iter().position(|node| node.cluster().broker_id() == broker);
            if let Some(at) = at.filter(|_| error == 0 && is(broker)) {
                return at;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), found).await.expect("no such coordinator")
}

/// Asked of whoever coordinates the id; again when that has changed.
async fn coordinated<T>(nodes: &[Node], ask: impl AsyncFn(&mut Client) -> Result<T, i16>) -> (usize, T) {
    let answered = async {
        loop {
            let at = coordinator_of(nodes, "x", |_| true).await;
            match ask(&mut Client::connect(&nodes[at]).await).await {
                Ok(answer) => return (at, answer),
                Err(14..=16) => {}
                Err(other) => panic!("{other}"),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), answered).await.expect("nobody coordinates")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_coordinator_ends_what_the_last_one_answered() {
    let site = Site::new(3);
    let mut nodes = Vec::new();
    for broker in 0..3 {
        nodes.push(site.start(broker, &[0, 1, 2]).await);
    }
    Client::connect(&nodes[2]).await.topic(T).await;
    let (first, producer) = coordinated(&nodes, async |client| client.init(5, "x", None).await).await;
    let mut other = Client::connect(&nodes[(first + 1) % 3]).await;
    let elsewhere = other.end(5, "x", at(77, 0), true).await;
    if coordinator_of(&nodes, "x", |_| true).await == first {
        assert_eq!(elsewhere, Err(ErrorCode::NotCoordinator.code()));
    }
    // Any broker takes its batches, and asks the coordinator.
    assert_eq!(other.write(12, "x", producer, 0).await, Ok(0));
    let end = async |client: &mut Client| client.end(5, "x", producer, true).await;
    let (first, next) = coordinated(&nodes, end).await;
    let stopped = nodes.remove(first);
    let was = stopped.cluster().broker_id();
    stopped.shut_down().await;
    coordinator_of(&nodes, "x", |broker| broker != was).await;
    let (second, repeated) = coordinated(&nodes, end).await;
    assert_eq!(repeated, next, "the answer was lost");
    let mut other = Client::connect(&nodes[1 - second]).await;
    assert_eq!(other.write(12, "x", next, 0).await, Ok(3), "one marker, however often it was sent");
    let (second, _) = coordinated(&nodes, async |client| client.end(5, "x", next, false).await).await;
    let mut client = Client::connect(&nodes[second]).await;
    client.completed("x").await;
    assert_eq!((client.end_offset(0).await, client.end_offset(1).await), (6, 6));
    for node in nodes {
        node.shut_down().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_topic_of_transactions_is_internal_and_left_alone() {
    let (node, mut client, _dir) = alone().await;
    let metadata: MetadataResponse =
        client.ask(ApiKey::Metadata, 12, &MetadataRequest::default().with_topics(None)).await;
    let topic =
        metadata.topics.iter().find(|topic| topic.name.as_ref().is_some_and(|n| n.0.as_str() == "__transaction_state"));
    let topic = topic.expect("made when the first id came");
    assert!(topic.is_internal);
    assert_eq!(topic.partitions.len(), 3);
    node.shut_down().await;
}

/// As if its coordinator had died in between; and its markers come again, late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_coordinator_has_prepared_is_completed_and_its_markers_end_nothing_twice() {
    let (node, mut client, _dir) = alone().await;
    let producer = client.init(5, "x", None).await.unwrap();
    assert_eq!(client.write(12, "x", producer, 0).await, Ok(0));
    let cluster = node.cluster();
    let topic = cluster.view().topic_named(TRANSACTION_STATE).unwrap().clone();
    let (shard, at) = place_in(&topic, "x").unwrap();
    let ask = async |kind, body: Bytes| {
        let answer =
            cluster.node().call(cluster.node_id(), kind, with_shard(shard, &body), Duration::from_secs(10)).await;
        let Ok(peer::Answer::Done(body)) = peer::Answer::decode(answer.unwrap()) else { panic!("kind {kind}") };
        body
    };
    let body = ask(peer::STATE, Bytes::new()).await;
    let mut r = Reader::new(&body);
    r.u64().unwrap();
    let state = State::from_snapshot(&body[body.len() - r.remaining()..]).unwrap();
    let slot = state.partition(&at).unwrap().slot;
    let revision = state.transactions().get(slot, "x").unwrap().revision;
    let metadata: MetadataResponse =
        client.ask(ApiKey::Metadata, 12, &MetadataRequest::default().with_topics(None)).await;
    let named = |topic: &&MetadataResponseTopic| topic.name.as_ref().is_some_and(|n| n.0.as_str() == TRANSACTION_STATE);
    let term = metadata.topics.iter().find(named).unwrap().partitions[0].leader_epoch as u64;
    let change = Change::Prepare { commit: true, epoch: 1, last_epoch: 0, next_id: None, at: 0 };
    let entry = TransactionEntry { slot, term, clock_ms: 0, id: "x".into(), revision, change };
    let done = ask(peer::SHARD_ENTRY, Entry::Transaction(entry).encode()).await;
    assert!(done.is_empty(), "it was refused: {done:?}");
    assert_eq!(client.completed("x").await.transaction_state.as_str(), "CompleteCommit");
    assert_eq!(client.end_offset(1).await, 3);
    let next = Producer { epoch: 1, ..producer };
    assert_eq!(client.write(12, "x", next, 0).await, Ok(3));
    let endings = Endings::new(cluster.clone(), Default::default());
    let view = cluster.view();
    let written = view.topic_named(T).unwrap();
    let again = Ending { producer: next, txn_no: 1, commit: true, coordinator_epoch: 0 };
    let partition = Partition { topic: written.id, index: 0 };
    let ended = endings.end(written.placement[0], &again, &[partition], Duration::from_secs(10)).await;
    assert_eq!(ended.unwrap(), [Ok(())]);
    assert_eq!((client.end_offset(0).await, client.end_offset(1).await), (5, 3), "the next one is still open");
    node.shut_down().await;
}

/// Groups and records are told apart by the topic, which a broker that has just become the leader may not know yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_marker_waits_until_its_topic_is_known_where_it_is_written() {
    let (node, _client, _dir) = alone().await;
    let cluster = node.cluster();
    let shard = cluster.view().topic_named(T).unwrap().placement[0];
    let at = |topic| Partition { topic: TopicId::from_bytes([topic; 16]), index: 0 };
    let create =
        Create { topic: at(9).topic, partitions: vec![0], epoch_base: 0, append_time: false, fences: Vec::new() };
    let create = with_shard(shard, &Entry::Create(create).encode());
    let created = cluster.node().call(cluster.node_id(), peer::SHARD_ENTRY, create, Duration::from_secs(10)).await;
    assert_eq!(peer::Answer::decode(created.unwrap()), Ok(peer::Answer::Done(Bytes::new())));
    let endings = Endings::new(cluster.clone(), Default::default());
    let ending = Ending { producer: Producer { id: 5, epoch: 0 }, txn_no: 1, commit: true, coordinator_epoch: 1 };
    let end = async |topic| endings.end(shard, &ending, &[at(topic)], Duration::from_millis(300)).await;
    assert!(matches!(end(9).await, Err(peer::LeaderError::Unknown)));
    assert_eq!(end(8).await.unwrap(), [Err(Refusal::UnknownPartition)], "it was deleted");
    node.shut_down().await;
}
