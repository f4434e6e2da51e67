//! Whole nodes over loopback, each in a runtime of its own, so that one can be killed without a word.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures::future::BoxFuture;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tracing::Dispatch;

use crate::*;

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Keeps every payload in order, and apart from that those that came into the log.
#[derive(Default)]
pub(crate) struct Journal {
    lines: Mutex<Vec<Bytes>>,
    appended: Mutex<Vec<Bytes>>,
}

impl Journal {
    pub(crate) fn lines(&self) -> Vec<Bytes> {
        self.lines.lock().unwrap().clone()
    }

    pub(crate) fn appended(&self) -> Vec<Bytes> {
        self.appended.lock().unwrap().clone()
    }
}

impl StateMachine for Journal {
    /// How many lines there are now.
    type Response = usize;

    fn apply(&self, _at: LogPosition, payload: Bytes) -> Result<usize, Corrupt> {
        if &payload[..] == b"unknown kind" {
            return Err(Corrupt("unknown kind".into()));
        }
        let mut lines = self.lines.lock().unwrap();
        lines.push(payload);
        Ok(lines.len())
    }

    fn appended(&self, payload: &Bytes) {
        self.appended.lock().unwrap().push(payload.clone());
    }

    fn snapshot(&self) -> Box<dyn FnOnce() -> Bytes + Send> {
        let lines = self.lines();
        Box::new(move || {
            let mut out = BytesMut::new();
            for line in lines {
                out.put_u32(line.len() as u32);
                out.put(line);
            }
            out.freeze()
        })
    }

    fn restore(&self, _at: LogPosition, mut snapshot: Bytes) -> Result<(), Corrupt> {
        let mut lines = Vec::new();
        while snapshot.has_remaining() {
            let length = snapshot.get_u32() as usize;
            lines.push(snapshot.split_to(length));
        }
        *self.lines.lock().unwrap() = lines;
        Ok(())
    }
}

#[derive(Clone, Default)]
pub(crate) struct MemoryStore(Arc<Mutex<HashMap<String, Bytes>>>);

impl MemoryStore {
    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

impl MemoryStore {
    pub(crate) fn lose_all(&self) {
        self.0.lock().unwrap().clear();
    }
}

impl SnapshotStore for MemoryStore {
    fn put(&self, group: GroupId, at: LogPosition, bytes: Bytes) -> BoxFuture<'_, io::Result<String>> {
        let key = format!("{group}/{}-{}", at.index, at.term);
        self.0.lock().unwrap().insert(key.clone(), bytes);
        Box::pin(async { Ok(key) })
    }

    fn get(&self, key: &str) -> BoxFuture<'_, io::Result<Bytes>> {
        let found = self.0.lock().unwrap().get(key).cloned();
        Box::pin(async { found.ok_or_else(|| io::ErrorKind::NotFound.into()) })
    }
}

/// Answers with the caller's id and the request; kind 9 never answers.
pub(crate) struct Echo;

impl Service for Echo {
    fn call(&self, from: NodeId, kind: u8, body: Bytes) -> BoxFuture<'static, Bytes> {
        Box::pin(async move {
            if kind == 9 {
                std::future::pending::<()>().await;
            }
            let mut out = BytesMut::new();
            out.put_u64(from);
            out.put(body);
            out.freeze()
        })
    }
}

pub(crate) struct TestNode {
    pub(crate) runtime: Runtime,
    pub(crate) node: Node,
    pub(crate) groups: Vec<Group<Journal>>,
}

impl TestNode {
    pub(crate) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    pub(crate) fn group(&self) -> &Group<Journal> {
        &self.groups[0]
    }

    pub(crate) fn id(&self) -> NodeId {
        self.node.identity().node_id
    }

    /// Gone without a word.
    pub(crate) fn kill(self) {
        self.runtime.shutdown_background();
    }

    /// Proposes and waits for the answer, in whatever term this node leads.
    pub(crate) fn write(&self, payload: &[u8]) -> Result<(LogPosition, usize), ProposeError> {
        let term = self.group().leadership().borrow().term;
        let payload = Bytes::copy_from_slice(payload);
        self.run(async { self.group().propose(payload, term).await?.await })
    }

