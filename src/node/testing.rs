//! A broker in this process and a client over a real socket, for the tests of any room.

use std::path::Path;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey, RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::config::{Cli, Command, Config};
use crate::node::Node;
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
    let data_dir = format!("--data-dir={}", dir.display());
    let fixed = ["milepost", "serve", "--listen=127.0.0.1:0", "--internal-listen=127.0.0.1:0", &data_dir];
    let cli = <Cli as clap::Parser>::try_parse_from(fixed.iter().chain(flags)).unwrap();
    let Command::Serve(args) = cli.command else { unreachable!("serve was asked for") };
    let node = Node::start(Config::load_from(*args, []).unwrap()).await.unwrap();
    let client = Client::connect(&node).await;
    (node, client)
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
