//! A log in memory that does everything right, and tells its history.

use std::collections::{HashMap, HashSet};

use crate::event::{End, Event, Fate, Isolation, Key, Outcome, Process, Role, Run, Value, What, value};

/// What a reader reads next.
pub type Positions = HashMap<(Process, Key), i64>;

struct Stored {
    run: Run,
    txn: Option<u64>,
}

#[derive(Default)]
struct Partition {
    stored: Vec<Stored>,
    end: i64,
}

#[derive(Default)]
pub struct Log {
    pub events: Vec<Event>,
    partitions: HashMap<Key, Partition>,
    sequences: HashMap<(Process, Key), u64>,
    open: HashSet<u64>,
    aborted: HashSet<u64>,
    isolation: HashMap<Process, Isolation>,
    op: u64,
}

impl Log {
    pub fn tell(&mut self, process: Process, what: What) -> u64 {
        self.op += 1;
        self.answer(process, self.op, what);
        self.op
    }

    fn answer(&mut self, process: Process, op: u64, what: What) {
        let t = self.events.len() as u64 * 1000;
        self.events.push(Event { process, op, t, what });
    }

    pub fn open(&mut self, role: Role, zone: &str, isolation: Isolation) -> Process {
        let process = self.isolation.len() as Process + 1;
        self.isolation.insert(process, isolation);
        self.tell(process, What::Open { role, zone: zone.into(), isolation });
        process
    }

    pub fn end(&self, key: Key) -> i64 {
        self.partitions.get(&key).map_or(0, |partition| partition.end)
    }

    /// Where the first open transaction begins.
    fn stable(&self, key: Key) -> i64 {
        let stored = self.partitions.get(&key).map_or(&[][..], |partition| &partition.stored);
        let open = stored.iter().find(|stored| stored.txn.is_some_and(|txn| self.open.contains(&txn)));
        open.map_or(self.end(key), |stored| stored.run.offset)
    }

    /// Sends `count` values, of which `fate` is told; it is given where they would be.
    pub fn send(
        &mut self,
        process: Process,
        (key, count): (Key, u64),
        (txn, copy_of): (Option<u64>, Option<(Key, Value)>),
        fate: impl FnOnce(i64) -> (Fate, bool),
    ) {
        let sequence = self.sequences.entry((process, key)).or_default();
        let first = value(process, *sequence);
        *sequence += count;
        let op = self.tell(process, What::Send { key, value: first, count, txn, copy_of });
        let partition = self.partitions.entry(key).or_default();
        let offset = partition.end;
        let (fate, is_stored) = fate(offset);
        if is_stored {
            partition.stored.push(Stored { run: Run { offset, value: first, count }, txn });
            partition.end += count as i64;
        }
        let error = matches!(fate, Fate::Unknown | Fate::Refused).then(|| "as if".to_owned());
        self.answer(process, op, What::Sent { key, outcomes: vec![Outcome { value: first, count, fate, error }] });
    }

    /// Everything from the reader's positions on that it may see.
    pub fn read(
        &mut self,
        process: Process,
        keys: &[Key],
        positions: &mut Positions,
        txn: Option<u64>,
    ) -> Vec<(Key, Run)> {
        let op = self.tell(process, What::Poll { txn });
        let is_committed = self.isolation[&process].is_committed();
        let mut found = Vec::new();
        for key in keys {
            let next = positions.entry((process, *key)).or_insert(0);
            let end = if is_committed { self.stable(*key) } else { self.end(*key) };
            for stored in self.partitions.get(key).map_or(&[][..], |partition| &partition.stored) {
                let run = stored.run;
                let is_hidden = is_committed && stored.txn.is_some_and(|txn| self.aborted.contains(&txn));
                let passed = (*next - run.offset).clamp(0, run.count as i64);
                if passed < run.count as i64 && run.offset < end && !is_hidden {
                    let (offset, value) = (run.offset + passed, run.value + passed as u64);
                    found.push((*key, Run { offset, value, count: run.count - passed as u64 }));
                }
            }
            *next = end.max(*next);
        }
        self.answer(process, op, What::Polled { runs: found.clone(), bad: vec![], errors: vec![] });
        found
    }

    pub fn list(&mut self, process: Process, key: Key) {
        let op = self.tell(process, What::List { key });
        let latest = if self.isolation[&process].is_committed() { self.stable(key) } else { self.end(key) };
        self.answer(process, op, What::Listed { key, earliest: 0, latest });
    }

    pub fn begin(&mut self, process: Process) -> u64 {
        let txn = self.tell(process, What::Begin { id: format!("id-{process}") });
        self.open.insert(txn);
        txn
    }

    /// Ends a transaction; a marker stands in each of its keys.
    pub fn finish(&mut self, process: Process, txn: u64, end: End, is_committed: bool) {
        self.open.remove(&txn);
        if !is_committed {
            self.aborted.insert(txn);
        }
        for partition in self.partitions.values_mut() {
            if partition.stored.iter().any(|stored| stored.txn == Some(txn)) {
                partition.end += 1;
            }
        }
        if end != End::Aborted {
            self.answer(process, txn, What::Committing);
        }
        self.answer(process, txn, What::Ended { end, attempts: u32::from(end != End::Aborted), error: None });
    }
}
