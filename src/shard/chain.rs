use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::shard::verdict::Verdict;
use crate::types::{BrokerEpoch, ObjectId};

/// How many objects back a broker may ask for verdicts again. Brokers keep fewer objects in flight.
pub const OBJECTS_REMEMBERED_MAX: u64 = 128;

/// The order of one broker's objects in this shard: each names the one before it, so nothing is skipped or swapped,
/// and asking again finds the first verdict.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    pub epoch: BrokerEpoch,
    /// Newest sequence taken in this epoch; 0 before the first.
    pub last: u64,
    /// Verdicts other than a plain append, which the pointers themselves remember, by (sequence, batch index).
    exceptions: BTreeMap<(u64, u32), Verdict>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Next,
    Taken,
    Gap { last: u64 },
    Fenced,
}

impl Chain {
    pub(super) fn turn(&self, object: ObjectId, previous: u64) -> Turn {
        if object.epoch < self.epoch {
            return Turn::Fenced;
        }
        let last = if object.epoch > self.epoch { 0 } else { self.last };
        if object.sequence <= last {
            Turn::Taken
        } else if previous == last {
            Turn::Next
        } else {
            Turn::Gap { last }
        }
    }

    pub(super) fn take(&mut self, object: ObjectId, verdicts: &[Verdict]) {
        if object.epoch > self.epoch {
            self.epoch = object.epoch;
            self.exceptions.clear();
        }
        self.last = object.sequence;
        let horizon = self.last.saturating_sub(OBJECTS_REMEMBERED_MAX);
        self.exceptions = self.exceptions.split_off(&(horizon, 0));
        for (index, verdict) in verdicts.iter().enumerate() {
            if matches!(verdict, Verdict::Duplicate { .. } | Verdict::Refused(_)) {
                self.exceptions.insert((object.sequence, index as u32), *verdict);
            }
        }
    }

    /// A held batch's late verdict joins the exceptions of its object.
    pub(super) fn decide(&mut self, object: ObjectId, batch_index: u32, verdict: Verdict) {
        let remembered = object.sequence.saturating_add(OBJECTS_REMEMBERED_MAX) >= self.last;
        if object.epoch == self.epoch && remembered && !matches!(verdict, Verdict::Appended { .. }) {
            self.exceptions.insert((object.sequence, batch_index), verdict);
        }
    }

    pub(super) fn exception(&self, object: ObjectId, batch_index: u32) -> Option<Verdict> {
        self.exceptions.get(&(object.sequence, batch_index)).copied()
    }
}
