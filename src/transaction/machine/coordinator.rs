use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::protocol::ErrorCode;
use crate::shard::Slot;
use crate::shard::transaction::{Change, Phase, Transaction};
use crate::transaction::machine::ask::{Ask, Reply, Waiter};
use crate::transaction::machine::rules::{self, Decision};
use crate::types::{Partition, Producer, ShardId, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How long an ask waits for what is under way before it is told CONCURRENT_TRANSACTIONS.
    pub wait: Duration,
    /// Asks that wait for one id; more are told at once.
    pub waiting_max: usize,
    /// Transactions whose markers are written at a time, those apart that are [held up](Coordinator::held_up).
    pub endings_max: usize,
    /// An id that nobody has used for so long is forgotten (Kafka: `transactional.id.expiration.ms`).
    pub id_expiration: Duration,
}

/// What time it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub at: Instant,
    /// On the shard's clock.
    pub clock_ms: u64,
    /// For people.
    pub wall_ms: Timestamp,
}

/// The applied state of an id.
pub trait Applied {
    fn get(&self, slot: Slot, id: &str) -> Option<Arc<Transaction>>;
}

/// What the shell is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Answer(Waiter, Reply),
    /// Have the log decide on it, and say so to [`Coordinator::decided`].
    Propose {
        slot: Slot,
        id: String,
        revision: u64,
        change: Change,
    },
    /// Have these markers written, and say so to [`Coordinator::marked`].
    Mark {
        slot: Slot,
        id: String,
        ending: Ending,
    },
}

/// A transaction whose end is decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// As markers carry it.
    pub producer: Producer,
    pub txn_no: u64,
    pub commit: bool,
    pub partitions: Vec<(Partition, ShardId)>,
}

/// The transactional ids of one shard, in one term of its leader. Only ids that something is under way for are known here:
/// all else is in the shard's state.
#[derive(Debug)]
pub struct Coordinator {
    settings: Settings,
    live: HashMap<String, Live>,
    /// When asks have waited long enough, in that order.
    late: VecDeque<(Instant, String)>,
    /// Prepared, and too many others are marked now.
    unmarked: VecDeque<(Slot, String)>,
    /// Those that have a place.
    marking: usize,
    commands: Vec<Command>,
}

#[derive(Debug)]
struct Live {
    slot: Slot,
    /// Who is answered when the change on its way is applied; none: nothing is on its way.
    proposed: Option<Vec<(Waiter, Reply)>>,
    /// Its markers are written, or wait for that.
    ending: bool,
    /// It has one of the places of those that are marked at a time.
    has_place: bool,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    ask: Ask,
    waiter: Waiter,
    until: Instant,
}

impl Live {
    fn new(slot: Slot) -> Live {
        Live { slot, proposed: None, ending: false, has_place: false, waiting: VecDeque::new() }
    }

    fn is_idle(&self) -> bool {
        self.proposed.is_none() && !self.ending && self.waiting.is_empty()
    }
}

impl Coordinator {
    pub fn new(settings: Settings) -> Coordinator {
        Coordinator {
            settings,
            live: HashMap::new(),
            late: VecDeque::new(),
            unmarked: VecDeque::new(),
            marking: 0,
            commands: Vec::new(),
        }
    }

    pub fn ask(&mut self, now: Moment, slot: Slot, id: &str, ask: Ask, waiter: Waiter, applied: &impl Applied) {
        let live = self.live.entry(id.to_owned()).or_insert_with(|| Live::new(slot));
        if live.waiting.len() >= self.settings.waiting_max {
            let refused = Reply::Failed(ErrorCode::ConcurrentTransactions);
            return self.commands.push(Command::Answer(waiter, refused));
        }
        let until = now.at + self.settings.wait;
        live.waiting.push_back(Waiting { ask, waiter, until });
        self.turn(now, id, applied);
        if self.live.get(id).is_some_and(|live| live.waiting.iter().any(|one| one.waiter == waiter)) {
            self.late.push_back((until, id.to_owned()));
        }
    }

