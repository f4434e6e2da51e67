use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesOrdered, StreamExt};
use milepost_raft::Leadership;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use crate::admin::{Defaults, ShareReset, ShareSettings};
use crate::cluster::{Cluster, now_ms};
use crate::commit::{Sequencers, decode_outcome};
use crate::index::{OpenShard, Reader, Waiter};
use crate::peer::Answer;
use crate::protocol::ErrorCode;
use crate::shard::share::{Change, Run, ShareEntry, ShareUpdate};
use crate::shard::{Entry, Outcome, PartitionState, Refusal, Slot};
use crate::share::delivery::Delivery;
use crate::share::gather::gather;
use crate::share::leaders::{Keeper, Request};
use crate::share::wire::{Acquired, Ask, Described, Reply, What};
use crate::types::{Offset, Partition};

/// Entries on their way; what is decided meanwhile is gathered into the next one.
const ENTRIES_MAX: usize = 2;
/// Updates in one entry, and their runs.
const UPDATES_MAX: usize = 256;
const RUNS_MAX: usize = 16 * 1024;
/// Updates that wait for an entry; nothing is asked meanwhile.
const QUEUED_MAX: usize = 4096;
/// Asks that wait for records; more are answered with what there is.
const WAITING_MAX: usize = 1024;
/// Groups and partitions in memory. Those of whom nothing is known but what is applied make room for others.
const DELIVERIES_MAX: usize = 100_000;

/// A group in a partition.
type Key = (Slot, Arc<str>);

/// This broker's time as the leader of a shard's share groups, in one term: begun from applied state. With its end all
/// locks are forgotten.
pub(super) struct Reign {
    shard: Arc<OpenShard>,
    cluster: Cluster,
    sequencers: Arc<Sequencers>,
    defaults: Defaults,
    term: u64,
    deliveries: HashMap<Key, Kept>,
    /// When locks run out.
    due: BTreeSet<(Instant, Key)>,
    waiting: Vec<Waiting>,
    /// Records may have become available: those who wait look again.
    news: bool,
    waiter: Waiter,
    updates: Vec<(ShareUpdate, Then)>,
    proposals: FuturesOrdered<BoxFuture<'static, (Vec<Then>, Result<Vec<ErrorCode>, ErrorCode>)>>,
    /// Asks that are answered when all that they are about is decided.
    pending: HashMap<u64, Pending>,
    pending_next: u64,
}

#[derive(Default)]
struct Kept {
    /// None while delivery begins, or ends.
    live: Option<Delivery>,
    due: Option<Instant>,
}

struct Waiting {
    ask: Ask,
    until: Instant,
    answer: oneshot::Sender<Option<Reply>>,
}

struct Pending {
    left: usize,
    codes: Vec<ErrorCode>,
    answer: oneshot::Sender<Option<Reply>>,
}

/// What of a partition may be delivered now.
struct Offer {
    key: Key,
    ranges: Vec<(Offset, Offset)>,
    state: Arc<PartitionState>,
}

/// What a decision's end is to bring.
struct Then {
    key: Key,
    what: Of,
    /// Who is told, and in which place.
    pending: Option<(u64, usize)>,
}

enum Of {
    /// Delivery begins: it is loaded from what is applied then.
    Begin,
    Decision(u64),
    /// Nothing waits for it.
    LetGo,
    Forget,
}

impl Reign {
    pub fn begin(keeper: &Keeper, term: u64) -> Reign {
        Reign {
            shard: keeper.shard.clone(),
            cluster: keeper.cluster.clone(),
            sequencers: keeper.sequencers.clone(),
            defaults: keeper.defaults.clone(),
            term,
            deliveries: HashMap::new(),
            due: BTreeSet::new(),
            waiting: Vec::new(),
            news: false,
            waiter: Waiter::default(),
            updates: Vec::new(),
            proposals: FuturesOrdered::new(),
            pending: HashMap::new(),
            pending_next: 0,
        }
    }

