//! Bytes between zones, counted by the kernel: Milepost beside other systems, under the same clients.
//!
//! ```text
//! # cargo bench --bench cross_zone                     needs root and iproute2
//! # cargo bench --bench cross_zone -- --quick          less than eight minutes
//!       --seconds N    how long each workload is measured
//! ```
//! Each zone is a network namespace with one link to the other zones and another to the store (`ground.rs`). Clients
//! are librdkafka's (`tests/clients/rdkafka`, `zone-load`), the same for all systems.

mod ground;
mod load;
mod measure;
mod milepost;
mod process;
#[path = "../../tests/s3/mod.rs"]
mod s3;
mod store;
mod system;
#[path = "../load/usage.rs"]
#[allow(dead_code)]
mod usage;
mod workloads;

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::signal::unix::{SignalKind, signal};

use crate::ground::Ground;
use crate::milepost::{Milepost, Settings};
use crate::workloads::{Run, Steady, Times};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [command, url] if command == process::GET_COMMAND => return process::http_get(url),
        [command, latency_ms] if command == store::COMMAND => return store::serve(latency_ms).await,
        _ => {}
    }
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    // Whoever stops us stops what we started, too: it all goes with the future.
    tokio::select! {
        done = run(arguments) => done,
        _ = terminate.recv() => bail!("terminated"),
        _ = interrupt.recv() => bail!("interrupted"),
    }
}

async fn run(arguments: Vec<String>) -> Result<()> {
    let mut times =
        Times { idle: Duration::from_secs(20), warm: Duration::from_secs(10), measured: Duration::from_secs(40) };
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seconds" => {
                let seconds = arguments.next().context("--seconds needs a number")?;
                times.measured = Duration::from_secs(seconds.parse()?);
            }
            // cargo says this to every bench.
            "--bench" => {}
            other => bail!("unknown argument {other}"),
        }
    }
    let clients = load::build()?;
    let ground = Ground::new()?;
    let run = Run { ground: &ground, clients: clients.clone(), times };
    let settings = Settings {
        brokers_per_zone: 1,
        puts_per_second: None,
        puts_burst: None,
        object_bytes: None,
        store_latency: Duration::ZERO,
    };
    let steady = Steady {
        name: "a",
        partitions: 16,
        bytes_per_second: 5_000_000,
        linger_ms: 50,
        readers: 1,
        settings: settings.clone(),
    };
    let mut system = Milepost::new(env!("CARGO_BIN_EXE_milepost").into(), clients, settings)?;
    let measured = steady.run(&run, &mut system).await?;
    println!(
        "idle: {:.0} B/s, {} packets, {:?}",
        measured.idle.bytes_per_second(),
        measured.idle.cross_packets,
        measured.idle.kinds
    );
    let seen = measured.load.all_seen();
    println!(
        "load: produced {} cross {} ratio {:.5} packets {} {:?}",
        seen.acked_bytes,
        measured.load.cross_bytes,
        measured.load.cross_bytes as f64 / seen.acked_bytes as f64,
        measured.load.cross_packets,
        measured.load.kinds
    );
    println!(
        "{:?} {:?} {:?} read {} {:?}",
        measured.load.requests,
        seen.ack_us.ms(0.5),
        seen.ack_us.ms(0.99),
        seen.read_bytes,
        seen.errors
    );
    Ok(())
}
