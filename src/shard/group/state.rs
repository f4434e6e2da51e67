use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::shard::Slot;
use crate::shard::group::pending::Pending;
use crate::shard::group::{Change, Consumer, GroupCommit, GroupCommits, GroupEntry, Share};
use crate::shard::marker::Markers;
use crate::shard::verdict::{Outcome, Refusal};
use crate::types::{LeaderEpoch, Offset, Partition, Timestamp, TopicId, arc_map};

/// All groups of a shard.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Groups {
    /// Milliseconds that coordinators of this shard have counted, by monotonic clocks, from its first entry on. It
    /// stands still between two coordinators, so ages are never longer than they are.
    clock_ms: u64,
    #[serde(with = "arc_map")]
    slots: BTreeMap<Slot, Arc<SlotGroups>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct SlotGroups {
    #[serde(with = "arc_map")]
    by_id: BTreeMap<String, Arc<Group>>,
    pending: Pending,
    /// Commits so far.
    commits: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    pub kind: Kind,
    pub offsets: BTreeMap<Partition, Committed>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Offsets only: its consumers assign partitions by hand.
    #[default]
    #[serde(rename = "s")]
    Simple,
    #[serde(rename = "c")]
    Classic(Box<Classic>),
    #[serde(rename = "n")]
    Consumer(Box<Consumer>),
    #[serde(rename = "h")]
    Share(Box<Share>),
}

/// A classic group as of its last completed sync, or since its last member left.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Classic {
    pub generation: i32,
    pub protocol_type: String,
    /// None without members, as is `leader`.
    pub protocol_name: Option<String>,
    pub leader: Option<String>,
    pub members: Vec<Member>,
    /// On the shard's clock; counts for groups without members.
    pub since_ms: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub id: String,
    /// Static membership (KIP-345).
    pub instance: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub rebalance_timeout_ms: i32,
    pub session_timeout_ms: i32,
    /// For the protocol that was chosen.
    #[serde(with = "serde_bytes")]
    pub metadata: Vec<u8>,
    #[serde(with = "serde_bytes")]
    pub assignment: Vec<u8>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committed {
    pub offset: Offset,
    /// -1 when the client did not say.
    pub leader_epoch: LeaderEpoch,
    pub metadata: String,
    /// When, on the shard's clock.
    pub at_ms: u64,
    /// Asked for by the client (OffsetCommit up to version 4); otherwise the broker's setting counts.
    pub retention_ms: Option<u64>,
    /// Its turn among the slot's commits: of two, the later one counts, though it may have waited for its transaction.
    pub turn: u64,
}

impl Group {
    pub fn classic(&self) -> Option<&Classic> {
        match &self.kind {
            Kind::Classic(classic) => Some(classic),
            _ => None,
        }
    }

    pub fn consumer(&self) -> Option<&Consumer> {
        match &self.kind {
            Kind::Consumer(consumer) => Some(consumer),
            _ => None,
        }
    }

    pub fn share(&self) -> Option<&Share> {
        match &self.kind {
            Kind::Share(share) => Some(share),
            _ => None,
        }
    }

    pub fn has_members(&self) -> bool {
        match &self.kind {
            Kind::Simple => false,
            Kind::Classic(classic) => !classic.members.is_empty(),
            Kind::Consumer(consumer) => !consumer.members.is_empty(),
            Kind::Share(share) => !share.members.is_empty(),
        }
    }
}

impl Groups {
    pub fn clock_ms(&self) -> u64 {
        self.clock_ms
    }

    pub fn get(&self, slot: Slot, id: &str) -> Option<&Arc<Group>> {
        self.slots.get(&slot)?.by_id.get(id)
    }

    pub fn in_slot(&self, slot: Slot) -> impl Iterator<Item = (&String, &Arc<Group>)> {
        self.slots.get(&slot).into_iter().flat_map(|groups| &groups.by_id)
    }

    pub fn all(&self) -> impl Iterator<Item = (Slot, &String, &Arc<Group>)> {
        self.slots.iter().flat_map(|(slot, groups)| groups.by_id.iter().map(|(id, group)| (*slot, id, group)))
    }

    pub(in crate::shard) fn advance(&mut self, clock_ms: u64) {
        self.clock_ms = self.clock_ms.max(clock_ms);
    }

    /// Partitions of which a transaction that is not over has committed an offset.
    pub fn pending(&self, slot: Slot, group: &str) -> impl Iterator<Item = &Partition> {
        self.slots.get(&slot).into_iter().flat_map(move |groups| groups.pending.of(group))
    }

    /// A transaction is over: its offsets count from now on, or never.
    pub(in crate::shard) fn end_transaction(&mut self, slot: Slot, marker: &Markers) -> Result<(), Refusal> {
        let groups = Arc::make_mut(self.slots.entry(slot).or_default());
        for ((group, partition), committed) in groups.pending.end(marker)? {
            let group = Arc::make_mut(groups.by_id.entry(group).or_default());
            if group.offsets.get(&partition).is_none_or(|now| now.turn < committed.turn) {
                group.offsets.insert(partition, committed);
            }
        }
        Ok(())
    }

