//! Workers: transactions of one to four micro-operations, each a send to a key or a poll of committed records, now and
//! then aborted, and now and then left open by a client that is dropped, or that comes back when another has its id.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::event::{Isolation, Key, Role};
use crate::random::Random;
use crate::reader::Reader;
use crate::sender::Within;
use crate::transaction::{After, Producer};
use crate::workload::Workload;

const MICRO_OPS_MAX: u64 = 4;
const SEND_RECORDS_MAX: u64 = 3;
const ABORT_ONE_IN: u64 = 32;
const CRASH_ONE_IN: u64 = 64;
const ASSIGN_ONE_IN: u64 = 64;
const PAUSE_ONE_IN: u64 = 32;
const PAUSE_MS_MAX: u64 = 200;
const POLL_TIME: Duration = Duration::from_millis(30);

/// What the worker goes on from in each key it reads.
type Positions = HashMap<Key, i64>;

struct Worker {
    producer: Producer,
    reader: Reader,
}

/// Why a client was given up.
enum Left {
    Stopped,
    /// With this transaction open.
    Crashed(u64),
    Failed(String),
}

fn positions_of(keys: &[Key], positions: &Positions) -> Positions {
    keys.iter().map(|key| (*key, positions.get(key).copied().unwrap_or(0))).collect()
}

/// Works until the workload stops, with one client of the transactional id after another.
pub fn run(workload: &Arc<Workload>, zone: &str, number: u64, seed: u64) -> Result<()> {
    let (mut random, mut positions) = (Random(seed), Positions::new());
    let id = workload.transactional_id("worker", number);
    let mut zombie: Option<(Worker, u64)> = None;
    while !workload.stop.load(Ordering::Relaxed) {
        let Some(mut worker) = Worker::open(workload, zone, &id)? else { continue };
        if let Some((old, txn)) = zombie.take() {
            old.producer.commit(txn);
            old.close(None);
        }
        let left = worker.work(workload, &mut random, &mut positions)?;
        match left {
            Left::Crashed(txn) if random.one_in(2) => zombie = Some((worker, txn)),
            Left::Crashed(txn) => {
                worker.producer.leave(txn);
                worker.close(None);
            }
            Left::Stopped => worker.close(None),
            Left::Failed(why) => worker.close(Some(why)),
        }
    }
    if let Some((old, txn)) = zombie {
        old.producer.leave(txn);
        old.close(None);
    }
    Ok(())
}

impl Worker {
    fn open(workload: &Arc<Workload>, zone: &str, id: &str) -> Result<Option<Worker>> {
        let process = workload.recorder.open(Role::Worker, zone, Isolation::Committed);
        let Some(producer) = Producer::open(workload, process, zone, id)? else { return Ok(None) };
        Ok(Some(Worker { producer, reader: Reader::of(workload, process, zone, Isolation::Committed)? }))
    }

    /// `positions` are those before the open transaction when the worker is left.
    fn work(&mut self, workload: &Workload, random: &mut Random, positions: &mut Positions) -> Result<Left> {
        let mut must_rewind = true;
        while !workload.stop.load(Ordering::Relaxed) {
            let keys = workload.keys_in_transactions();
            let next = &self.reader.next;
            let is_current = keys.len() == next.len() && keys.iter().all(|key| next.contains_key(key));
            if must_rewind || !is_current || random.one_in(ASSIGN_ONE_IN) {
                self.reader.assign(positions_of(&keys, positions))?;
                must_rewind = false;
            }
            let txn = match self.producer.begin() {
                Ok(txn) => txn,
                Err(why) => return Ok(Left::Failed(why)),
            };
            let crash_after = random.one_in(CRASH_ONE_IN).then(|| random.below(MICRO_OPS_MAX));
            for step in 0..=random.below(MICRO_OPS_MAX) {
                self.micro_op(txn, &keys, random);
                if crash_after == Some(step) {
                    return Ok(Left::Crashed(txn));
                }
            }
            let is_abort = random.one_in(ABORT_ONE_IN);
            match if is_abort { self.producer.abort(txn, None) } else { self.producer.commit(txn) } {
                After::Committed => positions.clone_from(&self.reader.next),
                After::Aborted => must_rewind = true,
                After::GiveUp(why) => return Ok(Left::Failed(why)),
            }
        }
        Ok(Left::Stopped)
    }

    fn micro_op(&mut self, txn: u64, keys: &[Key], random: &mut Random) {
        if random.one_in(2) {
            let key = keys[random.below(keys.len() as u64) as usize];
            let count = 1 + random.below(SEND_RECORDS_MAX);
            self.producer.sender.send(key, count, Some(Within { txn, copy_of: None }));
        } else {
            self.reader.poll(POLL_TIME, Some(txn));
        }
        if random.one_in(PAUSE_ONE_IN) {
            thread::sleep(Duration::from_millis(random.below(PAUSE_MS_MAX)));
        }
    }

    fn close(self, error: Option<String>) {
        self.producer.sender.close(error);
    }
}
