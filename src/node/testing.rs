//! A broker in this process and a client over a real socket, for the tests of any room.

use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey, RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::config::{Cli, Command, Config};
use crate::node::{Error, Node};
use crate::protocol::decode;

pub struct Client {
    stream: TcpStream,
    correlation_id: i32,
}

/// A single broker on free ports, in a directory of its own.
pub async fn broker() -> (Node, Client, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let (node, client) = broker_in(dir.path(), &[]).await;
    (node, client, dir)
}

pub async fn broker_in(dir: &Path, flags: &[&str]) -> (Node, Client) {
    let flags = [&["--internal-listen=127.0.0.1:0"], flags].concat();
    let node = Node::start(config(dir, &flags)).await.unwrap();
    let client = Client::connect(&node).await;
    (node, client)
}

/// With this data directory, and clients on a free port.
pub fn config(data_dir: &Path, flags: &[impl AsRef<str>]) -> Config {
    let data_dir = format!("--data-dir={}", data_dir.display());
    let fixed = ["milepost", "serve", "--listen=127.0.0.1:0", &data_dir];
    let all = fixed.into_iter().chain(flags.iter().map(AsRef::as_ref));
    let cli = <Cli as clap::Parser>::try_parse_from(all).unwrap();
    let Command::Serve(args) = cli.command else { unreachable!("serve was asked for") };
    Config::load_from(*args, []).unwrap()
}

/// Brokers of one cluster in this process, each in a zone of its own.
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
        let seeds: Vec<String> = seeds.iter().map(|seed| format!("127.0.0.1:{}", self.ports[*seed])).collect();
        let flags = [
            format!("--broker-id={broker}"),
            format!("--zone=z{broker}"),
            format!("--internal-listen=127.0.0.1:{}", self.ports[broker]),
            format!("--store=file://{}", self.dir.path().join("store").display()),
            format!("--seeds={}", seeds.join(",")),
        ];
        Node::start(config(data_dir, &flags)).await
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
        Client { stream: TcpStream::connect(node.address()).await.unwrap(), correlation_id: 0 }
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
            .with_client_id(Some(StrBytes::from_static_str("test,zone=local-0")));
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

pub fn text(text: &'static str) -> StrBytes {
    StrBytes::from_static_str(text)
}