    /// Until it ends: then those who still wait are sent elsewhere. False when nobody will ask again.
    pub async fn run(
        mut self,
        stop: &mut watch::Receiver<bool>,
        leadership: &mut watch::Receiver<Leadership>,
        requests: &mut mpsc::Receiver<Request>,
    ) -> bool {
        loop {
            self.propose();
            if std::mem::take(&mut self.news) {
                self.look_again();
                continue;
            }
            let open = self.updates.len() < QUEUED_MAX;
            let due = self.due.first().map(|(at, _)| *at);
            let patience = self.waiting.iter().map(|waiting| waiting.until).min();
            let wake_at = due.into_iter().chain(patience).min();
            tokio::select! {
                changed = leadership.changed() => {
                    let now = *leadership.borrow();
                    if changed.is_err() || now.term != self.term || !now.ready {
                        return changed.is_ok();
                    }
                }
                changed = stop.changed() => return changed.is_ok(),
                Some((thens, outcome)) = self.proposals.next() => self.decided(thens, outcome),
                () = self.waiter.notified() => self.news = true,
                () = sleep_until(wake_at.unwrap_or_else(Instant::now)), if wake_at.is_some() => {
                    self.expire();
                    self.news = true;
                }
                request = requests.recv(), if open => match request {
                    Some(Request { ask, answer }) => self.take(ask, answer),
                    None => return false,
                },
            }
        }
    }

    fn take(&mut self, ask: Ask, answer: oneshot::Sender<Option<Reply>>) {
        let group: Arc<str> = ask.group.as_str().into();
        match &ask.what {
            What::Acquire { wait_ms, .. } | What::Look { wait_ms, .. } => {
                let until = Instant::now() + Duration::from_millis(*wait_ms);
                self.wait(Waiting { ask, until, answer });
            }
            What::Acknowledge { member, partitions } => {
                let settings = self.settings(&group);
                let id = self.pend(partitions.len(), answer);
                for (at, (partition, acks)) in partitions.iter().enumerate() {
                    let ends = self.live(&group, partition).and_then(|(key, live)| {
                        let decision = live.acknowledge(member, acks, settings.deliveries_max);
                        Ok((key, decision.map_err(|_| ErrorCode::InvalidRecordState)?))
                    });
                    match ends {
                        Ok((key, Some((decision, runs)))) => {
                            self.moved(key, runs, Of::Decision(decision), Some((id, at)));
                        }
                        Ok((key, None)) => {
                            self.reschedule(&key);
                            self.news = true;
                            self.settle(id, at, ErrorCode::None);
                        }
                        Err(error) => self.settle(id, at, error),
                    }
                }
            }
            What::Release { member, partitions } => {
                self.dismiss(&group, member);
                let settings = self.settings(&group);
                for partition in partitions {
                    let Ok((key, live)) = self.live(&group, partition) else { continue };
                    let runs = live.release(member, settings.deliveries_max);
                    self.let_go(key, runs);
                }
                let _ = answer.send(Some(Reply::Each(vec![0; partitions.len()])));
            }
            What::Describe { partitions } => {
                let _ = answer.send(Some(Reply::Described(self.describe(&group, partitions.as_deref()))));
            }
            What::Begin { starts } => {
                let id = self.pend(starts.len(), answer);
                for (at, (partition, start)) in starts.iter().enumerate() {
                    match self.slot(partition) {
                        Ok(slot) => self.start(&(slot, group.clone()), *start, Some((id, at))),
                        Err(error) => self.settle(id, at, error),
                    }
                }
            }
            What::Forget { partitions } => {
                let slots: Vec<Result<Slot, ErrorCode>> = match partitions {
                    Some(partitions) => partitions.iter().map(|partition| self.slot(partition)).collect(),
                    None => self.slots_of(&group).into_iter().map(Ok).collect(),
                };
                let id = self.pend(slots.len(), answer);
                for (at, slot) in slots.into_iter().enumerate() {
                    match slot {
                        Ok(slot) => {
                            let key = (slot, group.clone());
                            self.suspend(&key);
                            self.update(key, Change::Forget, Of::Forget, Some((id, at)));
                        }
                        Err(error) => self.settle(id, at, error),
                    }
                }
            }
        }
    }

