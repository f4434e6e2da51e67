//! Where brokers said that a key begins and ends: D1 (read your acks), D3 (nothing goes back, LSO ≤ high watermark).

use std::collections::{BTreeMap, HashMap};

use crate::check::Report;
use crate::check::table::{KeyTable, Sample};
use crate::event::{Key, Process};

pub fn check(key: Key, table: &KeyTable, zones: &BTreeMap<Process, String>, report: &mut Report) {
    let zone = |process: Process| zones.get(&process).map_or("?", String::as_str);
    let mut acks: Vec<(u64, i64)> = Vec::new();
    for acked in &table.acked {
        acks.extend(acked.offset.map(|offset| (acked.t, offset + acked.count as i64)));
    }
    let (acks, stable) = (highest(acks), highest(stable_offsets(table)));
    let mut last: HashMap<Process, Sample> = HashMap::new();
    for sample in &table.samples {
        // What readers of committed records are told is the last stable offset, which transactions hold back.
        let is_end = !sample.isolation.is_committed() || table.marks.is_empty();
        for (rule, promised, by) in [("D1", &acks, "acknowledged"), ("D3", &stable, "said to be stable")] {
            let earlier = promised.partition_point(|(t, _)| *t < sample.invoked);
            if let Some((t, end)) = promised[..earlier].last()
                && is_end
                && sample.latest < *end
            {
                report.violation(rule, key, || {
                    let (invoked, zone, latest) = (sample.invoked, zone(sample.process), sample.latest);
                    let promised = end - 1;
                    format!("asked at {invoked} ns, the broker of {zone} said that it ends at {latest}; {promised} was {by} by {t} ns")
                });
            }
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

/// Each time with the highest end up to it.
fn highest(mut ends: Vec<(u64, i64)>) -> Vec<(u64, i64)> {
    ends.sort_unstable();
    let mut highest = 0;
    for (_, end) in &mut ends {
        highest = highest.max(*end);
        *end = highest;
    }
    ends
}

fn stable_offsets(table: &KeyTable) -> Vec<(u64, i64)> {
    let committed = table.samples.iter().filter(|sample| sample.isolation.is_committed());
    committed.map(|sample| (sample.answered, sample.latest)).collect()
}
