//! A broker in this process and a client over a real socket, for the tests of any room.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::list_offsets_response::ListOffsetsPartitionResponse;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use uuid::Uuid;

use crate::batch::Header;
use crate::batch::build::{NewRecord, Spec, batch};
use crate::config::{Cli, Command, Config};
use crate::node::{Error, Node};
use crate::object::Store;
use crate::protocol::decode;
use crate::types::Producer;

pub const TOPIC: &str = "t";
pub const T0: i64 = 1_700_000_000_000;

pub struct Client {
    stream: TcpStream,
    correlation_id: i32,
    client_id: StrBytes,
}

/// A single broker on free ports, in a directory of its own.
pub async fn broker() -> (Node, Client, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let (node, client) = broker_in(dir.path(), &[]).await;
    (node, client, dir)
}

pub async fn broker_in(dir: &Path, flags: &[&str]) -> (Node, Client) {
    let node = Node::start(config(dir, flags)).await.unwrap();
    let client = Client::connect(&node).await;
    (node, client)
}

/// A broker whose store may misbehave.
pub async fn start_on(store: Arc<dyn Store>, dir: &Path, flags: &[&str]) -> Result<Node, Error> {
    Node::start_on(store, config(dir, flags)).await
}

/// With this data directory, and listeners on free ports unless flags name others.
pub fn config(data_dir: &Path, flags: &[impl AsRef<str>]) -> Config {
    let data_dir = format!("--data-dir={}", data_dir.display());
    let named = |name: &str| flags.iter().any(|flag| flag.as_ref().starts_with(name));
    let free = |name: &&str| !named(name);
    let fixed = ["milepost", "serve", &data_dir].into_iter().map(str::to_owned);
    let listeners =
        ["--listen=", "--internal-listen="].iter().copied().filter(free).map(|name| format!("{name}127.0.0.1:0"));
    let all = fixed.chain(listeners).chain(flags.iter().map(|flag| flag.as_ref().to_owned()));
    let cli = <Cli as clap::Parser>::try_parse_from(all).unwrap();
    let Command::Serve(args) = cli.command else { unreachable!("serve was asked for") };
    Config::load_from(*args, []).unwrap()
}

/// Brokers of one cluster in this process, each in a zone of its own unless it is started otherwise.
pub struct Site {
    dir: TempDir,
    /// Where brokers reach each other, by broker id.
    ports: Vec<u16>,
}

impl Site {
    pub fn new(brokers: usize) -> Site {
        Site { dir: tempfile::tempdir().unwrap(), ports: free_ports(brokers) }
    }

    /// Every broker gets another internal address.
    pub fn move_all(&mut self) {
        self.ports = free_ports(self.ports.len());
    }

    pub fn data_dir(&self, broker: usize) -> PathBuf {
        self.dir.path().join(format!("broker{broker}"))
    }

    /// Started in this directory, knowing these brokers.
    pub async fn start_in(&self, data_dir: &Path, broker: usize, seeds: &[usize]) -> Result<Node, Error> {
        Node::start(config(data_dir, &self.flags(broker, &format!("z{broker}"), seeds))).await
    }

    pub fn flags(&self, broker: usize, zone: &str, seeds: &[usize]) -> Vec<String> {
        let seeds: Vec<String> = seeds.iter().map(|seed| format!("127.0.0.1:{}", self.ports[*seed])).collect();
        vec![
            format!("--broker-id={broker}"),
            format!("--zone={zone}"),
            format!("--internal-listen=127.0.0.1:{}", self.ports[broker]),
            format!("--store=file://{}", self.dir.path().join("store").display()),
            format!("--seeds={}", seeds.join(",")),
        ]
    }

    pub async fn start(&self, broker: usize, seeds: &[usize]) -> Node {
        self.start_in(&self.data_dir(broker), broker, seeds).await.unwrap()
    }
}

