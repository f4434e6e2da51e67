//! A3 (G1a): what a failed transaction wrote is not shown to readers of committed records.

use crate::check::Report;
use crate::check::overlay::{Axis, intersect, overlay};
use crate::check::table::KeyTable;
use crate::check::transactions::{Transactions, Verdict, values};
use crate::check::writes::span;
use crate::event::Key;

pub fn check(key: Key, table: &KeyTable, transactions: &Transactions, report: &mut Report) {
    let failed = values(&table.marks, |txn| transactions.verdict(txn) == Verdict::Failed);
    let (read, _) = overlay(&table.committed.read, Axis::Value);
    for piece in intersect(&failed, &read) {
        report.violation("A3", key, || format!("{} was read, and its transaction failed", span(&piece)));
    }
}
