//! What readers were shown: A6, A7, A8, D1 (positions), D2, D5.

use std::collections::BTreeMap;

use crate::check::Report;
use crate::check::overlay::{Axis, Piece, first_covered, overlay};
use crate::check::table::{KeyTable, Step};
use crate::check::writes::Orders;
use crate::event::{BadKind, Isolation, Key, Process};

pub fn check(key: Key, table: &KeyTable, orders: &Orders, zones: &BTreeMap<Process, String>, report: &mut Report) {
    for (view, order) in [(&table.committed, &orders.committed), (&table.uncommitted, &orders.uncommitted)] {
        for (process, steps) in &view.steps {
            follow(key, *process, steps, order, report);
        }
    }
    for bad in table.bad.iter().filter(|bad| bad.kind == BadKind::Position) {
        report.violation("D1", key, || format!("a reader's position does not exist: {}", bad.why));
    }
    for isolation in [Isolation::Committed, Isolation::Uncommitted] {
        scans(key, table, isolation, zones, report);
    }
}

/// A reader goes from one known record to the next, from wherever it was told to begin.
fn follow(key: Key, process: Process, steps: &[Step], order: &[Piece], report: &mut Report) {
    let (mut due, mut last_unit) = (None, None);
    for step in steps {
        let (unit, op, run) = match step {
            Step::Assign { next } => {
                (due, last_unit) = (*next, None);
                continue;
            }
            Step::Read { unit, op, run } => (*unit, *op, run),
        };
        let inside = last_unit == Some(unit);
        let due_now = due.unwrap_or(run.offset);
        if run.offset < due_now {
            report.violation(if inside { "A8" } else { "A7" }, key, || {
                format!("process {process}, op {op}: offset {} came after {}", run.offset, due_now - 1)
            });
        } else if let Some(passed) = first_covered(order, due_now, run.offset) {
            report.violation(if inside { "A8" } else { "A6" }, key, || {
                format!("process {process}, op {op}: offset {} came, and {passed} was passed over", run.offset)
            });
        }
        (due, last_unit) = (Some(run.offset + run.count as i64), Some(unit));
    }
}

fn scans(key: Key, table: &KeyTable, isolation: Isolation, zones: &BTreeMap<Process, String>, report: &mut Report) {
    let mut first: Option<(Process, Vec<Piece>)> = None;
    // The end of a transaction takes an offset of every key that is in it. How many records a transaction that failed
    // had, only a reader of all records sees.
    let mut ends: Vec<u64> = table.marks.iter().map(|mark| mark.txn).collect();
    ends.sort_unstable();
    ends.dedup();
    let shows_all = ends.is_empty() || !isolation.is_committed();
    for (process, runs) in &table.view(isolation).scans {
        let (pieces, _) = overlay(runs, Axis::Offset);
        let records: u64 = pieces.iter().map(Piece::len).sum();
        let own = table.samples.iter().filter(|sample| sample.process == *process);
        let offsets = own.map(|sample| (sample.earliest, sample.latest)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        if let Some((earliest, latest)) = offsets
            && shows_all
            && !(0..=ends.len() as i64).contains(&(latest - earliest - records as i64))
        {
            report.violation("D5", key, || {
                let (zone, ends) = (zone(zones, process), ends.len());
                format!(
                    "the scan in {zone} found {records} records in offsets {earliest}..{latest}, of {ends} transactions"
                )
            });
        }
        match &first {
            None => first = Some((*process, pieces)),
            Some((other, before)) if *before != pieces => {
                let differs = before.iter().zip(&pieces).find(|(a, b)| a != b);
                let at = differs.map_or(before.len().min(pieces.len()) as i64, |(a, b)| a.end.min(b.end));
                report.violation("D2", key, || {
                    let zones = (zone(zones, other), zone(zones, process));
                    format!(
                        "the scans in {} and {} differ near offset {at}, of {isolation:?} records",
                        zones.0, zones.1
                    )
                });
            }
            Some(_) => {}
        }
    }
}

fn zone<'a>(zones: &'a BTreeMap<Process, String>, process: &Process) -> &'a str {
    zones.get(process).map_or("?", String::as_str)
}
