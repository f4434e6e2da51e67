//! Quotas of clients (KIP-13, KIP-124, KIP-546, KIP-599, KIP-612): how much of this broker a client may take.
//!
//! - **In**: what clients were counted for, as it happens; the limits, from the applied root state.
//! - **Out**: how long a client is to be left waiting, so that its rate comes down to its limit.
//! - **Promises**: limits are each broker's own, as in Kafka; which limit is in force, and who shares it, follows Kafka's
//!   order. Rates are Kafka's: 11 windows of a second. Without limits nothing is counted.
//! - **Never does**: wait, or refuse what was not asked of it. The connection room keeps a client waiting.
//! - **Limits**: [`CLIENTS_MAX`] rates of each kind; [`THROTTLE_MAX`] at a time.
//!
//! # Decisions
//! **Quotas are counted around the rooms** (`node/throttling.rs`): request and answer bytes, and the time of polls,
//! not of waits; the throttle time is written into the encoded answer, and the connection is not read from (KIP-219).
//! A Fetch over the limit is answered with nothing at once; one within it gets what it asked for and waits
//! afterwards, where Kafka throws the answer away and a batch larger than ten seconds' worth never comes. No wait
//! exceeds 30 s: clients would give the connection up.

mod bucket;
mod order;
mod rate;
mod timed;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use bucket::Bucket;
use order::of_address;
pub use order::{Sharing, in_force};
use rate::Rate;
pub use timed::Timed;

use crate::cluster::Cluster;

/// Who connects without a name (Kafka: `KafkaPrincipal.ANONYMOUS`).
pub const ANONYMOUS: &str = "ANONYMOUS";
/// Kafka leaves a client waiting for as long as its excess asks for. No longer than clients wait for an answer, or they
/// take the connection for dead and come again by another.
pub const THROTTLE_MAX: Duration = Duration::from_secs(30);
/// Kafka's bounds for the share of time and for connections, a window.
const REQUEST_THROTTLE_MAX: Duration = Duration::from_secs(1);
const CONNECTION_THROTTLE_MAX: Duration = Duration::from_secs(1);
/// Kafka's names for partitions that are made and deleted in a second, and for connections that come.
pub const MUTATION_RATE: &str = "controller_mutation_rate";
pub const CONNECTION_RATE: &str = "connection_creation_rate";
/// Clients beyond these share one rate.
pub const CLIENTS_MAX: usize = 100_000;

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Bytes of Produce requests a second.
    Produce,
    /// Bytes of Fetch answers a second.
    Fetch,
    /// Time that requests take of one processor, in percent.
    Request,
}

impl Kind {
    /// Kafka's name for the limit.
    pub fn key(self) -> &'static str {
        match self {
            Kind::Produce => "producer_byte_rate",
            Kind::Fetch => "consumer_byte_rate",
            Kind::Request => "request_percentage",
        }
    }

    fn throttle_max(self) -> Duration {
        match self {
            Kind::Produce | Kind::Fetch => THROTTLE_MAX,
            Kind::Request => REQUEST_THROTTLE_MAX,
        }
    }
}

/// Everybody's rates on this broker.
pub struct Quotas {
    cluster: Cluster,
    produce: Mutex<HashMap<Sharing, Rate>>,
    fetch: Mutex<HashMap<Sharing, Rate>>,
    request: Mutex<HashMap<Sharing, Rate>>,
    mutations: Mutex<HashMap<Sharing, Bucket>>,
    connections: Mutex<HashMap<Sharing, Rate>>,
}

impl Quotas {
    pub fn new(cluster: Cluster) -> Quotas {
        Quotas {
            cluster,
            produce: Mutex::default(),
            fetch: Mutex::default(),
            request: Mutex::default(),
            mutations: Mutex::default(),
            connections: Mutex::default(),
        }
    }

    /// Whether anybody is limited in anything.
    pub fn any(&self) -> bool {
        !self.cluster.view().quotas().is_empty()
    }

    /// Counts `amount` for a client. Says how long it is to be left waiting: not at all if it keeps to its limit.
    pub fn count(&self, kind: Kind, client_id: &str, amount: f64) -> Duration {
        let view = self.cluster.view();
        let Some((limit, sharing)) = in_force(view.quotas(), ANONYMOUS, client_id, kind.key()) else {
            return Duration::ZERO;
        };
        let rates = match kind {
            Kind::Produce => &self.produce,
            Kind::Fetch => &self.fetch,
            Kind::Request => &self.request,
        };
        let mut rates = rates.lock().expect("no holder panics");
        let now = Instant::now();
        let sharing = room_for(&mut rates, sharing, |rate| rate.is_idle(now));
        let rate = rates.entry(sharing).or_default();
        rate.add(amount, now);
        rate.excess(limit, now).min(kind.throttle_max())
    }

    /// Takes partitions that are made or deleted for a client (KIP-599), and says how long it is to be left waiting. Where
    /// others are `strict`, more may be taken than is left, but not by the next request (Kafka:
    /// `ControllerMutationQuotaManager`).
    ///
    /// # Errors
    /// Nothing is left for one that is `strict`; after this time it may come again.
    pub fn mutate(&self, client_id: &str, partitions: f64, strict: bool) -> Result<Duration, Duration> {
        let view = self.cluster.view();
        let Some((limit, sharing)) = in_force(view.quotas(), ANONYMOUS, client_id, MUTATION_RATE) else {
            return Ok(Duration::ZERO);
        };
        let mut buckets = self.mutations.lock().expect("no holder panics");
        let now = Instant::now();
        let sharing = room_for(&mut buckets, sharing, |bucket| bucket.is_idle(now));
        let bucket = buckets.entry(sharing).or_insert_with(|| Bucket::full(limit, now));
        let owed = bucket.debt(limit, now).min(THROTTLE_MAX);
        match strict && !owed.is_zero() {
            true => Err(owed),
            false => {
                bucket.take(partitions);
                Ok(if strict { Duration::ZERO } else { bucket.debt(limit, now).min(THROTTLE_MAX) })
            }
        }
    }

    /// Counts a connection that comes from an address (KIP-612).
    ///
    /// # Errors
    /// They come too fast: it is to be closed after this time, and counts for nothing.
    pub fn connect(&self, address: IpAddr) -> Result<(), Duration> {
        let view = self.cluster.view();
        let Some((limit, sharing)) = of_address(view.quotas(), address, CONNECTION_RATE) else { return Ok(()) };
        let mut rates = self.connections.lock().expect("no holder panics");
        let now = Instant::now();
        let sharing = room_for(&mut rates, sharing, |rate| rate.is_idle(now));
        let rate = rates.entry(sharing).or_default();
        rate.add(1.0, now);
        let wait = rate.excess(limit, now).min(CONNECTION_THROTTLE_MAX);
        match wait.is_zero() {
            true => Ok(()),
            false => {
                rate.add(-1.0, now);
                Err(wait)
            }
        }
    }
}

/// Makes room for another rate where there are too many, of those that have been idle.
fn room_for<T>(rates: &mut HashMap<Sharing, T>, sharing: Sharing, is_idle: impl Fn(&T) -> bool) -> Sharing {
    if rates.len() < CLIENTS_MAX || rates.contains_key(&sharing) {
        return sharing;
    }
    rates.retain(|_, rate| !is_idle(rate));
    if rates.len() < CLIENTS_MAX { sharing } else { Sharing::default() }
}
