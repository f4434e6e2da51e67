//! What the log made of the writes: A1, A2, A3 (of refused sends), A4, A5, A14.

use crate::check::overlay::{Axis, Piece, intersect, overlay, subtract};
use crate::check::table::{Acked, KeyTable};
use crate::check::transactions::{Transactions, Verdict, of};
use crate::check::{Report, order};
use crate::event::{BadKind, Key, Run, writer_of};

/// The offsets known to hold a record, for each kind of reader.
pub struct Orders {
    pub committed: Vec<Piece>,
    pub uncommitted: Vec<Piece>,
}

/// Checks one key.
pub fn check(key: Key, table: &KeyTable, transactions: &Transactions, report: &mut Report) -> Orders {
    let everything: Vec<Run> = table.acked.iter().filter_map(placed).collect();
    let shown = acked_to_committed(table, transactions);
    let both = || table.committed.read.iter().chain(&table.uncommitted.read).copied();
    let all: Vec<Run> = both().chain(everything).collect();
    let (uncommitted, inconsistent) = overlay(&all, Axis::Offset);
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
    order::check(key, &by_value, &table.marks, report);

    // The first places of values stand here, so that a doubled value does not pass for a lost one.
    let (read, _) = overlay(&table.committed.read, Axis::Value);
    lost(key, &shown, &read, "", report);
    if !table.uncommitted.scans.is_empty() {
        let (read, _) = overlay(&table.uncommitted.read, Axis::Value);
        lost(key, &table.acked, &read, " among all records", report);
    }
    let (read_by_any, _) = overlay(&both().collect::<Vec<Run>>(), Axis::Value);
    for piece in intersect(&values(&table.refused), &read_by_any) {
        report.violation("A3", key, || format!("{} was refused and read", span(&piece)));
    }
    for piece in subtract(&read_by_any, &values(&table.sent)) {
        report.violation("A14", key, || format!("{} was read and never sent", span(&piece)));
    }
    for bad in table.bad.iter().filter(|bad| bad.kind == BadKind::Record) {
        report.violation("A14", key, || format!("offset {}: {}", bad.offset, bad.why));
    }
    let placed = shown.iter().filter_map(placed);
    let (committed, _) = overlay(&table.committed.read.iter().copied().chain(placed).collect::<Vec<_>>(), Axis::Offset);
    Orders { committed, uncommitted }
}

/// What was acknowledged and must be shown to readers of committed records.
fn acked_to_committed(table: &KeyTable, transactions: &Transactions) -> Vec<Acked> {
    // One answer's values are those of one send, so of one transaction or none.
    let is_shown = |acked: &&Acked| {
        of(&table.marks, acked.value, acked.count)
            .next()
            .is_none_or(|mark| transactions.verdict(mark.txn) == Verdict::Committed)
    };
    table.acked.iter().filter(is_shown).copied().collect()
}

fn placed(acked: &Acked) -> Option<Run> {
    Some(Run { offset: acked.offset?, value: acked.value, count: acked.count })
}

fn lost(key: Key, acked: &[Acked], read: &[Piece], among: &str, report: &mut Report) {
    let highest_read = read.iter().map(|piece| piece.end - 1 + piece.shift).max().unwrap_or(-1);
    let mut placed = Vec::new();
    let mut somewhere = Vec::new();
    for acked in acked {
        let run = Run { offset: acked.offset.unwrap_or(0), value: acked.value, count: acked.count };
        if acked.offset.is_some() { placed.push(run) } else { somewhere.push(run) }
    }
    for piece in subtract(&overlay(&placed, Axis::Value).0, read) {
        let (first, last) = (piece.at + piece.shift, piece.end - 1 + piece.shift);
        let (rule, when) =
            if first <= highest_read { ("A4", "though later ones were") } else { ("A5", "nor any later one") };
        report.violation(rule, key, || {
            format!("{} acknowledged at offsets {first} to {last} was never read{among}, {when}", span(&piece))
        });
    }
    for piece in subtract(&values(&somewhere), read) {
        report
            .violation("A5", key, || format!("{} acknowledged without an offset was never read{among}", span(&piece)));
    }
}

pub fn values(runs: &[Run]) -> Vec<Piece> {
    let flat: Vec<Run> = runs.iter().map(|run| Run { offset: run.value as i64, ..*run }).collect();
    overlay(&flat, Axis::Value).0
}

pub fn name(value: u64) -> String {
    format!("value {value} of process {}", writer_of(value))
}

pub fn span(piece: &Piece) -> String {
    format!("{} ({} of them)", name(piece.at as u64), piece.len())
}
