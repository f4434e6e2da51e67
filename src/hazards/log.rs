//! A shard without brokers: its log, and two replicas that must agree after every entry.

use std::collections::VecDeque;

use crate::shard::*;
use crate::types::{BrokerEpoch, BrokerId, ObjectId, Producer, StorageClass, TopicId};

pub struct Log {
    pub term: u64,
    state: State,
    /// Restored from a snapshot before every entry.
    restored: State,
}

impl Log {
    /// One partition, in slot 0.
    pub fn new() -> Log {
        let mut log = Log { term: 1, state: State::default(), restored: State::default() };
        log.commit(&Entry::Create(Create {
            topic: TopicId::ZERO,
            partitions: vec![0],
            epoch_base: 0,
            append_time: false,
            fences: vec![],
        }));
        log
    }

    /// A proposal that a majority has. Checks every invariant that a shard's state can show.
    pub fn commit(&mut self, entry: &Entry) -> Effect {
        let before = self.state.slot(0).cloned();
        let effect = self.state.apply(self.term, &entry.encode()).unwrap();
        self.restored = State::from_snapshot(&self.restored.to_snapshot()).unwrap();
        assert_eq!(self.restored.apply(self.term, &entry.encode()).unwrap(), effect);
        assert_eq!(self.restored.digest(), self.state.digest());
        assert!(invariants::hold(&self.state));
        if let Some(before) = before {
            assert!(invariants::watermarks_only_grow(&before, self.partition()));
        }
        effect
    }

    pub fn append(&mut self, append: &Append) -> Outcome {
        let entry = Entry::Append { append_time: 1000, append: append.clone() };
        self.commit(&entry).outcome.expect("an append has an outcome")
    }

    /// The leader ends a producer's wait.
    pub fn release(&mut self, producer_id: i64, settled: bool) -> Effect {
        self.commit(&Entry::Release(Release { slot: 0, producer_id, settled }))
    }

    pub fn partition(&self) -> &PartitionState {
        self.state.slot(0).expect("created first")
    }
}

pub fn object(broker: BrokerId, epoch: BrokerEpoch, sequence: u64) -> ObjectId {
    ObjectId { broker, epoch, sequence, attempt: 1, class: StorageClass::Regional }
}

/// A batch of one record whose producer counts from 0: in a partition of its own its offset is its sequence.
pub fn claimed(producer: i64, base: i32) -> Batch {
    let producer = Producer { id: producer, epoch: 0 };
    Batch { len: 100, span: 1, max_timestamp: 5, sequence: Some(Sequence { producer, base, transaction: None }) }
}

pub fn plain() -> Batch {
    Batch { sequence: None, ..claimed(0, 0) }
}

pub fn append(object: ObjectId, previous: u64, batches: Vec<Batch>) -> Append {
    Append { object, previous, parts: vec![Part { slot: 0, start: 0, batches }] }
}

pub fn appended(base: i64) -> Verdict {
    Verdict::Appended { base, append_time: None }
}

pub fn taken(verdicts: &[Verdict]) -> Outcome {
    Outcome::Taken(verdicts.to_vec())
}

/// One broker's objects, one batch each, by the rules of a lane: all are sent ahead, answers are taken in order, and
/// after any failure it begins again from the oldest that is not settled.
pub struct Lane {
    broker: BrokerId,
    settled: u64,
    sequence: u64,
    queue: VecDeque<(ObjectId, Batch)>,
    pub verdicts: Vec<Verdict>,
}

impl Lane {
    pub fn new(broker: BrokerId) -> Lane {
        Lane { broker, settled: 0, sequence: 0, queue: VecDeque::new(), verdicts: Vec::new() }
    }

    pub fn submit(&mut self, batch: Batch) {
        self.sequence += 1;
        self.queue.push_back((object(self.broker, 1, self.sequence), batch));
    }

    /// What is sent now, before any of it is answered.
    pub fn requests(&self) -> Vec<Append> {
        let mut previous = self.settled;
        let requests = self
            .queue
            .iter()
            .map(|(object, batch)| append(*object, std::mem::replace(&mut previous, object.sequence), vec![*batch]));
        requests.collect()
    }

    /// Takes the answers to [`Lane::requests`]; `None` where there was none.
    pub fn answered(&mut self, outcomes: Vec<Option<Outcome>>) {
        for outcome in outcomes {
            match outcome {
                Some(Outcome::Taken(verdicts)) => {
                    let (object, _) = self.queue.pop_front().expect("asked");
                    self.settled = object.sequence;
                    self.verdicts.extend(verdicts);
                }
                Some(Outcome::OutOfTurn { last }) => {
                    self.settled = last;
                    return;
                }
                Some(other) => panic!("nobody fenced it: {other:?}"),
                None => return,
            }
        }
    }

    /// Sends until everything is settled, with nothing lost.
    pub fn finish(&mut self, log: &mut Log) {
        for _ in 0..100 {
            if self.queue.is_empty() {
                return;
            }
            let outcomes = self.requests().iter().map(|request| Some(log.append(request))).collect();
            self.answered(outcomes);
        }
        panic!("the lane is stuck");
    }
}
