//! Where brokers said that a key begins and ends: D1 (read your acks), D3.

use std::collections::{BTreeMap, HashMap};

use crate::check::Report;
use crate::check::table::{KeyTable, Sample};
use crate::event::{Key, Process};

pub fn check(key: Key, table: &KeyTable, zones: &BTreeMap<Process, String>, report: &mut Report) {
    let zone = |process: Process| zones.get(&process).map_or("?", String::as_str);
    // Behind everything that was acknowledged up to each time.
    let mut promised: Vec<(u64, i64)> = Vec::new();
    for acked in &table.acked {
        let Some(offset) = acked.offset else { continue };
        let end = promised.last().map_or(0, |(_, end)| *end).max(offset + acked.count as i64);
        promised.push((acked.t, end));
    }
    let mut last: HashMap<Process, Sample> = HashMap::new();
    for sample in &table.samples {
        let earlier = promised.partition_point(|(t, _)| *t < sample.invoked);
        if let Some((t, end)) = promised[..earlier].last()
            && sample.latest < *end
        {
            report.violation("D1", key, || {
                format!(
                    "asked at {} ns, the broker of {} said that it ends at {}; {} was acknowledged by {t} ns",
                    sample.invoked,
                    zone(sample.process),
                    sample.latest,
                    end - 1
                )
            });
        }
        let before = last.insert(sample.process, *sample);
        let went_back = before.is_some_and(|b| b.latest > sample.latest || b.earliest > sample.earliest);
        if went_back || sample.earliest > sample.latest {
            report.violation("D3", key, || {
                let before = before.map(|b| (b.earliest, b.latest));
                format!("{}: {}..{} after {before:?}", zone(sample.process), sample.earliest, sample.latest)
            });
        }
    }
}
