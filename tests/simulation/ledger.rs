//! What clients were told and what they saw, and the rules between the two (numbers as in the history checker).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use crate::trace;

/// A value and its leader epoch, by offset.
type Log = BTreeMap<i64, (String, i32)>;

/// One topic; a value is unique in the whole run.
#[derive(Default)]
pub struct Ledger {
    /// Partition → value → offset, if the answer named one.
    acked: RefCell<BTreeMap<i32, BTreeMap<String, Option<i64>>>>,
    /// By partition, from any reader.
    log: RefCell<BTreeMap<i32, Log>>,
    places: RefCell<BTreeMap<String, (i32, i64)>>,
    violations: RefCell<Vec<String>>,
    pub reads: Cell<u64>,
}

impl Ledger {
    pub fn violation(&self, what: String) {
        tracing::error!(violation = %what);
        eprintln!("{:?}: {what}", trace::now());
        self.violations.borrow_mut().push(what);
    }

    pub fn is_clean(&self) -> bool {
        self.violations.borrow().is_empty()
    }

    pub fn acked(&self, partition: i32, value: &str, offset: Option<i64>) {
        self.acked.borrow_mut().entry(partition).or_default().insert(value.to_owned(), offset);
        if let Some(offset) = offset {
            self.place(partition, offset, value);
        }
    }

    pub fn acked_count(&self) -> usize {
        self.acked.borrow().values().map(BTreeMap::len).sum()
    }

    /// The highest offset anybody was told of, acknowledged or read, plus one.
    pub fn end(&self, partition: i32) -> i64 {
        let read = self.log.borrow().get(&partition).and_then(|log| log.keys().next_back().copied());
        read.max(self.acked_last(partition)).map_or(0, |last| last + 1)
    }

    pub fn acked_last(&self, partition: i32) -> Option<i64> {
        self.acked.borrow().get(&partition)?.values().flatten().max().copied()
    }

    /// A record as a reader has it.
    pub fn read(&self, partition: i32, offset: i64, value: &str, leader_epoch: i32) {
        self.reads.set(self.reads.get() + 1);
        if !self.place(partition, offset, value) {
            return;
        }
        let mut all = self.log.borrow_mut();
        let log = all.entry(partition).or_default();
        let here = (value.to_owned(), leader_epoch);
        let before = log.range(..offset).next_back().is_some_and(|(_, (_, epoch))| *epoch > leader_epoch);
        let after = log.range(offset + 1..).next().is_some_and(|(_, (_, epoch))| *epoch < leader_epoch);
        let known = log.insert(offset, here.clone());
        drop(all);
        if known.as_ref().is_some_and(|known| *known != here) {
            self.violation(format!("A1: partition {partition} offset {offset} is {known:?} and {here:?}"));
        }
        if before || after {
            self.violation(format!("D4: partition {partition} offset {offset}: epoch {leader_epoch} is out of order"));
        }
    }

    /// A value has one place.
    fn place(&self, partition: i32, offset: i64, value: &str) -> bool {
        let known = *self.places.borrow_mut().entry(value.to_owned()).or_insert((partition, offset));
        if known != (partition, offset) {
            self.violation(format!("A2: {value} is at {known:?} and at {:?}", (partition, offset)));
        }
        known == (partition, offset)
    }

    /// A4, A5, D2: after the last scan through this broker, which saw `log`.
    pub fn check_scan(&self, broker: i32, partition: i32, log: &BTreeMap<i64, String>) {
        let seen: BTreeMap<&String, i64> = log.iter().map(|(offset, value)| (value, *offset)).collect();
        let lost: Vec<String> = match self.acked.borrow().get(&partition) {
            Some(acked) => acked.keys().filter(|value| !seen.contains_key(value)).cloned().collect(),
            None => Vec::new(),
        };
        if !lost.is_empty() {
            self.violation(format!("A4: broker {broker} partition {partition} has not: {lost:?}"));
        }
        if let Some(missing) = (0..).zip(log.keys()).find(|(expected, offset)| expected != *offset) {
            self.violation(format!("D5: broker {broker} partition {partition} has no offset {}", missing.0));
        }
    }
}