    /// Registered before the look, so that no record that comes in between is missed.
    fn wait(&mut self, waiting: Waiting) {
        let Waiting { ask, until, answer } = waiting;
        if answer.is_closed() {
            return;
        }
        let now = Instant::now();
        let patient = until > now && self.waiting.len() < WAITING_MAX;
        if patient {
            let (What::Acquire { partitions, .. } | What::Look { partitions, .. }) = &ask.what else { return };
            for slot in partitions.iter().filter_map(|partition| self.slot(partition).ok()) {
                self.shard.replica().wake_on_change(slot, &self.waiter, Reader::AtAnotherBroker);
            }
        }
        let reply = self.look(&ask, now);
        let enough = match &reply {
            Reply::Acquired(all) => all.iter().any(|one| one.error != 0 || !one.ranges.is_empty()),
            Reply::Ready(ready) => *ready,
            Reply::Each(_) | Reply::Described(_) => true,
        };
        if enough || !patient {
            let _ = answer.send(Some(reply));
        } else {
            self.waiting.push(Waiting { ask, until, answer });
        }
    }

    /// Those who came first look first.
    fn look_again(&mut self) {
        for waiting in std::mem::take(&mut self.waiting) {
            self.wait(waiting);
        }
    }

    /// Whoever has gone waits for nothing.
    fn dismiss(&mut self, group: &str, gone: &str) {
        let is_gone = |ask: &Ask| match &ask.what {
            What::Acquire { member, .. } => member == gone && ask.group == group,
            _ => false,
        };
        self.waiting.retain(|waiting| !is_gone(&waiting.ask));
    }

    fn look(&mut self, ask: &Ask, now: Instant) -> Reply {
        let group: Arc<str> = ask.group.as_str().into();
        let settings = self.settings(&group);
        match &ask.what {
            What::Acquire { member, records_max, bytes_max, partitions, .. } => {
                let member: Arc<str> = member.as_str().into();
                let (mut records, mut bytes) = (u64::from(*records_max), *bytes_max);
                let mut all = Vec::with_capacity(partitions.len());
                for partition in partitions {
                    let mut acquired = Acquired::none(*partition);
                    match self.offer(&group, &settings, partition, records) {
                        Ok(Some(Offer { key, ranges, state })) => {
                            let first = all.iter().all(|one: &Acquired| one.ranges.is_empty());
                            let (ranges, pointers, size) = gather(&state, &ranges, bytes, first);
                            bytes = bytes.saturating_sub(size);
                            let Some(live) = self.deliveries.get_mut(&key).and_then(|kept| kept.live.as_mut()) else {
                                continue;
                            };
                            acquired.ranges = live.acquire(&member, now + settings.lock_duration, &ranges);
                            acquired.tell(pointers, &state, settings.read_committed);
                            records = records.saturating_sub(acquired.records());
                            self.reschedule(&key);
                        }
                        Ok(None) => {}
                        Err(error) => acquired.error = error.code(),
                    }
                    all.push(acquired);
                }
                Reply::Acquired(all)
            }
            What::Look { partitions, .. } => {
                let mut any = false;
                for partition in partitions {
                    any |= !matches!(self.offer(&group, &settings, partition, 1), Ok(None));
                }
                Reply::Ready(any)
            }
            _ => Reply::Each(Vec::new()),
        }
    }

    /// What of the partition may be delivered now. Where the group comes to it, delivery begins first.
    fn offer(
        &mut self,
        group: &Arc<str>,
        settings: &ShareSettings,
        partition: &Partition,
        records_max: u64,
    ) -> Result<Option<Offer>, ErrorCode> {
        let state = self.shard.replica().read(|state| state.partition(partition).cloned());
        let state = state.ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let key = (state.slot, group.clone());
        self.load(&key)?;
        let Some(kept) = self.deliveries.get_mut(&key) else {
            let start = beginning(settings.reset, &state, settings.read_committed);
            self.start(&key, start, None);
            return Ok(None);
        };
        let Some(live) = &mut kept.live else { return Ok(None) };
        live.follow(state.log_start_offset);
        let limit = if settings.read_committed { state.last_stable_offset() } else { state.high_watermark };
        let offered = live.offer(limit, records_max, settings.locks_max as u64);
        Ok((!offered.is_empty()).then_some(Offer { key, ranges: offered, state }))
    }

