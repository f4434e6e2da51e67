use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{ApiVersionsResponse, MetadataRequest, RequestHeader};
use kafka_protocol::protocol::{Encodable, StrBytes};
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
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

#[tokio::test]
async fn answers_leave_in_request_order_though_the_second_finishes_first() {
    let (running, mut calls) = Running::scripted(Limits::default()).await;
    let mut client = running.client().await;
    client.write_all(&[metadata(1), metadata(2), metadata(3)].concat()).await.unwrap();
    let first = calls.recv().await.unwrap();
    let second = calls.recv().await.unwrap();
    let third = calls.recv().await.unwrap();
    assert_eq!(second.request.correlation_id, 2);
    assert_eq!(second.request.client_id.as_deref(), Some("test"));
    third.reply(b"third");
    second.reply(b"second");
    first.reply(b"first");
    assert_eq!(answer(&mut client).await, (1, b"first".to_vec()));
    assert_eq!(answer(&mut client).await, (2, b"second".to_vec()));
    assert_eq!(answer(&mut client).await, (3, b"third".to_vec()));
    assert_eq!(running.server.metrics().requests(ApiKey::Metadata), 3);
    assert_eq!(running.server.metrics().bytes_out.load(Relaxed), 3 * 8 + 16);
}

#[tokio::test]
async fn flexible_answers_carry_the_flexible_header() {
    let (running, mut calls) = Running::scripted(Limits::default()).await;
    let mut client = running.client().await;
    client.write_all(&frame(3, 9, 5, b"body")).await.unwrap();
    let call = calls.recv().await.unwrap();
    assert_eq!(call.request.body, b"body".as_slice());
    call.reply(b"ok");
    assert_eq!(answer(&mut client).await, (5, b"\0ok".to_vec()));
}

#[tokio::test]
async fn a_large_answer_arrives_whole() {
    let (running, mut calls) = Running::scripted(Limits::default()).await;
    let mut client = running.client().await;
    client.write_all(&[metadata(1), metadata(2)].concat()).await.unwrap();
    let mut body = Segments::new();
    for part in 0..200u8 {
        body.share(Bytes::from(vec![part; 50_000]));
    }
    let expected = body.to_vec();
    let first = calls.recv().await.unwrap();
    calls.recv().await.unwrap().reply(b"next");
    first.end.send(Outcome::Reply(body)).unwrap();
    assert_eq!(answer(&mut client).await, (1, expected));
    assert_eq!(answer(&mut client).await, (2, b"next".to_vec()));
}

#[tokio::test]
async fn api_versions_is_answered_here() {
    let running = Running::new(Decoding, Limits::default()).await;
    let mut client = running.client().await;
    // Version 3: two compact strings and no tagged fields.
    client.write_all(&frame(18, 3, 7, b"\x05test\x041.0\0")).await.unwrap();
    let (correlation_id, body) = answer(&mut client).await;
    let response: ApiVersionsResponse = decode(3, Bytes::from(body)).unwrap();
    assert_eq!((correlation_id, response.error_code), (7, 0));
    assert!(response.api_keys.iter().any(|api| api.api_key == 0 && api.min_version == 0));
}

#[tokio::test]
async fn an_api_versions_from_the_future_is_answered_in_version_zero() {
    let running = Running::new(Decoding, Limits::default()).await;
    let mut client = running.client().await;
    client.write_all(&frame(18, 99, 7, b"whatever this version holds")).await.unwrap();
    let (correlation_id, body) = answer(&mut client).await;
    let response: ApiVersionsResponse = decode(0, Bytes::from(body)).unwrap();
    assert_eq!((correlation_id, response.error_code), (7, 35));
    client.write_all(&frame(18, 0, 8, b"")).await.unwrap();
    assert_eq!(answer(&mut client).await.0, 8);
}

