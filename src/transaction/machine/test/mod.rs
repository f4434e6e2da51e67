//! A coordinator over a real shard's state, without a log in between.

mod ending;
mod producers;
mod waiting;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::protocol::ErrorCode;
use crate::shard::transaction::{Change, Phase, Transaction, TransactionEntry};
use crate::shard::{Create, Entry, Slot, State};
use crate::transaction::machine::{
    Add, Applied, Ask, Command, Coordinator, End, Ending, Init, Moment, Reply, Settings, Waiter,
};
use crate::types::{Partition, Producer, ShardId, TopicId};

const TERM: u64 = 3;
const TIMEOUT_MS: u32 = 60_000;
const EXPIRATION: Duration = Duration::from_secs(3600);
const WAIT: Duration = Duration::from_secs(1);
const ID: &str = "t";
const FIRST_ID: i64 = 100;

struct Shard(State);

impl Applied for Shard {
    fn get(&self, slot: Slot, id: &str) -> Option<Arc<Transaction>> {
        self.0.transactions().get(slot, id).cloned()
    }
}

struct Bench {
    shard: Shard,
    machine: Coordinator,
    now: Moment,
    waiter_next: Waiter,
    replies: HashMap<Waiter, Reply>,
    /// On their way into the log.
    proposals: VecDeque<(String, u64, Change)>,
    /// Markers to be written.
    endings: VecDeque<(String, Ending)>,
    fresh_next: i64,
}

fn settings() -> Settings {
    Settings { wait: WAIT, waiting_max: 8, endings_max: 2, id_expiration: EXPIRATION }
}

fn at(index: i32) -> (Partition, ShardId) {
    (Partition { topic: TopicId::from_bytes([1; 16]), index }, 4)
}

fn producer(id: i64, epoch: i16) -> Producer {
    Producer { id, epoch }
}

fn init(expected: Option<Producer>) -> Ask {
    Ask::Init(Init { timeout_ms: TIMEOUT_MS, expected, fresh_id: None })
}

fn add(producer: Producer, indexes: impl IntoIterator<Item = i32>) -> Ask {
    Ask::Add(Add { producer, partitions: indexes.into_iter().map(at).collect() })
}

fn verify(producer: Producer, indexes: impl IntoIterator<Item = i32>) -> Ask {
    Ask::Verify { producer, partitions: indexes.into_iter().map(|index| at(index).0).collect() }
}

/// Of version 1.
fn end(producer: Producer, commit: bool) -> Ask {
    Ask::End(End { producer, commit, bumps: false, fresh_id: None })
}

/// Of version 2.
fn end_and_bump(producer: Producer, commit: bool) -> Ask {
    Ask::End(End { producer, commit, bumps: true, fresh_id: None })
}

fn failed(error: ErrorCode) -> Option<Reply> {
    Some(Reply::Failed(error))
}

fn goes_on(id: i64, epoch: i16) -> Option<Reply> {
    Some(Reply::Producer(producer(id, epoch)))
}

impl Bench {
    fn new() -> Bench {
        let mut state = State::default();
        let create =
            Create { topic: TopicId::ZERO, partitions: vec![7], epoch_base: 0, append_time: false, fences: Vec::new() };
        state.apply(TERM, &Entry::Create(create).encode()).unwrap();
        Bench {
            shard: Shard(state),
            machine: Coordinator::new(settings()),
            now: Moment { at: Instant::now(), clock_ms: 0, wall_ms: 1_700_000_000_000 },
            waiter_next: 0,
            replies: HashMap::new(),
            proposals: VecDeque::new(),
            endings: VecDeque::new(),
            fresh_next: FIRST_ID,
        }
    }

    /// With a producer of this epoch, and nothing else.
    fn at_epoch(epoch: i16) -> Bench {
        let mut bench = Bench::new();
        let change = Change::Init { producer: producer(FIRST_ID, epoch), last_epoch: -1, timeout_ms: TIMEOUT_MS };
        bench.fresh_next += 1;
        bench.write(ID, 0, change).unwrap();
        bench
    }

    fn send_to(&mut self, id: &str, ask: Ask) -> Waiter {
        self.waiter_next += 1;
        self.machine.ask(self.now, 0, id, ask, self.waiter_next, &self.shard);
        self.collect();
        self.waiter_next
    }

    fn send(&mut self, ask: Ask) -> Waiter {
        self.send_to(ID, ask)
    }

    /// Asked as a handler does it, and all that follows is written, but for markers. None: it waits.
    fn ask(&mut self, mut ask: Ask) -> Option<Reply> {
        let waiter = self.send(ask.clone());
        self.write_all();
        let reply = self.replies.remove(&waiter);
        if reply != Some(Reply::NeedsProducerId) {
            return reply;
        }
        match &mut ask {
            Ask::Init(Init { fresh_id, .. }) | Ask::End(End { fresh_id, .. }) => *fresh_id = Some(self.fresh_next),
            other => panic!("{other:?} takes no producer id"),
        }
        self.fresh_next += 1;
        self.ask(ask)
    }

    /// As [`Bench::ask`], with the markers.
    fn ask_through(&mut self, ask: Ask) -> Option<Reply> {
        let reply = self.ask(ask);
        self.mark_all();
        reply
    }

    fn collect(&mut self) {
        for command in self.machine.take_commands() {
            match command {
                Command::Answer(waiter, reply) => {
                    assert!(self.replies.insert(waiter, reply).is_none(), "answered twice");
                }
                Command::Propose { slot: 0, id, revision, change } => self.proposals.push_back((id, revision, change)),
                Command::Mark { slot: 0, id, ending } => self.endings.push_back((id, ending)),
                other => panic!("{other:?} is for a slot that is not there"),
            }
        }
    }

    fn write(&mut self, id: &str, revision: u64, change: Change) -> Result<(), ErrorCode> {
        let entry =
            TransactionEntry { slot: 0, term: TERM, clock_ms: self.now.clock_ms, id: id.into(), revision, change };
        match self.shard.0.apply(TERM, &Entry::Transaction(entry).encode()).unwrap().outcome {
            None => Ok(()),
            Some(_) => Err(ErrorCode::NotCoordinator),
        }
    }

    fn write_all(&mut self) {
        while let Some((id, revision, change)) = self.proposals.pop_front() {
            let decided = self.write(&id, revision, change);
            self.machine.decided(self.now, &id, decided, &self.shard);
            self.collect();
        }
    }

    fn mark_all(&mut self) {
        while let Some((id, _)) = self.endings.pop_front() {
            self.machine.marked(self.now, &id, &self.shard);
            self.collect();
            self.write_all();
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now.at += time;
        self.now.clock_ms += time.as_millis() as u64;
        self.now.wall_ms += time.as_millis() as i64;
        self.machine.tick(self.now);
        self.collect();
    }

    fn sweep(&mut self) {
        let all = self.shard.0.transactions().clone();
        self.machine.sweep(self.now, all.all(), &self.shard);
        self.collect();
        self.write_all();
    }

    /// Another coordinator begins where the log is.
    fn change_coordinator(&mut self) {
        self.machine = Coordinator::new(settings());
        self.proposals.clear();
        self.endings.clear();
    }

    fn phase(&self) -> Option<Phase> {
        self.shard.get(0, ID).map(|one| one.phase)
    }
}