    /// The log has decided on the change of this id. An error is one that clients can be told; those who wait are told it
    /// too, and what is left to do is found by the next sweep.
    pub fn decided(&mut self, now: Moment, id: &str, decided: Result<(), ErrorCode>, applied: &impl Applied) {
        let Some(live) = self.live.get_mut(id) else { return };
        let proposed = live.proposed.take().into_iter().flatten();
        match decided {
            Ok(()) => self.commands.extend(proposed.map(|(waiter, reply)| Command::Answer(waiter, reply))),
            Err(error) => {
                let waiting = live.waiting.drain(..).map(|one| one.waiter);
                let all = proposed.map(|(waiter, _)| waiter).chain(waiting);
                self.commands.extend(all.map(|waiter| Command::Answer(waiter, Reply::Failed(error))));
                if live.is_idle() {
                    self.live.remove(id);
                }
                return;
            }
        }
        self.turn(now, id, applied);
    }

    /// Every partition of the id's prepared transaction has its marker.
    pub fn marked(&mut self, now: Moment, id: &str, applied: &impl Applied) {
        self.give_place_back(id);
        if let Some(live) = self.live.get_mut(id) {
            live.ending = false;
            let slot = live.slot;
            if let Some(one) = applied.get(slot, id).filter(|one| one.phase.is_prepared()) {
                self.propose(slot, id, one.revision, Change::Complete, Vec::new());
            }
            self.turn(now, id, applied);
        }
        self.mark_next(applied);
    }

    /// The id's markers take long: a shard may have lost its quorum, for good. They are sent again until they are written,
    /// but others take the place, whose partitions are well.
    pub fn held_up(&mut self, id: &str, applied: &impl Applied) {
        self.give_place_back(id);
        self.mark_next(applied);
    }

