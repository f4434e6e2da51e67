use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use milepost_raft as raft;
use tokio::net::lookup_host;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tracing::info;

use crate::admin::{self, Admin};
use crate::cache::{self, Cache};
use crate::cluster::{self, Cluster, Identity, JoinError, Registration, RootEntry, RootMachine, SeatError};
use crate::commit::{self, Endings, Lanes, Sequencers, Slots, Underway};
use crate::config::{Config, HostPort};
use crate::connection::{Limits, Server};
use crate::console::{self, Sources};
use crate::door::net::TcpListener;
use crate::fetch::{Fetch, prefetch};
use crate::group::{self, Coordinators, Groups};
use crate::index::{OpenShard, Replica, Replicas, Shards};
use crate::ingest::{self, Ingest};
use crate::node::listeners::Listeners;
use crate::node::router::Rooms;
use crate::node::service::{Peers, Seat};
use crate::node::snapshots::Snapshots;
use crate::node::throttling::Throttling;
use crate::object::zonal::{Repair, Share};
use crate::object::{self, Hedger, Paths, Store, hedge};
use crate::produce::{Produce, Recompressor};
use crate::quota::Quotas;
use crate::share;
use crate::transaction::{self, Transactions, Verifier};
use crate::types::StorageClass;
use crate::upload::{self, Poison, Uploader};
use crate::zone::Zones;

const PROBE_TIMEOUT: Duration = Duration::from_secs(60);
/// An upload is tried for so long; a producer's own patience is 30 s by default.
const PUT_TIMEOUT: Duration = Duration::from_secs(15);
const COMMIT_TIMEOUT: Duration = Duration::from_secs(30);
const _: () = assert!(PUT_TIMEOUT.as_secs() + COMMIT_TIMEOUT.as_secs() <= commit::PREDECESSORS_MAX.as_secs());
/// Answers may take this part of the requests' memory, beside it.
const ANSWERS_SHARE: usize = 4;
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(2);
/// Sealed buffers that wait for the uploader: one, so that the next keeps growing.
const SEALED_QUEUE: usize = 1;

