//! The hosts of the simulation: three brokers, each with a data directory, and a client host per zone.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::{ApiKey, CreateTopicsRequest, CreateTopicsResponse};
use kafka_protocol::protocol::StrBytes;
use milepost::cluster::Cluster;
use milepost::config::{Config, HostPort, ServeArgs, Settings};
use milepost::index::Shards;
use milepost::node::Node;
use milepost::protocol::ErrorCode;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::ledger::Ledger;
use crate::store::Bucket;
use crate::wire::Connection;

pub const BROKERS: i32 = 3;
pub const PARTITIONS: i32 = 4;
pub const TOPIC: &str = "t";
pub const CLIENT_PORT: u16 = 9092;
const INTERNAL_PORT: u16 = 9192;

pub fn host(broker: i32) -> String {
    format!("broker{broker}")
}

pub fn client_host(zone: i32) -> String {
    format!("clients{zone}")
}

/// What is broken on purpose, to see that it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// The store forgets one in twenty objects that it has acknowledged.
    Store,
    /// Producers repeat without a sequence.
    Producer,
}

impl Mutant {
    pub fn named(name: &str) -> Option<Mutant> {
        match name {
            "store" => Some(Mutant::Store),
            "producer" => Some(Mutant::Producer),
            _ => None,
        }
    }
}

/// What everybody in the simulation shares.
pub struct Run {
    pub mutant: Option<Mutant>,
    pub bucket: Arc<Bucket>,
    pub ledger: Ledger,
    /// Producers make new records.
    pub writing: Cell<bool>,
    /// The last scan may begin.
    pub scanning: Cell<bool>,
    /// Zones whose producers, and whose scans, are not done.
    pub writers: Cell<i32>,
    pub scanners: Cell<i32>,
    topic: Cell<bool>,
    pub brokers: RefCell<BTreeMap<i32, Handles>>,
    /// Processes that have ended, in order or not, and wait for their supervisor.
    pub ended: RefCell<Vec<(i32, bool)>>,
    orders: BTreeMap<i32, Rc<Notify>>,
}

/// A broker that has started, as the simulation looks into it.
pub struct Handles {
    pub cluster: Cluster,
    pub shards: Arc<Shards>,
}

impl Run {
    pub fn new(seed: u64, mutant: Option<Mutant>) -> Rc<Run> {
        Rc::new(Run {
            bucket: Bucket::new(seed, mutant == Some(Mutant::Store)),
            mutant,
            ledger: Ledger::default(),
            writing: Cell::new(true),
            scanning: Cell::new(false),
            writers: Cell::new(BROKERS),
            scanners: Cell::new(BROKERS),
            topic: Cell::new(false),
            brokers: RefCell::default(),
            ended: RefCell::default(),
            orders: (1..=BROKERS).map(|broker| (broker, Rc::default())).collect(),
        })
    }

    pub fn data_dir(&self, broker: i32) -> PathBuf {
        PathBuf::from(host(broker))
    }

    /// Asks the process to end in an orderly way.
    pub fn terminate(&self, broker: i32) {
        self.orders[&broker].notify_one();
    }

    /// All brokers run, are known to be alive, and vote in the root and in every shard.
    pub fn is_whole(&self) -> bool {
        let brokers = self.brokers.borrow();
        let nodes: BTreeSet<u64> = brokers.values().map(|handles| handles.cluster.node_id()).collect();
        let whole = |handles: &Handles| {
            let view = handles.cluster.view();
            let shards = handles.shards.all();
            view.brokers().filter(|broker| broker.alive).count() == BROKERS as usize
                && handles.cluster.root().voters() == nodes
                && shards.len() == view.shards().count()
                && shards.iter().all(|shard| shard.group.voters() == nodes)
        };
        brokers.len() == BROKERS as usize && brokers.values().all(whole)
    }

    /// What each broker that runs knows: its node, who is alive, and of every shard its voters, its leadership and how far
    /// it has applied.
    pub fn outline(&self) -> Vec<String> {
        let of = |(broker, handles): (&i32, &Handles)| {
            let root = handles.cluster.root();
            let mut groups = vec![(0, root.voters(), *root.leadership().borrow(), root.applied().borrow().index)];
            for shard in handles.shards.all() {
                let group = &shard.group;
                groups.push((shard.id, group.voters(), *group.leadership().borrow(), group.applied().borrow().index));
            }
            let view = handles.cluster.view();
            let alive: Vec<i32> = view.brokers().filter(|broker| broker.alive).map(|broker| broker.id).collect();
            format!("broker {broker}: node {}, {alive:?} alive, {groups:?}", handles.cluster.node_id())
        };
        self.brokers.borrow().iter().map(of).collect()
    }

    pub async fn topic_exists(&self) {
        while !self.topic.get() {
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// A broker's process, from start to end.
    pub async fn serve(self: Rc<Self>, broker: i32) {
        let mut in_order = false;
        let order = self.orders[&broker].clone();
        match Node::start_on(self.bucket.clone(), self.config(broker)).await {
            Ok(node) => {
                let handles = Handles { cluster: node.cluster().clone(), shards: node.shards().clone() };
                self.brokers.borrow_mut().insert(broker, handles);
                order.notified().await;
                self.brokers.borrow_mut().remove(&broker);
                node.shut_down().await;
                in_order = true;
            }
            Err(why) => tracing::warn!(broker, %why, "a broker did not start"),
        }
        self.ended.borrow_mut().push((broker, in_order));
        std::future::pending().await
    }

    fn config(&self, broker: i32) -> Config {
        let at = |host: String, port| HostPort { host, port };
        let any = |port| Some(at("0.0.0.0".into(), port));
        let settings = Settings {
            broker_id: Some(broker),
            zone: Some(format!("az{broker}")),
            listen: any(CLIENT_PORT),
            advertise: Some(at(host(broker), CLIENT_PORT)),
            internal_listen: any(INTERNAL_PORT),
            internal_advertise: Some(at(host(broker), INTERNAL_PORT)),
            seeds: Some((1..=BROKERS).map(|seed| at(host(seed), INTERNAL_PORT)).collect()),
            data_dir: Some(self.data_dir(broker)),
            store: Some(vec!["file:///simulated".parse().expect("a URL")]),
            ..Settings::default()
        };
        Config::load_from(ServeArgs { config: None, settings }, []).expect("a configuration that makes sense")
    }

    /// Until the topic exists.
    pub async fn create_topic(&self) {
        let topic = CreatableTopic::default()
            .with_name(StrBytes::from_static_str(TOPIC).into())
            .with_num_partitions(PARTITIONS)
            .with_replication_factor(BROKERS as i16);
        let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(10_000);
        let patience = Duration::from_secs(20);
        loop {
            if let Ok(connection) = Connection::open(1, "admin").await
                && let Ok(answer) =
                    connection.ask::<_, CreateTopicsResponse>(ApiKey::CreateTopics, 7, &request, patience).await
            {
                let code = answer.topics[0].error_code;
                if code == 0 || code == ErrorCode::TopicAlreadyExists.code() {
                    return self.topic.set(true);
                }
            }
            sleep(Duration::from_millis(200)).await;
        }
    }
}
