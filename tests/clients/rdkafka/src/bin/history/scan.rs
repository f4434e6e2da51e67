//! The last look: in every zone a fresh client reads every key from its beginning to where any broker says it ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::event::{Key, Role};
use crate::reader::Reader;
use crate::workload::Workload;

const REOPEN_AFTER: Duration = Duration::from_secs(10);
/// Without a record: how long a scan takes depends on how much was written.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
const ANSWERS_MAX: u32 = 10;

/// A scan that cannot be completed still leaves its history: the checker says what is missing in it.
pub fn run(workload: &Arc<Workload>, zone: &str) -> Result<()> {
    let (mut progress, mut heard) = (Instant::now(), Instant::now());
    let mut reader = Reader::open(workload, zone, Role::Scan)?;
    let (mut first, mut ends) = (HashMap::new(), HashMap::new());
    for key in workload.keys() {
        let (earliest, latest) = list(&reader, key)?;
        first.insert(key, earliest);
        ends.insert(key, latest.max(workload.acknowledged_next(key)));
    }
    reader.assign(first)?;
    while !is_done(&reader, &ends) && progress.elapsed() < GIVE_UP_AFTER {
        if reader.poll() {
            (progress, heard) = (Instant::now(), Instant::now());
        } else if heard.elapsed() > REOPEN_AFTER {
            reader.renew(zone)?;
            heard = Instant::now();
        }
    }
    reader.close();
    Ok(())
}

fn is_done(reader: &Reader, ends: &HashMap<Key, i64>) -> bool {
    ends.iter().all(|(key, end)| reader.next.get(key).is_some_and(|next| next >= end))
}

fn list(reader: &Reader, key: Key) -> Result<(i64, i64)> {
    for _ in 0..ANSWERS_MAX {
        if let Some(answer) = reader.list(key, ANSWER_TIME_MAX) {
            return Ok(answer);
        }
    }
    bail!("no broker says where key {key} ends")
}
