use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::testing::{Cluster, Echo, MemoryStore, PATIENCE};
use crate::{CallError, Config, Identity, Node, NodeId};

async fn node(id: NodeId, dir: &std::path::Path, adjust: impl FnOnce(&mut Config)) -> Node {
    let mut config = Config::new(([127, 0, 0, 1], 0).into(), dir.join(id.to_string()));
    adjust(&mut config);
    let identity = Identity { cluster_id: "test".into(), node_id: id };
    let (store, service) = (std::sync::Arc::new(MemoryStore::default()), std::sync::Arc::new(Echo));
    Node::start(config, identity, store, service).await.expect("started")
}

fn echoed(from: u64, body: &[u8]) -> Bytes {
    [&from.to_be_bytes(), body].concat().into()
}

#[tokio::test]
async fn calls_reach_the_service_of_the_other_node_and_of_this_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let (one, two) = (node(1, dir.path(), |_| {}).await, node(2, dir.path(), |_| {}).await);
    one.set_address(2, two.listen_addr().to_string());
    let large = Bytes::from(vec![7; 3 << 20]);
    for body in [Bytes::new(), Bytes::from_static(b"hello"), large] {
        assert_eq!(one.call(2, 5, body.clone(), PATIENCE).await, Ok(echoed(1, &body)));
        assert_eq!(one.call(1, 5, body.clone(), PATIENCE).await, Ok(echoed(1, &body)));
    }
    let traffic = one.traffic();
    let line = traffic.iter().find(|line| (line.peer, line.kind) == (2, 5)).expect("counted");
    assert_eq!((line.frames_sent, line.frames_received), (3, 3));
    let bodies = 5 + (3 << 20);
    assert!(line.bytes_sent > bodies && line.bytes_sent < bodies + 100, "{line:?}");
    let theirs = two.traffic();
    let line_there = theirs.iter().find(|line| (line.peer, line.kind) == (1, 5)).expect("counted");
    assert_eq!((line_there.bytes_received, line_there.bytes_sent), (line.bytes_sent, line.bytes_received));
    one.shutdown().await;
    two.shutdown().await;
}

#[tokio::test]
async fn one_without_an_id_can_call_an_address() {
    let dir = tempfile::tempdir().expect("a directory");
    let one = node(1, dir.path(), |_| {}).await;
    let address = one.listen_addr().to_string();
    let body = Bytes::from_static(b"join");
    assert_eq!(call_address(&address, "test", 3, body.clone(), PATIENCE).await, Ok(echoed(0, b"join")));
    let refused = call_address(&address, "other", 3, body, PATIENCE).await;
    assert!(
        matches!(&refused, Err(CallError::Unreachable(why)) if why.contains("this node is of cluster test")),
        "{refused:?}"
    );
}

#[tokio::test]
async fn an_address_tells_its_node_and_can_be_called_from_then_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let (one, two) = (node(1, dir.path(), |_| {}).await, node(2, dir.path(), |_| {}).await);
    let body = Bytes::from_static(b"x");
    let unknown = one.call(2, 5, body.clone(), PATIENCE).await;
    assert!(matches!(unknown, Err(CallError::Unreachable(_))), "{unknown:?}");
    assert_eq!(one.learn(&two.listen_addr().to_string()).await, Ok(2));
    assert_eq!(one.call(2, 5, body, PATIENCE).await, Ok(echoed(1, b"x")));
    assert_eq!(one.learn(&one.listen_addr().to_string()).await, Ok(1));
    let nobody = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = nobody.local_addr().expect("bound").to_string();
    drop(nobody);
    let refused = one.learn(&address).await;
    assert!(matches!(refused, Err(CallError::Unreachable(_))), "{refused:?}");
}

#[tokio::test]
async fn errors_tell_unreachable_from_unknown() {
    let dir = tempfile::tempdir().expect("a directory");
    let (one, two) = (node(1, dir.path(), |_| {}).await, node(2, dir.path(), |_| {}).await);
    let body = Bytes::from_static(b"x");
    let unreachable = |result| matches!(result, Err(CallError::Unreachable(_)));
    assert!(unreachable(one.call(2, 5, body.clone(), PATIENCE).await), "no address");
    one.set_address(2, one.listen_addr().to_string());
    assert!(unreachable(one.call(2, 5, body.clone(), PATIENCE).await), "another node answers there");
    one.set_address(2, two.listen_addr().to_string());
    assert_eq!(one.call(2, 5, body.clone(), PATIENCE).await, Ok(echoed(1, b"x")));
    let unanswered = one.call(2, 9, body.clone(), Duration::from_millis(50)).await;
    assert!(matches!(unanswered, Err(CallError::Unknown(_))), "it was delivered: {unanswered:?}");
    let calling = one.call(2, 9, body.clone(), PATIENCE);
    let (cut_off, ()) = tokio::join!(calling, async {
        let delivered = || two.traffic().iter().any(|line| line.kind == 9 && line.frames_received == 2);
        while !delivered() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        two.shutdown().await;
    });
    assert!(matches!(cut_off, Err(CallError::Unknown(_))), "{cut_off:?}");
    assert!(unreachable(one.call(2, 5, body.clone(), PATIENCE).await), "nobody listens");
    let too_large = Bytes::from(vec![0; (64 << 20) + 1]);
    assert!(unreachable(one.call(2, 5, too_large, PATIENCE).await));
    assert!(unreachable(one.call(2, 200, body, PATIENCE).await), "Raft's own kind");
}