    /// Looks at every id: what a coordinator before left unfinished, what takes too long, what nobody needs.
    pub fn sweep<'a>(
        &mut self,
        now: Moment,
        all: impl Iterator<Item = (Slot, &'a String, &'a Arc<Transaction>)>,
        applied: &impl Applied,
    ) {
        let expiration_ms = u64::try_from(self.settings.id_expiration.as_millis()).unwrap_or(u64::MAX);
        for (slot, id, one) in all {
            let passed = |since_ms: u64, ms: u64| since_ms.saturating_add(ms) <= now.clock_ms;
            let change = match one.phase {
                Phase::PrepareCommit | Phase::PrepareAbort => {
                    self.live.entry(id.clone()).or_insert_with(|| Live::new(slot));
                    self.turn(now, id, applied);
                    continue;
                }
                Phase::Ongoing if passed(one.started_ms, one.timeout_ms.into()) => rules::fence(now, one),
                Phase::Empty | Phase::CompleteCommit | Phase::CompleteAbort
                    if passed(one.changed_ms, expiration_ms) =>
                {
                    Change::Remove
                }
                _ => continue,
            };
            if self.live.get(id).is_none_or(|live| live.proposed.is_none()) {
                self.live.entry(id.clone()).or_insert_with(|| Live::new(slot));
                self.propose(slot, id, one.revision, change, Vec::new());
            }
        }
    }

    /// Sends away who has waited long enough.
    pub fn tick(&mut self, now: Moment) {
        while self.deadline().is_some_and(|at| at <= now.at) {
            let Some((_, id)) = self.late.pop_front() else { return };
            let Some(live) = self.live.get_mut(&id) else { continue };
            let commands = &mut self.commands;
            live.waiting.retain(|one| {
                let waits = one.until > now.at;
                if !waits {
                    let reply = Reply::Failed(ErrorCode::ConcurrentTransactions);
                    commands.push(Command::Answer(one.waiter, reply));
                }
                waits
            });
            if live.is_idle() {
                self.live.remove(&id);
            }
        }
    }

    /// When [`Coordinator::tick`] has something to look at.
    pub fn deadline(&self) -> Option<Instant> {
        self.late.front().map(|(at, _)| *at)
    }

    pub fn take_commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.commands)
    }

    /// Answers what can be answered by now and starts what comes next for an id.
    fn turn(&mut self, now: Moment, id: &str, applied: &impl Applied) {
        let Some(live) = self.live.get_mut(id) else { return };
        let slot = live.slot;
        let one = applied.get(slot, id);
        let busy = live.proposed.is_some();
        let mut next: Option<(Change, Vec<(Waiter, Reply)>)> = None;
        let mut left = VecDeque::new();
        for waiting in std::mem::take(&mut live.waiting) {
            // What is verified is not changed by a change on its way.
            if busy && !matches!(waiting.ask, Ask::Verify { .. }) {
                left.push_back(waiting);
                continue;
            }
            match (rules::decide(now, one.as_deref(), &waiting.ask), &mut next) {
                (Decision::Answer(reply), _) => self.commands.push(Command::Answer(waiting.waiter, reply)),
                (Decision::Propose(change, reply), None) => next = Some((change, vec![(waiting.waiter, reply)])),
                // A producer's first batches for many partitions come at once: one entry adds them all.
                (
                    Decision::Propose(Change::Add { partitions, .. }, reply),
                    Some((Change::Add { partitions: all, .. }, then)),
                ) => {
                    all.extend(partitions);
                    then.push((waiting.waiter, reply));
                }
                (Decision::First(change), None) => {
                    next = Some((change, Vec::new()));
                    left.push_back(waiting);
                }
                (Decision::Later | Decision::Propose(..) | Decision::First(_), _) => left.push_back(waiting),
            }
        }
        live.waiting = left;
        let prepared = one.as_ref().is_some_and(|one| one.phase.is_prepared());
        if prepared && !live.ending && live.proposed.is_none() {
            live.ending = true;
            match self.marking < self.settings.endings_max {
                true => self.mark(slot, id.to_owned(), applied),
                false => self.unmarked.push_back((slot, id.to_owned())),
            }
        }
        if let Some((change, then)) = next {
            let revision = one.map_or(0, |one| one.revision);
            self.propose(slot, id, revision, sorted(change), then);
        }
        if self.live.get(id).is_some_and(Live::is_idle) {
            self.live.remove(id);
        }
    }

    fn give_place_back(&mut self, id: &str) {
        if let Some(live) = self.live.get_mut(id).filter(|live| live.has_place) {
            live.has_place = false;
            self.marking -= 1;
        }
    }

    fn mark_next(&mut self, applied: &impl Applied) {
        while self.marking < self.settings.endings_max
            && let Some((slot, id)) = self.unmarked.pop_front()
        {
            self.mark(slot, id, applied);
        }
    }

    fn mark(&mut self, slot: Slot, id: String, applied: &impl Applied) {
        let one = applied.get(slot, &id).filter(|one| one.phase.is_prepared());
        let Some(one) = one else {
            // Only this coordinator completes what it has prepared.
            self.live.entry(id).and_modify(|live| live.ending = false);
            return;
        };
        let partitions = one.partitions.iter().map(|(partition, shard)| (*partition, *shard)).collect();
        let commit = one.phase == Phase::PrepareCommit;
        let ending = Ending { producer: one.producer(), txn_no: one.txn_no, commit, partitions };
        if let Some(live) = self.live.get_mut(&id) {
            live.has_place = true;
            self.marking += 1;
        }
        self.commands.push(Command::Mark { slot, id, ending });
    }

    fn propose(&mut self, slot: Slot, id: &str, revision: u64, change: Change, then: Vec<(Waiter, Reply)>) {
        if let Some(live) = self.live.get_mut(id) {
            live.proposed = Some(then);
        }
        self.commands.push(Command::Propose { slot, id: id.to_owned(), revision, change });
    }
}

/// Partitions of one topic side by side, each once.
fn sorted(mut change: Change) -> Change {
    if let Change::Add { partitions, .. } = &mut change {
        partitions.sort_unstable();
        partitions.dedup();
    }
    change
}
