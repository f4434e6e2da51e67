//! A history sorted by key: what the rules look at.

use std::collections::{BTreeMap, HashMap};

use crate::check::transactions::{Mark, Transactions};
use crate::event::{Bad, Event, Fate, Isolation, Key, Outcome, Process, Role, Run, Value, What};

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
    /// It goes on from here; where the group says, if there is no offset.
    Assign { next: Option<i64> },
    /// `unit`: what was read together, a poll or all polls of a transaction.
    Read { unit: u64, op: u64, run: Run },
}

/// One answered question where a key begins and ends.
#[derive(Clone, Copy)]
pub struct Sample {
    pub process: Process,
    pub isolation: Isolation,
    pub invoked: u64,
    pub answered: u64,
    pub earliest: i64,
    pub latest: i64,
}

/// What readers of one isolation level were shown.
#[derive(Default)]
pub struct View {
    /// Every read of every process.
    pub read: Vec<Run>,
    pub scans: BTreeMap<Process, Vec<Run>>,
    pub steps: BTreeMap<Process, Vec<Step>>,
}

#[derive(Default)]
pub struct KeyTable {
    /// As runs with offset 0: only their values mean something.
    pub sent: Vec<Run>,
    pub acked: Vec<Acked>,
    pub refused: Vec<Run>,
    pub committed: View,
    pub uncommitted: View,
    /// Which values are whose transaction's; sorted when the table is complete.
    pub marks: Vec<Mark>,
    /// In the order of their answers.
    pub samples: Vec<Sample>,
    pub bad: Vec<Bad>,
}

#[derive(Default)]
pub struct Tables {
    pub keys: BTreeMap<Key, KeyTable>,
    pub transactions: Transactions,
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

impl KeyTable {
    pub fn view(&self, isolation: Isolation) -> &View {
        match isolation {
            Isolation::Committed => &self.committed,
            Isolation::Uncommitted => &self.uncommitted,
        }
    }

    fn view_mut(&mut self, isolation: Isolation) -> &mut View {
        match isolation {
            Isolation::Committed => &mut self.committed,
            Isolation::Uncommitted => &mut self.uncommitted,
        }
    }
}

impl Tables {
    pub fn new(events: &[Event]) -> Tables {
        let mut tables = Tables::default();
        let mut opened: HashMap<Process, (Role, Isolation)> = HashMap::new();
        let mut asked: HashMap<u64, u64> = HashMap::new();
        // The transaction that a poll is part of.
        let mut polls: HashMap<u64, u64> = HashMap::new();
        for event in events {
            let (process, t) = (event.process, event.t);
            let (role, isolation) = opened.get(&process).copied().unwrap_or((Role::Lister, Isolation::Committed));
            match &event.what {
                What::Began { .. } => {}
                What::Open { role, zone, isolation } => {
                    tables.count.processes += 1;
                    opened.insert(process, (*role, *isolation));
                    tables.zones.insert(process, zone.clone());
                    if *role == Role::Scan {
                        // A scan that read nothing of a key must be seen to have read nothing.
                        for key in tables.keys.values_mut() {
                            key.view_mut(*isolation).scans.insert(process, Vec::new());
                        }
                    }
                }
                What::Closed { error } => {
                    error.iter().for_each(|error| tables.count.error(error));
                }
                What::Send { key, value, count, txn, copy_of } => {
                    tables.count.ops += 1;
                    tables.count.sent += count;
                    let run = Run { offset: 0, value: *value, count: *count };
                    let table = tables.keys.entry(*key).or_default();
                    table.sent.push(run);
                    if let Some(txn) = txn {
                        table.marks.push(Mark { value: *value, count: *count, txn: *txn });
                        tables.transactions.sent(*txn, *key, run, *copy_of);
                    }
                }
                What::Sent { key, outcomes } => {
                    for outcome in outcomes {
                        tables.outcome(*key, t, outcome);
                    }
                }
                What::Assign { next } => {
                    for (key, next) in next {
                        tables.step(*key, process, isolation, Step::Assign { next: Some(*next) });
                    }
                }
                What::Rebalanced { keys } => {
                    for key in keys {
                        tables.step(*key, process, isolation, Step::Assign { next: None });
                    }
                }
                What::Poll { txn } => {
                    tables.count.ops += 1;
                    polls.extend(txn.map(|txn| (event.op, txn)));
                }
                What::Polled { runs, bad, errors } => {
                    errors.iter().for_each(|error| tables.count.error(error));
                    let txn = polls.remove(&event.op);
                    let unit = txn.unwrap_or(event.op);
                    for (key, run) in runs {
                        tables.count.read += run.count;
                        tables.step(*key, process, isolation, Step::Read { unit, op: event.op, run: *run });
                        let view = tables.key(*key).view_mut(isolation);
                        view.read.push(*run);
                        if role == Role::Scan {
                            view.scans.entry(process).or_default().push(*run);
                        }
                        txn.iter().for_each(|txn| tables.transactions.read(*txn, *key, *run));
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
                    let (earliest, latest) = (*earliest, *latest);
                    let sample = Sample { process, isolation, invoked, answered: t, earliest, latest };
                    tables.key(*key).samples.push(sample);
                }
                What::Failed { error } => {
                    asked.remove(&event.op);
                    tables.count.unanswered += 1;
                    tables.count.error(error);
                }
                What::Begin { .. } => {
                    tables.count.ops += 1;
                    tables.transactions.begun(event.op, process, t);
                }
                What::Committing => tables.transactions.committing(event.op),
                What::Ended { end, error, .. } => {
                    error.iter().for_each(|error| tables.count.error(error));
                    tables.transactions.ended(event.op, *end, t);
                }
            }
        }
        for table in tables.keys.values_mut() {
            table.marks.sort_unstable_by_key(|mark| mark.value);
            for run in &table.committed.read {
                tables.transactions.seen(&table.marks, run);
            }
        }
        tables
    }

    fn key(&mut self, key: Key) -> &mut KeyTable {
        self.keys.entry(key).or_default()
    }

    fn step(&mut self, key: Key, process: Process, isolation: Isolation, step: Step) {
        self.key(key).view_mut(isolation).steps.entry(process).or_default().push(step);
    }

    fn outcome(&mut self, key: Key, t: u64, outcome: &Outcome) {
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
