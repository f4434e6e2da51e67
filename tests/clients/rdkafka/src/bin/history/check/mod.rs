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
//! | A3 | a value was read whose send was definitely refused, or, among committed ones, whose transaction failed |
//! | A4 | an acknowledged value was never read, though later ones were |
//! | A5 | an acknowledged value at the end was never read |
//! | A6, A7 | between two polls a reader passed over a record, or went back |
//! | A8 | the same inside one poll, or inside one transaction |
//! | A9, A10 | a writer's values stand in the log in another order than it sent them; A10: inside one transaction |
//! | A11 | a transaction read, among committed records, what it wrote itself |
//! | A12 | transactions read from each other in a circle, or from one that began after they had ended |
//! | A13 | a scan of committed records shows a part of a transaction |
//! | A15 | a committed input value has not exactly one committed copy in the output |
//! | A14 | a record differs from what was sent, or was never sent |
//! | D1 | a broker's end of a key lay before an offset acknowledged earlier, or a reader's position did not exist |
//! | D2 | two zones' scans differ |
//! | D3 | an end or beginning stepped back, or the beginning lies behind the end, or the last stable offset behind the high watermark |
//! | D5 | a scan found fewer or more records than there are offsets, those of the ends of transactions apart |
//!
//! Read-committed readers and the others are each checked against an order of their own: what must be shown to the first
//! are plain records and those of transactions whose commit was answered, to the others everything acknowledged.

mod aborted;
mod copies;
mod cycles;
mod order;
mod overlay;
mod own_reads;
mod reads;
mod table;
mod torn;
mod transactions;
mod watermarks;
mod writes;

use std::collections::BTreeMap;

use crate::event::{Event, Key};

pub use cycles::Edges;
pub use table::Count;
pub use transactions::Verdict;

/// The rules, in the order of the table.
pub const RULES: [&str; 19] = [
    "A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9", "A10", "A11", "A12", "A13", "A14", "A15", "D1", "D2", "D3",
    "D5",
];

/// Violations that are kept for each rule; the others are only counted.
const KEPT_MAX: usize = 20;

#[derive(Default)]
pub struct Report {
    found: BTreeMap<&'static str, (u64, Vec<String>)>,
    pub count: Count,
    pub transactions: BTreeMap<Verdict, usize>,
    pub edges: Edges,
    /// Copies that A15 counted.
    pub copies: u64,
}

impl Report {
    fn violation(&mut self, rule: &'static str, key: Key, what: impl FnOnce() -> String) {
        let (count, kept) = self.found.entry(rule).or_default();
        *count += 1;
        if kept.len() < KEPT_MAX {
            kept.push(format!("key {key}: {}", what()));
        }
    }

    /// Of no one key.
    fn violation_anywhere(&mut self, rule: &'static str, what: impl FnOnce() -> String) {
        let (count, kept) = self.found.entry(rule).or_default();
        *count += 1;
        if kept.len() < KEPT_MAX {
            kept.push(what());
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
        let orders = writes::check(*key, table, &tables.transactions, &mut report);
        reads::check(*key, table, &orders, &tables.zones, &mut report);
        watermarks::check(*key, table, &tables.zones, &mut report);
        aborted::check(*key, table, &tables.transactions, &mut report);
    }
    own_reads::check(&tables, &mut report);
    torn::check(&tables, &mut report);
    report.edges = cycles::check(&tables, &mut report);
    report.copies = copies::check(&tables, &mut report);
    for verdict in [Verdict::Committed, Verdict::Failed, Verdict::Unknown] {
        report.transactions.insert(verdict, tables.transactions.count(verdict));
    }
    report.count = tables.count;
    report
}
