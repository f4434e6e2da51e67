//! A history of a log that does everything right, made without any broker: what the checker must find nothing in.

use std::collections::HashMap;

use crate::event::{Event, Fate, Key, Outcome, Process, Role, Run, Value, What, value};
use crate::random::Random;

const KEYS: u32 = 4;
const ZONES: [&str; 3] = ["az1", "az2", "az3"];
const ROUNDS: u64 = 600;
const BATCH_RECORDS_MAX: u64 = 20;

struct Log {
    events: Vec<Event>,
    runs: HashMap<Key, Vec<Run>>,
    op: u64,
    random: Random,
}

/// Writers whose sends end in every possible way, readers that start anew, listers, and a scan in every zone.
pub fn history(seed: u64) -> Vec<Event> {
    let mut log = Log { events: Vec::new(), runs: HashMap::new(), op: 0, random: Random(seed) };
    log.tell(0, What::Began { run: 1, wall_ns: 0, partitions: KEYS });
    let mut process = 0;
    let mut open = |log: &mut Log, role| {
        ZONES.map(|zone| {
            process += 1;
            log.tell(process, What::Open { role, zone: zone.into() });
            process
        })
    };
    let writers = open(&mut log, Role::Writer);
    let readers = open(&mut log, Role::Reader);
    let listers = open(&mut log, Role::Lister);
    let mut sequences: HashMap<(Process, Key), u64> = HashMap::new();
    let mut positions: HashMap<(Process, Key), i64> = HashMap::new();
    for round in 0..ROUNDS {
        let zone = log.random.below(3) as usize;
        let key = log.random.below(KEYS.into()) as Key;
        let sequence = sequences.entry((writers[zone], key)).or_default();
        log.write(writers[zone], key, sequence);
        if round % 100 == 0 {
            let back = log.random.below(50) as i64;
            let next: Vec<(Key, i64)> = (0..KEYS)
                .map(|key| (key, (positions.get(&(readers[zone], key)).unwrap_or(&0) - back).max(0)))
                .collect();
            positions.extend(next.iter().map(|(key, next)| ((readers[zone], *key), *next)));
            log.tell(readers[zone], What::Assign { next });
        }
        log.read(readers[zone], &mut positions);
        log.list(listers[zone], key);
    }
    for scan in open(&mut log, Role::Scan) {
        (0..KEYS).for_each(|key| log.list(scan, key));
        log.tell(scan, What::Assign { next: (0..KEYS).map(|key| (key, 0)).collect() });
        log.read(scan, &mut HashMap::new());
    }
    log.events
}

impl Log {
    fn tell(&mut self, process: Process, what: What) -> u64 {
        self.op += 1;
        self.answer(process, self.op, what);
        self.op
    }

    fn answer(&mut self, process: Process, op: u64, what: What) {
        let t = self.events.len() as u64 * 1000;
        self.events.push(Event { process, op, t, what });
    }

    fn end(&self, key: Key) -> i64 {
        self.runs.get(&key).and_then(|runs| runs.last()).map_or(0, |run| run.offset + run.count as i64)
    }

    fn write(&mut self, process: Process, key: Key, sequence: &mut u64) {
        let (first, count): (Value, u64) = (value(process, *sequence), 1 + self.random.below(BATCH_RECORDS_MAX));
        *sequence += count;
        let op = self.tell(process, What::Send { key, value: first, count });
        let offset = self.end(key);
        // In the log although unknown, refused, in the log without a known place, or as it should be.
        let (fate, is_stored) = match self.random.below(12) {
            0 => (Fate::Unknown, true),
            1 => (Fate::Unknown, false),
            2 => (Fate::Refused, false),
            3 => (Fate::Somewhere, true),
            _ => (Fate::At(offset), true),
        };
        if is_stored {
            self.runs.entry(key).or_default().push(Run { offset, value: first, count });
        }
        let error = matches!(fate, Fate::Unknown | Fate::Refused).then(|| "as if".to_owned());
        self.answer(process, op, What::Sent { key, outcomes: vec![Outcome { value: first, count, fate, error }] });
    }

    fn read(&mut self, process: Process, positions: &mut HashMap<(Process, Key), i64>) {
        let op = self.tell(process, What::Poll);
        let mut found = Vec::new();
        for key in 0..KEYS {
            let next = positions.entry((process, key)).or_insert(0);
            for run in self.runs.get(&key).into_iter().flatten() {
                let passed = (*next - run.offset).clamp(0, run.count as i64);
                if passed < run.count as i64 {
                    let (offset, value) = (run.offset + passed, run.value + passed as u64);
                    found.push((key, Run { offset, value, count: run.count - passed as u64 }));
                }
            }
            *next = self.runs.get(&key).and_then(|runs| runs.last()).map_or(0, |run| run.offset + run.count as i64);
        }
        self.answer(process, op, What::Polled { runs: found, bad: vec![], errors: vec![] });
    }

    fn list(&mut self, process: Process, key: Key) {
        let op = self.tell(process, What::List { key });
        self.answer(process, op, What::Listed { key, earliest: 0, latest: self.end(key) });
    }
}
