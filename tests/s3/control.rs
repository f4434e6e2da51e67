use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Mutex;

use hyper::{Method, Uri};
use serde::{Deserialize, Serialize};

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
    /// Takes effect; then the connection is closed instead of a reply.
    LostReply,
    /// Says nothing for so long, then closes the connection; without effect.
    HangMs(u64),
}

/// Counts what came, and says what shall go wrong.
#[derive(Debug, Default)]
pub struct Control(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    all: Counts,
    callers: BTreeMap<IpAddr, Counts>,
    faults: BTreeMap<Operation, VecDeque<Fault>>,
}

#[derive(Debug, Default, Serialize)]
struct Counts {
    requests: BTreeMap<Operation, u64>,
    bytes_in: u64,
    bytes_out: u64,
}

/// The body of `POST /_milepost/faults`, as `{"operation": "put", "count": 3, "fault": "slow_down"}` or
/// `{"operation": "get", "fault": {"hang_ms": 2000}}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    operation: Operation,
    #[serde(default = "one")]
    count: u16,
    fault: Fault,
}

fn one() -> u16 {
    1
}

impl Control {
    /// The next `count` requests of this kind that have no fault yet get this one.
    pub fn add(&self, operation: Operation, count: u16, fault: Fault) {
        self.locked(|state| {
            state.faults.entry(operation).or_default().extend((0..count).map(|_| fault));
        });
    }

    pub fn requests(&self, operation: Operation) -> u64 {
        self.locked(|state| state.all.requests.get(&operation).copied().unwrap_or(0))
    }

    /// Of all callers together, and of each by its address.
    pub fn stats(&self) -> serde_json::Value {
        self.locked(|state| {
            let Counts { requests, bytes_in, bytes_out } = &state.all;
            let callers = &state.callers;
            serde_json::json!({
                "requests": requests, "bytes_in": bytes_in, "bytes_out": bytes_out, "callers": callers,
            })
        })
    }

    pub(super) fn add_json(&self, body: &[u8]) -> serde_json::Result<()> {
        let Order { operation, count, fault } = serde_json::from_slice(body)?;
        self.add(operation, count, fault);
        Ok(())
    }

    pub(super) fn begin(&self, caller: IpAddr, operation: Operation, bytes_in: u64) -> Option<Fault> {
        self.locked(|state| {
            for counts in [&mut state.all, state.callers.entry(caller).or_default()] {
                *counts.requests.entry(operation).or_default() += 1;
                counts.bytes_in += bytes_in;
            }
            state.faults.get_mut(&operation).and_then(VecDeque::pop_front)
        })
    }

    pub(super) fn end(&self, caller: IpAddr, bytes_out: u64) {
        self.locked(|state| {
            state.all.bytes_out += bytes_out;
            state.callers.entry(caller).or_default().bytes_out += bytes_out;
        });
    }

    fn locked<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.0.lock().expect("nothing panics under this lock"))
    }
}
