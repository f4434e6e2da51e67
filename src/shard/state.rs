use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::shard::chain::{Chain, Turn};
use crate::shard::entry::{Append, Batch, Create, DecodeError, Entry, Fence, Release, Slot, partitions_of};
use crate::shard::group::Groups;
use crate::shard::marker::Markers;
use crate::shard::partition::{PartitionState, Placed};
use crate::shard::share::{ShareEntry, ShareUpdate, Shares};
use crate::shard::transaction::Transactions;
use crate::shard::verdict::{Outcome, Refusal, Released, Verdict};
use crate::types::{BrokerEpoch, BrokerId, Offset, Partition, Timestamp, TopicId, arc_map};

/// Everything a shard knows. A pure function of its log: no clock, no randomness, no I/O.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    #[serde(with = "arc_map")]
    partitions: BTreeMap<Slot, Arc<PartitionState>>,
    slot_next: Slot,
    chains: BTreeMap<BrokerId, Chain>,
    fences: BTreeMap<BrokerId, (BrokerEpoch, u64)>,
    groups: Groups,
    transactions: Transactions,
    #[serde(default)]
    shares: Shares,
    /// Derived from `partitions`; rebuilt after a restore.
    #[serde(skip)]
    by_id: HashMap<Partition, Slot>,
}

/// What applying one entry did, for those who wait.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Effect {
    /// Set for an append and for markers, and for what a coordinator decided when it is refused.
    pub outcome: Option<Outcome>,
    /// Partitions whose readers have something new to see.
    pub changed: Vec<Slot>,
    pub released: Vec<Released>,
}

impl State {
    /// Applies one log entry of Raft term `term`.
    ///
    /// # Errors
    /// An entry that this build cannot read: the replica must stop, never skip it.
    pub fn apply(&mut self, term: u64, payload: &[u8]) -> Result<Effect, DecodeError> {
        let mut effect = Effect::default();
        match Entry::decode(payload)? {
            Entry::Create(create) => self.create(&create),
            Entry::Append { append_time, append } => self.append(&append, append_time, term, &mut effect),
            Entry::Release(release) => self.release(release, term, &mut effect),
            Entry::Delete { topic } => self.delete(topic, &mut effect),
            Entry::Fence(fence) => self.fence(fence),
            Entry::ExpireProducers { before } => self.expire_producers(before, &mut effect),
            Entry::Trim { starts } => self.trim(&starts, &mut effect),
            Entry::Stamping { topic, stamped, change } => self.set_stamping(topic, stamped, change),
            Entry::Markers(markers) => self.end_transaction(&markers, term, &mut effect),
            Entry::Group(entry) if entry.term == term && self.partitions.contains_key(&entry.slot) => {
                effect.outcome = self.groups.apply(entry).err();
            }
            Entry::GroupCommits(entry)
                if entry.term == term && entry.commits.iter().all(|c| self.partitions.contains_key(&c.slot)) =>
            {
                self.groups.apply_commits(entry);
            }
            Entry::Transaction(entry) if entry.term == term && self.partitions.contains_key(&entry.slot) => {
                self.groups.advance(entry.clock_ms);
                if !self.transactions.apply(entry, self.groups.clock_ms()) {
                    effect.outcome = Some(Outcome::Fenced);
                }
            }
            Entry::Share(entry) if entry.term == term => self.share(entry, &mut effect),
            Entry::GroupClock { term: decided, clock_ms } if decided == term => self.groups.advance(clock_ms),
            Entry::Group(_)
            | Entry::GroupCommits(_)
            | Entry::Transaction(_)
            | Entry::Share(_)
            | Entry::GroupClock { .. } => {
                effect.outcome = Some(Outcome::Fenced);
            }
        }
        for released in &effect.released {
            if let Some(chain) = self.chains.get_mut(&released.object.broker) {
                chain.decide(released.object, released.batch_index, released.verdict);
            }
        }
        debug_assert!(
            effect
                .changed
                .iter()
                .all(|slot| { self.partitions.get(slot).is_none_or(|p| super::invariants::tail_is_sound(p)) })
        );
        Ok(effect)
    }

    pub fn partition(&self, id: &Partition) -> Option<&Arc<PartitionState>> {
        self.partitions.get(self.by_id.get(id)?)
    }

    pub fn slot(&self, slot: Slot) -> Option<&Arc<PartitionState>> {
        self.partitions.get(&slot)
    }

    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    pub fn transactions(&self) -> &Transactions {
        &self.transactions
    }

