use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use crate::object::HedgeCounts;

/// Clones share the counts. GETs per object and zone are the `store_gets` of its brokers by the `upload_objects` of all.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// Parts that were there.
    pub hits: Counter,
    /// Parts that were waited for, whoever fetched them.
    pub misses: Counter,
    /// Parts found on the disk tier.
    pub disk_hits: Counter,
    /// Requests to the store, retries and second requests included: what is billed.
    pub gets: Counter,
    pub get_bytes: Counter,
    /// Objects whose beginning came from the store: most are fetched whole with it.
    pub objects_fetched: Counter,
    /// Parts that came from another broker of the zone.
    pub neighbour_reads: Counter,
    pub neighbour_read_bytes: Counter,
    pub neighbour_reads_failed: Counter,
    /// Parts given to other brokers of the zone.
    pub neighbour_reads_served: Counter,
    /// Fetches begun for readers that wait, before the pointer was committed.
    pub prefetches: Counter,
    gets_hedged: HedgeCounts,
    reads_hedged: HedgeCounts,
}

impl Metrics {
    pub(super) fn new(gets_hedged: HedgeCounts, reads_hedged: HedgeCounts) -> Metrics {
        Metrics {
            hits: Counter::default(),
            misses: Counter::default(),
            disk_hits: Counter::default(),
            gets: Counter::default(),
            get_bytes: Counter::default(),
            objects_fetched: Counter::default(),
            neighbour_reads: Counter::default(),
            neighbour_read_bytes: Counter::default(),
            neighbour_reads_failed: Counter::default(),
            neighbour_reads_served: Counter::default(),
            prefetches: Counter::default(),
            gets_hedged,
            reads_hedged,
        }
    }

    pub fn register(&self, registry: &mut Registry) {
        let counters = [
            ("cache_hits", "Parts of objects found in memory", &self.hits),
            ("cache_misses", "Parts of objects that were waited for", &self.misses),
            ("cache_disk_hits", "Parts of objects found on disk", &self.disk_hits),
            ("cache_prefetches", "Fetches begun for waiting readers before the commit", &self.prefetches),
            ("store_gets", "GET requests to the object store", &self.gets),
            ("store_get_bytes", "Bytes fetched from the object store", &self.get_bytes),
            ("store_objects_fetched", "Objects fetched from the object store", &self.objects_fetched),
            ("neighbour_reads", "Parts read from brokers of this zone", &self.neighbour_reads),
            ("neighbour_read_bytes", "Bytes read from brokers of this zone", &self.neighbour_read_bytes),
            ("neighbour_reads_failed", "Reads that such a broker did not answer", &self.neighbour_reads_failed),
            ("neighbour_reads_served", "Parts given to brokers of this zone", &self.neighbour_reads_served),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
        self.gets_hedged.register(registry, "get");
        self.reads_hedged.register(registry, "neighbour_read");
    }
}
