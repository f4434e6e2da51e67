//! The transactions of a history: what each wrote and read, and how it ended.

use std::collections::BTreeMap;

use crate::check::overlay::Piece;
use crate::event::{End, Key, Process, Run, Value};

/// Values `value..value + count` of a key were sent in transaction `txn`.
#[derive(Clone, Copy)]
pub struct Mark {
    pub value: Value,
    pub count: u64,
    pub txn: u64,
}

/// Values that were sent in a transaction, and of what they are copies.
pub struct Sent {
    pub key: Key,
    pub run: Run,
    pub copy_of: Option<(Key, Value)>,
}

/// What is certain about a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Committed,
    Failed,
    Unknown,
}

#[derive(Default)]
pub struct Transaction {
    pub process: Process,
    pub begun: u64,
    pub ended: Option<u64>,
    pub sent: Vec<Sent>,
    pub read: Vec<(Key, Run)>,
    /// Some committed read shows a value of it.
    pub is_seen: bool,
    is_committing: bool,
    end: Option<End>,
}

impl Transaction {
    pub fn verdict(&self) -> Verdict {
        match self.end {
            Some(End::Committed) => Verdict::Committed,
            Some(End::Aborted | End::Refused) => Verdict::Failed,
            None if !self.is_committing => Verdict::Failed,
            Some(End::Unknown) | None => Verdict::Unknown,
        }
    }

    /// It took place: its client says so, or a reader of committed records does.
    pub fn is_real(&self) -> bool {
        match self.verdict() {
            Verdict::Committed => true,
            Verdict::Failed => false,
            Verdict::Unknown => self.is_seen,
        }
    }
}

/// By the op of their beginning.
#[derive(Default)]
pub struct Transactions(pub BTreeMap<u64, Transaction>);

impl Transactions {
    pub fn begun(&mut self, txn: u64, process: Process, t: u64) {
        self.0.insert(txn, Transaction { process, begun: t, ..Transaction::default() });
    }

    pub fn committing(&mut self, txn: u64) {
        self.0.entry(txn).or_default().is_committing = true;
    }

    pub fn ended(&mut self, txn: u64, end: End, t: u64) {
        let transaction = self.0.entry(txn).or_default();
        (transaction.end, transaction.ended) = (Some(end), Some(t));
    }

    pub fn sent(&mut self, txn: u64, key: Key, run: Run, copy_of: Option<(Key, Value)>) {
        self.0.entry(txn).or_default().sent.push(Sent { key, run, copy_of });
    }

    pub fn read(&mut self, txn: u64, key: Key, run: Run) {
        self.0.entry(txn).or_default().read.push((key, run));
    }

    /// A reader of committed records was shown this.
    pub fn seen(&mut self, marks: &[Mark], run: &Run) {
        for mark in of(marks, run.value, run.count) {
            self.0.entry(mark.txn).or_default().is_seen = true;
        }
    }

    pub fn verdict(&self, txn: u64) -> Verdict {
        self.0.get(&txn).map_or(Verdict::Unknown, Transaction::verdict)
    }

    pub fn count(&self, verdict: Verdict) -> usize {
        self.0.values().filter(|transaction| transaction.verdict() == verdict).count()
    }
}

/// Which transactions wrote values from `value` on; what nobody's transaction wrote is passed over.
pub fn of(marks: &[Mark], value: Value, count: u64) -> impl Iterator<Item = Mark> {
    let from = marks.partition_point(|mark| mark.value + mark.count <= value);
    marks[from..].iter().take_while(move |mark| mark.value < value + count).copied()
}

/// The values of those transactions that are `wanted`, sorted.
pub fn values(marks: &[Mark], wanted: impl Fn(u64) -> bool) -> Vec<Piece> {
    let wanted = marks.iter().filter(|mark| wanted(mark.txn));
    wanted.map(|mark| Piece { at: mark.value as i64, end: (mark.value + mark.count) as i64, shift: 0 }).collect()
}
