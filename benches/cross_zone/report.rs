//! What a run found: rows for the table, for `report.json` and for the chart.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::load::VALUE_BYTES;
use crate::measure::Window;
use crate::prices::{Bill, Prices};
use crate::system::BytesByKind;

/// A system that acknowledges less of what it is offered has not kept up.
const KEPT_UP: f64 = 0.95;

/// Where the machine had less than the rest of this to spare, clients and brokers waited for processors, not for each other.
const SPARE: f64 = 0.95;

/// One system under one workload. Fields are absent where they mean nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Row {
    pub system: String,
    pub workload: String,
    pub seconds: f64,
    /// Values of records that were acknowledged; in the catch-up, that were read.
    pub produced_bytes: u64,
    /// What producers gave their client in that time: where it is much more, the system did not keep up, and neither its
    /// ratio nor its times are those of steady load.
    pub offered_bytes: u64,
    /// Of the kernel's counters of the links between zones; each byte once, where it leaves its zone.
    pub cross_zone_bytes: u64,
    /// All bytes across zones for each byte produced.
    pub cross_zone_ratio: Option<f64>,
    /// The same without what crosses when nothing is produced.
    pub cross_zone_ratio_above_idle: Option<f64>,
    pub idle_floor_bytes_per_s: f64,
    pub store_puts: u64,
    pub store_gets: u64,
    pub store_bytes_in: u64,
    pub store_bytes_out: u64,
    /// Batches of records in the objects stored.
    pub store_batches: Option<u64>,
    /// Of the zone that asked most, hedges included.
    pub gets_per_object_per_zone: Option<f64>,
    /// Hedges among the GETs that this counts: sent beside one that took long.
    pub get_hedges: u64,
    pub ack_p50_ms: Option<f64>,
    pub ack_p99_ms: Option<f64>,
    pub e2e_p50_ms: Option<f64>,
    pub e2e_p99_ms: Option<f64>,
    pub broker_cpu_s_per_gb: Option<f64>,
    /// The share of the machine's processor time that was used.
    pub machine_busy: Option<f64>,
    /// Traffic and requests at list prices, S3 Standard.
    pub dollars_per_gb: Option<f64>,
    /// The same with S3 Express.
    pub dollars_per_gb_express: Option<f64>,
    /// `headers` are those of TCP, IP and Ethernet; `other` is what no kind accounts for.
    pub bytes_by_kind: BytesByKind,
    /// Bytes across zones by kind while nothing was produced, for each second.
    pub idle_bytes_per_s_by_kind: BytesByKind,
    /// From the end of the old broker until a client of its zone read from the new one.
    pub serving_after_s: Option<f64>,
    pub failed_records: u64,
}

impl Row {
    pub fn new(system: &str, workload: &str, idle: &Window, load: &Window, produced_bytes: u64) -> Row {
        let sum = |of: fn(&crate::store::Requests) -> u64| load.requests.iter().map(of).sum::<u64>();
        let seen = load.all_seen();
        let seconds = load.time.as_secs_f64();
        let floor = if idle.time.is_zero() { 0.0 } else { idle.bytes_per_second() };
        let ratio = |bytes: f64| (produced_bytes > 0).then(|| bytes / produced_bytes as f64);
        let per_second = |bytes: u64| (bytes as f64 / idle.time.as_secs_f64()) as u64;
        Row {
            system: system.to_owned(),
            workload: workload.to_owned(),
            seconds,
            produced_bytes,
            offered_bytes: seen.sent_records * u64::from(VALUE_BYTES),
            cross_zone_bytes: load.cross_bytes,
            cross_zone_ratio: ratio(load.cross_bytes as f64),
            cross_zone_ratio_above_idle: ratio((load.cross_bytes as f64 - floor * seconds).max(0.0)),
            idle_floor_bytes_per_s: floor,
            store_puts: sum(|zone| zone.puts),
            store_gets: sum(|zone| zone.gets),
            store_bytes_in: sum(|zone| zone.bytes_in),
            store_bytes_out: sum(|zone| zone.bytes_out),
            store_batches: load.batches,
            gets_per_object_per_zone: gets_per_object(load),
            get_hedges: load.get_hedges_since_begin,
            ack_p50_ms: seen.ack_us.ms(0.5),
            ack_p99_ms: seen.ack_us.ms(0.99),
            e2e_p50_ms: seen.end_to_end_us.ms(0.5),
            e2e_p99_ms: seen.end_to_end_us.ms(0.99),
            broker_cpu_s_per_gb: ratio(load.cpu.as_secs_f64() * 1e9),
            machine_busy: load.machine_busy,
            bytes_by_kind: load.kinds.clone(),
            idle_bytes_per_s_by_kind: idle
                .kinds
                .iter()
                .map(|(kind, bytes)| (kind.clone(), per_second(*bytes)))
                .collect(),
            failed_records: seen.failed_records,
            ..Row::default()
        }
    }

