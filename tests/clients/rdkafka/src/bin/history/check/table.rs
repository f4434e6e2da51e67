//! A history sorted by key: what the rules look at.

use std::collections::{BTreeMap, HashMap};

use crate::event::{Bad, Event, Fate, Key, Process, Role, Run, Value, What};

/// Values that were acknowledged by one answer at `t`.
#[derive(Clone, Copy)]
pub struct Acked {
    pub t: u64,
    pub value: Value,
    pub count: u64,
    pub offset: Option<i64>,
}

/// One step of a reader in one key, in the order of the history.
#[derive(Clone, Copy)]
pub enum Step {
    Assign { next: i64 },
    Read { op: u64, run: Run },
}

/// One answered question where a key begins and ends.
#[derive(Clone, Copy)]
pub struct Sample {
    pub process: Process,
    pub invoked: u64,
    pub earliest: i64,
    pub latest: i64,
}

#[derive(Default)]
pub struct KeyTable {
    /// As runs with offset 0: only their values mean something.
    pub sent: Vec<Run>,
    pub acked: Vec<Acked>,
    pub refused: Vec<Run>,
    /// Every read of every process.
    pub read: Vec<Run>,
    pub scans: BTreeMap<Process, Vec<Run>>,
    pub steps: BTreeMap<Process, Vec<Step>>,
    /// In the order of their answers.
    pub samples: Vec<Sample>,
    pub bad: Vec<Bad>,
}

#[derive(Default)]
pub struct Tables {
    pub keys: BTreeMap<Key, KeyTable>,
    pub zones: BTreeMap<Process, String>,
    pub count: Count,
}

/// What the history was made of.
#[derive(Default)]
pub struct Count {
    pub ops: u64,
    pub sent: u64,
    pub acked: u64,
    pub refused: u64,
    pub unknown: u64,
    pub read: u64,
    pub samples: u64,
    pub unanswered: u64,
    pub processes: u64,
    pub errors: BTreeMap<String, u64>,
}

impl Tables {
    pub fn new(events: &[Event]) -> Tables {
        let mut tables = Tables::default();
        let mut roles: HashMap<Process, Role> = HashMap::new();
        let mut asked: HashMap<u64, u64> = HashMap::new();
        for event in events {
            let (process, t) = (event.process, event.t);
            match &event.what {
                What::Began { .. } => {}
                What::Open { role, zone } => {
                    tables.count.processes += 1;
                    roles.insert(process, *role);
                    tables.zones.insert(process, zone.clone());
                    if *role == Role::Scan {
                        // A scan that read nothing of a key must be seen to have read nothing.
                        for key in tables.keys.values_mut() {
                            key.scans.insert(process, Vec::new());
                        }
                    }
                }
                What::Closed { error } => {
                    error.iter().for_each(|error| tables.count.error(error));
                }
                What::Send { key, value, count } => {
                    tables.count.ops += 1;
                    tables.count.sent += count;
                    tables.key(*key).sent.push(Run { offset: 0, value: *value, count: *count });
                }
                What::Sent { key, outcomes } => {
                    for outcome in outcomes {
                        tables.outcome(*key, t, outcome);
                    }
                }
                What::Assign { next } => {
                    for (key, next) in next {
                        let steps = tables.key(*key).steps.entry(process).or_default();
                        steps.push(Step::Assign { next: *next });
                    }
                }
                What::Poll => tables.count.ops += 1,
                What::Polled { runs, bad, errors } => {
                    errors.iter().for_each(|error| tables.count.error(error));
                    for (key, run) in runs {
                        tables.count.read += run.count;
                        let table = tables.key(*key);
                        table.read.push(*run);
                        table.steps.entry(process).or_default().push(Step::Read { op: event.op, run: *run });
                        if roles.get(&process) == Some(&Role::Scan) {
                            table.scans.entry(process).or_default().push(*run);
                        }
                    }
                    bad.iter().for_each(|bad| tables.key(bad.key).bad.push(bad.clone()));
                }
                What::List { .. } => {
                    tables.count.ops += 1;
                    asked.insert(event.op, t);
                }
                What::Listed { key, earliest, latest } => {
                    tables.count.samples += 1;
                    let invoked = asked.remove(&event.op).unwrap_or(t);
                    let sample = Sample { process, invoked, earliest: *earliest, latest: *latest };
                    tables.key(*key).samples.push(sample);
                }
                What::Failed { error } => {
                    asked.remove(&event.op);
                    tables.count.unanswered += 1;
                    tables.count.error(error);
                }
            }
        }
        tables
    }

    fn key(&mut self, key: Key) -> &mut KeyTable {
        self.keys.entry(key).or_default()
    }

    fn outcome(&mut self, key: Key, t: u64, outcome: &crate::event::Outcome) {
        let (value, count) = (outcome.value, outcome.count);
        outcome.error.iter().for_each(|error| self.count.error(error));
        let table = self.keys.entry(key).or_default();
        match outcome.fate {
            Fate::At(_) | Fate::Somewhere => {
                let offset = if let Fate::At(offset) = outcome.fate { Some(offset) } else { None };
                table.acked.push(Acked { t, value, count, offset });
                self.count.acked += count;
            }
            Fate::Refused => {
                table.refused.push(Run { offset: 0, value, count });
                self.count.refused += count;
            }
            Fate::Unknown => self.count.unknown += count,
        }
    }
}

impl Count {
    fn error(&mut self, error: &str) {
        // Addresses and numbers of retries make the same error many: the words before them are enough.
        let words = error.split(['(', ':']).next().unwrap_or(error).trim();
        *self.errors.entry(words.to_owned()).or_default() += 1;
    }
}
