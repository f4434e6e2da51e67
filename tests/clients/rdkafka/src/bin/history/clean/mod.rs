//! A history of a log that does everything right, made without any broker: what the checker must find nothing in.

mod log;

use crate::event::{End, Event, Fate, Isolation, Key, Process, Role, Run, What};
use crate::random::Random;
use log::{Log, Positions};

/// Keys that only writers without transactions write, keys that all write, and those of the copiers.
const KEYS: [Key; 6] = [0, 1, 2, 3, INPUT, OUTPUT];
const SHARED: [Key; 3] = [2, 3, INPUT];
const INPUT: Key = 4;
const OUTPUT: Key = 5;
const ZONES: [&str; 3] = ["az1", "az2", "az3"];
const ROUNDS: u64 = 900;
const BATCH_RECORDS_MAX: u64 = 20;
const STEPS_MAX: u64 = 4;

struct History {
    log: Log,
    random: Random,
    positions: Positions,
}

/// A client that writes and reads in transactions, and what it has open.
struct Worker {
    process: Process,
    open: Option<Open>,
}

struct Open {
    txn: u64,
    steps: u64,
    /// A send was not acknowledged: it cannot be committed any more.
    is_doomed: bool,
    before: Positions,
}

/// Sends and transactions that end in every possible way, readers that start anew, listers, and scans in every zone.
pub fn history(seed: u64) -> Vec<Event> {
    let mut history = History { log: Log::default(), random: Random(seed), positions: Positions::new() };
    history.log.tell(0, What::Began { run: 1, wall_ns: 0, partitions: 1 });
    let writers = history.open(Role::Writer, Isolation::Committed);
    let readers = [Isolation::Committed, Isolation::Uncommitted].map(|isolation| history.open(Role::Reader, isolation));
    let listers = [Isolation::Committed, Isolation::Uncommitted].map(|isolation| history.open(Role::Lister, isolation));
    let mut workers = history.open(Role::Worker, Isolation::Committed).map(|process| Worker { process, open: None });
    let copiers = history.open(Role::Copier, Isolation::Committed);
    readers.iter().flatten().for_each(|reader| history.assign(*reader, &KEYS.map(|key| (key, 0))));
    let mut copied = 0;
    for round in 0..ROUNDS {
        let zone = history.random.below(3) as usize;
        let key = KEYS[history.random.below(KEYS.len() as u64) as usize];
        if key != OUTPUT {
            history.write(writers[zone], key);
        }
        let reader = readers[history.random.below(2) as usize][zone];
        if round % 100 == 0 {
            history.step_back(reader);
        }
        history.log.read(reader, &KEYS, &mut history.positions, None);
        history.work(&mut workers[zone]);
        if history.random.one_in(4) {
            history.copy(copiers[zone], &mut copied, false);
        }
        listers.iter().for_each(|listers| history.log.list(listers[zone], key));
    }
    for worker in &mut workers {
        if let Some(open) = worker.open.take() {
            history.log.finish(worker.process, open.txn, End::Aborted, false);
        }
    }
    history.copy(copiers[0], &mut copied, true);
    for isolation in [Isolation::Committed, Isolation::Uncommitted] {
        for scan in history.open(Role::Scan, isolation) {
            KEYS.iter().for_each(|key| history.log.list(scan, *key));
            history.log.tell(scan, What::Assign { next: KEYS.map(|key| (key, 0)).to_vec() });
            history.log.read(scan, &KEYS, &mut Positions::new(), None);
        }
    }
    history.log.events
}

impl History {
    fn open(&mut self, role: Role, isolation: Isolation) -> [Process; 3] {
        ZONES.map(|zone| self.log.open(role, zone, isolation))
    }

    fn write(&mut self, process: Process, key: Key) {
        let count = 1 + self.random.below(BATCH_RECORDS_MAX);
        let choice = self.random.below(12);
        // In the log although unknown, refused, in the log without a known place, or as it should be.
        self.log.send(process, (key, count), (None, None), |offset| match choice {
            0 => (Fate::Unknown, true),
            1 => (Fate::Unknown, false),
            2 => (Fate::Refused, false),
            3 => (Fate::Somewhere, true),
            _ => (Fate::At(offset), true),
        });
    }

    fn step_back(&mut self, reader: Process) {
        let back = self.random.below(50) as i64;
        let next = KEYS.map(|key| (key, (self.positions.get(&(reader, key)).unwrap_or(&0) - back).max(0)));
        self.assign(reader, &next);
    }

    fn assign(&mut self, process: Process, next: &[(Key, i64)]) {
        self.positions.extend(next.iter().map(|(key, next)| ((process, *key), *next)));
        self.log.tell(process, What::Assign { next: next.to_vec() });
    }

    /// One step of a transaction, so that those of several workers lie among each other.
    fn work(&mut self, worker: &mut Worker) {
        let process = worker.process;
        let Some(open) = &mut worker.open else {
            let (txn, steps) = (self.log.begin(process), 1 + self.random.below(STEPS_MAX));
            worker.open = Some(Open { txn, steps, is_doomed: false, before: self.positions.clone() });
            return;
        };
        if open.steps > 0 {
            open.steps -= 1;
            if self.random.one_in(3) {
                self.log.read(process, &SHARED, &mut self.positions, Some(open.txn));
            } else {
                let (key, count) = (SHARED[self.random.below(3) as usize], 1 + self.random.below(3));
                let choice = self.random.below(20);
                open.is_doomed |= choice == 0;
                self.log.send(process, (key, count), (Some(open.txn), None), |offset| match choice {
                    0 => (Fate::Unknown, true),
                    1 => (Fate::Somewhere, true),
                    _ => (Fate::At(offset), true),
                });
            }
            return;
        }
        let open = worker.open.take().expect("it was there");
        let (end, is_committed) = match self.random.below(10) {
            _ if open.is_doomed => (End::Aborted, false),
            0 => (End::Aborted, false),
            1 => (End::Refused, false),
            2 => (End::Unknown, true),
            3 => (End::Unknown, false),
            _ => (End::Committed, true),
        };
        self.log.finish(process, open.txn, end, is_committed);
        if end != End::Committed {
            let before = SHARED.map(|key| (key, *open.before.get(&(process, key)).unwrap_or(&0)));
            self.assign(process, &before);
        }
    }

    /// A member reads on where the group has come to, copies, and commits both or nothing.
    fn copy(&mut self, process: Process, copied: &mut i64, is_last: bool) {
        self.log.tell(process, What::Rebalanced { keys: vec![INPUT] });
        self.positions.insert((process, INPUT), *copied);
        let runs: Vec<(Key, Run)> = self.log.read(process, &[INPUT], &mut self.positions, None);
        let txn = self.log.begin(process);
        for (key, run) in runs {
            let within = (Some(txn), Some((key, run.value)));
            self.log.send(process, (OUTPUT, run.count), within, |offset| (Fate::At(offset), true));
        }
        let is_committed = is_last || !self.random.one_in(4);
        let end = if is_committed { End::Committed } else { End::Aborted };
        self.log.finish(process, txn, end, is_committed);
        if is_committed {
            *copied = self.positions[&(process, INPUT)];
        }
    }
}
