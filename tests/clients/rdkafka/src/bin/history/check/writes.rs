//! What the log made of the writes: A1, A2, A3, A4, A5, A9, A14.

use crate::check::Report;
use crate::check::overlay::{Axis, Piece, intersect, overlay, subtract};
use crate::check::table::KeyTable;
use crate::event::{BadKind, Key, Run, writer_of};

/// Checks one key; the offsets known to hold a record.
pub fn check(key: Key, table: &KeyTable, report: &mut Report) -> Vec<Piece> {
    let placed = |(value, count, offset): (u64, u64, Option<i64>)| Some(Run { offset: offset?, value, count });
    let acked: Vec<Run> = table.acked.iter().filter_map(|a| placed((a.value, a.count, a.offset))).collect();
    let all: Vec<Run> = table.read.iter().chain(&acked).copied().collect();
    let (order, inconsistent) = overlay(&all, Axis::Offset);
    for found in inconsistent {
        let name = |value: i64| name(value as u64);
        report
            .violation("A1", key, || format!("offset {} held {} and {}", found.at, name(found.one), name(found.other)));
    }
    let (by_value, doubled) = overlay(&all, Axis::Value);
    for found in doubled {
        report.violation("A2", key, || {
            format!("{} is at offsets {} and {}", name(found.at as u64), found.one, found.other)
        });
    }
    in_order(key, &by_value, report);

    // The first places of values stand here, so that a doubled value does not pass for a lost one.
    let (read, _) = overlay(&table.read, Axis::Value);
    lost(key, table, &read, report);
    for piece in intersect(&values(&table.refused), &read) {
        report.violation("A3", key, || format!("{} was refused and read", span(&piece)));
    }
    for piece in subtract(&read, &values(&table.sent)) {
        report.violation("A14", key, || format!("{} was read and never sent", span(&piece)));
    }
    for bad in table.bad.iter().filter(|bad| bad.kind == BadKind::Record) {
        report.violation("A14", key, || format!("offset {}: {}", bad.offset, bad.why));
    }
    order
}

fn lost(key: Key, table: &KeyTable, read: &[Piece], report: &mut Report) {
    let highest_read = read.iter().map(|piece| piece.end - 1 + piece.shift).max().unwrap_or(-1);
    let mut placed = Vec::new();
    let mut somewhere = Vec::new();
    for acked in &table.acked {
        let run = Run { offset: acked.offset.unwrap_or(0), value: acked.value, count: acked.count };
        if acked.offset.is_some() { placed.push(run) } else { somewhere.push(run) }
    }
    for piece in subtract(&overlay(&placed, Axis::Value).0, read) {
        let (first, last) = (piece.at + piece.shift, piece.end - 1 + piece.shift);
        let (rule, when) =
            if first <= highest_read { ("A4", "though later ones were") } else { ("A5", "nor any later one") };
        report.violation(rule, key, || {
            format!("{} acknowledged at offsets {first} to {last} was never read, {when}", span(&piece))
        });
    }
    for piece in subtract(&values(&somewhere), read) {
        report.violation("A5", key, || format!("{} acknowledged without an offset was never read", span(&piece)));
    }
}

/// One writer's later values stand behind its earlier ones.
fn in_order(key: Key, by_value: &[Piece], report: &mut Report) {
    for pair in by_value.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        let (last, first) = (before.end - 1 + before.shift, after.at + after.shift);
        if writer_of(before.at as u64) == writer_of(after.at as u64) && first <= last {
            report.violation("A9", key, || {
                format!("{} is at offset {first}, though sent after the one at {last}", name(after.at as u64))
            });
        }
    }
}

fn values(runs: &[Run]) -> Vec<Piece> {
    let flat: Vec<Run> = runs.iter().map(|run| Run { offset: run.value as i64, ..*run }).collect();
    overlay(&flat, Axis::Value).0
}

fn name(value: u64) -> String {
    format!("value {value} of process {}", writer_of(value))
}

fn span(piece: &Piece) -> String {
    format!("{} ({} of them)", name(piece.at as u64), piece.len())
}
