//! A9, A10: a writer's later values stand behind its earlier ones, whatever became of their transactions.

use crate::check::Report;
use crate::check::overlay::Piece;
use crate::check::transactions::{Mark, of};
use crate::check::writes::name;
use crate::event::{Key, Value, writer_of};

/// `by_value`: everything known to be in the log.
pub fn check(key: Key, by_value: &[Piece], marks: &[Mark], report: &mut Report) {
    let transaction = |value: i64| of(marks, value as Value, 1).next().map(|mark| mark.txn);
    for pair in by_value.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        let (last, first) = (before.end - 1 + before.shift, after.at + after.shift);
        if writer_of(before.at as u64) == writer_of(after.at as u64) && first <= last {
            let txn = transaction(before.end - 1);
            let is_inside = txn.is_some() && txn == transaction(after.at);
            report.violation(if is_inside { "A10" } else { "A9" }, key, || {
                format!("{} is at offset {first}, though sent after the one at {last}", name(after.at as u64))
            });
        }
    }
}
