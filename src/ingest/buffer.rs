use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::ingest::budget::Budget;
use crate::types::StorageClass;
use crate::upload::{Pending, Sealed};

/// Calls waiting to be taken up.
const QUEUE_MAX: usize = 1024;

#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub puts_per_second: f64,
    pub puts_burst: f64,
    /// A buffer of this size is sealed whether or not the budget has a token.
    pub object_bytes: usize,
}

/// The broker is stopping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the broker is stopping")]
pub struct Closed;

/// Where validated batches are handed in. A cheap clone.
#[derive(Clone)]
pub struct Ingest {
    queues: BTreeMap<StorageClass, mpsc::Sender<Vec<Pending>>>,
}

impl Ingest {
    /// Starts a task for each class, which owns its open buffer; it ends when the last handle is dropped and the rest is
    /// sealed. All classes share one budget.
    pub fn start(
        settings: Settings,
        classes: impl IntoIterator<Item = StorageClass>,
        uploads: mpsc::Sender<Sealed>,
    ) -> Ingest {
        let budget = Budget::new(settings.puts_per_second, settings.puts_burst, Instant::now());
        let budget = Arc::new(Mutex::new(budget));
        let start = |class| {
            let (queue, calls) = mpsc::channel(QUEUE_MAX);
            let (budget, uploads) = (budget.clone(), uploads.clone());
            let buffer = Buffer { class, settings, budget, has_token: false, pending: Vec::new(), bytes: 0, uploads };
            tokio::spawn(buffer.run(calls));
            (class, queue)
        };
        Ingest { queues: classes.into_iter().map(start).collect() }
    }

    /// Whether this broker has a store for objects of the class.
    pub fn takes(&self, class: StorageClass) -> bool {
        self.queues.contains_key(&class)
    }

    /// Hands batches in; returns when they are in line. Calls of one task for one class keep their order.
    ///
    /// # Errors
    /// The broker is stopping, or takes nothing of this class.
    pub async fn submit(&self, class: StorageClass, batches: Vec<Pending>) -> Result<(), Closed> {
        self.queues.get(&class).ok_or(Closed)?.send(batches).await.map_err(|_| Closed)
    }
}

struct Buffer {
    class: StorageClass,
    settings: Settings,
    budget: Arc<Mutex<Budget>>,
    /// Taken from the budget for the buffer that is open.
    has_token: bool,
    pending: Vec<Pending>,
    bytes: usize,
    uploads: mpsc::Sender<Sealed>,
}

impl Buffer {
    async fn run(mut self, mut calls: mpsc::Receiver<Vec<Pending>>) {
        let mut open = true;
        while open {
            match calls.recv().await {
                Some(batches) => self.add(batches),
                None => open = false,
            }
            while open && !self.pending.is_empty() {
                self.add_what_is_there(&mut calls);
                if !self.may_seal() {
                    let wait = self.budget().wait(Instant::now());
                    tokio::select! {
                        call = calls.recv() => match call {
                            Some(batches) => self.add(batches),
                            None => open = false,
                        },
                        () = sleep(wait) => {}
                    }
                    continue;
                }
                // An older buffer waits: this one keeps growing, up to the size of an object.
                tokio::select! {
                    biased;
                    room = self.uploads.clone().reserve_owned() => match room {
                        Ok(room) => drop(room.send(self.seal())),
                        Err(_) => return,
                    },
                    call = calls.recv(), if self.bytes < self.settings.object_bytes => match call {
                        Some(batches) => self.add(batches),
                        None => open = false,
                    },
                }
            }
        }
        if !self.pending.is_empty() {
            let last = self.seal();
            // Without an uploader the replies are dropped with it, which their waiters see.
            let _ = self.uploads.send(last).await;
        }
    }

    /// A full buffer is sealed anyway, and uses up a token if there is one: so requests stay within
    /// max(budget, bytes ÷ object_bytes).
    fn may_seal(&mut self) -> bool {
        // Taken at once, or two buffers would be sealed for one token.
        if !self.has_token {
            let taken = self.budget().take(Instant::now());
            self.has_token = taken;
        }
        self.has_token || self.is_full()
    }

    fn budget(&self) -> MutexGuard<'_, Budget> {
        self.budget.lock().expect("no holder panics")
    }

    fn is_full(&self) -> bool {
        self.bytes >= self.settings.object_bytes
    }

    fn add(&mut self, batches: Vec<Pending>) {
        self.bytes += batches.iter().map(|p| p.batch.bytes().len()).sum::<usize>();
        self.pending.extend(batches);
    }

    fn add_what_is_there(&mut self, calls: &mut mpsc::Receiver<Vec<Pending>>) {
        while !self.is_full()
            && let Ok(batches) = calls.try_recv()
        {
            self.add(batches);
        }
    }

    fn seal(&mut self) -> Sealed {
        self.has_token = false;
        self.bytes = 0;
        Sealed { class: self.class, pending: std::mem::take(&mut self.pending) }
    }
}