    /// # Errors
    /// A commit within a transaction that is over; a step that does not follow on what its group is. No group is changed.
    pub(in crate::shard) fn apply(&mut self, entry: GroupEntry) -> Result<(), Outcome> {
        self.advance(entry.clock_ms);
        let group = self.get(entry.slot, &entry.group);
        let step = match &entry.change {
            Change::Consumer(change) => Some((
                change.revision,
                group.and_then(|group| group.consumer()).map_or(0, |consumer| consumer.revision),
            )),
            Change::Share(change) => {
                Some((change.revision, group.and_then(|group| group.share()).map_or(0, |share| share.revision)))
            }
            _ => None,
        };
        if step.is_some_and(|(makes, is)| makes.checked_sub(1) != Some(is)) {
            return Err(Outcome::Fenced);
        }
        if let Change::Commit { retention_ms, offsets } = entry.change {
            self.commit(GroupCommit { slot: entry.slot, group: entry.group, retention_ms, offsets });
            return Ok(());
        }
        let now_ms = self.clock_ms;
        let groups = Arc::make_mut(self.slots.entry(entry.slot).or_default());
        match entry.change {
            Change::Commit { .. } => {}
            Change::TransactionalCommit { producer, txn_no, offsets } => {
                groups.commits += 1;
                let turn = groups.commits;
                let stamped = |(at, committed)| (at, Committed { at_ms: now_ms, turn, ..committed });
                groups
                    .pending
                    .add(producer, txn_no, &entry.group, offsets.into_iter().map(stamped).collect())
                    .map_err(Outcome::Refused)?;
            }
            Change::Save(classic) => {
                let group = Arc::make_mut(groups.by_id.entry(entry.group).or_default());
                group.kind = Kind::Classic(Box::new(Classic { since_ms: now_ms, ..classic }));
            }
            Change::Consumer(change) => {
                let group = Arc::make_mut(groups.by_id.entry(entry.group).or_default());
                if group.consumer().is_none() {
                    group.kind = Kind::Consumer(Box::default());
                }
                if let Kind::Consumer(consumer) = &mut group.kind {
                    consumer.apply(*change);
                }
            }
            Change::Share(change) => {
                let group = Arc::make_mut(groups.by_id.entry(entry.group).or_default());
                if group.share().is_none() {
                    group.kind = Kind::Share(Box::default());
                }
                if let Kind::Share(share) = &mut group.kind {
                    share.apply(*change);
                }
            }
            Change::Delete => {
                groups.pending.forget_group(&entry.group);
                groups.by_id.remove(&entry.group);
            }
            Change::DeleteOffsets { partitions, until_ms } => {
                groups.pending.forget(&entry.group, &partitions, until_ms);
                if let Some(group) = groups.by_id.get_mut(&entry.group) {
                    let group = Arc::make_mut(group);
                    // What was committed since it was looked at stays.
                    let old = |partition: &Partition| group.offsets.get(partition).is_some_and(|c| c.at_ms <= until_ms);
                    let gone: Vec<Partition> = partitions.into_iter().filter(old).collect();
                    gone.iter().for_each(|partition| drop(group.offsets.remove(partition)));
                }
            }
            Change::DeleteIfUnused => {
                let unused = |g: &Arc<Group>| g.offsets.is_empty() && !g.has_members();
                if groups.by_id.get(&entry.group).is_some_and(unused)
                    && groups.pending.of(&entry.group).next().is_none()
                {
                    groups.by_id.remove(&entry.group);
                }
            }
        }
        self.drop_if_empty(entry.slot);
        Ok(())
    }

    fn drop_if_empty(&mut self, slot: Slot) {
        if self.slots.get(&slot).is_some_and(|groups| groups.by_id.is_empty() && groups.pending.is_empty()) {
            self.slots.remove(&slot);
        }
    }

    pub(in crate::shard) fn has_producers_before(&self, time: Timestamp) -> bool {
        self.slots.values().any(|groups| groups.pending.has_producers_before(time))
    }

    /// See [`Entry::ExpireProducers`](crate::shard::Entry::ExpireProducers).
    pub(in crate::shard) fn forget_producers(&mut self, before: Timestamp) {
        let slots: Vec<Slot> = self.slots.keys().copied().collect();
        for slot in slots {
            if let Some(groups) = self.slots.get_mut(&slot).filter(|groups| !groups.pending.is_empty()) {
                Arc::make_mut(groups).pending.forget_producers(before);
            }
            self.drop_if_empty(slot);
        }
    }

    pub(in crate::shard) fn apply_commits(&mut self, entry: GroupCommits) {
        self.advance(entry.clock_ms);
        entry.commits.into_iter().for_each(|commit| self.commit(commit));
    }

    fn commit(&mut self, commit: GroupCommit) {
        let (at_ms, retention_ms) = (self.clock_ms, commit.retention_ms);
        let groups = Arc::make_mut(self.slots.entry(commit.slot).or_default());
        groups.commits += 1;
        let turn = groups.commits;
        let group = Arc::make_mut(groups.by_id.entry(commit.group).or_default());
        for (partition, committed) in commit.offsets {
            group.offsets.insert(partition, Committed { at_ms, retention_ms, turn, ..committed });
        }
    }

    /// The topic is deleted: nobody asks for its offsets any more.
    pub(in crate::shard) fn forget_topic(&mut self, topic: TopicId) {
        for groups in self.slots.values_mut().filter(|groups| !groups.pending.is_empty()) {
            Arc::make_mut(groups).pending.forget_topic(topic);
        }
        let of_topic = |group: &Arc<Group>| group.offsets.keys().any(|partition| partition.topic == topic);
        for groups in self.slots.values_mut().filter(|groups| groups.by_id.values().any(of_topic)) {
            for group in Arc::make_mut(groups).by_id.values_mut().filter(|group| of_topic(group)) {
                Arc::make_mut(group).offsets.retain(|partition, _| partition.topic != topic);
            }
        }
    }

    pub(in crate::shard) fn forget_slot(&mut self, slot: Slot) {
        self.slots.remove(&slot);
    }
}
