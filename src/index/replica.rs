use std::collections::HashMap;
use std::sync::{Arc, Mutex, RwLock, Weak};

use bytes::Bytes;
use milepost_raft::{Corrupt, LogPosition, StateMachine};
use tokio::sync::{Notify, mpsc};

use crate::shard::{Entry, Outcome, Slot, State};
use crate::types::{ByteRange, ObjectId};

/// A reader that waits for news of several partitions at once.
pub type Waiter = Arc<Notify>;

type Waiters = Arc<Mutex<HashMap<Slot, Vec<Weak<Notify>>>>>;

/// An entry on its way into the log while somebody waits here. Looked into elsewhere: Raft does not wait for that.
pub struct Incoming {
    waiters: Waiters,
    payload: Bytes,
}

impl Incoming {
    /// What of an object somebody still waits for. One range: most objects are fetched whole. The object is durable, since
    /// pointers to it leave the broker that wrote it only then.
    pub fn waited_for(&self) -> Option<(ObjectId, ByteRange)> {
        // An entry that cannot be read is apply's to complain of.
        let Ok(Entry::Append { append, .. }) = Entry::decode(&self.payload) else { return None };
        let waiters = self.waiters.lock().expect("no holder panics");
        let somebody = |slot| waiters.get(slot).is_some_and(|all| all.iter().any(|w| w.strong_count() > 0));
        let mut parts = append.parts.iter().filter(|part| somebody(&part.slot));
        let first = parts.next()?;
        let last = parts.next_back().unwrap_or(first);
        let len: u64 = last.batches.iter().map(|batch| u64::from(batch.len)).sum();
        Some((append.object, (first.start..last.start.saturating_add(len)).into()))
    }
}

#[derive(Default)]
struct Applied {
    state: State,
    index: u64,
}

/// This broker's copy of a shard's state, fed by Raft and read by fetches.
#[derive(Default)]
pub struct Replica {
    state: RwLock<Applied>,
    waiters: Waiters,
    incoming: Option<mpsc::Sender<Incoming>>,
}

impl Replica {
    /// Tells of entries that come while readers wait, before they are committed.
    pub fn telling(incoming: mpsc::Sender<Incoming>) -> Replica {
        Replica { incoming: Some(incoming), ..Replica::default() }
    }

    /// Reads the applied state. `read` must be short: apply waits for it.
    pub fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.state.read().expect("no writer panics").state)
    }

    /// The applied index and the state at it.
    pub fn applied(&self) -> (u64, State) {
        let applied = self.state.read().expect("no writer panics");
        (applied.index, applied.state.clone())
    }

    /// Wakes `waiter` once when the partition changes. Register, then look, then wait: so no change is missed.
    pub fn wake_on_change(&self, slot: Slot, waiter: &Waiter) {
        let mut waiters = self.waiters.lock().expect("no holder panics");
        let list = waiters.entry(slot).or_default();
        list.retain(|w| w.strong_count() > 0);
        let waiter = Arc::downgrade(waiter);
        if !list.iter().any(|w| w.ptr_eq(&waiter)) {
            list.push(waiter);
        }
    }

    fn anybody_waits(&self) -> bool {
        !self.waiters.lock().expect("no holder panics").is_empty()
    }

    fn wake(&self, changed: &[Slot]) {
        let mut waiters = self.waiters.lock().expect("no holder panics");
        for slot in changed {
            let list = waiters.remove(slot).into_iter().flatten();
            list.filter_map(|waiter| waiter.upgrade()).for_each(|waiter| waiter.notify_one());
        }
    }
}

impl StateMachine for Replica {
    /// The verdicts on an append; `None` for other entries.
    type Response = Option<Outcome>;

    fn apply(&self, at: LogPosition, payload: Bytes) -> Result<Option<Outcome>, Corrupt> {
        let mut applied = self.state.write().expect("no writer panics");
        let effect = applied.state.apply(at.term, &payload).map_err(|e| Corrupt(e.to_string()))?;
        applied.index = at.index;
        drop(applied);
        self.wake(&effect.changed);
        Ok(effect.outcome)
    }

    fn appended(&self, payload: &Bytes) {
        if let Some(incoming) = &self.incoming
            && self.anybody_waits()
        {
            // When the queue is full the readers fetch for themselves.
            let _ = incoming.try_send(Incoming { waiters: self.waiters.clone(), payload: payload.clone() });
        }
    }

    fn snapshot(&self) -> Box<dyn FnOnce() -> Bytes + Send> {
        let state = self.read(State::clone);
        Box::new(move || state.to_snapshot())
    }

    fn restore(&self, at: LogPosition, snapshot: Bytes) -> Result<(), Corrupt> {
        let state = State::from_snapshot(&snapshot).map_err(|e| Corrupt(e.to_string()))?;
        let changed: Vec<Slot> = state.partitions().map(|p| p.slot).collect();
        *self.state.write().expect("no writer panics") = Applied { state, index: at.index };
        self.wake(&changed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::{Append, Batch, Part};

    fn append(slots: &[Slot]) -> Bytes {
        let batch = Batch { len: 10, span: 1, max_timestamp: 0, sequence: None };
        let part = |(start, slot): (u64, &Slot)| Part { slot: *slot, start: start * 10, batches: vec![batch] };
        let object =
            ObjectId { broker: 1, epoch: 1, sequence: 7, attempt: 1, class: crate::types::StorageClass::Regional };
        let append = Append { object, previous: 6, parts: (0..).zip(slots).map(part).collect() };
        Entry::Append { append_time: 0, append }.encode()
    }

    #[test]
    fn only_what_somebody_still_waits_for_is_told_of() {
        let (told, mut incoming) = mpsc::channel(4);
        let replica = Replica::telling(told);
        replica.appended(&append(&[1, 2, 3]));
        assert!(incoming.try_recv().is_err(), "nobody waits for anything");
        let waiter = Waiter::default();
        [2, 4].iter().for_each(|slot| replica.wake_on_change(*slot, &waiter));
        let mut after = |slots: &[Slot]| {
            replica.appended(&append(slots));
            Some(incoming.try_recv().unwrap().waited_for()?.1)
        };
        assert_eq!(after(&[1, 3]), None);
        assert_eq!(after(&[1, 2, 3, 4, 5]), Some(ByteRange::new(10, 30)));
        assert_eq!(after(&[1, 2, 3]), Some(ByteRange::new(10, 10)));
        drop(waiter);
        assert_eq!(after(&[2]), None);
    }

    #[test]
    fn a_full_queue_holds_up_nothing() {
        let (told, incoming) = mpsc::channel(1);
        let replica = Replica::telling(told);
        let waiter = Waiter::default();
        replica.wake_on_change(2, &waiter);
        (0..5).for_each(|_| replica.appended(&append(&[2])));
        assert_eq!(incoming.len(), 1);
    }
}
