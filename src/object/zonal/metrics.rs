use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Clones share the counts.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    /// Objects acknowledged before their last copy was there.
    pub late: Counter,
    /// Copies that writers gave up.
    pub given_up: Counter,
    /// Reads that another zone's bucket has answered.
    pub reads_elsewhere: Counter,
    /// Copies known to be missing now.
    pub missing: Gauge,
    /// Copies made again.
    pub repaired: Counter,
    /// Requests to list that comparing has cost.
    pub lists: Counter,
    /// Times that all of this broker's share was compared.
    pub compared: Counter,
}

impl Metrics {
    pub fn register(&self, registry: &mut Registry) {
        registry.register("zonal_late", "Objects acknowledged before their last copy", self.late.clone());
        registry.register("zonal_given_up", "Copies that their writer gave up", self.given_up.clone());
        let help = "Reads answered by another zone's bucket";
        registry.register("zonal_reads_elsewhere", help, self.reads_elsewhere.clone());
        registry.register("zonal_missing", "Copies known to be missing", self.missing.clone());
        registry.register("zonal_repaired", "Copies made again", self.repaired.clone());
        registry.register("zonal_lists", "LIST requests of comparisons", self.lists.clone());
        registry.register("zonal_compared", "Comparisons completed", self.compared.clone());
    }
}
