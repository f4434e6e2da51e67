use std::collections::HashMap;
use std::sync::{Arc, Mutex, RwLock, Weak};

use bytes::Bytes;
use milepost_raft::{Corrupt, LogPosition, StateMachine};
use tokio::sync::Notify;

use crate::shard::{Outcome, Slot, State};

/// A reader that waits for news of several partitions at once.
pub type Waiter = Arc<Notify>;

#[derive(Default)]
struct Applied {
    state: State,
    index: u64,
}

/// This broker's copy of a shard's state, fed by Raft and read by fetches.
#[derive(Default)]
pub struct Replica {
    state: RwLock<Applied>,
    waiters: Mutex<HashMap<Slot, Vec<Weak<Notify>>>>,
}

impl Replica {
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