fn free_ports(count: usize) -> Vec<u16> {
    // All are held until all are chosen, so that they differ.
    let held: Vec<_> = (0..count).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    held.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

impl Client {
    pub async fn connect(node: &Node) -> Client {
        Self::named(node, "test,zone=local-0").await
    }

    pub async fn named(node: &Node, client_id: &'static str) -> Client {
        Self::at(node.address(), client_id).await
    }

    pub async fn at(address: SocketAddr, client_id: &'static str) -> Client {
        let stream = TcpStream::connect(address).await.unwrap();
        Client { stream, correlation_id: 0, client_id: text(client_id) }
    }

    pub async fn ask<A: Decodable>(&mut self, key: ApiKey, version: i16, request: &impl Encodable) -> A {
        self.send(key, version, request).await;
        self.receive(key, version).await
    }

    pub async fn send(&mut self, key: ApiKey, version: i16, request: &impl Encodable) {
        self.correlation_id += 1;
        let header = RequestHeader::default()
            .with_request_api_key(key as i16)
            .with_request_api_version(version)
            .with_correlation_id(self.correlation_id)
            .with_client_id(Some(self.client_id.clone()));
        let mut frame = BytesMut::new();
        header.encode(&mut frame, key.request_header_version(version)).unwrap();
        request.encode(&mut frame, version).unwrap();
        self.stream.write_u32(frame.len() as u32).await.unwrap();
        self.stream.write_all(&frame).await.unwrap();
    }

    /// # Panics
    /// When the broker has closed the connection, or answers something else.
    pub async fn receive<A: Decodable>(&mut self, key: ApiKey, version: i16) -> A {
        let len = self.stream.read_u32().await.unwrap();
        let mut answer = vec![0; len as usize];
        self.stream.read_exact(&mut answer).await.unwrap();
        let mut answer = Bytes::from(answer);
        ResponseHeader::decode(&mut answer, key.response_header_version(version)).unwrap();
        decode(version, answer).unwrap()
    }

    /// True when the broker closes the connection without another answer.
    pub async fn is_closed(&mut self) -> bool {
        matches!(self.stream.read_u8().await, Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof)
    }
}

/// The topic [`TOPIC`]; every request is about its partition 0.
pub struct Topic {
    id: Uuid,
}

impl Topic {
    pub async fn create(client: &mut Client, partitions: i32, configs: &[(&'static str, &'static str)]) -> Topic {
        Self::create_replicated(client, partitions, 1, configs).await
    }

    pub async fn create_replicated(
        client: &mut Client,
        partitions: i32,
        replication_factor: i16,
        configs: &[(&'static str, &'static str)],
    ) -> Topic {
        let configs = configs
            .iter()
            .map(|(name, value)| CreatableTopicConfig::default().with_name(text(name)).with_value(Some(text(value))));
        let topic = CreatableTopic::default()
            .with_name(text(TOPIC).into())
            .with_num_partitions(partitions)
            .with_replication_factor(replication_factor)
            .with_configs(configs.collect());
        let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(10_000);
        let created: CreateTopicsResponse = client.ask(ApiKey::CreateTopics, 7, &request).await;
        assert_eq!(created.topics[0].error_code, 0);
        Topic { id: created.topics[0].topic_id }
    }

    pub fn produce(&self, version: i16, acks: i16, batches: &[Bytes]) -> ProduceRequest {
        let partition = PartitionProduceData::default().with_index(0).with_records(Some(batches.concat().into()));
        let data = TopicProduceData::default().with_partition_data(vec![partition]);
        let data = if version >= 13 { data.with_topic_id(self.id) } else { data.with_name(text(TOPIC).into()) };
        ProduceRequest::default()
            .with_transactional_id(None)
            .with_acks(acks)
            .with_timeout_ms(10_000)
            .with_topic_data(vec![data])
    }

    pub async fn produced(&self, client: &mut Client, version: i16, batches: &[Bytes]) -> PartitionProduceResponse {
        let request = self.produce(version, -1, batches);
        let response: ProduceResponse = client.ask(ApiKey::Produce, version, &request).await;
        response.responses[0].partition_responses[0].clone()
    }

    pub fn fetch(&self, version: i16, offset: i64, bytes_max: i32, wait_ms: i32) -> FetchRequest {
        let partition =
            FetchPartition::default().with_partition(0).with_fetch_offset(offset).with_partition_max_bytes(bytes_max);
        let topic = FetchTopic::default().with_partitions(vec![partition]);
        let topic = if version >= 13 { topic.with_topic_id(self.id) } else { topic.with_topic(text(TOPIC).into()) };
        FetchRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_max_wait_ms(wait_ms)
            .with_min_bytes(1)
            .with_max_bytes(i32::MAX)
            .with_topics(vec![topic])
    }

    pub async fn fetched(&self, client: &mut Client, version: i16, offset: i64, bytes_max: i32) -> PartitionData {
        let request = self.fetch(version, offset, bytes_max, 0);
        let response: FetchResponse = client.ask(ApiKey::Fetch, version, &request).await;
        response.responses[0].partitions[0].clone()
    }

    /// # Panics
    /// On an error.
    pub async fn offset_of(&self, client: &mut Client, timestamp: i64) -> (i64, i64) {
        let partition = self.list_offsets(client, timestamp).await;
        assert_eq!(partition.error_code, 0);
        (partition.offset, partition.timestamp)
    }

    pub async fn list_offsets(&self, client: &mut Client, timestamp: i64) -> ListOffsetsPartitionResponse {
        self.list_offsets_as(client, timestamp, 0).await
    }

    pub async fn list_offsets_as(
        &self,
        client: &mut Client,
        timestamp: i64,
        isolation: i8,
    ) -> ListOffsetsPartitionResponse {
        let partition = ListOffsetsPartition::default().with_partition_index(0).with_timestamp(timestamp);
        let topic = ListOffsetsTopic::default().with_name(text(TOPIC).into()).with_partitions(vec![partition]);
        let request = ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic]);
        let request = request.with_isolation_level(isolation);
        let response: ListOffsetsResponse = client.ask(ApiKey::ListOffsets, 7, &request).await;
        response.topics[0].partitions[0].clone()
    }
}

pub fn records_of(count: i64, spec: &Spec) -> Bytes {
    let values: Vec<String> = (0..count).map(|i| format!("value {i} {}", "x".repeat(60))).collect();
    let records: Vec<NewRecord> =
        (0..).zip(&values).map(|(i, value)| NewRecord::new(b"key", value.as_bytes(), T0 + i)).collect();
    batch(&records, spec)
}

pub fn claim(id: i64, base_sequence: i32) -> Spec {
    Spec { producer: Producer { id, epoch: 0 }, base_sequence, ..Spec::default() }
}

/// (base offset, leader epoch, offsets taken) of every batch in an answer.
pub fn batches(partition: &PartitionData) -> Vec<(i64, i32, i32)> {
    let mut rest = partition.records.clone().unwrap_or_default();
    let mut found = Vec::new();
    while !rest.is_empty() {
        let header = Header::peek(&rest).unwrap();
        found.push((header.base_offset, header.leader_epoch, header.last_offset_delta + 1));
        rest = rest.slice(header.total_len..);
    }
    found
}

pub fn text(text: &'static str) -> StrBytes {
    StrBytes::from_static_str(text)
}
