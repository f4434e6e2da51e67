use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::ingest::budget::Budget;
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
    queue: mpsc::Sender<Vec<Pending>>,
}

impl Ingest {
    /// Starts the task that owns the open buffer; it ends when the last handle is dropped and the rest is sealed.
    pub fn start(settings: Settings, uploads: mpsc::Sender<Sealed>) -> Ingest {
        let (queue, calls) = mpsc::channel(QUEUE_MAX);
        let budget = Budget::new(settings.puts_per_second, settings.puts_burst, Instant::now());
        tokio::spawn(Buffer { settings, budget, pending: Vec::new(), bytes: 0, uploads }.run(calls));
        Ingest { queue }
    }

    /// Hands batches in; returns when they are in line. Calls of one task keep their order.
    pub async fn submit(&self, batches: Vec<Pending>) -> Result<(), Closed> {
        self.queue.send(batches).await.map_err(|_| Closed)
    }
}

struct Buffer {
    settings: Settings,
    budget: Budget,
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
                    let wait = self.budget.wait(Instant::now());
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
        self.is_full() || self.budget.wait(Instant::now()).is_zero()
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
        self.budget.take(Instant::now());
        self.bytes = 0;
        Sealed { pending: std::mem::take(&mut self.pending) }
    }
}