    /// What a group has in a partition, or the error of one that it never came to: nothing of it is held.
    fn live(&mut self, group: &Arc<str>, partition: &Partition) -> Result<(Key, &mut Delivery), ErrorCode> {
        let state = self.shard.replica().read(|state| state.partition(partition).cloned());
        let state = state.ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let key = (state.slot, group.clone());
        self.load(&key)?;
        let kept = self.deliveries.get_mut(&key).and_then(|kept| kept.live.as_mut());
        let live = kept.ok_or(ErrorCode::InvalidRecordState)?;
        live.follow(state.log_start_offset);
        Ok((key, live))
    }

    /// # Errors
    /// There is no room for another.
    fn load(&mut self, key: &Key) -> Result<(), ErrorCode> {
        if self.deliveries.contains_key(key) {
            return Ok(());
        }
        if self.deliveries.len() >= DELIVERIES_MAX {
            self.deliveries.retain(|_, kept| kept.live.as_ref().is_none_or(|live| !live.is_idle()));
            if self.deliveries.len() >= DELIVERIES_MAX {
                return Err(ErrorCode::CoordinatorLoadInProgress);
            }
        }
        let live = self.shard.replica().read(|state| state.shares().get(key.0, &key.1).map(Delivery::load));
        if let Some(live) = live {
            self.deliveries.insert(key.clone(), Kept { live: Some(live), due: None });
        }
        Ok(())
    }

    fn start(&mut self, key: &Key, start: Offset, pending: Option<(u64, usize)>) {
        self.suspend(key);
        let last = self.shard.replica().read(|state| state.shares().get(key.0, &key.1).map_or(0, |now| now.epoch));
        self.update(key.clone(), Change::Begin { epoch: last + 1, start }, Of::Begin, pending);
    }

    /// Nothing is delivered until the log has what was decided.
    fn suspend(&mut self, key: &Key) {
        let before = self.deliveries.insert(key.clone(), Kept::default());
        if let Some(due) = before.and_then(|kept| kept.due) {
            self.due.remove(&(due, key.clone()));
        }
    }

    fn expire(&mut self) {
        let now = Instant::now();
        while let Some((at, key)) = self.due.pop_first() {
            if at > now {
                self.due.insert((at, key));
                return;
            }
            let count_max = self.settings(&key.1).deliveries_max;
            let Some(kept) = self.deliveries.get_mut(&key) else { continue };
            kept.due = None;
            let Some(live) = &mut kept.live else { continue };
            let runs = live.expire(now, count_max);
            self.let_go(key, runs);
        }
    }

    fn let_go(&mut self, key: Key, runs: Vec<Run>) {
        self.news = true;
        match runs.is_empty() {
            true => self.reschedule(&key),
            false => self.moved(key, runs, Of::LetGo, None),
        }
    }

    fn moved(&mut self, key: Key, runs: Vec<Run>, what: Of, pending: Option<(u64, usize)>) {
        self.reschedule(&key);
        if let Some(live) = self.deliveries.get(&key).and_then(|kept| kept.live.as_ref()) {
            let change = Change::Move { epoch: live.epoch, start: live.start(), runs };
            self.update(key, change, what, pending);
        }
    }

    fn reschedule(&mut self, key: &Key) {
        let Some(kept) = self.deliveries.get_mut(key) else { return };
        let due = kept.live.as_ref().and_then(Delivery::deadline);
        if due != kept.due {
            if let Some(at) = kept.due {
                self.due.remove(&(at, key.clone()));
            }
            self.due.extend(due.map(|at| (at, key.clone())));
            kept.due = due;
        }
    }

