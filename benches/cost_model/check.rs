//! The model beside what the harness measured.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::bill;
use crate::model::{self, Answer, Cluster};
use crate::prices::Prices;

const DIFFERENCE_MAX: f64 = 0.15;
const ZONES: f64 = 3.0;
/// As the harness marks it.
const KEPT_UP: f64 = 0.95;

/// What is compared of a row of `report.json`.
#[derive(Deserialize)]
struct Row {
    system: String,
    workload: String,
    seconds: f64,
    produced_bytes: f64,
    offered_bytes: f64,
    cross_zone_ratio_above_idle: Option<f64>,
    idle_floor_bytes_per_s: f64,
    store_puts: f64,
    store_gets: f64,
    store_batches: Option<f64>,
    dollars_per_gb: Option<f64>,
}

pub fn check(report: &Path) -> Result<()> {
    let text = fs::read_to_string(report).with_context(|| report.display().to_string())?;
    let rows: Vec<Row> = serde_json::from_str(&text)?;
    let prices = Prices::load()?;
    let mut off = 0;
    for row in &rows {
        let Some(cluster) = cluster(row) else { continue };
        let answer = match row.system.as_str() {
            "milepost" => model::milepost(&cluster),
            "kafka" => model::kafka(&cluster, false),
            "kafka-follower-fetching" => model::kafka(&cluster, true),
            _ => continue,
        };
        println!("{}, {}", row.system, row.workload);
        off += compare(row, &cluster, &answer, &prices)?;
    }
    ensure!(off == 0, "{off} quantities differ by more than {:.0} %", DIFFERENCE_MAX * 100.0);
    Ok(())
}

/// The cluster of a row under steady load that kept up. How large its objects and batches became is taken from the row:
/// whether the budget of requests, the clients or the machine set that, the model cannot know.
fn cluster(row: &Row) -> Option<Cluster> {
    let (letter, name) = row.workload.split_once(':')?;
    if !matches!(letter, "a" | "b" | "c" | "d") || row.produced_bytes < KEPT_UP * row.offered_bytes {
        return None;
    }
    let partitions = name.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(16.0);
    let brokers = if name.contains("two brokers a zone") { 6.0 } else { 3.0 };
    let object_bytes = if row.store_puts > 0.0 { row.produced_bytes / row.store_puts } else { f64::INFINITY };
    let readers = if letter == "d" { 3.0 } else { 1.0 };
    let bytes_per_second = row.produced_bytes / row.seconds;
    Some(Cluster {
        brokers,
        zones: ZONES,
        replication_factor: 3.0,
        topics: 1.0,
        partitions,
        bytes_per_second,
        batch_bytes: row.store_batches.map_or(object_bytes, |batches| row.produced_bytes / batches),
        idempotent: false,
        flush_seconds: f64::INFINITY,
        object_bytes_max: object_bytes,
        group_members: ZONES * readers,
        fan_out: readers,
    })
}

/// Prints each quantity that applies; returns how many are too far apart.
fn compare(row: &Row, cluster: &Cluster, answer: &Answer, prices: &Prices) -> Result<usize> {
    let is_milepost = row.system == "milepost";
    let dollars = prices.dollars(&bill(answer), "s3_standard")? / (cluster.bytes_per_second / 1e9);
    let gets_per_put = |gets: f64, puts: f64| (puts > 0.0).then(|| gets / puts);
    let quantities = [
        ("cross_zone_ratio_above_idle", row.cross_zone_ratio_above_idle, answer.cross_zone_ratio_above_idle),
        ("idle_floor_bytes_per_s", is_milepost.then_some(row.idle_floor_bytes_per_s), answer.idle_floor_bytes_per_s),
        ("gets per put", gets_per_put(row.store_gets, row.store_puts), answer.gets / answer.puts),
        ("dollars_per_gb", row.dollars_per_gb, dollars),
    ];
    let mut off = 0;
    for (name, measured, computed) in quantities {
        let Some(measured) = measured else { continue };
        let difference = computed / measured - 1.0;
        let is_off = difference.abs() > DIFFERENCE_MAX;
        off += usize::from(is_off);
        let mark = if is_off { "  too far apart" } else { "" };
        println!("  {name:30} measured {measured:12.5}  computed {computed:12.5}  {:+6.1} %{mark}", difference * 100.0);
    }
    Ok(off)
}