    pub(crate) fn wait_for_lines(&self, count: usize) -> Vec<Bytes> {
        let mut applied = self.group().applied();
        let machine = self.group().machine().clone();
        let reached = applied.wait_for(|_| machine.lines().len() >= count);
        self.run(async { tokio::time::timeout(PATIENCE, reached).await.map(|_| ()) }).expect("applied in time");
        machine.lines()
    }
}

pub(crate) struct Cluster {
    dir: TempDir,
    pub(crate) store: MemoryStore,
    pub(crate) nodes: Vec<TestNode>,
    pub(crate) groups: u32,
    pub(crate) adjust: fn(&mut Config),
    watcher: Dispatch,
    addresses: HashMap<NodeId, String>,
}

impl Cluster {
    /// Nodes 1..=count with groups 1..=groups, all initialised.
    pub(crate) fn start(count: u64, groups: u32, adjust: fn(&mut Config)) -> Self {
        Cluster::start_watched(count, groups, adjust, Dispatch::none())
    }

    /// What the nodes log goes to `watcher`.
    pub(crate) fn start_watched(
        count: u64,
        groups: u32,
        adjust: fn(&mut Config),
        watcher: impl Into<Dispatch>,
    ) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let store = MemoryStore::default();
        let mut cluster =
            Cluster { dir, store, nodes: vec![], groups, adjust, watcher: watcher.into(), addresses: HashMap::new() };
        (1..=count).for_each(|id| cluster.add(id));
        let voters: BTreeSet<NodeId> = (1..=count).collect();
        for group in &cluster.nodes[0].groups {
            cluster.nodes[0].run(group.initialize(voters.clone())).expect("initialised");
        }
        cluster
    }

    pub(crate) fn data_dir(&self, id: NodeId) -> PathBuf {
        self.dir.path().join(id.to_string())
    }

    /// Starts (again) a node and opens its groups.
    pub(crate) fn add(&mut self, id: NodeId) {
        let watcher = self.watcher.clone();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .on_thread_start(move || {
                // For as long as the thread lives.
                std::mem::forget(tracing::dispatcher::set_default(&watcher));
            })
            .build();
        let runtime = runtime.expect("a runtime");
        let node = runtime.block_on(start_node(&self.data_dir(id), id, self.store.clone(), self.adjust));
        self.addresses.insert(id, node.listen_addr().to_string());
        let open = |group| runtime.block_on(node.open_group(group, Arc::new(Journal::default()))).expect("opened");
        let groups = (1..=self.groups).map(open).collect();
        self.nodes.push(TestNode { runtime, node, groups });
        for node in &self.nodes {
            for (id, address) in &self.addresses {
                node.node.set_address(*id, address.clone());
            }
        }
    }

    pub(crate) fn take(&mut self, id: NodeId) -> TestNode {
        let at = self.nodes.iter().position(|node| node.id() == id).expect("a running node");
        self.nodes.swap_remove(at)
    }

    pub(crate) fn node(&self, id: NodeId) -> &TestNode {
        self.nodes.iter().find(|node| node.id() == id).expect("a running node")
    }

    /// The node that leads group 1 and is ready, once there is one.
    pub(crate) fn leader(&self) -> &TestNode {
        let ready = |node: &&TestNode| node.group().leadership().borrow().ready;
        eventually(|| self.nodes.iter().any(|node| ready(&node)));
        self.nodes.iter().find(ready).expect("it was ready a moment ago")
    }

    pub(crate) fn leader_id(&self) -> NodeId {
        self.leader().id()
    }
}

/// For what no single event announces: the leader among several, a counter of openraft.
pub(crate) fn eventually(condition: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < until, "it did not come about");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The directory of a killed node is locked until its writer has noticed.
async fn start_node(dir: &Path, id: NodeId, store: MemoryStore, adjust: fn(&mut Config)) -> Node {
    let identity = Identity { cluster_id: "test".into(), node_id: id };
    let until = Instant::now() + PATIENCE;
    loop {
        let mut config = Config::new(([127, 0, 0, 1], 0).into(), dir);
        adjust(&mut config);
        match Node::start(config, identity.clone(), Arc::new(store.clone()), Arc::new(Echo)).await {
            Ok(node) => return node,
            Err(Error::Locked(_)) if Instant::now() < until => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(why) => panic!("node {id} does not start: {why}"),
        }
    }
}
