//! What a cluster of any size costs, computed: the quantities of the cross-zone harness for N brokers.
//!
//! ```text
//! $ cargo bench --bench cost_model -- --brokers 100 --partitions 5000 --mb-per-second 1000
//!       --brokers N          [default: 3]       --zones N              [default: 3]
//!       --topics N           [default: 1]       --replication-factor N [default: 3]
//!       --partitions N       of all topics [default: 16]
//!       --mb-per-second N    of all producers [default: 15]
//!       --flush-ms N         between objects of a broker [default: 100, ten requests each second]
//!       --object-mb N        objects are no larger [default: 4.19]
//!       --fan-out N          how often each byte is consumed [default: 1]
//!       --group-members N    consumers that commit, of all groups [default: 0]
//!       --batch-kb N         sent at once for a partition [default: 16]
//!       --idempotent         producers number their batches
//! $ cargo bench --bench cost_model -- --check target/cross_zone/report.json
//! ```
//! `--check` compares it with what the harness measured and fails where they differ by more than 15 %.

mod check;
mod model;
#[path = "../prices.rs"]
mod prices;

use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::model::{Answer, Cluster};
use crate::prices::{Bill, Prices};

const SECONDS_PER_MONTH: f64 = 730.0 * 3600.0;

fn main() -> Result<()> {
    let mut cluster = Cluster {
        brokers: 3.0,
        zones: 3.0,
        replication_factor: 3.0,
        topics: 1.0,
        partitions: 16.0,
        bytes_per_second: 15e6,
        batch_bytes: 16e3,
        idempotent: false,
        flush_seconds: 0.1,
        object_bytes_max: 4.19e6,
        group_members: 0.0,
        fan_out: 1.0,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut next = || arguments.next().with_context(|| format!("{argument} needs a value"));
        let mut number = || anyhow::Ok(next()?.parse::<f64>()?);
        match argument.as_str() {
            "--brokers" => cluster.brokers = number()?,
            "--zones" => cluster.zones = number()?,
            "--replication-factor" => cluster.replication_factor = number()?,
            "--topics" => cluster.topics = number()?,
            "--idempotent" => cluster.idempotent = true,
            "--partitions" => cluster.partitions = number()?,
            "--mb-per-second" => cluster.bytes_per_second = number()? * 1e6,
            "--batch-kb" => cluster.batch_bytes = number()? * 1e3,
            "--flush-ms" => cluster.flush_seconds = number()? / 1e3,
            "--object-mb" => cluster.object_bytes_max = number()? * 1e6,
            "--group-members" => cluster.group_members = number()?,
            "--fan-out" => cluster.fan_out = number()?,
            "--check" => return check::check(Path::new(&next()?)),
            // cargo says this to every bench.
            "--bench" => {}
            other => bail!("unknown argument {other}"),
        }
    }
    tell(&cluster)
}

fn tell(cluster: &Cluster) -> Result<()> {
    let prices = Prices::load()?;
    let systems = [
        ("milepost", model::milepost(cluster)),
        ("kafka", model::kafka(cluster, false)),
        ("kafka-follower-fetching", model::kafka(cluster, true)),
    ];
    println!(
        "{:24} {:>10} {:>10} {:>12} {:>9} {:>9} {:>9} {:>10} {:>11} {:>12}",
        "", "idle B/s", "ratio", "crossed/s", "PUTs/s", "GETs/s", "GET/obj/z", "object", "$/GB", "$/month"
    );
    for (name, answer) in &systems {
        let dollars = prices.dollars(&bill(answer), "s3_standard")?;
        println!(
            "{name:24} {:>10.0} {:>10.5} {:>12.0} {:>9.1} {:>9.1} {:>9.2} {:>10.0} {:>11.5} {:>12.0}",
            answer.idle_floor_bytes_per_s,
            answer.cross_zone_bytes / cluster.bytes_per_second,
            answer.cross_zone_bytes,
            answer.puts,
            answer.gets,
            answer.gets_per_object_per_zone,
            answer.object_bytes,
            dollars / (cluster.bytes_per_second / 1e9),
            dollars * SECONDS_PER_MONTH,
        );
    }
    let express = prices.dollars(&bill(&systems[0].1), "s3_express")?;
    println!("milepost on S3 Express: {:.5} $/GB", express / (cluster.bytes_per_second / 1e9));
    println!("Traffic and requests at list prices; machines, disks and stored bytes are not in it.");
    Ok(())
}

/// Of one second.
fn bill(answer: &Answer) -> Bill {
    Bill {
        cross_zone_bytes: answer.cross_zone_bytes,
        puts: answer.puts,
        gets: answer.gets,
        uploaded_bytes: answer.uploaded_bytes,
        retrieved_bytes: answer.retrieved_bytes,
    }
}
