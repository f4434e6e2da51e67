//! What a cluster sends across zones and asks of the store, computed.
//!
//! ```text
//! an object of o bytes holds b = o / batch bytes batches, in p = P (1 - (1 - 1/P)^b) of P partitions. T topics are in
//! S = T · ⌈P/T / 256⌉ shards, as many as brokers at most; the object touches s = S (1 - (1 - 1/S)^p) of them. Batches
//! that lie back to back are one, unless they claim sequences: then c = b, else c = p. Z zones, replication factor R:
//!   forwarded     (Z-1)/Z · (s · request and answer + p · partition + c · batch and verdict)
//!   appended      (R-1)   · (s · entry, commit and their answers + p · partition + c · batch)
//!   read          one GET in each zone but the producer's
//!   members       heartbeats and commits, so much in a second for each member of a group
//! idle: the R-1 followers of each shard, and every broker of another zone than the root's leader, hear a beat and
//! answer it; all beats for a peer share a packet
//! ```
//! None of it grows with the size of the cluster but s, which is bounded by p and by the number of topics. Sizes of
//! partitions, batches and verdicts follow from `shard/entry.rs` and `commit/wire.rs`; what a forward, an append, a beat and
//! a member add was fitted to runs of the harness (a, with both sizes of objects), so only other workloads can check it.
//! Each message is taken to be a packet of its own: on a busy cluster several share one, and less crosses.

/// What is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Cluster {
    pub brokers: f64,
    pub zones: f64,
    pub replication_factor: f64,
    pub topics: f64,
    /// Of all topics.
    pub partitions: f64,
    pub bytes_per_second: f64,
    /// What producers send at once for a partition.
    pub batch_bytes: f64,
    /// Producers number their batches.
    pub idempotent: bool,
    /// Between two objects of a broker, while they are smaller than `object_bytes_max`.
    pub flush_seconds: f64,
    pub object_bytes_max: f64,
    /// Consumers that heartbeat and commit, of all groups.
    pub group_members: f64,
    /// How many times each byte is consumed, by readers spread over the zones.
    pub fan_out: f64,
}

/// For each second, except where it says otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    pub object_bytes: f64,
    pub idle_floor_bytes_per_s: f64,
    pub cross_zone_ratio_above_idle: f64,
    pub puts: f64,
    pub gets: f64,
    pub gets_per_object_per_zone: f64,
    pub cross_zone_bytes: f64,
    pub uploaded_bytes: f64,
    pub retrieved_bytes: f64,
}

/// Of TCP, IP and Ethernet with time stamps, for each packet.
const HEADER_BYTES: f64 = 66.0;
/// A request that forwards an object's batches to a shard's leader, and its answer.
const FORWARD_BYTES: f64 = 2.0 * HEADER_BYTES + 19.0;
/// A Raft entry on its way to one follower, the news that it is committed, and their answers; some share a packet.
const APPEND_BYTES: f64 = 3.0 * HEADER_BYTES + 14.0;
/// Partitions of a topic in a row that share a shard (`cluster/state.rs`).
const RUN_PARTITIONS: f64 = 256.0;
/// A partition of an object: slot, place, number of batches.
const PARTITION_BYTES: f64 = 5.0;
/// A batch: length, offsets taken, time.
const BATCH_BYTES: f64 = 6.0;
const VERDICT_BYTES: f64 = 4.0;
/// A member's heartbeats and its commits every 5 s, on their way to the coordinator and from there to its followers.
const MEMBER_BYTES_PER_S: f64 = 550.0;
/// A beat, its answer and an acknowledgement that travels alone.
const BEAT_BYTES: f64 = 3.0 * HEADER_BYTES + 20.0;
const BEAT_SECONDS: f64 = 0.15;
/// An estimate: batch and record headers and the index, beside the values of records.
const STORED_PER_RECORD_BYTE: f64 = 1.02;

/// An estimate: what batches, headers and acknowledgements add to values.
const KAFKA_OVERHEAD: f64 = 1.03;

pub fn milepost(cluster: &Cluster) -> Answer {
    let Cluster { brokers, zones, replication_factor, topics, partitions, bytes_per_second, .. } = *cluster;
    let of_broker = bytes_per_second / brokers;
    let object_bytes = (of_broker * cluster.flush_seconds).clamp(cluster.batch_bytes, cluster.object_bytes_max);
    let objects = bytes_per_second / object_bytes;
    let batches = object_bytes / cluster.batch_bytes;
    let touched = |of: f64, times: f64| of * (1.0 - (1.0 - 1.0 / of).powf(times));
    let parts = touched(partitions, batches);
    let runs = topics * (partitions / topics / RUN_PARTITIONS).ceil();
    let shards = touched(runs.min(brokers), parts);
    let claims = if cluster.idempotent { batches } else { parts };
    let (elsewhere, followers) = ((zones - 1.0) / zones, replication_factor - 1.0);
    let pointers = parts * PARTITION_BYTES + claims * BATCH_BYTES;
    let forwarded = shards * FORWARD_BYTES + pointers + claims * VERDICT_BYTES;
    let object_crosses = elsewhere * forwarded + followers * (shards * APPEND_BYTES + pointers);
    // The root's leader leads a shard as well: its followers there hear both in one packet.
    let beats = brokers * followers + brokers * elsewhere - followers;
    let idle = beats * BEAT_BYTES / BEAT_SECONDS;
    // Readers of a zone share one GET.
    let gets_per_object_per_zone = if cluster.fan_out > 0.0 { 1.0 } else { 0.0 };
    let gets = objects * (zones - 1.0) * gets_per_object_per_zone;
    let crosses = objects * object_crosses + cluster.group_members * MEMBER_BYTES_PER_S;
    Answer {
        object_bytes,
        idle_floor_bytes_per_s: idle,
        cross_zone_ratio_above_idle: crosses / bytes_per_second,
        puts: objects,
        gets,
        gets_per_object_per_zone,
        cross_zone_bytes: idle + crosses,
        uploaded_bytes: bytes_per_second * STORED_PER_RECORD_BYTE,
        retrieved_bytes: gets * object_bytes * STORED_PER_RECORD_BYTE,
    }
}

/// Classic Kafka: producers and consumers talk to leaders wherever these are, replicas copy from them.
pub fn kafka(cluster: &Cluster, follower_fetching: bool) -> Answer {
    let elsewhere = (cluster.zones - 1.0) / cluster.zones;
    let consumed = if follower_fetching { 0.0 } else { cluster.fan_out * elsewhere };
    let ratio = (elsewhere + (cluster.replication_factor - 1.0) + consumed) * KAFKA_OVERHEAD;
    Answer {
        object_bytes: 0.0,
        idle_floor_bytes_per_s: 0.0,
        cross_zone_ratio_above_idle: ratio,
        puts: 0.0,
        gets: 0.0,
        gets_per_object_per_zone: 0.0,
        cross_zone_bytes: ratio * cluster.bytes_per_second,
        uploaded_bytes: 0.0,
        retrieved_bytes: 0.0,
    }
}