    fn update(&mut self, key: Key, change: Change, what: Of, pending: Option<(u64, usize)>) {
        let update = ShareUpdate { slot: key.0, group: key.1.to_string(), change };
        self.updates.push((update, Then { key, what, pending }));
    }

    fn propose(&mut self) {
        while !self.updates.is_empty() && self.proposals.len() < ENTRIES_MAX {
            let mut runs = 0;
            let fits = |(update, _): &&(ShareUpdate, Then)| {
                runs += if let Change::Move { runs, .. } = &update.change { runs.len() } else { 0 };
                runs <= RUNS_MAX
            };
            let count = self.updates.iter().take(UPDATES_MAX).take_while(fits).count().max(1);
            let (updates, thens): (Vec<_>, Vec<_>) = self.updates.drain(..count).unzip();
            let entry = Entry::Share(ShareEntry { term: self.term, updates }).encode();
            let decided = self.sequencers.entry(self.shard.id, entry);
            let decided = async move { (thens, outcome(decided.await.unwrap_or(Answer::Unknown))) };
            self.proposals.push_back(decided.boxed());
        }
    }

    fn decided(&mut self, thens: Vec<Then>, outcome: Result<Vec<ErrorCode>, ErrorCode>) {
        self.news = true;
        for (i, Then { key, what, pending }) in thens.into_iter().enumerate() {
            let code = match &outcome {
                Ok(each) => each.get(i).copied().unwrap_or(ErrorCode::UnknownServerError),
                Err(error) => *error,
            };
            // A decision that belongs to another epoch, or to a partition that is gone: what is applied counts.
            let refused = matches!(code, ErrorCode::FencedStateEpoch | ErrorCode::UnknownTopicOrPartition);
            match what {
                Of::Decision(decision) if !refused => {
                    if let Some(live) = self.deliveries.get_mut(&key).and_then(|kept| kept.live.as_mut()) {
                        live.decided(decision, code == ErrorCode::None);
                    }
                    self.reschedule(&key);
                }
                Of::LetGo if !refused => {}
                Of::Begin | Of::Forget | Of::Decision(_) | Of::LetGo => {
                    self.suspend(&key);
                    self.deliveries.remove(&key);
                    if code != ErrorCode::None && pending.is_none() {
                        self.refuse_waiting(&key, code);
                    }
                }
            }
            if let Some((id, at)) = pending {
                self.settle(id, at, code);
            }
        }
    }

    /// Delivery could not begin: whoever waits for it is told, so that it is not tried over and over here.
    fn refuse_waiting(&mut self, key: &Key, code: ErrorCode) {
        let partition = self.shard.replica().read(|state| state.slot(key.0).map(|partition| partition.id));
        let concerns = |waiting: &Waiting| match &waiting.ask.what {
            What::Acquire { partitions, .. } | What::Look { partitions, .. } => {
                waiting.ask.group == *key.1 && partition.is_some_and(|partition| partitions.contains(&partition))
            }
            _ => false,
        };
        for Waiting { ask, until, answer } in std::mem::take(&mut self.waiting) {
            let waiting = Waiting { ask, until, answer };
            if !concerns(&waiting) {
                self.waiting.push(waiting);
                continue;
            }
            let reply = match waiting.ask.what {
                What::Acquire { partitions, .. } => {
                    let of = |at: Partition| {
                        let error = if Some(at) == partition { code.code() } else { 0 };
                        Acquired { error, ..Acquired::none(at) }
                    };
                    Reply::Acquired(partitions.into_iter().map(of).collect())
                }
                _ => Reply::Ready(true),
            };
            let _ = waiting.answer.send(Some(reply));
        }
    }

    /// An answer with so many places.
    fn pend(&mut self, count: usize, answer: oneshot::Sender<Option<Reply>>) -> u64 {
        if count == 0 {
            let _ = answer.send(Some(Reply::Each(Vec::new())));
            return 0;
        }
        self.pending_next += 1;
        self.pending.insert(self.pending_next, Pending { left: count, codes: vec![ErrorCode::None; count], answer });
        self.pending_next
    }

