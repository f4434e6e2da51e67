//! What readers were shown: A6, A7, A8, D1 (positions), D2, D5.

use std::collections::BTreeMap;

use crate::check::Report;
use crate::check::overlay::{Axis, Piece, first_covered, overlay};
use crate::check::table::{KeyTable, Step};
use crate::event::{BadKind, Key, Process};

pub fn check(key: Key, table: &KeyTable, order: &[Piece], zones: &BTreeMap<Process, String>, report: &mut Report) {
    for (process, steps) in &table.steps {
        follow(key, *process, steps, order, report);
    }
    for bad in table.bad.iter().filter(|bad| bad.kind == BadKind::Position) {
        report.violation("D1", key, || format!("a reader's position does not exist: {}", bad.why));
    }
    scans(key, table, zones, report);
}

/// A reader goes from one known record to the next, from wherever it was told to begin.
fn follow(key: Key, process: Process, steps: &[Step], order: &[Piece], report: &mut Report) {
    let (mut due, mut last_op) = (None, None);
    for step in steps {
        let (op, run) = match step {
            Step::Assign { next } => {
                (due, last_op) = (Some(*next), None);
                continue;
            }
            Step::Read { op, run } => (*op, run),
        };
        let inside = last_op == Some(op);
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
        (due, last_op) = (Some(run.offset + run.count as i64), Some(op));
    }
}

fn scans(key: Key, table: &KeyTable, zones: &BTreeMap<Process, String>, report: &mut Report) {
    let mut first: Option<(Process, Vec<Piece>)> = None;
    for (process, runs) in &table.scans {
        let (pieces, _) = overlay(runs, Axis::Offset);
        let records: u64 = pieces.iter().map(Piece::len).sum();
        let own = table.samples.iter().filter(|sample| sample.process == *process);
        let ends = own.map(|sample| (sample.earliest, sample.latest)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        if let Some((earliest, latest)) = ends
            && records as i64 != latest - earliest
        {
            report.violation("D5", key, || {
                format!("the scan in {} found {records} records in offsets {earliest}..{latest}", zone(zones, process))
            });
        }
        match &first {
            None => first = Some((*process, pieces)),
            Some((other, before)) if *before != pieces => {
                let differs = before.iter().zip(&pieces).find(|(a, b)| a != b);
                let at = differs.map_or(before.len().min(pieces.len()) as i64, |(a, b)| a.end.min(b.end));
                report.violation("D2", key, || {
                    format!("the scans in {} and {} differ near offset {at}", zone(zones, other), zone(zones, process))
                });
            }
            Some(_) => {}
        }
    }
}

fn zone<'a>(zones: &'a BTreeMap<Process, String>, process: &Process) -> &'a str {
    zones.get(process).map_or("?", String::as_str)
}