    pub fn shares(&self) -> &Shares {
        &self.shares
    }

    pub fn partitions(&self) -> impl Iterator<Item = &Arc<PartitionState>> {
        self.partitions.values()
    }

    /// The newest sequence of `broker`'s `epoch` taken here: what its next object must name as previous. `None` when a
    /// newer epoch has come: nothing of this one is next.
    pub fn last_taken(&self, broker: BrokerId, epoch: BrokerEpoch) -> Option<u64> {
        let Some(chain) = self.chains.get(&broker) else { return Some(0) };
        match epoch.cmp(&chain.epoch) {
            Ordering::Less => None,
            Ordering::Equal => Some(chain.last),
            Ordering::Greater => Some(0),
        }
    }

    /// The verdicts an object got when it was taken, found again without having been stored one by one.
    pub fn verdicts(&self, append: &Append) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for part in &append.parts {
            for (i, batch) in part.batches.iter().enumerate() {
                verdicts.push(self.verdict(append, part.slot, part.start, &part.batches[..i], batch, verdicts.len()));
            }
        }
        verdicts
    }

    fn verdict(
        &self,
        append: &Append,
        slot: Slot,
        start: u64,
        before: &[Batch],
        batch: &Batch,
        index: usize,
    ) -> Verdict {
        let object = append.object;
        let index = index as u32;
        if let Some(verdict) = self.chains.get(&object.broker).and_then(|chain| chain.exception(object, index)) {
            return verdict;
        }
        let Some(partition) = self.partitions.get(&slot) else {
            return Verdict::Refused(Refusal::UnknownPartition);
        };
        if batch.sequence.is_some_and(|claim| partition.is_held(claim.producer.id, object, index)) {
            return Verdict::Held;
        }
        let at = start + before.iter().map(|b| u64::from(b.len)).sum::<u64>();
        if let Some(pointer) = partition.pointers.find_object(object, at) {
            // The pointer may begin with an earlier batch of the part: count the offsets of those inside it.
            let mut position = start;
            let mut base = pointer.base;
            for earlier in before {
                if position >= pointer.start {
                    base += i64::from(earlier.span);
                }
                position += u64::from(earlier.len);
            }
            return Verdict::Appended { base, append_time: pointer.append_time };
        }
        match batch.sequence.and_then(|claim| partition.remembered(claim, batch.span)) {
            Some(base) => partition.duplicate(base),
            None => Verdict::Refused(Refusal::Forgotten),
        }
    }

    fn create(&mut self, create: &Create) {
        let before = self.partitions.values().filter(|p| p.id.topic == create.topic).map(|p| p.slot);
        let groups = self.shares.groups_in(before);
        for id in partitions_of(create) {
            if self.by_id.contains_key(&id) {
                continue;
            }
            let slot = self.slot_next;
            self.slot_next += 1;
            let state = PartitionState::new(id, slot, create.epoch_base, create.append_time);
            self.partitions.insert(slot, Arc::new(state));
            self.by_id.insert(id, slot);
            self.shares.begin(slot, &groups);
        }
        create.fences.iter().for_each(|fence| self.fence(*fence));
    }

    fn delete(&mut self, topic: TopicId, effect: &mut Effect) {
        let gone: Vec<Slot> = self.partitions.values().filter(|p| p.id.topic == topic).map(|p| p.slot).collect();
        for slot in gone {
            let Some(partition) = self.partitions.remove(&slot) else { continue };
            self.by_id.remove(&partition.id);
            for (_, producer) in partition.producers() {
                let refused = Verdict::Refused(Refusal::UnknownPartition);
                effect.released.extend(producer.held.iter().map(|held| Released::of(held, refused)));
            }
            self.groups.forget_slot(slot);
            self.transactions.forget_slot(slot);
            self.shares.forget_slot(slot);
            effect.changed.push(slot);
        }
        self.groups.forget_topic(topic);
    }

    fn set_stamping(&mut self, topic: TopicId, stamped: bool, change: u64) {
        for partition in self.partitions.values_mut().filter(|p| p.id.topic == topic && p.stamping_change < change) {
            let partition = Arc::make_mut(partition);
            (partition.append_time, partition.stamping_change) = (stamped, change);
        }
    }

    fn fence(&mut self, fence: Fence) {
        let current = self.fences.entry(fence.broker).or_default();
        *current = (*current).max((fence.epoch, fence.sequence));
    }

    fn append(&mut self, append: &Append, append_time: Timestamp, term: u64, effect: &mut Effect) {
        let object = append.object;
        let below_fence = self.fences.get(&object.broker).is_some_and(|f| (object.epoch, object.sequence) < *f);
        // What was taken keeps its verdicts, whatever was fenced since.
        let settled = match self.chains.entry(object.broker).or_default().turn(object, append.previous) {
            Turn::Taken => Some(Outcome::Taken(self.verdicts(append))),
            Turn::Fenced => Some(Outcome::Fenced),
            Turn::Next | Turn::Gap { .. } if below_fence => Some(Outcome::Fenced),
            Turn::Gap { last } => Some(Outcome::OutOfTurn { last }),
            Turn::Next => None,
        };
        if settled.is_some() {
            effect.outcome = settled;
            return;
        }
        let mut verdicts = Vec::with_capacity(append.parts.iter().map(|p| p.batches.len()).sum());
        for part in &append.parts {
            let mut partition = self.partitions.get_mut(&part.slot).map(Arc::make_mut);
            let before = partition.as_ref().map(|p| p.high_watermark);
            let mut start = part.start;
            for batch in &part.batches {
                let batch_index = verdicts.len() as u32;
                let at = Placed { object, batch_index, start, term, append_time };
                verdicts.push(match &mut partition {
                    Some(partition) => partition.append(batch, at, &mut effect.released),
                    None => Verdict::Refused(Refusal::UnknownPartition),
                });
                start += u64::from(batch.len);
            }
            if partition.map(|p| p.high_watermark) != before {
                effect.changed.push(part.slot);
            }
        }
        // A batch held earlier in this very object may have been released by a later one.
        for released in effect.released.iter().filter(|r| r.object == object) {
            verdicts[released.batch_index as usize] = released.verdict;
        }
        effect.released.retain(|r| r.object != object);
        self.chains.entry(object.broker).or_default().take(object, &verdicts);
        effect.outcome = Some(Outcome::Taken(verdicts));
    }

    fn release(&mut self, release: Release, term: u64, effect: &mut Effect) {
        if let Some(partition) = self.partitions.get_mut(&release.slot) {
            let partition = Arc::make_mut(partition);
            partition.release(release.producer_id, release.settled, term, &mut effect.released);
            effect.changed.push(release.slot);
        }
    }

    fn end_transaction(&mut self, markers: &Markers, term: u64, effect: &mut Effect) {
        let mut results = Vec::with_capacity(markers.targets.len());
        for target in &markers.targets {
            results.push(match self.partitions.get_mut(&target.slot) {
                None => Err(Refusal::UnknownPartition),
                Some(_) if target.groups => self.groups.end_transaction(target.slot, markers),
                Some(partition) => {
                    let partition = Arc::make_mut(partition);
                    let before = partition.high_watermark;
                    let result = partition.end_transaction(markers, term, &mut effect.released);
                    if partition.high_watermark != before {
                        effect.changed.push(target.slot);
                    }
                    result
                }
            });
        }
        effect.outcome = Some(Outcome::Marked(results));
    }

    fn share(&mut self, entry: ShareEntry, effect: &mut Effect) {
        let one = |update: ShareUpdate| {
            let partition = self.partitions.get(&update.slot).ok_or(Refusal::UnknownPartition)?;
            self.shares.apply(update, partition.log_start_offset)
        };
        effect.outcome = Some(Outcome::Marked(entry.updates.into_iter().map(one).collect()));
    }

    /// Whether [`Entry::ExpireProducers`] would change anything.
    pub fn has_producers_before(&self, time: Timestamp) -> bool {
        self.partitions.values().any(|partition| partition.has_producers_before(time))
            || self.groups.has_producers_before(time)
    }

    fn expire_producers(&mut self, before: Timestamp, effect: &mut Effect) {
        for partition in self.partitions.values_mut().filter(|p| p.has_producers_before(before)) {
            Arc::make_mut(partition).expire_producers(before, &mut effect.released);
        }
        self.groups.forget_producers(before);
    }

    fn trim(&mut self, starts: &[(Slot, Offset)], effect: &mut Effect) {
        for (slot, start) in starts {
            if let Some(partition) = self.partitions.get_mut(slot)
                && Arc::make_mut(partition).trim(*start)
            {
                self.shares.follow(*slot, *start);
                effect.changed.push(*slot);
            }
        }
    }

    pub(super) fn index_partitions(&mut self) {
        self.by_id = self.partitions.values().map(|p| (p.id, p.slot)).collect();
    }
}
