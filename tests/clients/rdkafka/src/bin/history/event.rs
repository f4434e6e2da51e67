//! What a history consists of: one JSON line before a client is called, one when it has answered.
//!
//! Records are told as runs: neighbours in the log that are also neighbours among their writer's values. So a line
//! holds a batch, and millions of records fit into a small file.

use std::fs::File;
use std::io::{BufRead, BufReader};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

/// One topic-partition: topic number × partitions of a topic + partition.
pub type Key = u32;
/// Unique within its key: writer's process number, then the writer's own count for the key.
pub type Value = u64;
/// A client from its opening to its end; a client that is opened again is another process.
pub type Process = u32;

/// A process may write this many values to one key.
const SEQUENCE_BITS: u32 = 36;

pub fn value(process: Process, sequence: u64) -> Value {
    (u64::from(process) << SEQUENCE_BITS) | sequence
}

pub fn writer_of(value: Value) -> Process {
    (value >> SEQUENCE_BITS) as Process
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    pub process: Process,
    /// Names the call: the same in both of its lines.
    pub op: u64,
    /// Nanoseconds since the history began, by one clock that never steps back.
    pub t: u64,
    #[serde(flatten)]
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "f", rename_all = "snake_case")]
pub enum What {
    /// The first line.
    Began {
        run: u64,
        wall_ns: u64,
        partitions: u32,
    },
    Open {
        role: Role,
        zone: String,
        /// What it reads, if it reads.
        #[serde(default, skip_serializing_if = "Isolation::is_committed")]
        isolation: Isolation,
    },
    /// The client was given up; what it had not answered is answered by `Sent` lines before this one.
    Closed {
        error: Option<String>,
    },
    /// `count` values from `value` on are about to be handed to the client.
    Send {
        key: Key,
        value: Value,
        count: u64,
        /// The op of the transaction's `Begin`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        txn: Option<u64>,
        /// As many values of another key, from this one on, of which these are copies.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        copy_of: Option<(Key, Value)>,
    },
    /// What became of them, each value exactly once.
    Sent {
        key: Key,
        outcomes: Vec<Outcome>,
    },
    /// From here on this process reads exactly these keys, from these offsets.
    Assign {
        next: Vec<(Key, i64)>,
    },
    /// The group was balanced anew: where this process goes on in these keys, the group knows.
    Rebalanced {
        keys: Vec<Key>,
    },
    Poll {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        txn: Option<u64>,
    },
    Polled {
        runs: Vec<(Key, Run)>,
        bad: Vec<Bad>,
        errors: Vec<String>,
    },
    List {
        key: Key,
    },
    Listed {
        key: Key,
        earliest: i64,
        latest: i64,
    },
    /// The call has no answer.
    Failed {
        error: String,
    },
    /// A transaction begins; its op is in what belongs to it.
    Begin {
        id: String,
    },
    /// From here on the transaction of this op may be committed.
    Committing,
    Ended {
        end: End,
        /// How often the client was told to commit.
        attempts: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
}

/// How a transaction ended, as far as its client can know.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    Committed,
    /// Nobody ever asked to commit it.
    Aborted,
    /// The first commit was definitely refused.
    Refused,
    /// It was to be committed, and that was not answered, whatever came later.
    Unknown,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    #[default]
    Committed,
    Uncommitted,
}

impl Isolation {
    pub fn is_committed(&self) -> bool {
        *self == Isolation::Committed
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Writer,
    Reader,
    /// Reads everything once after the faults.
    Scan,
    Lister,
    /// Writes and reads in transactions.
    Worker,
    /// A member of the group that copies the input to the output, in transactions.
    Copier,
}

/// Values `value..value + count` at offsets `offset..offset + count`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "(i64, Value, u64)", into = "(i64, Value, u64)")]
pub struct Run {
    pub offset: i64,
    pub value: Value,
    pub count: u64,
}

impl From<(i64, Value, u64)> for Run {
    fn from((offset, value, count): (i64, Value, u64)) -> Run {
        Run { offset, value, count }
    }
}

impl From<Run> for (i64, Value, u64) {
    fn from(run: Run) -> Self {
        (run.offset, run.value, run.count)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub value: Value,
    pub count: u64,
    pub fate: Fate,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// In the log, the first of the values at this offset.
    At(i64),
    /// In the log, the broker no longer knows where: the answer to a repeated batch.
    Somewhere,
    /// Definitely not in the log.
    Refused,
    Unknown,
}

/// A record that is not what its writer sent, or a reader that was told that its offset does not exist.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bad {
    pub key: Key,
    pub offset: i64,
    pub kind: BadKind,
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BadKind {
    Record,
    Position,
}

/// Reads a whole history.
pub fn load(path: &str) -> Result<Vec<Event>> {
    let file = BufReader::new(File::open(path).with_context(|| path.to_owned())?);
    let mut events = Vec::new();
    for (number, line) in file.lines().enumerate() {
        let event = serde_json::from_str(&line?).with_context(|| format!("{path}, line {}", number + 1))?;
        events.push(event);
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_gives_back_its_event() {
        let runs = vec![(3, Run { offset: 5, value: value(2, 9), count: 4 })];
        let bad = vec![Bad { key: 3, offset: 9, kind: BadKind::Record, why: "checksum".into() }];
        let fates = [Fate::At(7), Fate::Somewhere, Fate::Refused, Fate::Unknown];
        let outcome = |fate| Outcome { value: 1, count: 2, fate, error: None };
        let whats = [
            What::Polled { runs, bad, errors: vec![] },
            What::Sent { key: 1, outcomes: fates.map(outcome).to_vec() },
            What::Open { role: Role::Scan, zone: "az1".into(), isolation: Isolation::Uncommitted },
            What::Send { key: 1, value: 2, count: 3, txn: Some(4), copy_of: Some((0, 9)) },
            What::Poll { txn: None },
            What::Ended { end: End::Unknown, attempts: 2, error: None },
        ];
        for what in whats {
            let event = Event { process: 1, op: 2, t: 3, what };
            let line = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event, "{line}");
        }
    }

    #[test]
    fn a_value_names_its_writer() {
        assert_eq!(writer_of(value(77, 123_456_789)), 77);
    }
}
