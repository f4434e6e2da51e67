//! A client that writes in transactions, and a broker that coordinates all of them, for the tests of the room.

use std::time::Duration;

use kafka_protocol::messages::add_partitions_to_txn_request::{AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction};
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::describe_transactions_response::TransactionState;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::*;

use crate::batch::build::Spec;
use crate::node::Node;
use crate::node::testing::{Client, broker_in, records_of, text};
use crate::types::Producer;

pub const FEW: &[&str] =
    &["--offsets-topic-partitions=3", "--transaction-topic-partitions=3", "--transaction-max-timeout=1min"];
pub const T: &str = "t";

pub fn id_of(id: &'static str) -> TransactionalId {
    text(id).into()
}

pub fn at(id: i64, epoch: i16) -> Producer {
    Producer { id, epoch }
}

#[allow(async_fn_in_trait)]
pub trait Transacts {
    async fn topic(&mut self, name: &'static str);
    async fn coordinator(&mut self, key_type: i8, key: &'static str) -> (i16, i32);
    async fn init(&mut self, version: i16, id: &'static str, has: Option<Producer>) -> Result<Producer, i16>;
    async fn add(&mut self, version: i16, id: &'static str, producer: Producer, topic: &'static str) -> i16;
    async fn write(&mut self, version: i16, id: &'static str, producer: Producer, sequence: i32) -> Result<i64, i16> {
        self.write_as(version, Some(id), producer, sequence).await
    }
    async fn write_as(&mut self, v: i16, id: Option<&'static str>, p: Producer, sequence: i32) -> Result<i64, i16>;
    async fn end(&mut self, version: i16, id: &'static str, p: Producer, commit: bool) -> Result<Producer, i16>;
    async fn add_group(&mut self, version: i16, id: &'static str, producer: Producer, group: &'static str) -> i16;
    async fn commit_offset(&mut self, v: i16, id: &'static str, p: Producer, group: &'static str, at: i64) -> i16;
    async fn committed(&mut self, group: &'static str) -> i64;
    async fn describe(&mut self, id: &'static str) -> TransactionState;
    async fn completed(&mut self, id: &'static str) -> TransactionState;
    async fn end_offset(&mut self, isolation: i8) -> i64;
}

impl Transacts for Client {
    async fn topic(&mut self, name: &'static str) {
        let topic = CreatableTopic::default().with_name(text(name).into()).with_num_partitions(1);
        let request = CreateTopicsRequest::default().with_topics(vec![topic.with_replication_factor(-1)]);
        let created: CreateTopicsResponse = self.ask(ApiKey::CreateTopics, 7, &request.with_timeout_ms(30_000)).await;
        assert_eq!(created.topics[0].error_code, 0);
    }

    async fn coordinator(&mut self, key_type: i8, key: &'static str) -> (i16, i32) {
        let request = FindCoordinatorRequest::default().with_key_type(key_type).with_coordinator_keys(vec![text(key)]);
        let found: FindCoordinatorResponse = self.ask(ApiKey::FindCoordinator, 4, &request).await;
        (found.coordinators[0].error_code, found.coordinators[0].node_id.0)
    }

    async fn init(&mut self, version: i16, id: &'static str, has: Option<Producer>) -> Result<Producer, i16> {
        let has = has.unwrap_or(at(-1, -1));
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(id_of(id)))
            .with_transaction_timeout_ms(60_000)
            .with_producer_id(has.id.into())
            .with_producer_epoch(has.epoch);
        let request = if version < 3 { request.with_producer_id((-1).into()).with_producer_epoch(-1) } else { request };
        let answer: InitProducerIdResponse = self.ask(ApiKey::InitProducerId, version, &request).await;
        match answer.error_code {
            0 => Ok(at(answer.producer_id.0, answer.producer_epoch)),
            error => Err(error),
        }
    }

    async fn add(&mut self, version: i16, id: &'static str, producer: Producer, topic: &'static str) -> i16 {
        let topics = vec![AddPartitionsToTxnTopic::default().with_name(text(topic).into()).with_partitions(vec![0])];
        let request = match version {
            0..=3 => AddPartitionsToTxnRequest::default()
                .with_v3_and_below_transactional_id(id_of(id))
                .with_v3_and_below_producer_id(producer.id.into())
                .with_v3_and_below_producer_epoch(producer.epoch)
                .with_v3_and_below_topics(topics),
            _ => AddPartitionsToTxnRequest::default().with_transactions(vec![
                AddPartitionsToTxnTransaction::default()
                    .with_transactional_id(id_of(id))
                    .with_producer_id(producer.id.into())
                    .with_producer_epoch(producer.epoch)
                    .with_topics(topics),
            ]),
        };
        let answer: AddPartitionsToTxnResponse = self.ask(ApiKey::AddPartitionsToTxn, version, &request).await;
        let topics = match version {
            0..=3 => &answer.results_by_topic_v3_and_below,
            _ => &answer.results_by_transaction[0].topic_results,
        };
        topics[0].results_by_partition[0].partition_error_code
    }

    async fn write_as(&mut self, v: i16, id: Option<&'static str>, p: Producer, sequence: i32) -> Result<i64, i16> {
        let spec = Spec { producer: p, base_sequence: sequence, transactional: true, ..Spec::default() };
        let partition = PartitionProduceData::default().with_index(0).with_records(Some(records_of(2, &spec)));
        let data = TopicProduceData::default().with_name(text(T).into()).with_partition_data(vec![partition]);
        let request = ProduceRequest::default()
            .with_transactional_id(id.map(id_of))
            .with_acks(-1)
            .with_timeout_ms(10_000)
            .with_topic_data(vec![data]);
        let answer: ProduceResponse = self.ask(ApiKey::Produce, v, &request).await;
        let answer = &answer.responses[0].partition_responses[0];
        if answer.error_code == 0 { Ok(answer.base_offset) } else { Err(answer.error_code) }
    }

    async fn end(&mut self, version: i16, id: &'static str, p: Producer, commit: bool) -> Result<Producer, i16> {
        let request = EndTxnRequest::default()
            .with_transactional_id(id_of(id))
            .with_producer_id(p.id.into())
            .with_producer_epoch(p.epoch)
            .with_committed(commit);
        let answer: EndTxnResponse = self.ask(ApiKey::EndTxn, version, &request).await;
        match answer.error_code {
            0 => Ok(at(answer.producer_id.0, answer.producer_epoch)),
            error => Err(error),
        }
    }

    async fn add_group(&mut self, version: i16, id: &'static str, producer: Producer, group: &'static str) -> i16 {
        let request = AddOffsetsToTxnRequest::default()
            .with_transactional_id(id_of(id))
            .with_producer_id(producer.id.into())
            .with_producer_epoch(producer.epoch)
            .with_group_id(text(group).into());
        let answer: AddOffsetsToTxnResponse = self.ask(ApiKey::AddOffsetsToTxn, version, &request).await;
        answer.error_code
    }

    async fn commit_offset(&mut self, v: i16, id: &'static str, p: Producer, group: &'static str, at: i64) -> i16 {
        let partition = TxnOffsetCommitRequestPartition::default().with_committed_offset(at);
        let topic = TxnOffsetCommitRequestTopic::default().with_name(text(T).into()).with_partitions(vec![partition]);
        let request = TxnOffsetCommitRequest::default()
            .with_transactional_id(id_of(id))
            .with_group_id(text(group).into())
            .with_producer_id(p.id.into())
            .with_producer_epoch(p.epoch)
            .with_topics(vec![topic]);
        let answer: TxnOffsetCommitResponse = self.ask(ApiKey::TxnOffsetCommit, v, &request).await;
        answer.topics[0].partitions[0].error_code
    }

    async fn committed(&mut self, group: &'static str) -> i64 {
        let topic = OffsetFetchRequestTopics::default().with_name(text(T).into()).with_partition_indexes(vec![0]);
        let group = OffsetFetchRequestGroup::default().with_group_id(text(group).into()).with_topics(Some(vec![topic]));
        let request = OffsetFetchRequest::default().with_groups(vec![group]);
        let answer: OffsetFetchResponse = self.ask(ApiKey::OffsetFetch, 8, &request).await;
        assert_eq!(answer.groups[0].error_code, 0);
        answer.groups[0].topics[0].partitions[0].committed_offset
    }

    async fn describe(&mut self, id: &'static str) -> TransactionState {
        let request = DescribeTransactionsRequest::default().with_transactional_ids(vec![id_of(id)]);
        let answer: DescribeTransactionsResponse = self.ask(ApiKey::DescribeTransactions, 0, &request).await;
        answer.transaction_states[0].clone()
    }

    /// Asks until every partition knows of the end.
    async fn completed(&mut self, id: &'static str) -> TransactionState {
        let complete = async {
            loop {
                let state = self.describe(id).await;
                if state.error_code == 0 && state.transaction_state.starts_with("Complete") {
                    return state;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), complete).await.expect("the transaction is never complete")
    }

    /// High watermark, or last stable offset with isolation 1.
    async fn end_offset(&mut self, isolation: i8) -> i64 {
        let partition = ListOffsetsPartition::default().with_timestamp(-1);
        let topic = ListOffsetsTopic::default().with_name(text(T).into()).with_partitions(vec![partition]);
        let request = ListOffsetsRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_isolation_level(isolation)
            .with_topics(vec![topic]);
        let answer: ListOffsetsResponse = self.ask(ApiKey::ListOffsets, 7, &request).await;
        assert_eq!(answer.topics[0].partitions[0].error_code, 0);
        answer.topics[0].partitions[0].offset
    }
}

/// A broker with the topic [`T`] that coordinates every id and group.
pub async fn alone() -> (Node, Client, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let (node, mut client) = broker_in(dir.path(), FEW).await;
    client.topic(T).await;
    assert_eq!((client.coordinator(1, "x").await.0, client.coordinator(0, "g").await.0), (0, 0));
    (node, client, dir)
}