    pub fn kept_up(&self) -> bool {
        self.produced_bytes as f64 >= KEPT_UP * self.offered_bytes as f64
    }

    /// Times of a machine that had nothing to spare are the machine's.
    pub fn had_spare(&self) -> bool {
        self.machine_busy.is_none_or(|busy| busy <= SPARE)
    }

    /// What a GB costs, by the price sheet.
    pub fn priced(mut self, prices: &Prices) -> Result<Row> {
        let bill = Bill {
            cross_zone_bytes: self.cross_zone_bytes as f64,
            puts: self.store_puts as f64,
            gets: self.store_gets as f64,
            uploaded_bytes: self.store_bytes_in as f64,
            retrieved_bytes: self.store_bytes_out as f64,
        };
        if self.produced_bytes > 0 {
            let gb = self.produced_bytes as f64 / 1e9;
            self.dollars_per_gb = Some(prices.dollars(&bill, "s3_standard")? / gb);
            self.dollars_per_gb_express = Some(prices.dollars(&bill, "s3_express")? / gb);
        }
        Ok(self)
    }
}

/// Under steady load each zone has the other zones' objects to fetch; its own it has already. Counted from the first
/// object on: in a window, objects of before it are fetched.
fn gets_per_object(load: &Window) -> Option<f64> {
    let requests = &load.requests_since_begin;
    let puts: u64 = requests.iter().map(|zone| zone.puts).sum();
    let shares = requests.iter().filter(|zone| puts > zone.puts);
    shares.map(|zone| zone.gets as f64 / (puts - zone.puts) as f64).max_by(f64::total_cmp)
}

pub fn write(path: &Path, rows: &[Row]) -> Result<()> {
    fs::create_dir_all(path.parent().context("a file in a folder")?)?;
    fs::write(path, serde_json::to_string_pretty(rows)? + "\n").with_context(|| path.display().to_string())
}

const COLUMNS: [(&str, usize); 12] = [
    ("system", 23),
    ("workload", 24),
    ("produced", 9),
    ("crossed", 9),
    ("ratio", 8),
    ("over idle", 9),
    ("idle B/s", 8),
    ("PUTs/GETs", 11),
    ("GET/obj/z", 9),
    ("ack ms", 11),
    ("e2e ms", 11),
    ("CPU $/GB", 14),
];

pub fn table(rows: &[Row]) -> String {
    let mut text = line(COLUMNS.map(|(name, _)| name.to_owned()));
    for row in rows {
        text += &line([
            row.system.clone(),
            row.workload.clone(),
            bytes(row.produced_bytes),
            bytes(row.cross_zone_bytes),
            number(row.cross_zone_ratio, 5),
            number(row.cross_zone_ratio_above_idle, 5),
            format!("{:.0}", row.idle_floor_bytes_per_s),
            format!("{}/{}", row.store_puts, row.store_gets),
            number(row.gets_per_object_per_zone, 2),
            format!("{}/{}", number(row.ack_p50_ms, 0), number(row.ack_p99_ms, 0)),
            format!("{}/{}", number(row.e2e_p50_ms, 0), number(row.e2e_p99_ms, 0)),
            format!("{} {}", number(row.broker_cpu_s_per_gb, 1), number(row.dollars_per_gb, 5)),
        ]);
    }
    text += "\nbytes across zones by kind\n";
    for row in rows {
        let mut kinds: Vec<_> = row.bytes_by_kind.iter().collect();
        kinds.sort_by_key(|(_, bytes)| std::cmp::Reverse(**bytes));
        let told: Vec<String> = kinds.iter().map(|(kind, count)| format!("{kind} {}", bytes(**count))).collect();
        text += &format!("{:23} {:24} {}\n", row.system, row.workload, told.join(", "));
        if !row.kept_up() {
            let offered = bytes(row.offered_bytes);
            text += &format!("{:23} {:24} did not keep up: {offered} were offered\n", "", "");
        }
        if row.get_hedges > 0 {
            text += &format!("{:23} {:24} hedged GETs since the load began: {}\n", "", "", row.get_hedges);
        }
        if let Some(busy) = row.machine_busy {
            let times = if row.had_spare() { "" } else { ": the times are the machine's" };
            text += &format!("{:23} {:24} machine {:.0} % busy{times}\n", "", "", busy * 100.0);
        }
        if let Some(seconds) = row.serving_after_s {
            text += &format!("{:23} {:24} serving after {seconds:.1} s\n", "", "");
        }
    }
    text
}

fn line(cells: [String; COLUMNS.len()]) -> String {
    let padded: Vec<String> = cells.iter().zip(COLUMNS).map(|(cell, (_, width))| format!("{cell:<width$}")).collect();
    padded.join(" ").trim_end().to_owned() + "\n"
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}

pub fn bytes(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{:.1} KB", count as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.2} GB", count as f64 / 1e9),
    }
}
