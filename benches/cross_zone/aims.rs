//! What was aimed at, beside what was measured.

use std::fmt::Write as _;

use crate::report::Row;

struct Aim {
    system: &'static str,
    /// How the workload's name begins.
    workload: &'static str,
    what: &'static str,
    measured: fn(&Row) -> Option<f64>,
    is_met: fn(f64) -> bool,
}

const AIMS: [Aim; 12] = [
    Aim::milepost("", "idle floor ≤ 10 KB/s", idle_of_three, |rate| rate <= 10_000.0),
    Aim::milepost("", "GETs per object and zone ≤ 1", |row| row.gets_per_object_per_zone, |gets| gets <= 1.0),
    Aim::milepost("a: 16 partitions", "over idle ≤ 0.004", over_idle, |ratio| ratio <= 0.004),
    Aim::milepost("a: 16 partitions, 3 MiB", "over idle ≤ 0.001", over_idle, |ratio| ratio <= 0.001),
    Aim::milepost("b", "over idle ≤ 0.03", over_idle, |ratio| ratio <= 0.03),
    Aim::milepost("c: 1000 partitions, 1.25 MB", "over idle ≤ 0.05", over_idle, |ratio| ratio <= 0.05),
    Aim::milepost("c: 1000 partitions, 3 MiB", "over idle ≤ 0.02", over_idle, |ratio| ratio <= 0.02),
    Aim::milepost("e", "over idle ≤ 0.001", over_idle, |ratio| ratio <= 0.001),
    Aim::milepost("f", "crossed ≤ 1 MB", |row| Some(row.cross_zone_bytes as f64), |bytes| bytes <= 1e6),
    Aim::milepost("f", "serving in < 10 s", |row| row.serving_after_s, |seconds| seconds < 10.0),
    Aim::milepost("a", "records that failed: none", |row| Some(row.failed_records as f64), |records| records == 0.0),
    Aim {
        system: "kafka",
        workload: "a",
        what: "ratio ≥ 2.5",
        measured: |row| row.cross_zone_ratio,
        is_met: |ratio| ratio >= 2.5,
    },
];

fn over_idle(row: &Row) -> Option<f64> {
    row.cross_zone_ratio_above_idle
}

/// The aim is for three brokers; later rows of the same cluster repeat it.
fn idle_of_three(row: &Row) -> Option<f64> {
    let is_asked = row.offered_bytes > 0 && !row.workload.contains("two brokers");
    is_asked.then_some(row.idle_floor_bytes_per_s)
}

impl Aim {
    const fn milepost(
        workload: &'static str,
        what: &'static str,
        measured: fn(&Row) -> Option<f64>,
        is_met: fn(f64) -> bool,
    ) -> Aim {
        Aim { system: "milepost", workload, what, measured, is_met }
    }
}

/// A line for each aim and each row it is about.
pub fn told(rows: &[Row]) -> String {
    let mut text = "aims\n".to_owned();
    for aim in &AIMS {
        let about = rows.iter().filter(|row| row.system == aim.system && row.workload.starts_with(aim.workload));
        for row in about {
            let Some(measured) = (aim.measured)(row) else { continue };
            let verdict = if (aim.is_met)(measured) { "met   " } else { "MISSED" };
            let _ = writeln!(text, "{verdict} {:29} {measured:>13.5}  {}, {}", aim.what, row.system, row.workload);
        }
    }
    text
}