#[tokio::test]
async fn a_hostile_frame_closes_its_connection_and_no_other() {
    let running = Running::new(Decoding, Limits::default()).await;
    let mut good = running.client().await;
    let mut random = StdRng::seed_from_u64(11);
    let oversized = |key: i16, length: i32| {
        let mut frame = length.to_be_bytes().to_vec();
        frame.extend_from_slice(&[key.to_be_bytes(), 9i16.to_be_bytes(), [0, 0], [0, 1]].concat());
        Bytes::from(frame)
    };
    let mut hostile = vec![
        Bytes::from((-1i32).to_be_bytes().to_vec()),
        Bytes::from(0i32.to_be_bytes().to_vec()),
        oversized(3, CONTROL_FRAME_BYTES_MAX as i32 + 1),
        oversized(0, Limits::default().request_bytes_max as i32 + 1),
        oversized(0, i32::MAX),
        frame(3, 99, 1, b""),
        frame(0, 2, 1, b""),
        frame(77, 0, 1, b""),
        frame(17, 0, 1, b""),
        frame(-1, 0, 1, b""),
        // A client id longer than the frame.
        Bytes::from_static(b"\0\0\0\x0a\0\x03\0\0\0\0\0\x01\x7f\xff"),
        // Arrays of 2^31 - 1 and 2^32 - 2 elements.
        frame(3, 1, 1, &[0x7f, 0xff, 0xff, 0xff]),
        frame(3, 9, 1, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        frame(0, 8, 1, b"\xff\xff\0\x01\0\0\0\0\x7f\xff\xff\xff"),
        frame(0, 13, 1, b"\0\0\x01\0\0\0\0\xff\xff\xff\xff\x0f"),
        Bytes::from_static(b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n"),
        Bytes::from_static(b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03 a TLS hello goes on"),
    ];
    for _ in 0..200 {
        let mut noise = vec![0; random.random_range(12..300)];
        random.fill_bytes(&mut noise);
        noise[0] |= 0x80;
        hostile.push(Bytes::from(noise));
    }
    for (round, bytes) in (0..).zip(hostile) {
        let mut client = running.client().await;
        client.write_all(&bytes).await.unwrap();
        assert!(closed(&mut client).await, "{round}: {bytes:?}");
        good.write_all(&metadata(round)).await.unwrap();
        assert_eq!(answer(&mut good).await.0, round);
    }
}

#[tokio::test]
async fn random_frames_never_stop_the_others() {
    let running = Running::new(Decoding, Limits::default()).await;
    let mut random = StdRng::seed_from_u64(12);
    for round in 0..500 {
        let mut client = running.client().await;
        let mut body = vec![0; random.random_range(0..200)];
        random.fill_bytes(&mut body);
        let key = [0, 1, 2, 3, 18, 19, 22][random.random_range(0..7)];
        let bytes = frame(key, random.random_range(0..14), round, &body);
        client.write_all(&bytes[..random.random_range(0..=bytes.len())]).await.unwrap();
        client.shutdown().await.unwrap();
        client.read_to_end(&mut Vec::new()).await.ok();
    }
    let mut good = running.client().await;
    good.write_all(&metadata(1)).await.unwrap();
    assert_eq!(answer(&mut good).await.0, 1);
}

#[tokio::test]
async fn no_reading_beyond_the_memory_budget() {
    let limits = Limits { memory_bytes_max: 100_000, ..Limits::default() };
    let (running, mut calls) = Running::scripted(limits).await;
    let (mut first, mut second) = (running.client().await, running.client().await);
    let produce = frame(0, 3, 1, &[0; 60_000]);
    first.write_all(&produce).await.unwrap();
    let call = calls.recv().await.unwrap();
    second.write_all(&produce).await.unwrap();
    running.until(|metrics| metrics.memory_waits.load(Relaxed) == 1).await;
    assert!(calls.try_recv().is_err());
    call.reply(b"");
    assert_eq!(answer(&mut first).await.0, 1);
    calls.recv().await.unwrap().reply(b"");
    assert_eq!(answer(&mut second).await.0, 1);
}

#[tokio::test]
async fn a_long_poll_keeps_little_of_the_budget() {
    let limits = Limits { memory_bytes_max: 100_000, ..Limits::default() };
    let (running, mut calls) = Running::scripted(limits).await;
    let mut client = running.client().await;
    let mut waiting = Vec::new();
    for round in 0..20 {
        client.write_all(&frame(1, 4, round, &[0; 900])).await.unwrap();
        waiting.push(calls.recv().await.unwrap());
    }
    assert_eq!(running.server.metrics().memory_waits.load(Relaxed), 0);
}

#[tokio::test]
async fn a_connection_starts_no_more_than_its_pipeline() {
    let limits = Limits { pipeline_max: 3, ..Limits::default() };
    let (running, mut calls) = Running::scripted(limits).await;
    let mut client = running.client().await;
    for round in 0..10 {
        client.write_all(&metadata(round)).await.unwrap();
    }
    let mut started = std::collections::VecDeque::new();
    for _ in 0..3 {
        started.push_back(calls.recv().await.unwrap());
    }
    for round in 0..10 {
        assert!(calls.try_recv().is_err());
        started.pop_front().unwrap().reply(b"");
        assert_eq!(answer(&mut client).await.0, round);
        if round < 7 {
            started.push_back(calls.recv().await.unwrap());
        }
    }
}

#[tokio::test]
async fn a_request_without_answer_leaves_no_gap() {
    let (running, mut calls) = Running::scripted(Limits::default()).await;
    let mut client = running.client().await;
    client.write_all(&[metadata(1), metadata(2)].concat()).await.unwrap();
    let _ = calls.recv().await.unwrap().end.send(Outcome::NoReply);
    calls.recv().await.unwrap().reply(b"");
    assert_eq!(answer(&mut client).await.0, 2);
}

#[tokio::test]
async fn close_comes_after_the_answers_before_it() {
    let (running, mut calls) = Running::scripted(Limits::default()).await;
    let mut client = running.client().await;
    client.write_all(&[metadata(1), metadata(2)].concat()).await.unwrap();
    let first = calls.recv().await.unwrap();
    let _ = calls.recv().await.unwrap().end.send(Outcome::Close("enough".into()));
    first.reply(b"");
    assert_eq!(answer(&mut client).await.0, 1);
    assert!(closed(&mut client).await);
}

#[tokio::test]
async fn an_idle_connection_is_closed_but_not_one_with_a_request_in_progress() {
    let limits = Limits { idle_max: Duration::from_millis(5), ..Limits::default() };
    let (running, mut calls) = Running::scripted(limits).await;
    let (mut idle, mut busy) = (running.client().await, running.client().await);
    busy.write_all(&metadata(1)).await.unwrap();
    let call = calls.recv().await.unwrap();
    assert!(closed(&mut idle).await);
    call.reply(b"");
    assert_eq!(answer(&mut busy).await.0, 1);
    assert!(closed(&mut busy).await);
}

#[tokio::test]
async fn a_connection_above_the_limit_is_turned_away() {
    let limits = Limits { connections_max: 1, ..Limits::default() };
    let running = Running::new(Decoding, limits).await;
    let mut first = running.client().await;
    first.write_all(&metadata(1)).await.unwrap();
    assert_eq!(answer(&mut first).await.0, 1);
    assert!(closed(&mut running.client().await).await);
    assert_eq!(running.server.metrics().connections_refused.load(Relaxed), 1);
    drop(first);
    running.until(|metrics| metrics.connections_open.load(Relaxed) == 0).await;
    let mut next = running.client().await;
    next.write_all(&metadata(2)).await.unwrap();
    assert_eq!(answer(&mut next).await.0, 2);
}

#[tokio::test]
async fn a_peer_that_takes_no_answer_is_closed() {
    let limits = Limits { write_stall_max: Duration::from_millis(20), ..Limits::default() };
    let (running, mut calls) = Running::scripted(limits).await;
    let mut client = running.client().await;
    client.write_all(&metadata(1)).await.unwrap();
    let body = Segments::from(Bytes::from(vec![0; 64 << 20]));
    calls.recv().await.unwrap().end.send(Outcome::Reply(body)).unwrap();
    running.until(|metrics| metrics.connections_open.load(Relaxed) == 0).await;
    assert!(running.server.metrics().bytes_out.load(Relaxed) < 64 << 20);
}

#[tokio::test]
async fn shutdown_answers_what_was_started() {
    let (running, mut calls) = Running::scripted(Limits::default()).await;
    let (mut busy, mut idle) = (running.client().await, running.client().await);
    busy.write_all(&metadata(1)).await.unwrap();
    let call = calls.recv().await.unwrap();
    running.stop.send(true).unwrap();
    assert!(closed(&mut idle).await);
    call.reply(b"late");
    assert_eq!(answer(&mut busy).await, (1, b"late".to_vec()));
    assert!(closed(&mut busy).await);
    running.serving.await.unwrap();
    assert_eq!(running.server.metrics().connections_open.load(Relaxed), 0);
}

#[tokio::test]
async fn an_answer_that_never_comes_does_not_hold_up_shutdown() {
    let limits = Limits { drain_max: Duration::from_millis(10), ..Limits::default() };
    let (running, mut calls) = Running::scripted(limits).await;
    let mut client = running.client().await;
    client.write_all(&metadata(1)).await.unwrap();
    let _call = calls.recv().await.unwrap();
    running.stop.send(true).unwrap();
    running.serving.await.unwrap();
    assert!(closed(&mut client).await);
}
