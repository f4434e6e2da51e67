//! The checker: a history in, violations out. Pure, O(n log n) in the runs of the history.
//!
//! - **In**: events in the order of their times. **Out**: which rule is broken where.
//! - **Promises**: no rule fires on a history of a log that kept what it acknowledged, once, in order; retention and
//!   compaction are off while it is recorded.
//! - **Never does**: ask a broker, read a clock, guess: a send of unknown fate is held against nobody.
//!
//! | rule | what a violation means |
//! |---|---|
//! | A1 | one offset had two values |
//! | A2 | one value is at two offsets |
//! | A3 | a value was read whose send was definitely refused |
//! | A4 | an acknowledged value was never read, though later ones were |
//! | A5 | an acknowledged value at the end was never read |
//! | A6, A7 | between two polls a reader passed over a record, or went back |
//! | A8 | the same inside one poll |
//! | A9 | a writer's values stand in the log in another order than it sent them |
//! | A14 | a record differs from what was sent, or was never sent |
//! | D1 | a broker's end of a key lay before an offset acknowledged earlier, or a reader's position did not exist |
//! | D2 | two zones' scans differ |
//! | D3 | an end or beginning stepped back, or the beginning lies behind the end |
//! | D5 | a scan found fewer or more records than there are offsets |

mod overlay;
mod reads;
mod table;
mod watermarks;
mod writes;

use std::collections::BTreeMap;

use crate::event::{Event, Key};

pub use table::Count;

/// The rules, in the order of the table.
pub const RULES: [&str; 14] = ["A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9", "A14", "D1", "D2", "D3", "D5"];

/// Violations that are kept for each rule; the others are only counted.
const KEPT_MAX: usize = 20;

#[derive(Default)]
pub struct Report {
    found: BTreeMap<&'static str, (u64, Vec<String>)>,
    pub count: Count,
}

impl Report {
    fn violation(&mut self, rule: &'static str, key: Key, what: impl FnOnce() -> String) {
        let (count, kept) = self.found.entry(rule).or_default();
        *count += 1;
        if kept.len() < KEPT_MAX {
            kept.push(format!("key {key}: {}", what()));
        }
    }

    pub fn violations(&self) -> u64 {
        self.found.values().map(|(count, _)| count).sum()
    }

    /// How often a rule was broken, and some of the places.
    pub fn of(&self, rule: &str) -> (u64, &[String]) {
        self.found.get(rule).map_or((0, &[]), |(count, kept)| (*count, kept))
    }
}

pub fn check(events: &[Event]) -> Report {
    let tables = table::Tables::new(events);
    let mut report = Report::default();
    for (key, table) in &tables.keys {
        let order = writes::check(*key, table, &mut report);
        reads::check(*key, table, &order, &tables.zones, &mut report);
        watermarks::check(*key, table, &tables.zones, &mut report);
    }
    report.count = tables.count;
    report
}
