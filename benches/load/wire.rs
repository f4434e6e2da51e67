//! Frames over a socket. What is rare goes through the generated codec; what is hot is laid out once and patched.

use anyhow::{Context as _, Result, ensure};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Room for what one read may bring.
const READ_BYTES: usize = 256 << 10;

pub struct Connection {
    stream: TcpStream,
    client_id: String,
    correlation: i32,
    read: BytesMut,
}

impl Connection {
    pub async fn open(address: &str, client_id: &str) -> Result<Connection> {
        let stream = TcpStream::connect(address).await.with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, client_id: client_id.to_owned(), correlation: 0, read: BytesMut::new() })
    }

    /// One request and its answer; nothing else may be on its way.
    pub async fn call<Q: Request>(&mut self, version: i16, request: &Q) -> Result<Q::Response> {
        self.correlation += 1;
        let header = RequestHeader::default()
            .with_request_api_key(Q::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.correlation)
            .with_client_id(Some(StrBytes::from_string(self.client_id.clone())));
        let mut frame = BytesMut::new();
        frame.put_i32(0);
        header.encode(&mut frame, Q::header_version(version))?;
        request.encode(&mut frame, version)?;
        let len = frame.len() as i32 - 4;
        frame[..4].copy_from_slice(&len.to_be_bytes());
        self.send(&frame).await?;
        let mut answer = self.receive().await?;
        let header = ResponseHeader::decode(&mut answer, Q::Response::header_version(version))?;
        ensure!(header.correlation_id == self.correlation, "an answer to another request");
        Ok(Q::Response::decode(&mut answer, version)?)
    }

    pub async fn send(&mut self, frame: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(frame).await?)
    }

    /// The next frame without its length. Safe to drop and call again.
    pub async fn receive(&mut self) -> Result<Bytes> {
        loop {
            if let Some(length) = self.read.first_chunk::<4>() {
                let length = usize::try_from(i32::from_be_bytes(*length))?;
                if self.read.len() >= 4 + length {
                    self.read.advance(4);
                    return Ok(self.read.split_to(length).freeze());
                }
                self.read.reserve(4 + length - self.read.len());
            }
            if self.read.capacity() == self.read.len() {
                self.read.reserve(READ_BYTES);
            }
            ensure!(self.stream.read_buf(&mut self.read).await? > 0, "the broker closed the connection");
        }
    }
}
