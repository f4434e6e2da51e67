//! Listers: one in every zone, asking again and again where every partition ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::event::Role;
use crate::reader::Reader;
use crate::workload::Workload;

const PAUSE: Duration = Duration::from_millis(20);
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

pub fn run(workload: &Arc<Workload>, zone: &str) -> Result<()> {
    let lister = Reader::open(workload, zone, Role::Lister)?;
    while !workload.stop.load(Ordering::Relaxed) {
        for key in workload.keys_written() {
            lister.list(key, ANSWER_TIME_MAX);
            thread::sleep(PAUSE);
        }
    }
    lister.close();
    Ok(())
}
