use std::time::Duration;

use crate::cluster::RootState;

/// What holds for a share group: its own settings, else the cluster's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareSettings {
    /// How long a member may keep a record (Kafka: `share.record.lock.duration.ms`).
    pub lock: Duration,
    /// How often a record is delivered before it is given up (`share.delivery.count.limit`).
    pub delivery_count_max: u16,
    /// Records of a partition that are not over, from the first that is not on (`share.partition.max.record.locks`).
    pub record_locks_max: u64,
    /// Records of transactions that are open or were aborted are not delivered (`share.isolation.level`).
    pub committed: bool,
    /// Where delivery of a partition begins (`share.auto.offset.reset`).
    pub reset: Reset,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    Earliest,
    Latest,
    /// With the batch that holds the first record of so long ago. (Kafka begins with that record.)
    Since(Duration),
}

impl Default for ShareSettings {
    fn default() -> Self {
        ShareSettings {
            lock: Duration::from_secs(30),
            delivery_count_max: 5,
            record_locks_max: 2000,
            committed: false,
            reset: Reset::Latest,
        }
    }
}

impl ShareSettings {
    /// The one place that looks them up.
    pub fn of_group(_view: &RootState, _group: &str) -> ShareSettings {
        ShareSettings::default()
    }
}
