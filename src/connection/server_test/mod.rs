//! Real sockets on loopback, with a router the test controls.

mod hostile;
mod limits;
mod order;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{MetadataRequest, RequestHeader};
use kafka_protocol::protocol::{Encodable, StrBytes};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::*;
use crate::protocol::{decode, produce};

/// Hands every request to the test, which decides when and how it ends.
struct ToTest(mpsc::UnboundedSender<Call>);

struct Call {
    request: Request,
    end: oneshot::Sender<Outcome>,
}

impl Call {
    fn reply(self, body: &'static [u8]) {
        let _ = self.end.send(Outcome::Reply(Bytes::from_static(body).into()));
    }
}

#[async_trait]
impl Router for ToTest {
    async fn start(&self, _: &Arc<Peer>, request: Request) -> Pending {
        let (end, ended) = oneshot::channel();
        let _ = self.0.send(Call { request, end });
        Box::pin(async { ended.await.unwrap_or(Outcome::Close("the test is over".into())) })
    }
}

/// Decodes as the rooms do, and answers with an empty body.
struct Decoding;

#[async_trait]
impl Router for Decoding {
    async fn start(&self, _: &Arc<Peer>, request: Request) -> Pending {
        let decoded = match request.api {
            ApiKey::Produce => produce::decode(request.version, request.body, &Default::default()).map(drop),
            ApiKey::Metadata => decode::<MetadataRequest>(request.version, request.body).map(drop),
            _ => Ok(()),
        };
        Box::pin(std::future::ready(match decoded {
            Ok(()) => Outcome::Reply(Segments::new()),
            Err(error) => Outcome::Close(error.to_string().into()),
        }))
    }
}

struct Running {
    server: Arc<Server>,
    address: SocketAddr,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

impl Running {
    async fn new(router: impl Router, limits: Limits) -> Running {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, shutdown) = watch::channel(false);
        let server = Server::new(Arc::new(router), limits);
        let serving = tokio::spawn({
            let server = server.clone();
            async move { server.serve(listener, "test", shutdown).await }
        });
        Running { server, address, stop, serving }
    }

    async fn scripted(limits: Limits) -> (Running, mpsc::UnboundedReceiver<Call>) {
        let (calls, called) = mpsc::unbounded_channel();
        (Running::new(ToTest(calls), limits).await, called)
    }

    async fn client(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Yields until the metric says so; fails by hanging, which the harness reports.
    async fn until(&self, condition: impl Fn(&Metrics) -> bool) {
        while !condition(self.server.metrics()) {
            tokio::task::yield_now().await;
        }
    }
}

fn frame(key: i16, version: i16, correlation_id: i32, body: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_i32(0);
    let header_version = ApiKey::try_from(key).map_or(1, |key| key.request_header_version(version));
    RequestHeader::default()
        .with_request_api_key(key)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(StrBytes::from_static_str("test")))
        .encode(&mut out, header_version)
        .unwrap();
    out.put_slice(body);
    let length = (out.len() - 4) as i32;
    out[..4].copy_from_slice(&length.to_be_bytes());
    out.freeze()
}

/// A Metadata request of version 0: headers have no tagged fields, so answers are easy to read.
fn metadata(correlation_id: i32) -> Bytes {
    frame(3, 0, correlation_id, &[0, 0, 0, 0])
}

async fn answer(client: &mut TcpStream) -> (i32, Vec<u8>) {
    let length = client.read_i32().await.unwrap();
    let correlation_id = client.read_i32().await.unwrap();
    let mut body = vec![0; length as usize - 4];
    client.read_exact(&mut body).await.unwrap();
    (correlation_id, body)
}

/// The peer closed, with or without a reset for the bytes it did not read.
async fn closed(client: &mut TcpStream) -> bool {
    !matches!(client.read(&mut [0; 64]).await, Ok(taken) if taken > 0)
}
