//! A13: a scan of committed records shows all of a transaction or nothing. A client commits only when everything that
//! it sent is acknowledged, so this holds for each value that was not refused, of transactions of unknown end too.

use std::collections::BTreeMap;

use crate::check::Report;
use crate::check::overlay::{Axis, Piece, intersect, overlay, subtract};
use crate::check::table::Tables;
use crate::check::writes::{span, values};
use crate::event::{Key, Process};

/// What a scan shows of a transaction.
#[derive(Default)]
struct Shown {
    values: u64,
    missing: Option<(Key, Piece)>,
}

pub fn check(tables: &Tables, report: &mut Report) {
    let mut shown: BTreeMap<(u64, Process), Shown> = BTreeMap::new();
    for (key, table) in &tables.keys {
        let refused = values(&table.refused);
        for (process, runs) in &table.committed.scans {
            let (read, _) = overlay(runs, Axis::Value);
            for mark in &table.marks {
                let (at, end) = (mark.value as i64, (mark.value + mark.count) as i64);
                let due = subtract(&[Piece { at, end, shift: 0 }], &refused);
                let shown = shown.entry((mark.txn, *process)).or_default();
                shown.values += intersect(&due, &read).iter().map(Piece::len).sum::<u64>();
                if let Some(piece) = subtract(&due, &read).first() {
                    shown.missing.get_or_insert((*key, *piece));
                }
            }
        }
    }
    for ((txn, process), shown) in shown {
        if let (Some((key, piece)), true) = (shown.missing, shown.values > 0) {
            report.violation("A13", key, || {
                let zone = tables.zones.get(&process).map_or("?", String::as_str);
                format!(
                    "the scan in {zone} shows {} values of transaction {txn}, but not {}",
                    shown.values,
                    span(&piece)
                )
            });
        }
    }
}
