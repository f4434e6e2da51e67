use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use hyper::{Method, Uri};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    Put,
    Get,
    Head,
    List,
    Delete,
}

impl Operation {
    pub(super) fn of(method: &Method, uri: &Uri) -> Operation {
        match *method {
            Method::PUT => Operation::Put,
            Method::HEAD => Operation::Head,
            Method::POST | Method::DELETE => Operation::Delete,
            _ if uri.query().is_some_and(|query| query.contains("list-type=")) => Operation::List,
            _ => Operation::Get,
        }
    }

    pub(super) fn writes(self) -> bool {
        matches!(self, Operation::Put | Operation::Delete)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// 500, without effect.
    InternalError,
    /// 503, without effect.
    SlowDown,
    /// 409, without effect.
    Conflict,
    /// 412, without effect and whatever is there.
    PreconditionFailed,
    /// Takes effect; then the connection is closed instead of a reply.
    LostReply,
    /// Closes the connection at once; takes effect so much later.
    LateMs(u64),
    /// Says nothing for so long, then closes the connection; without effect.
    HangMs(u64),
    /// The connection is closed in the middle of the reply's body.
    TruncatedBody,
    /// The reply's body is half as long as it should be, and its length says so.
    ShortBody,
    /// The reply's body takes so long.
    SlowBodyMs(u64),
}

/// Counts what came, and says what shall go wrong.
#[derive(Debug, Default)]
pub struct Control {
    state: Mutex<State>,
    outage: Notify,
}

#[derive(Debug, Default)]
struct State {
    all: Counts,
    callers: BTreeMap<IpAddr, Counts>,
    faults: BTreeMap<Operation, VecDeque<Fault>>,
    rates: Vec<(Operation, f64, Fault)>,
    outage: Duration,
}

#[derive(Debug, Default, Serialize)]
struct Counts {
    requests: BTreeMap<Operation, u64>,
    bytes_in: u64,
    bytes_out: u64,
    /// Requests that got a fault.
    hit: BTreeMap<Operation, u64>,
}

/// The body of `POST /_milepost/faults`, as `{"operation": "put", "count": 3, "fault": "slow_down"}`,
/// `{"operation": "get", "fault": {"hang_ms": 2000}}` or, until `DELETE /_milepost/faults`,
/// `{"operation": "put", "rate": 0.5, "fault": "conflict"}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    operation: Operation,
    count: Option<u16>,
    rate: Option<f64>,
    fault: Fault,
}

impl Control {
    /// The next `count` requests of this kind that have no fault yet get this one.
    pub fn add(&self, operation: Operation, count: u16, fault: Fault) {
        self.locked(|state| {
            state.faults.entry(operation).or_default().extend((0..count).map(|_| fault));
        });
    }

    /// Each request of this kind gets the fault with this probability, beside earlier rates, until [`Control::heal`].
    pub fn rate(&self, operation: Operation, probability: f64, fault: Fault) {
        self.locked(|state| state.rates.push((operation, probability, fault)));
    }

    /// From now on nothing goes wrong.
    pub fn heal(&self) {
        self.locked(|state| {
            state.faults.clear();
            state.rates.clear();
        });
    }

    /// Every connection is cut, and for so long nobody listens.
    pub fn order_outage(&self, time: Duration) {
        self.locked(|state| state.outage = time);
        self.outage.notify_one();
    }

    pub(super) async fn outage(&self) -> Duration {
        self.outage.notified().await;
        self.locked(|state| state.outage)
    }

    pub fn requests(&self, operation: Operation) -> u64 {
        self.locked(|state| state.all.requests.get(&operation).copied().unwrap_or(0))
    }

    /// Of all callers together, and of each by its address.
    pub fn stats(&self) -> serde_json::Value {
        self.locked(|state| {
            let Counts { requests, hit, bytes_in, bytes_out } = &state.all;
            let callers = &state.callers;
            serde_json::json!({
                "requests": requests, "hit": hit, "bytes_in": bytes_in, "bytes_out": bytes_out, "callers": callers,
            })
        })
    }

    pub(super) fn add_json(&self, body: &[u8]) -> serde_json::Result<()> {
        let Order { operation, count, rate, fault } = serde_json::from_slice(body)?;
        match rate {
            Some(rate) => self.rate(operation, rate, fault),
            None => self.add(operation, count.unwrap_or(1), fault),
        }
        Ok(())
    }

    pub(super) fn begin(&self, caller: IpAddr, operation: Operation, bytes_in: u64) -> Option<Fault> {
        self.locked(|state| {
            let queued = state.faults.get_mut(&operation).and_then(VecDeque::pop_front);
            let mut rates = state.rates.iter().filter(|(of, ..)| *of == operation);
            let drawn = || rates.find(|(_, p, _)| rand::random::<f64>() < *p).map(|(.., fault)| *fault);
            let fault = queued.or_else(drawn);
            for counts in [&mut state.all, state.callers.entry(caller).or_default()] {
                *counts.requests.entry(operation).or_default() += 1;
                counts.bytes_in += bytes_in;
                if fault.is_some() {
                    *counts.hit.entry(operation).or_default() += 1;
                }
            }
            fault
        })
    }

    pub(super) fn end(&self, caller: IpAddr, bytes_out: u64) {
        self.locked(|state| {
            state.all.bytes_out += bytes_out;
            state.callers.entry(caller).or_default().bytes_out += bytes_out;
        });
    }

    fn locked<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().expect("nothing panics under this lock"))
    }
}
