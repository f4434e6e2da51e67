//! A15: a group reads the input, and writes copies and commits its offsets in transactions. Each value that a scan of
//! committed records shows of the input has exactly one copy that the scan shows of the output.

use std::collections::BTreeMap;

use crate::check::Report;
use crate::check::overlay::{Axis, Piece, intersect, overlay, subtract};
use crate::check::table::{KeyTable, Tables};
use crate::check::writes::span;
use crate::event::{Key, Process, Value};

/// Copies: values of the output, and behind `from` what they are copies of.
#[derive(Clone, Copy)]
struct Copies {
    output: Key,
    value: Value,
    count: u64,
    from: Value,
}

/// How many copies were counted.
pub fn check(tables: &Tables, report: &mut Report) -> u64 {
    let mut by_input: BTreeMap<Key, Vec<Copies>> = BTreeMap::new();
    for sent in tables.transactions.0.values().flat_map(|transaction| &transaction.sent) {
        if let Some((input, from)) = sent.copy_of {
            let copies = Copies { output: sent.key, value: sent.run.value, count: sent.run.count, from };
            by_input.entry(input).or_default().push(copies);
        }
    }
    let mut counted = 0;
    for (input, copies) in &by_input {
        let Some(table) = tables.keys.get(input) else { continue };
        for process in table.committed.scans.keys() {
            let shown = shown(tables, copies, *process);
            counted += shown.iter().map(Piece::len).sum::<u64>();
            once(*input, &scanned(table, *process), shown, report);
        }
    }
    counted
}

/// The input's values of which this scan shows copies, each as often as it does, sorted.
fn shown(tables: &Tables, copies: &[Copies], process: Process) -> Vec<Piece> {
    let mut shown = Vec::new();
    let scans: BTreeMap<Key, Vec<Piece>> = copies
        .iter()
        .map(|copy| copy.output)
        .filter_map(|key| Some((key, scanned(tables.keys.get(&key)?, process))))
        .collect();
    for copy in copies {
        let (at, end) = (copy.value as i64, (copy.value + copy.count) as i64);
        let read = scans.get(&copy.output).map_or(&[][..], Vec::as_slice);
        for piece in intersect(&[Piece { at, end, shift: 0 }], read) {
            let back = copy.from as i64 - copy.value as i64;
            shown.push(Piece { at: piece.at + back, end: piece.end + back, shift: 0 });
        }
    }
    shown.sort_unstable_by_key(|piece| (piece.at, piece.end));
    shown
}

fn scanned(table: &KeyTable, process: Process) -> Vec<Piece> {
    table.committed.scans.get(&process).map_or(Vec::new(), |runs| overlay(runs, Axis::Value).0)
}

fn once(input: Key, due: &[Piece], shown: Vec<Piece>, report: &mut Report) {
    let mut covered: Vec<Piece> = Vec::new();
    for piece in shown {
        let end = covered.last().map_or(i64::MIN, |last| last.end);
        if piece.at < end {
            report.violation("A15", input, || format!("{} has more than one copy", span(&piece)));
        }
        if piece.end > end {
            covered.push(Piece { at: piece.at.max(end), ..piece });
        }
    }
    for piece in subtract(due, &covered) {
        report.violation("A15", input, || format!("{} has no copy", span(&piece)));
    }
    for piece in subtract(&covered, due) {
        report.violation("A15", input, || format!("{} was copied, and is not in the input", span(&piece)));
    }
}
