//! The bucket that all brokers share, and what goes wrong with it. It outlives the brokers: an effect that comes late
//! comes although its caller has died.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use milepost::object::{Error, Head, Key, Memory, Page, Prefix, Start, Store};
use milepost::types::ByteRange;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::time::sleep;

use crate::trace;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// 503, without effect.
    SlowDown,
    /// 500: the caller cannot know, there is no effect.
    Failed,
    /// The caller waits for ever, there is no effect.
    Hang,
    /// The effect is there, the answer is not.
    ReplyLost,
    /// The caller is told that the outcome is unknown; the effect comes after up to 40 seconds.
    Late,
    /// The effect is there, and the answer says that the key is taken: somebody on the way tried twice.
    OwnKeyTaken,
    /// A GET takes seconds.
    SlowGet,
}

impl Fault {
    pub const ALL: [Fault; 7] = [
        Fault::SlowDown,
        Fault::Failed,
        Fault::Hang,
        Fault::ReplyLost,
        Fault::Late,
        Fault::OwnKeyTaken,
        Fault::SlowGet,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Fault::SlowDown => "store answers 503",
            Fault::Failed => "store answers 500",
            Fault::Hang => "store hangs",
            Fault::ReplyLost => "store's answer lost after the effect",
            Fault::Late => "PUT takes effect late",
            Fault::OwnKeyTaken => "412 on an own key",
            Fault::SlowGet => "slow GET",
        }
    }

    fn concerns(self, call: Call) -> bool {
        match self {
            Fault::SlowDown | Fault::Failed | Fault::Hang => true,
            Fault::ReplyLost | Fault::Late | Fault::OwnKeyTaken => call == Call::Put,
            Fault::SlowGet => call == Call::Get,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Put,
    Get,
    Other,
}

#[derive(Debug)]
pub struct Bucket {
    objects: Memory,
    forgets: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    rng: StdRng,
    rates: BTreeMap<Fault, f64>,
    counts: BTreeMap<Fault, u64>,
    late: Vec<(Duration, Key, Bytes)>,
}

impl Bucket {
    pub fn new(seed: u64, forgets: bool) -> Arc<Bucket> {
        let rng = StdRng::seed_from_u64(seed ^ 0x5704_e000);
        let state = State { rng, rates: BTreeMap::new(), counts: BTreeMap::new(), late: Vec::new() };
        Arc::new(Bucket { objects: Memory::new(), forgets, state: Mutex::new(state) })
    }

    pub fn set_rate(&self, fault: Fault, rate: f64) {
        self.locked(|state| state.rates.insert(fault, rate));
    }

    pub fn heal(&self) {
        self.locked(|state| state.rates.clear());
    }

    pub fn counts(&self) -> BTreeMap<Fault, u64> {
        self.locked(|state| state.counts.clone())
    }

    fn locked<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().expect("nothing panics under this lock"))
    }

    /// Takes the time a request takes, and says what goes wrong with this one.
    async fn request(&self, call: Call) -> Result<Option<Fault>, Error> {
        self.bring_late().await;
        let (latency_ms, fault) = self.locked(|state| {
            let latency_ms = state.rng.random_range(3..40);
            let drawn: f64 = state.rng.random();
            let mut sum = 0.0;
            let fault = state.rates.iter().filter(|(fault, _)| fault.concerns(call)).find(|(_, rate)| {
                sum += **rate;
                drawn < sum
            });
            let fault = fault.map(|(fault, _)| *fault);
            if let Some(fault) = fault {
                *state.counts.entry(fault).or_default() += 1;
            }
            (latency_ms, fault)
        });
        sleep(Duration::from_millis(latency_ms)).await;
        match fault {
            Some(Fault::SlowDown) => Err(Error::Retryable { operation: "any", reason: "503".into() }),
            Some(Fault::Failed) => Err(Error::Unknown { operation: "any", reason: "500".into() }),
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::SlowGet) => {
                let more_ms = self.locked(|state| state.rng.random_range(500..6_000));
                sleep(Duration::from_millis(more_ms)).await;
                Ok(None)
            }
            other => Ok(other),
        }
    }

    async fn bring_late(&self) {
        let now = trace::now();
        let due: Vec<_> = self.locked(|state| state.late.extract_if(.., |(at, ..)| *at <= now).collect());
        for (_, key, bytes) in due {
            // Its caller has been told long ago that the outcome is unknown.
            let outcome = self.objects.put_if_absent(&key, bytes).await;
            tracing::debug!(%key, ?outcome, "a PUT takes effect late");
        }
    }
}

fn lost() -> Error {
    Error::Unknown { operation: "put", reason: "the answer was lost".into() }
}

#[async_trait]
impl Store for Bucket {
    async fn put_if_absent(&self, key: &Key, bytes: Bytes) -> Result<(), Error> {
        match self.request(Call::Put).await? {
            Some(Fault::Late) => {
                self.locked(|state| {
                    let due = trace::now() + Duration::from_millis(state.rng.random_range(100..40_000));
                    state.late.push((due, key.clone(), bytes));
                });
                Err(lost())
            }
            Some(Fault::ReplyLost) => {
                self.objects.put_if_absent(key, bytes).await?;
                Err(lost())
            }
            Some(Fault::OwnKeyTaken) => {
                self.objects.put_if_absent(key, bytes).await?;
                Err(Error::AlreadyExists { key: key.clone() })
            }
            _ if self.forgets && self.locked(|state| state.rng.random_bool(0.05)) => Ok(()),
            _ => self.objects.put_if_absent(key, bytes).await,
        }
    }

    async fn get(&self, key: &Key) -> Result<Bytes, Error> {
        self.request(Call::Get).await?;
        self.objects.get(key).await
    }

    async fn get_range(&self, key: &Key, range: ByteRange) -> Result<Bytes, Error> {
        self.request(Call::Get).await?;
        self.objects.get_range(key, range).await
    }

    async fn head(&self, key: &Key) -> Result<Head, Error> {
        self.request(Call::Other).await?;
        self.objects.head(key).await
    }

    async fn list(&self, prefix: &Prefix, start: Start) -> Result<Page, Error> {
        self.request(Call::Other).await?;
        self.objects.list(prefix, start).await
    }

    async fn delete(&self, keys: &[Key]) -> Result<(), Error> {
        self.request(Call::Other).await?;
        self.objects.delete(keys).await
    }

    async fn now(&self) -> Result<SystemTime, Error> {
        self.request(Call::Other).await?;
        self.objects.now().await
    }
}
