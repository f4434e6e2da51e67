//! A store that misbehaves on purpose, for tests and benches: latency, errors, replies lost after the effect, effects
//! that come late, calls that never return, listings that leave keys out. The same seed gives the same faults for
//! the same sequence of calls.

use std::collections::{BTreeMap, VecDeque};
use std::f64::consts::TAU;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::{Error, Head, Key, Page, Prefix, Start, Store};
use crate::types::ByteRange;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Put,
    /// Whole or ranged.
    Get,
    Head,
    List,
    Delete,
    Now,
}

#[derive(Debug, Clone)]
pub enum Fault {
    /// [`Error::Retryable`], without effect.
    Retryable,
    /// [`Error::Unknown`], without effect.
    Unknown,
    /// [`Error::Refused`], without effect.
    Refused,
    /// Takes effect, then [`Error::Unknown`].
    LostReply,
    /// [`Error::Unknown`] at once, takes effect after this time.
    Late(Duration),
    /// [`Error::Unknown`] at once, takes effect when the gate is opened.
    LateAt(Gate),
    /// Never returns and has no effect.
    Hang,
    /// Never returns; takes effect when the gate is opened, even if the caller has gone.
    HangLateAt(Gate),
    /// Waits at the gate, then [`Error::Refused`], without effect.
    RefusedAt(Gate),
    /// Waits at the gate before it goes on.
    Gate(Gate),
    /// A page of a listing lacks every second key. Nothing for other operations.
    Incomplete,
}

/// Lets a test await that a call has come, and decide when it goes on.
#[derive(Debug, Clone)]
pub struct Gate {
    arrived: Arc<Semaphore>,
    opened: Arc<Semaphore>,
}

impl Default for Gate {
    fn default() -> Self {
        Gate { arrived: Arc::new(Semaphore::new(0)), opened: Arc::new(Semaphore::new(0)) }
    }
}

impl Gate {
    /// Returns once for each call that has come, and once for each late effect.
    pub async fn arrival(&self) {
        self.arrived.acquire().await.expect("never closed").forget();
    }

    /// Lets one call pass, now or when it comes.
    pub fn open(&self) {
        self.opened.add_permits(1);
    }

    async fn pass(&self) {
        self.arrived.add_permits(1);
        self.opened.acquire().await.expect("never closed").forget();
    }
}

/// A log-normal distribution through two of its quantiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latency {
    pub p50: Duration,
    pub p99: Duration,
}

impl Latency {
    fn sample(&self, rng: &mut StdRng) -> Duration {
        let (median, p99) = (self.p50.as_secs_f64(), self.p99.as_secs_f64());
        if median == 0.0 || p99 <= median {
            return self.p50;
        }
        // Box-Muller; 2.326 is the 99th percentile of the normal distribution.
        let normal = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt() * (TAU * rng.random::<f64>()).cos();
        Duration::from_secs_f64(median * ((p99 / median).ln() / 2.326 * normal).exp())
    }
}

/// The wrapper. Clones share their faults and counts.
#[derive(Debug, Clone)]
pub struct Faulty {
    inner: Arc<dyn Store>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    rng: StdRng,
    next: BTreeMap<Operation, VecDeque<Fault>>,
    rates: Vec<(Operation, f64, Fault)>,
    latency: BTreeMap<Operation, Latency>,
    calls: BTreeMap<Operation, u64>,
}

impl Faulty {
    /// Passes everything on until told otherwise.
    pub fn new(inner: Arc<dyn Store>, seed: u64) -> Faulty {
        let state = State {
            rng: StdRng::seed_from_u64(seed),
            next: BTreeMap::new(),
            rates: Vec::new(),
            latency: BTreeMap::new(),
            calls: BTreeMap::new(),
        };
        Faulty { inner, state: Arc::new(Mutex::new(state)) }
    }

    /// The next call of this operation that has no fault yet gets this one.
    pub fn next(&self, operation: Operation, fault: Fault) {
        self.locked(|state| state.next.entry(operation).or_default().push_back(fault));
    }

    pub fn next_put(&self, fault: Fault) {
        self.next(Operation::Put, fault);
    }

    pub fn next_get(&self, fault: Fault) {
        self.next(Operation::Get, fault);
    }

    /// Each call of this operation gets the fault with this probability, in addition to earlier rates.
    pub fn rate(&self, operation: Operation, probability: f64, fault: Fault) {
        self.locked(|state| state.rates.push((operation, probability, fault)));
    }

    pub fn latency(&self, operation: Operation, latency: Latency) {
        self.locked(|state| state.latency.insert(operation, latency));
    }

    /// From now on nothing goes wrong; latencies and counts stay.
    pub fn heal(&self) {
        self.locked(|state| {
            state.next.clear();
            state.rates.clear();
        });
    }

    /// Calls that have come so far, whatever became of them.
    pub fn calls(&self, operation: Operation) -> u64 {
        self.locked(|state| state.calls.get(&operation).copied().unwrap_or(0))
    }

