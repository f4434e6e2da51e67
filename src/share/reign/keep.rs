//! Deliveries in memory: begun from what is applied, and what becomes of them on its way into the log.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::time::Instant;

use crate::admin::ShareSettings;
use crate::protocol::ErrorCode;
use crate::shard::Slot;
use crate::shard::share::{Change, Run, ShareUpdate};
use crate::share::delivery::Delivery;
use crate::share::reign::{DELIVERIES_MAX, Kept, Key, Of, Reign, Then};
use crate::share::wire::Described;
use crate::types::{Offset, Partition};

impl Reign {
    /// What a group has in a partition, or the error of one that it never came to: nothing of it is held.
    pub(super) fn live(&mut self, group: &Arc<str>, partition: &Partition) -> Result<(Key, &mut Delivery), ErrorCode> {
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
    pub(super) fn load(&mut self, key: &Key) -> Result<(), ErrorCode> {
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

    pub(super) fn start(&mut self, key: &Key, start: Offset, pending: Option<(u64, usize)>) {
        self.suspend(key);
        let last = self.shard.replica().read(|state| state.shares().get(key.0, &key.1).map_or(0, |now| now.epoch));
        self.update(key.clone(), Change::Begin { epoch: last + 1, start }, Of::Begin, pending);
    }

    /// Nothing is delivered until the log has what was decided.
    pub(super) fn suspend(&mut self, key: &Key) {
        let before = self.deliveries.insert(key.clone(), Kept::default());
        if let Some(due) = before.and_then(|kept| kept.due) {
            self.due.remove(&(due, key.clone()));
        }
    }

    pub(super) fn expire(&mut self) {
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

    pub(super) fn let_go(&mut self, key: Key, runs: Vec<Run>) {
        self.news = true;
        match runs.is_empty() {
            true => self.reschedule(&key),
            false => self.moved(key, runs, Of::LetGo, None),
        }
    }

    pub(super) fn moved(&mut self, key: Key, runs: Vec<Run>, what: Of, pending: Option<(u64, usize)>) {
        self.reschedule(&key);
        if let Some(live) = self.deliveries.get(&key).and_then(|kept| kept.live.as_ref()) {
            let change = Change::Move { epoch: live.epoch, start: live.start(), runs };
            self.update(key, change, what, pending);
        }
    }

    pub(super) fn reschedule(&mut self, key: &Key) {
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

    pub(super) fn update(&mut self, key: Key, change: Change, what: Of, pending: Option<(u64, usize)>) {
        let update = ShareUpdate { slot: key.0, group: key.1.to_string(), change };
        self.updates.push((update, Then { key, what, pending }));
    }

    pub(super) fn describe(&self, group: &str, partitions: Option<&[Partition]>) -> Vec<Described> {
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
    pub(super) fn slots_of(&self, group: &str) -> BTreeSet<Slot> {
        let known = self.deliveries.keys().filter(|(_, of)| **of == *group).map(|(slot, _)| *slot);
        let mut slots: BTreeSet<Slot> = known.collect();
        self.shard.replica().read(|state| slots.extend(state.shares().of_group(group).map(|(slot, _)| slot)));
        slots
    }

    pub(super) fn slot(&self, partition: &Partition) -> Result<Slot, ErrorCode> {
        let slot = self.shard.replica().read(|state| state.partition(partition).map(|partition| partition.slot));
        slot.ok_or(ErrorCode::UnknownTopicOrPartition)
    }

    pub(super) fn settings(&self, group: &str) -> ShareSettings {
        let view = self.cluster.view();
        ShareSettings::of(group, &view, self.defaults.layers(&view, self.cluster.broker_id()))
    }
}