/// Entries that are looked into for what readers here will want; more are left to the readers.
const INCOMING_QUEUE: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("object store: {0}")]
    Store(#[from] object::Error),
    #[error(transparent)]
    Join(#[from] JoinError),
    #[error(transparent)]
    Seat(#[from] SeatError),
    #[error("raft: {0}")]
    Raft(#[from] raft::Error),
    #[error(transparent)]
    Cache(#[from] cache::OpenError),
    #[error("{what} {address}: {source}")]
    Listen { what: &'static str, address: String, source: std::io::Error },
}

/// A running broker.
pub struct Node {
    address: SocketAddr,
    cluster: Cluster,
    lanes: Arc<Lanes>,
    coordinators: Arc<Coordinators>,
    transactions: Arc<transaction::Coordinators>,
    sharing: Arc<share::Leaders>,
    #[cfg(any(test, feature = "simulation"))]
    shards: Arc<Shards>,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
    uploading: JoinHandle<()>,
    background: Vec<JoinHandle<()>>,
    console: Option<JoinHandle<()>>,
    #[cfg(test)]
    cache_metrics: cache::Metrics,
}

impl Node {
    /// Starts a broker; returns when clients are served.
    ///
    /// # Errors
    /// Something in the configuration, the directory or the bucket is wrong, and says what.
    pub async fn start(config: Config) -> Result<Node, Error> {
        let store = object::open_all(&config.store, config.zone.as_deref()).await?;
        Self::start_on(store, config).await
    }

    /// As [`Node::start`], on a store that is open already: settings are data, components are handed in.
    ///
    /// # Errors
    /// As for [`Node::start`].
    pub async fn start_on(store: Arc<dyn Store>, config: Config) -> Result<Node, Error> {
        object::probe(&*store, Instant::now() + PROBE_TIMEOUT).await?;
        let clients = Listeners::bind(&config).await?;
        let internal = resolve("internal_listen", &config.internal_listen).await?;
        let registration = clients.registration(&config);
        let seeds: Vec<String> = config.seeds.iter().map(HostPort::to_string).collect();
        let start = cluster::Start {
            store: &*store,
            data_dir: &config.data_dir,
            seeds: &seeds,
            registration: &registration,
            cluster_id: config.cluster_id.as_deref(),
        };
        let (mut identity, marker) = start.establish().await?;
        let paths = marker.paths()?;
        let repair = store
            .classes()
            .map(|classes| Repair::new(classes.clone(), paths.clone(), marker, config.store_compare_every));

        let peers = Arc::new(Peers::default());
        let snapshots = Arc::new(Snapshots { store: store.clone(), paths: paths.clone() });
        let mut raft_config = raft::Config::new(internal, cluster::raft_dir(&config.data_dir));
        raft_config.advertise = registration.internal.clone();
        // A log that was lost took votes and entries with it: the node must not vote again under its id.
        raft_config.must_exist = identity.started;
        let who = raft::Identity { cluster_id: identity.cluster_id.clone(), node_id: identity.node_id };
        let raft = raft::Node::start(raft_config, who, snapshots, peers.clone()).await?;
        // No group is open yet: nothing was voted for or accepted before this is on disk.
        identity.begin_life(&config.data_dir).map_err(JoinError::from)?;
        let cluster = match seat(&raft, &identity, registration, &seeds).await {
            Ok(cluster) => cluster,
            Err(e) => {
                // It may lead the root by now: leadership goes first.
                raft.shutdown().await;
                return Err(e);
            }
        };
        info!(
            broker = config.broker_id,
            node = identity.node_id,
            epoch = cluster.epoch(),
            cluster = identity.cluster_id,
            "this broker has its seat"
        );
        let repairing = repair.map(|repair| tokio::spawn(repair.run(share_of(cluster.clone()))));
        let mut node = Self::furnish(config, cluster, peers, store, paths, clients).await?;
        node.background.extend(repairing);
        Ok(node)
    }

    /// Builds the rooms from the object store up to the sockets.
    async fn furnish(
        config: Config,
        cluster: Cluster,
        peers: Arc<Peers>,
        store: Arc<dyn Store>,
        paths: Paths,
        clients: Listeners,
    ) -> Result<Node, Error> {
        let shards = Arc::new(Shards::default());
        let sequencers = Arc::new(Sequencers::default());
        let underway = Arc::new(Underway::default());
        let transaction_settings = transaction::Settings::from(&config);
        let endings = Arc::new(Endings::new(cluster.clone(), shards.clone()));
        let transacting =
            transaction::Coordinators::new(cluster.clone(), sequencers.clone(), endings, transaction_settings.clone());
        let transacting = Arc::new(transacting);
        let sharing =
            Arc::new(share::Leaders::new(cluster.clone(), sequencers.clone(), admin::static_settings(&config)));
        peers.seat(Seat {
            cluster: cluster.clone(),
            shards: shards.clone(),
            sequencers: sequencers.clone(),
            underway: underway.clone(),
            transactions: transacting.clone(),
            shares: sharing.clone(),
        });
        let group_settings = group::Settings::from(&config);
        let coordinators = Arc::new(Coordinators::new(cluster.clone(), sequencers.clone(), group_settings.clone()));
        let idle = commit::forget_idle_producers(shards.clone(), sequencers.clone());
        let closed = {
            let (coordinators, transacting, sequencers) =
                (coordinators.clone(), transacting.clone(), sequencers.clone());
            let sharing = sharing.clone();
            move |shard| {
                coordinators.close(shard);
                transacting.close(shard);
                sharing.close(shard);
                sequencers.close(shard);
            }
        };
        let opened = {
            let (coordinators, transacting, sharing) = (coordinators.clone(), transacting.clone(), sharing.clone());
            move |shard: Arc<OpenShard>| {
                sequencers.open(shard.clone());
                coordinators.open(shard.clone());
                sharing.open(shard.clone());
                transacting.open(shard);
            }
        };
        let (incoming, entries) = mpsc::channel(INCOMING_QUEUE);
        let replica = move || Replica::telling(incoming.clone());
        let mut background = vec![
            tokio::spawn(cluster::control(cluster.clone(), shards.clone())),
            tokio::spawn(idle),
            tokio::spawn(cluster::reconcile(cluster.clone(), shards.clone(), replica, opened, closed)),
        ];

        let hedging = hedge::Settings::percent(config.hedge_percent);
        let settings = cache::Settings {
            capacity_bytes: config.cache_bytes,
            disk: config.cache_disk.clone().map(|disk| cache::Disk { dir: disk.dir, capacity_bytes: disk.bytes }),
            hedging,
            ..cache::Settings::default()
        };
        let zone = Arc::new(cache::Zone::new(cluster.clone()));
        let cache = Arc::new(Cache::open(store.clone(), paths.clone(), zone, settings).await?);
        peers.share(cache.clone());
        #[cfg(test)]
        let cache_metrics = cache.metrics().clone();
        background.push(tokio::spawn(prefetch(cache.clone(), entries)));
        let poison = Arc::new(Poison::default());
        let put_hedger = Hedger::new(hedging);
        let uploads = Arc::new(upload::Counters::default());
        let lanes = Arc::new(Lanes::new(cluster.clone(), shards.clone()));
        let zonal = store.classes().map(|classes| classes.zonal().metrics().clone());
        let uploader = Uploader {
            settings: upload::Settings {
                broker: config.broker_id,
                epoch: cluster.epoch(),
                put_timeout: PUT_TIMEOUT,
                commit_timeout: COMMIT_TIMEOUT,
            },
            store,
            paths,
            hedger: put_hedger.clone(),
            cache: cache.clone(),
            lanes: lanes.clone(),
            poison: poison.clone(),
            counters: uploads.clone(),
        };
        let (sealed, buffers) = mpsc::channel(SEALED_QUEUE);
        let uploading = tokio::spawn(uploader.run(buffers));
        let ingest_settings = ingest::Settings {
            puts_per_second: config.puts_per_second,
            puts_burst: config.puts_burst.into(),
            object_bytes: config.object_bytes,
        };
        let classes = StorageClass::ALL.into_iter().filter(|class| config.store.has(*class));
        let verify = Arc::new(Verifier::new(cluster.clone(), shards.clone()));
        let produce = Arc::new(Produce {
            cluster: cluster.clone(),
            slots: Arc::new(Slots::new(cluster.clone(), shards.clone())),
            ingest: Ingest::start(ingest_settings, classes, sealed),
            poison,
            lanes: lanes.clone(),
            underway,
            defaults: admin::static_settings(&config),
            recompressor: Recompressor::new(config.memory_bytes_max, config.request_bytes_max),
            shards: shards.clone(),
            verify: verify.clone(),
            endings: Endings::new(cluster.clone(), shards.clone()),
        });
        let replicas = Arc::new(Replicas::new(cluster.clone(), shards.clone()));
        let fetch = Arc::new(Fetch::new(cluster.clone(), replicas.clone(), cache.clone(), Zones::from(&config)));
        let quotas = Arc::new(Quotas::new(cluster.clone()));
        let settings = admin::Settings::from(&config);
        let admin = Arc::new(Admin::new(cluster.clone(), shards.clone(), replicas, quotas.clone(), settings));

        let limits = Limits {
            request_bytes_max: config.request_bytes_max,
            memory_bytes_max: config.memory_bytes_max,
            answer_bytes_max: config.memory_bytes_max / ANSWERS_SHARE,
            connections_max: config.connections_max,
            idle_max: config.connections_max_idle,
            ..Limits::default()
        };
        let groups =
            Groups::new(cluster.clone(), shards.clone(), admin.clone(), coordinators.clone(), verify, group_settings);
        let groups = Arc::new(groups);
        let transactions = Arc::new(Transactions::new(
            cluster.clone(),
            shards.clone(),
            admin.clone(),
            transacting.clone(),
            transaction_settings,
        ));
        let share = Arc::new(share::Share::new(
            cluster.clone(),
            shards.clone(),
            cache.clone(),
            admin::static_settings(&config),
        ));
        let rooms = Rooms { produce, fetch, admin: admin.clone(), groups, transactions, share };
        let router = Throttling { rooms, quotas, cluster: cluster.clone(), zones: Zones::from(&config) };
        let server = Server::new(Arc::new(router), limits);
        let console = match &config.metrics_listen {
            Some(address) => {
                let listener = tokio::net::TcpListener::bind((address.host.as_str(), address.port)).await;
                let listener = listener.map_err(|e| listen_error("metrics_listen", address, e))?;
                let sources = Sources {
                    cluster: cluster.clone(),
                    shards: shards.clone(),
                    cache,
                    zonal,
                    uploads,
                    put_hedges: put_hedger.counts,
                    server: server.clone(),
                    groups: coordinators.clone(),
                    admin,
                };
                Some(tokio::spawn(console::serve(listener, sources)))
            }
            None => None,
        };
        // Until it has caught up, clients that try this broker wait in the listener's backlog.
        cluster::announce(cluster.clone(), shards.clone()).await;
        let (stop, stopping) = watch::channel(false);
        let address = clients.addresses[0];
        let serving = tokio::spawn(async move {
            let each = clients.named.into_iter();
            let serve = |(name, listener): (String, TcpListener)| {
                let (server, stopping) = (server.clone(), stopping.clone());
                async move { server.serve(listener, &name, stopping).await }
            };
            join_all(each.map(serve)).await;
        });
        info!(%address, "clients are served");
        Ok(Node {
            address,
            cluster,
            lanes,
            coordinators,
            transactions: transacting,
            sharing,
            #[cfg(any(test, feature = "simulation"))]
            shards,
            stop,
            serving,
            uploading,
            background,
            console,
            #[cfg(test)]
            cache_metrics,
        })
    }

    /// Where clients are served: the real port when 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns when this broker can no longer do its part, and says why. A replica that has stopped takes part in nothing,
    /// and what a broker takes that was replaced is taken by no shard, while clients would go on asking it: the process is to
    /// end, and to be started again where the reason is gone.
    pub async fn failed(&self) -> String {
        tokio::select! {
            why = self.cluster.node().failed() => format!("a replica has failed: {why}"),
            () = self.lanes.fenced() => "a later life of this broker has written: this one was replaced".to_owned(),
        }
    }

    #[cfg(any(test, feature = "simulation"))]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The simulation looks at every replica.
    #[cfg(any(test, feature = "simulation"))]
    pub fn shards(&self) -> &Arc<Shards> {
        &self.shards
    }

    #[cfg(test)]
    pub fn cache_metrics(&self) -> &cache::Metrics {
        &self.cache_metrics
    }

    /// Stops in reverse: clients are sent elsewhere and their pending requests answered, uploads settle, leadership is
    /// handed over.
    pub async fn shut_down(self) {
        self.say_goodbye().await;
        // Members that wait for their groups would hold up the end.
        self.coordinators.stop();
        self.transactions.stop();
        self.sharing.stop();
        let _ = self.stop.send(true);
        // Ends when pending answers are written. The console holds the server too; with the last handle on it goes
        // ingest, and with ingest the uploader, when everything is handed on.
        let _ = self.serving.await;
        if let Some(console) = self.console {
            console.abort();
            let _ = console.await;
        }
        let _ = timeout(PUT_TIMEOUT, self.uploading).await;
        self.background.iter().for_each(JoinHandle::abort);
        self.cluster.node().shutdown().await;
    }

    /// Metadata stops naming this broker at once and for good, unless it is alone.
    async fn say_goodbye(&self) {
        if self.cluster.view().brokers().filter(|b| b.alive).count() > 1 {
            let (broker, epoch) = (self.cluster.broker_id(), self.cluster.epoch());
            let entry = RootEntry::Leave { broker, epoch };
            let _ = self.cluster.propose(entry, GOODBYE_TIMEOUT).await;
        }
    }
}

/// What the live brokers agree on without a word: each takes every so-many-th.
fn share_of(cluster: Cluster) -> impl Fn() -> Share + Send + Sync {
    move || {
        let view = cluster.view();
        let alive: Vec<_> = view.brokers().filter(|b| b.alive).map(|b| b.id).collect();
        match alive.iter().position(|id| *id == cluster.broker_id()) {
            Some(index) => Share { index, count: alive.len() },
            // Nobody counts on a broker that is not seen.
            None => Share { index: 0, count: 0 },
        }
    }
}

async fn seat(
    raft: &raft::Node,
    identity: &Identity,
    registration: Registration,
    seeds: &[String],
) -> Result<Cluster, Error> {
    let root = raft.open_group(crate::types::ROOT_SHARD, Arc::new(RootMachine::default())).await?;
    Ok(Cluster::seat(raft.clone(), root, identity, registration, seeds).await?)
}

async fn resolve(what: &'static str, address: &HostPort) -> Result<SocketAddr, Error> {
    let unresolved = || std::io::Error::other("the name has no address");
    let found =
        lookup_host((address.host.as_str(), address.port)).await.and_then(|mut all| all.next().ok_or_else(unresolved));
    found.map_err(|e| listen_error(what, address, e))
}

pub(super) async fn listen(what: &'static str, address: &HostPort) -> Result<TcpListener, Error> {
    TcpListener::bind((address.host.as_str(), address.port)).await.map_err(|e| listen_error(what, address, e))
}

pub(super) fn listen_error(what: &'static str, address: &HostPort, source: std::io::Error) -> Error {
    Error::Listen { what, address: address.to_string(), source }
}