    fn locked<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().expect("nothing panics under this lock"))
    }

    fn draw(&self, operation: Operation) -> (Duration, Option<Fault>) {
        self.locked(|state| {
            *state.calls.entry(operation).or_default() += 1;
            let latency = state.latency.get(&operation).map_or(Duration::ZERO, |l| l.sample(&mut state.rng));
            let queued = state.next.get_mut(&operation).and_then(VecDeque::pop_front);
            let fault = queued.or_else(|| {
                let rates = state.rates.iter().filter(|(of, ..)| *of == operation);
                // Every rate draws, so that one fault does not shift the draws of later calls.
                let drawn: Vec<_> = rates.filter(|(_, p, _)| state.rng.random::<f64>() < *p).collect();
                drawn.first().map(|(.., fault)| fault.clone())
            });
            (latency, fault)
        })
    }

    /// `run` does the real thing; it owns what it needs, since a late effect outlives the call.
    async fn pass<T: Send + 'static>(
        &self,
        operation: Operation,
        name: &'static str,
        run: impl FnOnce(Arc<dyn Store>) -> BoxFuture<'static, Result<T, Error>> + Send,
    ) -> Result<(T, bool), Error> {
        let (latency, fault) = self.draw(operation);
        if !latency.is_zero() {
            sleep(latency).await;
        }
        let call = run(self.inner.clone());
        match fault {
            None => Ok((call.await?, false)),
            Some(Fault::Incomplete) => Ok((call.await?, true)),
            Some(Fault::Gate(gate)) => {
                gate.pass().await;
                Ok((call.await?, false))
            }
            Some(Fault::Retryable) => Err(Error::retryable(name, "injected")),
            Some(Fault::Unknown) => Err(Error::unknown(name, "injected")),
            Some(Fault::Refused) => Err(Error::refused(name, "injected")),
            Some(Fault::LostReply) => {
                call.await?;
                Err(Error::unknown(name, "injected: reply lost"))
            }
            Some(Fault::Late(delay)) => {
                tokio::spawn(async move {
                    sleep(delay).await;
                    // Its caller was told long ago that the outcome is unknown.
                    let _ = call.await;
                });
                Err(Error::unknown(name, "injected: effect comes late"))
            }
            Some(Fault::LateAt(gate)) => {
                tokio::spawn(at_the_gate(gate, call));
                Err(Error::unknown(name, "injected: effect comes late"))
            }
            Some(Fault::HangLateAt(gate)) => {
                tokio::spawn(at_the_gate(gate, call));
                std::future::pending().await
            }
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::RefusedAt(gate)) => {
                gate.pass().await;
                Err(Error::refused(name, "injected"))
            }
        }
    }
}

/// A late effect, which tells the gate that it has come.
async fn at_the_gate<T>(gate: Gate, call: BoxFuture<'static, Result<T, Error>>) {
    gate.pass().await;
    // Its caller gave it up long ago.
    let _ = call.await;
    gate.arrived.add_permits(1);
}

#[async_trait]
impl Store for Faulty {
    async fn put_if_absent(&self, key: &Key, bytes: Bytes) -> Result<(), Error> {
        let key = key.clone();
        let run = |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
            Box::pin(async move { store.put_if_absent(&key, bytes).await })
        };
        self.pass(Operation::Put, "put", run).await.map(|((), _)| ())
    }

    async fn get(&self, key: &Key) -> Result<Bytes, Error> {
        let key = key.clone();
        let run = |store: Arc<dyn Store>| -> BoxFuture<'static, _> { Box::pin(async move { store.get(&key).await }) };
        self.pass(Operation::Get, "get", run).await.map(|(bytes, _)| bytes)
    }

    async fn get_range(&self, key: &Key, range: ByteRange) -> Result<Bytes, Error> {
        let key = key.clone();
        let run = |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
            Box::pin(async move { store.get_range(&key, range).await })
        };
        self.pass(Operation::Get, "get", run).await.map(|(bytes, _)| bytes)
    }

    async fn head(&self, key: &Key) -> Result<Head, Error> {
        let key = key.clone();
        let run = |store: Arc<dyn Store>| -> BoxFuture<'static, _> { Box::pin(async move { store.head(&key).await }) };
        self.pass(Operation::Head, "head", run).await.map(|(head, _)| head)
    }

    async fn list(&self, prefix: &Prefix, start: Start) -> Result<Page, Error> {
        let prefix = prefix.clone();
        let run = |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
            Box::pin(async move { store.list(&prefix, start).await })
        };
        let (mut page, incomplete) = self.pass(Operation::List, "list", run).await?;
        if incomplete {
            let mut keep = false;
            page.objects.retain(|_| {
                keep = !keep;
                keep
            });
        }
        Ok(page)
    }

    async fn delete(&self, keys: &[Key]) -> Result<(), Error> {
        let keys = keys.to_vec();
        let run =
            |store: Arc<dyn Store>| -> BoxFuture<'static, _> { Box::pin(async move { store.delete(&keys).await }) };
        self.pass(Operation::Delete, "delete", run).await.map(|((), _)| ())
    }

    async fn now(&self) -> Result<SystemTime, Error> {
        let run = |store: Arc<dyn Store>| -> BoxFuture<'static, _> { Box::pin(async move { store.now().await }) };
        self.pass(Operation::Now, "now", run).await.map(|(now, _)| now)
    }
}

#[cfg(test)]
#[path = "fault_test.rs"]
mod tests;