    fn settle(&mut self, id: u64, at: usize, code: ErrorCode) {
        let Some(pending) = self.pending.get_mut(&id) else { return };
        pending.codes[at] = code;
        pending.left -= 1;
        if pending.left == 0
            && let Some(Pending { codes, answer, .. }) = self.pending.remove(&id)
        {
            let _ = answer.send(Some(Reply::Each(codes.into_iter().map(ErrorCode::code).collect())));
        }
    }

    fn describe(&self, group: &str, partitions: Option<&[Partition]>) -> Vec<Described> {
        let term = self.term;
        self.shard.replica().read(|state| {
            let one = |partition: Partition| {
                let Some(found) = state.partition(&partition) else {
                    let error = ErrorCode::UnknownTopicOrPartition.code();
                    return Described { partition, start: -1, leader_epoch: 0, error };
                };
                match state.shares().get(found.slot, group) {
                    Some(progress) => {
                        let leader_epoch = found.leader_epoch(term);
                        Described { partition, start: progress.start, leader_epoch, error: 0 }
                    }
                    None => Described { partition, start: -1, leader_epoch: 0, error: 0 },
                }
            };
            match partitions {
                Some(partitions) => partitions.iter().copied().map(one).collect(),
                None => {
                    let slots = state.shares().of_group(group).filter_map(|(slot, _)| state.slot(slot));
                    slots.map(|partition| one(partition.id)).collect()
                }
            }
        })
    }

    /// Also those that it is about to come to.
    fn slots_of(&self, group: &str) -> BTreeSet<Slot> {
        let known = self.deliveries.keys().filter(|(_, of)| **of == *group).map(|(slot, _)| *slot);
        let mut slots: BTreeSet<Slot> = known.collect();
        self.shard.replica().read(|state| slots.extend(state.shares().of_group(group).map(|(slot, _)| slot)));
        slots
    }

    fn slot(&self, partition: &Partition) -> Result<Slot, ErrorCode> {
        let slot = self.shard.replica().read(|state| state.partition(partition).map(|partition| partition.slot));
        slot.ok_or(ErrorCode::UnknownTopicOrPartition)
    }

    fn settings(&self, group: &str) -> ShareSettings {
        let view = self.cluster.view();
        ShareSettings::of(group, &view, self.defaults.layers(&view, self.cluster.broker_id()))
    }
}

/// Where a group begins that has never been here.
fn beginning(reset: ShareReset, partition: &PartitionState, committed: bool) -> Offset {
    match reset {
        ShareReset::Earliest => partition.log_start_offset,
        ShareReset::Latest if committed => partition.last_stable_offset(),
        ShareReset::Latest => partition.high_watermark,
        // Kafka begins with the record itself; which of the batch it is the leader does not see.
        ShareReset::ByDuration(age) => {
            let target = now_ms().saturating_sub(age.as_millis() as i64);
            partition.pointers.from_timestamp(target).next().map_or(partition.high_watermark, |pointer| pointer.base)
        }
    }
}

/// What came of an entry: a code for each of its updates.
fn outcome(answer: Answer) -> Result<Vec<ErrorCode>, ErrorCode> {
    match answer {
        Answer::Done(body) => match decode_outcome(&body) {
            Ok(Outcome::Marked(each)) => Ok(each.into_iter().map(code_of).collect()),
            outcome => {
                tracing::debug!(?outcome, "decided in another term");
                Err(ErrorCode::NotLeaderOrFollower)
            }
        },
        Answer::NotLeader { .. } => Err(ErrorCode::NotLeaderOrFollower),
        Answer::Unknown => Err(ErrorCode::CoordinatorNotAvailable),
        Answer::Refused(why) => {
            tracing::warn!(why, "what share groups did cannot be written");
            Err(ErrorCode::UnknownServerError)
        }
    }
}

fn code_of(result: Result<(), Refusal>) -> ErrorCode {
    match result {
        Ok(()) => ErrorCode::None,
        Err(Refusal::UnknownPartition) => ErrorCode::UnknownTopicOrPartition,
        Err(_) => ErrorCode::FencedStateEpoch,
    }
}
