//! What a cluster sends across zones and asks of the store, computed.
//!
//! ```text
//! an object of o bytes holds p = min(partitions, its records) pointers in s shards: those of the S = brokers that some
//! pointer falls into, S (1 - (1 - 1/S)^p)
//!   forwarded     s · (Z-1)/Z · (request + answer)      + p · (Z-1)/Z · pointer and verdict
//!   appended      s · (R-1)   · (entry + answer)         + p · (R-1)   · pointer
//!   read          one GET in each zone but the producer's
//! idle: every R-1 followers of S shards, and every broker but one as a member of the root, hear a beat and answer it
//! ```
//! The sizes below are those of `src/peer.rs`, `src/commit` and `raft/src/transport`, headers of packets included, as
//! the harness measured them. None of it grows with the size of the cluster but s, which is bounded by p.

/// What is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Cluster {
    pub brokers: f64,
    pub zones: f64,
    pub replication_factor: f64,
    pub partitions: f64,
    pub bytes_per_second: f64,
    pub record_bytes: f64,
    /// Between two objects of a broker, while they are smaller than `object_bytes_max`.
    pub flush_seconds: f64,
    pub object_bytes_max: f64,
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

/// Bytes of a request that forwards an object's pointers to a shard's leader, and of its answer.
const FORWARD_BYTES: f64 = 240.0;
const FORWARDED_POINTER_BYTES: f64 = 12.0;
/// Bytes of a Raft entry on its way to one follower, with its share of commit pushes and answers.
const APPEND_BYTES: f64 = 200.0;
const APPENDED_POINTER_BYTES: f64 = 12.0;
/// A beat and its answer, each a packet of its own.
const BEAT_BYTES: f64 = 240.0;
const BEAT_SECONDS: f64 = 0.15;
/// An object, beside the values of its records: batch and record headers, index.
const STORED_PER_RECORD_BYTE: f64 = 1.02;

/// Of Kafka's bytes: what batches, headers and acknowledgements add to values.
const KAFKA_OVERHEAD: f64 = 1.03;

pub fn milepost(cluster: &Cluster) -> Answer {
    let Cluster { brokers, zones, replication_factor, partitions, bytes_per_second, .. } = *cluster;
    let of_broker = bytes_per_second / brokers;
    let object_bytes = (of_broker * cluster.flush_seconds).clamp(cluster.record_bytes, cluster.object_bytes_max);
    let objects = bytes_per_second / object_bytes;
    let pointers = partitions.min(object_bytes / cluster.record_bytes);
    let shards = brokers * (1.0 - (1.0 - 1.0 / brokers).powf(pointers));
    let elsewhere = (zones - 1.0) / zones;
    let followers = replication_factor - 1.0;
    let object_crosses = shards * (elsewhere * FORWARD_BYTES + followers * APPEND_BYTES)
        + pointers * (elsewhere * FORWARDED_POINTER_BYTES + followers * APPENDED_POINTER_BYTES);
    let idle =
        (brokers * followers + (brokers - 1.0) * elsewhere).min(brokers * (brokers - 1.0)) * BEAT_BYTES / BEAT_SECONDS;
    // Readers of a zone share one GET; below one reader for each zone, objects with nothing for a zone stay unread
    // there only when they are small.
    let gets_per_object_per_zone = if cluster.fan_out > 0.0 { 1.0 } else { 0.0 };
    let gets = objects * (zones - 1.0) * gets_per_object_per_zone;
    Answer {
        object_bytes,
        idle_floor_bytes_per_s: idle,
        cross_zone_ratio_above_idle: object_crosses / object_bytes,
        puts: objects,
        gets,
        gets_per_object_per_zone,
        cross_zone_bytes: idle + objects * object_crosses,
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
