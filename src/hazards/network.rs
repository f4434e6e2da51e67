//! Three brokers in this process. Each is reached through a relay, which knows who calls from the first bytes of a
//! connection, so that one broker can be cut from the others and healed while clients still reach it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use milepost_raft::{NodeId, call_address};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;

use crate::node::Node;
use crate::node::testing::{Client, start_on};
use crate::object::Memory;
use crate::object::fault::Faulty;
use crate::peer::{self, Answer};
use crate::shard::{State, invariants};
use crate::types::varint::{self, Reader};
use crate::types::{ROOT_SHARD, ShardId};

/// How long anything is waited for that must happen. Ends a test that would hang; nothing is concluded from it.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at what cannot be awaited.
const PAUSE: Duration = Duration::from_millis(20);

pub struct Three {
    pub nodes: Vec<Node>,
    /// All brokers'.
    pub store: Faulty,
    relays: Vec<Relay>,
    cut: watch::Sender<BTreeSet<usize>>,
    dir: tempfile::TempDir,
}

struct Relay {
    address: SocketAddr,
    /// The broker's own listener.
    target: u16,
    /// Bound to the target and never listening: until the broker listens there, the system gives it to nobody else.
    _held: TcpSocket,
}

impl Three {
    /// Broker n is node n + 1, since they join one after the other.
    pub async fn start() -> Three {
        let (cut, _) = watch::channel(BTreeSet::new());
        let mut relays = Vec::new();
        for broker in 0..3 {
            relays.push(relay(broker, cut.clone()).await);
        }
        let dir = tempfile::tempdir().unwrap();
        let mut three = Three { nodes: Vec::new(), store: Faulty::new(Arc::new(Memory::new()), 1), relays, cut, dir };
        for broker in 0..3 {
            let node = three.start_broker(broker).await;
            three.nodes.push(node);
        }
        until("three root voters", async || three.nodes[0].cluster().root().voters().len() == 3).await;
        three
    }

    pub async fn start_broker(&self, broker: usize) -> Node {
        let seeds: Vec<String> = self.relays.iter().map(|relay| relay.address.to_string()).collect();
        let flags = [
            format!("--broker-id={broker}"),
            format!("--zone=az{broker}"),
            format!("--internal-listen=127.0.0.1:{}", self.relays[broker].target),
            format!("--internal-advertise={}", self.relays[broker].address),
            format!("--seeds={}", seeds.join(",")),
            // Not opened: the store is handed in.
            "--store=file:///".to_owned(),
            // Each PUT is sent once: which call meets which fault is then certain.
            "--hedge-percent=0".to_owned(),
        ];
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        start_on(Arc::new(self.store.clone()), &self.data_dir(broker), &flags).await.unwrap()
    }

    pub fn data_dir(&self, broker: usize) -> PathBuf {
        self.dir.path().join(broker.to_string())
    }

    /// Nothing passes between this broker and the others any more. Clients still reach it.
    pub fn cut(&self, broker: usize) {
        self.cut.send_modify(|cut| {
            cut.insert(broker);
        });
    }

    pub fn heal(&self) {
        self.cut.send_modify(BTreeSet::clear);
    }

    pub async fn client(&self, broker: usize) -> Client {
        Client::connect(&self.nodes[broker]).await
    }

    /// The only topic's shard.
    pub fn shard(&self) -> ShardId {
        self.nodes[0].cluster().view().topics().next().expect("created").placement[0]
    }

    /// The broker that was chosen to lead the topic's shard.
    pub fn leader(&self) -> usize {
        let view = self.nodes[0].cluster().view();
        let preferred = view.shard(self.shard()).expect("placed").preferred;
        view.broker_of(preferred).expect("registered").id as usize
    }

    /// Waits until every replica has applied the same, and checks it (invariant 8).
    pub async fn agree(&self) -> State {
        let shard = self.shard();
        let mut agreed = None;
        until("equal replicas", async || {
            let mut states = Vec::new();
            for node in &self.nodes {
                let Some((applied, state)) = replica(node, shard).await else { return false };
                assert!(invariants::hold(&state));
                states.push((applied, state));
            }
            let newest = states[0].0;
            if states.iter().any(|(applied, _)| *applied != newest) {
                return false;
            }
            assert!(states.iter().all(|(_, state)| state.digest() == states[0].1.digest()));
            agreed = states.pop().map(|(_, state)| state);
            true
        })
        .await;
        agreed.expect("set when it was true")
    }

    pub async fn stop(self) {
        for node in self.nodes {
            node.shut_down().await;
        }
    }
}

/// Looks again until it is so.
pub async fn until(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let looking = async {
        while !so().await {
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("waited in vain for {what}"));
}

pub fn internal_address(node: &Node) -> String {
    node.cluster().node().listen_addr().to_string()
}

pub async fn state_of(node: &Node, shard: ShardId) -> State {
    replica(node, shard).await.expect("replicated there").1
}

/// The applied index and the state; `None` when the broker has no replica of it.
async fn replica(node: &Node, shard: ShardId) -> Option<(u64, State)> {
    assert_ne!(shard, ROOT_SHARD);
    let mut body = BytesMut::new();
    varint::put(&mut body, shard.into());
    let (address, cluster) = (internal_address(node), node.cluster().cluster_id());
    let answer = call_address(&address, cluster, peer::STATE, body.freeze(), PATIENCE).await.unwrap();
    let Answer::Done(body) = Answer::decode(answer).unwrap() else { return None };
    let mut r = Reader::new(&body);
    let applied = r.u64().unwrap();
    let rest = r.remaining();
    Some((applied, State::from_snapshot(&body[body.len() - rest..]).unwrap()))
}

/// magic "MPRT", version u16, lane u8, then the caller's node id: how a connection between nodes begins.
const HELLO_BYTES: usize = 15;

async fn relay(broker: usize, cut: watch::Sender<BTreeSet<usize>>) -> Relay {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let held = TcpSocket::new_v4().unwrap();
    held.set_reuseaddr(true).unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let target = held.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(pass(stream, broker, target, cut.subscribe()));
        }
    });
    Relay { address, target, _held: held }
}

/// Both ways until one side closes or the wire is cut.
async fn pass(mut caller: TcpStream, to: usize, target: u16, mut cut: watch::Receiver<BTreeSet<usize>>) {
    let mut hello = [0; HELLO_BYTES];
    if caller.read_exact(&mut hello).await.is_err() {
        return;
    }
    let from = NodeId::from_le_bytes(hello[7..].try_into().expect("eight bytes"));
    let from = usize::try_from(from).ok().and_then(|node| node.checked_sub(1));
    let passing = async {
        let mut listener = TcpStream::connect(("127.0.0.1", target)).await?;
        listener.write_all(&hello).await?;
        copy_bidirectional(&mut caller, &mut listener).await
    };
    let is_cut = |cut: &BTreeSet<usize>| cut.contains(&to) || from.is_some_and(|from| cut.contains(&from));
    tokio::select! {
        biased;
        _ = cut.wait_for(is_cut) => {}
        _ = passing => {}
    }
}
