use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use milepost_raft::{Group, NodeId, StateMachine};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::admin::Admin;
use crate::cache::Cache;
use crate::cluster::Cluster;
use crate::connection::Server;
use crate::group::Coordinators;
use crate::index::Shards;
use crate::object::{HedgeCounts, zonal};
use crate::peer;
use crate::upload;

/// A voter that has been silent for longer does not count as well.
const HEARD_WITHIN: Duration = Duration::from_secs(1);

/// The rooms that have something to tell.
pub struct Sources {
    pub cluster: Cluster,
    pub shards: Arc<Shards>,
    pub cache: Arc<Cache>,
    /// Where each zone has a bucket.
    pub zonal: Option<zonal::Metrics>,
    pub uploads: Arc<upload::Counters>,
    pub put_hedges: HedgeCounts,
    pub server: Arc<Server>,
    pub groups: Arc<Coordinators>,
    pub admin: Arc<Admin>,
}

pub(super) fn registry(sources: Sources) -> Registry {
    let mut registry = Registry::with_prefix("milepost");
    sources.cache.metrics().register(&mut registry);
    sources.put_hedges.register(&mut registry, "put");
    sources.groups.metrics().register(&mut registry);
    sources.zonal.iter().for_each(|zonal| zonal.register(&mut registry));
    registry.register_collector(Box::new(sources));
    registry
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sources")
    }
}

impl Collector for Sources {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let uploads = &self.uploads;
        let connections = self.server.metrics();
        let counters = [
            ("upload_objects", "Objects put into the store", &uploads.objects),
            ("upload_object_bytes", "Bytes of objects put into the store", &uploads.object_bytes),
            ("upload_batches", "Record batches in those objects", &uploads.batches),
            ("upload_failed", "Objects that could not be stored", &uploads.failed),
            ("connections_accepted", "Connections of clients", &connections.connections_accepted),
            ("connections_refused", "Connections turned away", &connections.connections_refused),
            ("frames_refused", "Frames that closed their connection", &connections.frames_refused),
            ("memory_waits", "Frames that waited for the memory budget", &connections.memory_waits),
            ("readers_dropped", "Connections closed for not taking answers", &connections.readers_dropped),
            ("client_bytes_in", "Bytes received from clients", &connections.bytes_in),
            ("client_bytes_out", "Bytes sent to clients", &connections.bytes_out),
            ("telemetry_pushes", "Pushes of clients' metrics", &self.admin.pushed().pushes),
            ("telemetry_bytes", "Bytes of clients' metrics, which are dropped", &self.admin.pushed().bytes),
        ];
        for (name, help, value) in counters {
            let counter = ConstCounter::new(value.load(Relaxed));
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            counter.encode(metric)?;
        }
        let open = ConstGauge::new(connections.connections_open.load(Relaxed) as i64);
        open.encode(encoder.encode_descriptor("connections_open", "Connections now", None, MetricType::Gauge)?)?;
        self.encode_shards(&mut encoder)?;
        self.encode_peers(&mut encoder)
    }
}

impl Sources {
    fn encode_shards(&self, encoder: &mut DescriptorEncoder) -> Result<(), fmt::Error> {
        let shards = self.shards.all();
        let leads = |s: &Arc<crate::index::OpenShard>| i64::from(s.group.leadership().borrow().ready);
        let mut metric = encoder.encode_descriptor(
            "shard_leader",
            "1 where this broker leads the shard",
            None,
            MetricType::Gauge,
        )?;
        for shard in &shards {
            let labels = [("shard", shard.id.to_string())];
            ConstGauge::new(leads(shard)).encode(metric.encode_family(&labels)?)?;
        }
        let root = self.cluster.root();
        let voters = shards.iter().map(|shard| (shard.id, well_voters(&shard.group)));
        let voters: Vec<_> = voters.chain([(root.id(), well_voters(root))]).collect();
        let help = "Voters of a shard led here that have its log and answered lately";
        let mut metric = encoder.encode_descriptor("shard_voters_caught_up", help, None, MetricType::Gauge)?;
        for (shard, count) in voters.into_iter().filter_map(|(shard, count)| Some((shard, count?))) {
            let labels = [("shard", shard.to_string())];
            ConstGauge::new(count).encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// Every byte between brokers is billed, and counted: frames with their headers.
    fn encode_peers(&self, encoder: &mut DescriptorEncoder) -> Result<(), fmt::Error> {
        let view = self.cluster.view();
        let traffic = self.cluster.node().traffic();
        let labels = |one: &milepost_raft::PeerTraffic| {
            let broker = view.broker_of(one.peer);
            let peer = broker.map_or_else(|| format!("node-{}", one.peer), |broker| broker.id.to_string());
            let zone = broker.map(|broker| broker.zone.clone()).unwrap_or_default();
            [("peer", peer), ("zone", zone), ("kind", peer::kind_name(one.kind).to_owned())]
        };
        type Read = fn(&milepost_raft::PeerTraffic) -> u64;
        let families: [(&str, &str, Read); 4] = [
            ("peer_bytes_sent", "Bytes sent to another broker", |t| t.bytes_sent),
            ("peer_bytes_received", "Bytes received from another broker", |t| t.bytes_received),
            ("peer_frames_sent", "Frames sent to another broker", |t| t.frames_sent),
            ("peer_frames_received", "Frames received from another broker", |t| t.frames_received),
        ];
        for (name, help, read) in families {
            let mut metric: MetricEncoder = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for one in &traffic {
                ConstCounter::new(read(one)).encode(metric.encode_family(&labels(one))?)?;
            }
        }
        Ok(())
    }
}

/// `None` where another broker leads: only the leader knows.
fn well_voters<S: StateMachine>(group: &Group<S>) -> Option<i64> {
    if !group.leadership().borrow().ready {
        return None;
    }
    let heard = group.heard_within(HEARD_WITHIN);
    let is_well = |node: &NodeId| group.caught_up(*node) && heard.get(node).copied().unwrap_or(false);
    Some(group.voters().iter().filter(|node| is_well(node)).count() as i64)
}
