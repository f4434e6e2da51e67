//! A11: a transaction that reads committed records cannot have read what it wrote itself: it was not committed yet.

use crate::check::Report;
use crate::check::table::Tables;
use crate::check::transactions::of;

pub fn check(tables: &Tables, report: &mut Report) {
    for (txn, transaction) in &tables.transactions.0 {
        for (key, run) in &transaction.read {
            let Some(table) = tables.keys.get(key) else { continue };
            if of(&table.marks, run.value, run.count).any(|mark| mark.txn == *txn) {
                report.violation("A11", *key, || {
                    format!("transaction {txn} of process {} read its own value at {}", transaction.process, run.offset)
                });
            }
        }
    }
}
