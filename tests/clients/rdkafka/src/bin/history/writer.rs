//! Writers: idempotent producers that write without transactions, one client after another.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Result;
use rdkafka::producer::Producer as _;

use crate::event::{Isolation, Role};
use crate::random::Random;
use crate::sender::Sender;
use crate::workload::Workload;

/// Records handed over and not yet answered.
const IN_FLIGHT_MAX: u64 = 20_000;
/// Clients live for up to so much longer than the least.
const LIFE_SECONDS_MORE: u64 = 25;
/// Longer than message.timeout.ms: every fate is told before this ends.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(90);
const MESSAGE_TIMEOUT_MS: &str = "60000";

/// Why a client was given up.
enum Left {
    Stopped,
    Crashed,
    Fatal(String),
}

/// Writes until the workload stops.
pub fn run(workload: &Arc<Workload>, zone: &str, seed: u64) -> Result<()> {
    let mut random = Random(seed);
    let (began, mut written) = (Instant::now(), 0);
    while !workload.stop.load(Ordering::Relaxed) {
        let process = workload.recorder.open(Role::Writer, zone, Isolation::Committed);
        let mut sender = Sender::open(workload, process, zone, &[("message.timeout.ms", MESSAGE_TIMEOUT_MS)])?;
        let left = write(&mut sender, workload, &mut random, began, &mut written);
        if matches!(left, Left::Stopped) {
            // What is not answered by then is told as unknown.
            let _ = sender.producer.flush(FLUSH_TIME_MAX);
        }
        sender.close(match left {
            Left::Fatal(why) => Some(why),
            Left::Stopped | Left::Crashed => None,
        });
    }
    Ok(())
}

fn write(sender: &mut Sender, workload: &Workload, random: &mut Random, began: Instant, written: &mut u64) -> Left {
    let life = workload.life_seconds_min + random.below(LIFE_SECONDS_MORE);
    let ends = Instant::now() + Duration::from_secs(life);
    while !workload.stop.load(Ordering::Relaxed) {
        let due = workload.records_due(began);
        if *written >= due || sender.unanswered() >= IN_FLIGHT_MAX {
            sender.producer.poll(Duration::from_millis(5));
        } else {
            let count = 1 + random.below(workload.batch_records_max());
            sender.send(workload.key_to_write(random), count, None);
            *written += count;
        }
        if Instant::now() > ends {
            return Left::Crashed;
        }
        if let Some((code, why)) = sender.producer.client().fatal_error() {
            return Left::Fatal(format!("{code:?}: {why}"));
        }
    }
    Left::Stopped
}
