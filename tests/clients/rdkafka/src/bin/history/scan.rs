//! The last look: in every zone fresh clients, one for committed and one for all records, read every key from its
//! beginning to its end, topic by topic.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::event::{Isolation, Key, Role};
use crate::reader::Reader;
use crate::workload::Workload;

const REOPEN_AFTER: Duration = Duration::from_secs(10);
/// Without a record: how long a scan takes depends on how much was written.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);
/// Longer than a transaction may be open.
const SETTLE_TIME_MAX: Duration = Duration::from_secs(60);
const SETTLE_PAUSE: Duration = Duration::from_millis(200);
const POLL_TIME: Duration = Duration::from_millis(100);
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
const ANSWERS_MAX: u32 = 10;

/// Waits until no transaction is open, as this zone's brokers say. If one stays open, the scans show it.
pub fn settle(workload: &Arc<Workload>, zone: &str) -> Result<()> {
    let open = |isolation| Reader::open(workload, zone, Role::Lister, isolation);
    let (stable, all) = (open(Isolation::Committed)?, open(Isolation::Uncommitted)?);
    let began = Instant::now();
    for key in workload.keys() {
        while list(&stable, key)?.1 < list(&all, key)?.1 {
            if began.elapsed() > SETTLE_TIME_MAX {
                eprintln!("history: a transaction is open in key {key} after {SETTLE_TIME_MAX:?}");
                break;
            }
            thread::sleep(SETTLE_PAUSE);
        }
    }
    stable.close();
    all.close();
    Ok(())
}

/// A scan that cannot be completed still leaves its history: the checker says what is missing in it.
pub fn run(workload: &Arc<Workload>, zone: &str, isolation: Isolation) -> Result<()> {
    let mut reader = Reader::open(workload, zone, Role::Scan, isolation)?;
    for keys in workload.keys_by_topic() {
        let mut first = HashMap::new();
        for key in &keys {
            first.insert(*key, list(&reader, *key)?.0);
        }
        reader.assign(first)?;
        let (mut progress, mut heard) = (Instant::now(), Instant::now());
        while !is_done(workload, &reader, &keys, isolation) && progress.elapsed() < GIVE_UP_AFTER {
            if reader.poll(POLL_TIME, None) {
                (progress, heard) = (Instant::now(), Instant::now());
            } else if heard.elapsed() > REOPEN_AFTER {
                reader.renew()?;
                heard = Instant::now();
            }
        }
    }
    reader.close();
    Ok(())
}

/// The broker says that this is the end, and everything acknowledged lies before it. The ends of transactions take
/// offsets, so a reader cannot know the end by what it read; and only one topic is read at a time, because a client
/// that is told of an end is told the partition's number and not its topic.
fn is_done(workload: &Workload, reader: &Reader, keys: &[Key], isolation: Isolation) -> bool {
    keys.iter().all(|key| {
        let is_at_end = reader.ended.contains(&workload.place_of(*key).1);
        is_at_end && reader.next.get(key).is_some_and(|next| *next >= workload.acknowledged_next(isolation, *key))
    })
}

fn list(reader: &Reader, key: Key) -> Result<(i64, i64)> {
    for _ in 0..ANSWERS_MAX {
        if let Some(answer) = reader.list(key, ANSWER_TIME_MAX) {
            return Ok(answer);
        }
    }
    bail!("no broker says where key {key} ends")
}