#[tokio::test]
async fn a_full_queue_is_unreachable() {
    let dir = tempfile::tempdir().expect("a directory");
    let small = |config: &mut Config| {
        config.body_bytes_max = 1 << 20;
        config.peer_queue_bytes_max = 1 << 20;
    };
    let one = node(1, dir.path(), small).await;
    // It shakes hands and then reads nothing more.
    let deaf = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    one.set_address(2, deaf.local_addr().expect("bound").to_string());
    let listening = tokio::spawn(async move {
        let (mut stream, _) = deaf.accept().await.expect("a call");
        let identity = Identity { cluster_id: "test".into(), node_id: 2 };
        handshake::answer(&mut stream, &identity).await.expect("welcome");
        stream
    });
    let body = Bytes::from(vec![1; 900 << 10]);
    let calls = (0..64).map(|_| one.call(2, 5, body.clone(), PATIENCE));
    let results = futures::future::join_all(calls).await;
    let count = |wanted: fn(&CallError) -> bool| results.iter().filter(|r| r.as_ref().is_err_and(wanted)).count();
    let queue_full = count(|why| *why == CallError::Unreachable("too much is queued for the peer".into()));
    assert!(queue_full > 50, "{queue_full}");
    assert!(count(|why| matches!(why, CallError::Unknown(_))) > 0, "what was written when the connection was reset");
    listening.await.expect("done");
}

#[tokio::test]
async fn hostile_bytes_close_their_connection_only() {
    let dir = tempfile::tempdir().expect("a directory");
    let (one, two) = (node(1, dir.path(), |_| {}).await, node(2, dir.path(), |_| {}).await);
    one.set_address(2, two.listen_addr().to_string());
    assert_eq!(one.call(2, 5, Bytes::new(), PATIENCE).await, Ok(echoed(1, b"")));
    let mut hello = b"MPRT\x01\x00\x01".to_vec();
    hello.extend_from_slice(&[0; 16]);
    hello.extend_from_slice(b"\x04test");
    let after_hello: [&[u8]; 6] = [
        b"\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\xff\xff\xff\xff\x0f",
        b"\x03\x09\x05\x00",
        b"\x00",
        b"\x03\x00\x80\x00",
        b"\x03\x01\x05\x00",
    ];
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"MPRT\xff\xff\x00", b"MPRT\x01\x00\x09"] {
        assert_closed(two.listen_addr(), bytes).await;
    }
    for bytes in after_hello {
        assert_closed(two.listen_addr(), &[&hello, bytes].concat()).await;
    }
    assert_eq!(one.call(2, 5, Bytes::new(), PATIENCE).await, Ok(echoed(1, b"")));
    let handshakes = |line: &&PeerTraffic| (line.peer, line.kind) == (2, kind::HANDSHAKE);
    assert_eq!(one.traffic().iter().find(handshakes).expect("counted").frames_sent, 1, "the connection was kept");
}

async fn assert_closed(address: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).await.expect("accepted");
    stream.write_all(bytes).await.expect("sent");
    // What it says (a welcome, a refusal) does not matter; that it hangs up does, with or without a reset.
    let mut said = Vec::new();
    let closed = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut said)).await;
    assert!(closed.is_ok(), "still open after {bytes:?}");
}

#[test]
fn idle_groups_cost_little() {
    let cluster = Cluster::start(3, 1, |_| {});
    let leader = cluster.leader();
    leader.write(b"x").expect("committed");
    let follower = leader.id() % 3 + 1;
    let beats = |node: &crate::testing::TestNode| {
        let traffic = node.node.traffic();
        traffic.into_iter().find(|line| (line.peer, line.kind) == (follower, kind::BEAT)).unwrap_or_default()
    };
    crate::testing::eventually(|| beats(leader).frames_received >= 10);
    let line = beats(leader);
    assert!(line.bytes_sent <= line.frames_sent * 20, "{line:?}");
    assert!(line.bytes_received <= line.frames_received * 8, "{line:?}");
}

#[tokio::test]
async fn a_node_has_ended_while_its_machine_refuses_connections_and_no_longer() {
    let dir = tempfile::tempdir().expect("a directory");
    let one = node(1, dir.path(), |_| {}).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    one.set_address(2, address.to_string());
    assert!(!one.has_ended(2).await, "nobody has tried");
    drop(listener);
    assert!(one.call(2, 5, Bytes::new(), PATIENCE).await.is_err());
    assert!(one.has_ended(2).await);
    // Another process took its place, which this node has not dialled yet.
    let _back = TcpListener::bind(address).await.expect("the port is free");
    assert!(!one.has_ended(2).await);
}
