use std::collections::BTreeMap;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::group::classic::Listed;

type Labels = [(&'static str, &'static str); 2];

/// Of the groups that this broker coordinates.
#[derive(Debug, Default)]
pub struct Metrics {
    commits: Counter,
    commit_entries: Counter,
    groups: Family<Labels, Gauge>,
}

impl Metrics {
    pub fn register(&self, registry: &mut Registry) {
        registry.register("group_commits", "Offset commits proposed to the log", self.commits.clone());
        registry.register("group_commit_entries", "Log entries that carried them", self.commit_entries.clone());
        registry.register("groups", "Groups coordinated here", self.groups.clone());
    }

    /// So many commits went into one entry.
    pub(super) fn committed(&self, commits: u64) {
        self.commits.inc_by(commits);
        self.commit_entries.inc();
    }

    pub(super) fn count(&self, listed: &[Listed]) {
        let mut counts: BTreeMap<Labels, i64> = BTreeMap::new();
        for group in listed {
            *counts.entry([("type", group.group_type), ("state", group.state)]).or_default() += 1;
        }
        self.groups.clear();
        for (labels, count) in counts {
            self.groups.get_or_create(&labels).set(count);
        }
    }
}
