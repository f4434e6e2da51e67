use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

/// Clones share the counts.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    /// Parts that were there.
    pub hits: Counter,
    /// Parts that were waited for, whoever fetched them.
    pub misses: Counter,
    /// Requests to the store, retries included: what is billed.
    pub gets: Counter,
    pub get_bytes: Counter,
}

impl Metrics {
    pub fn register(&self, registry: &mut Registry) {
        registry.register("cache_hits", "Parts of objects found in the cache", self.hits.clone());
        registry.register("cache_misses", "Parts of objects that were waited for", self.misses.clone());
        registry.register("cache_gets", "GET requests to the object store", self.gets.clone());
        registry.register("cache_get_bytes", "Bytes fetched from the object store", self.get_bytes.clone());
    }
}
