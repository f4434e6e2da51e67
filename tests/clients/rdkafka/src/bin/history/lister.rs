//! Listers: one in every zone, asking again and again where every partition ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::event::{Isolation, Role};
use crate::reader::Reader;
use crate::workload::Workload;

const PAUSE: Duration = Duration::from_millis(20);
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// The last stable offset is asked for first: the high watermark, asked for after that, cannot lie before it.
pub fn run(workload: &Arc<Workload>, zone: &str) -> Result<()> {
    let open = |isolation| Reader::open(workload, zone, Role::Lister, isolation);
    let (stable, all) = (open(Isolation::Committed)?, open(Isolation::Uncommitted)?);
    while !workload.stop.load(Ordering::Relaxed) {
        for key in workload.keys_written() {
            stable.list(key, ANSWER_TIME_MAX);
            all.list(key, ANSWER_TIME_MAX);
            thread::sleep(PAUSE);
        }
    }
    stable.close();
    all.close();
    Ok(())
}
