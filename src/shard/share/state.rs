use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::shard::Slot;
use crate::shard::share::{Change, ShareUpdate};
use crate::shard::verdict::Refusal;
use crate::types::{Offset, arc_map};

/// All share groups of a shard.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shares {
    #[serde(with = "arc_map")]
    slots: BTreeMap<Slot, Arc<BTreeMap<String, Progress>>>,
}

/// How far one group has come in one partition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Counts how often delivery began (Kafka: the state epoch).
    pub epoch: u64,
    /// Everything below is over (Kafka: share-partition start offset).
    pub start: Offset,
    /// Behind the start, in order. What lies between two of them was not decided.
    pub runs: Vec<Run>,
}

/// Records that had the same fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub first: Offset,
    pub last: Offset,
    /// How often they were delivered.
    pub count: u16,
    /// Accepted, refused or given up: never to be delivered again.
    pub done: bool,
}

impl Shares {
    pub fn get(&self, slot: Slot, group: &str) -> Option<&Progress> {
        self.slots.get(&slot)?.get(group)
    }

    pub fn all(&self) -> impl Iterator<Item = (Slot, &Progress)> {
        self.slots.iter().flat_map(|(slot, groups)| groups.values().map(|progress| (*slot, progress)))
    }

    /// The slots of partitions that a group has come to.
    pub fn of_group<'a>(&'a self, group: &'a str) -> impl Iterator<Item = (Slot, &'a Progress)> {
        self.slots.iter().filter_map(move |(slot, groups)| Some((*slot, groups.get(group)?)))
    }

    /// Those that have come to any of these partitions.
    pub(in crate::shard) fn groups_in(&self, slots: impl Iterator<Item = Slot>) -> BTreeSet<String> {
        slots.filter_map(|slot| self.slots.get(&slot)).flat_map(|groups| groups.keys().cloned()).collect()
    }

    /// A partition comes to a topic that these groups read: they miss nothing of it, whatever their reset says (Kafka:
    /// `GroupMetadataManager` initializes partitions of a topic that a share group knows at 0).
    pub(in crate::shard) fn begin(&mut self, slot: Slot, groups: &BTreeSet<String>) {
        if !groups.is_empty() {
            let first = Progress { epoch: 1, ..Progress::default() };
            self.slots.insert(slot, Arc::new(groups.iter().map(|group| (group.clone(), first.clone())).collect()));
        }
    }

    /// # Errors
    /// It was decided in an epoch that is over.
    pub(in crate::shard) fn apply(&mut self, update: ShareUpdate, log_start: Offset) -> Result<(), Refusal> {
        let ShareUpdate { slot, group, change } = update;
        let now = self.get(slot, &group);
        let in_epoch = match &change {
            Change::Begin { epoch, .. } => epoch.checked_sub(1) == Some(now.map_or(0, |now| now.epoch)),
            Change::Move { epoch, .. } => now.is_some_and(|now| now.epoch == *epoch),
            Change::Forget => true,
        };
        if !in_epoch {
            return Err(Refusal::StaleCoordinator);
        }
        let groups = Arc::make_mut(self.slots.entry(slot).or_default());
        match change {
            Change::Begin { epoch, start } => {
                let start = start.max(log_start);
                groups.insert(group, Progress { epoch, start, runs: Vec::new() });
            }
            Change::Move { start, runs, .. } => {
                if let Some(progress) = groups.get_mut(&group) {
                    runs.into_iter().for_each(|run| progress.set(run));
                    progress.start_at(start.max(log_start));
                }
            }
            Change::Forget => {
                groups.remove(&group);
            }
        }
        if groups.is_empty() {
            self.slots.remove(&slot);
        }
        Ok(())
    }

    /// The partition begins later now.
    pub(in crate::shard) fn follow(&mut self, slot: Slot, log_start: Offset) {
        if let Some(groups) = self.slots.get_mut(&slot) {
            Arc::make_mut(groups).values_mut().for_each(|progress| progress.start_at(log_start));
        }
    }

    pub(in crate::shard) fn forget_slot(&mut self, slot: Slot) {
        self.slots.remove(&slot);
    }
}

impl Progress {
    /// Writes over what was known of these records.
    fn set(&mut self, run: Run) {
        let from = self.runs.partition_point(|known| known.last < run.first);
        let to = self.runs.partition_point(|known| known.first <= run.last);
        let mut instead = Vec::with_capacity(3);
        if let Some(cut) = self.runs[from..to].first().filter(|known| known.first < run.first) {
            instead.push(Run { last: run.first - 1, ..*cut });
        }
        instead.push(run);
        if let Some(cut) = self.runs[from..to].last().filter(|known| known.last > run.last) {
            instead.push(Run { first: run.last + 1, ..*cut });
        }
        let added = instead.len();
        self.runs.splice(from..to, instead);
        self.join(from.saturating_sub(1), from + added);
    }

    /// Makes one of those between the positions (both included) that lie side by side and had the same fate.
    fn join(&mut self, from: usize, to: usize) {
        let mut at = from;
        let mut left = to.min(self.runs.len().saturating_sub(1)).saturating_sub(from);
        while left > 0 {
            let (a, b) = (self.runs[at], self.runs[at + 1]);
            if a.last + 1 == b.first && a.done == b.done && a.count == b.count {
                self.runs[at].last = b.last;
                self.runs.remove(at + 1);
            } else {
                at += 1;
            }
            left -= 1;
        }
    }

    /// Never back; then on past what is done already.
    fn start_at(&mut self, start: Offset) {
        self.start = self.start.max(start);
        let mut over = 0;
        for run in &mut self.runs {
            if run.done && run.first <= self.start {
                self.start = self.start.max(run.last + 1);
            }
            if run.last >= self.start {
                run.first = run.first.max(self.start);
                break;
            }
            over += 1;
        }
        self.runs.drain(..over);
    }
}
