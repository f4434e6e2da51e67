//! What of a partition's records is decided: open transactions, and those that were aborted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::types::Offset;

/// A transaction whose records nobody is to see who reads committed ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aborted {
    pub producer_id: i64,
    pub first: Offset,
    /// Its marker's.
    pub last: Offset,
    /// Where the last stable offset was when it had ended: what ended later began at or behind it.
    stable: Offset,
}

/// The transactions that have records in a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transactions {
    /// First offset → producer id.
    open: BTreeMap<Offset, i64>,
    /// In the order of their markers.
    aborted: Vec<Aborted>,
}

impl Transactions {
    pub fn open(&self) -> impl Iterator<Item = (Offset, i64)> {
        self.open.iter().map(|(first, producer_id)| (*first, *producer_id))
    }

    pub fn first_open(&self) -> Option<Offset> {
        self.open.keys().next().copied()
    }

    pub(super) fn begin(&mut self, first: Offset, producer_id: i64) {
        self.open.insert(first, producer_id);
    }

    pub(super) fn end(&mut self, first: Offset, marker: Offset, commit: bool) {
        let Some(producer_id) = self.open.remove(&first) else { return };
        if !commit {
            let stable = self.first_open().unwrap_or(marker + 1);
            self.aborted.push(Aborted { producer_id, first, last: marker, stable });
        }
    }

    /// Nobody reads what ended before the start of the log.
    pub(super) fn drop_below(&mut self, start: Offset) {
        let gone = self.aborted.partition_point(|aborted| aborted.last < start);
        self.aborted.drain(..gone);
    }

    pub(super) fn aborted_are_ordered(&self) -> bool {
        self.aborted.is_sorted_by(|a, b| a.last < b.last && a.first <= a.last)
    }

    /// Those with records between the offsets `from` and `end` (not included), sorted by their first offsets.
    pub fn aborted_between(&self, from: Offset, end: Offset) -> Vec<Aborted> {
        let at = self.aborted.partition_point(|aborted| aborted.last < from);
        let mut found = Vec::new();
        for aborted in &self.aborted[at..] {
            if aborted.first < end {
                found.push(*aborted);
            }
            if aborted.stable >= end {
                break;
            }
        }
        found.sort_by_key(|aborted| aborted.first);
        found
    }
}
