//! The address book, and a connection per peer and lane, dialled when first needed.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::connection::Connection;
use super::handshake::Answerer;
use super::traffic::{PeerCounters, Traffic};
use super::{LANES, Lane, Limits, handshake, kind};
use crate::door::net::TcpStream;
use crate::{CallError, Identity, NodeId};

/// After a failed dial the next one waits, twice as long each time.
const REDIAL_MIN: Duration = Duration::from_millis(50);
const REDIAL_MAX: Duration = Duration::from_millis(500);

type Dialled = Result<Arc<Connection>, CallError>;

#[derive(Default)]
enum LaneState {
    #[default]
    Idle,
    Dialling(watch::Receiver<Option<Dialled>>),
    Open(Arc<Connection>),
    Failed {
        retry_at: Instant,
        next_delay: Duration,
        why: CallError,
    },
}

struct Peer {
    node: NodeId,
    address: Mutex<Option<String>>,
    lanes: [Mutex<LaneState>; LANES],
    /// How often somebody wanted a connection.
    attempts: AtomicU64,
    /// The last attempt to connect was refused by its machine: nobody listens there.
    refused: AtomicBool,
}

impl Peer {
    fn note<T>(&self, connecting: &io::Result<T>) {
        let refused = connecting.as_ref().is_err_and(|why| why.kind() == io::ErrorKind::ConnectionRefused);
        self.refused.store(refused, Ordering::Relaxed);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every update leaves the value whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All peers of a node; a cheap clone.
#[derive(Clone)]
pub(crate) struct Peers {
    identity: Arc<Identity>,
    limits: Limits,
    traffic: Traffic,
    book: Arc<Mutex<HashMap<NodeId, Arc<Peer>>>>,
}

impl Peers {
    pub(crate) fn new(identity: Arc<Identity>, limits: Limits, traffic: Traffic) -> Self {
        Peers { identity, limits, traffic, book: Arc::default() }
    }

    fn peer(&self, node: NodeId) -> Arc<Peer> {
        let new = || {
            let (address, lanes) = (Mutex::default(), std::array::from_fn(|_| Mutex::default()));
            Arc::new(Peer { node, address, lanes, attempts: AtomicU64::new(0), refused: AtomicBool::new(false) })
        };
        locked(&self.book).entry(node).or_insert_with(new).clone()
    }

    pub(crate) fn set_address(&self, node: NodeId, address: Option<String>) {
        let peer = self.peer(node);
        if std::mem::replace(&mut *locked(&peer.address), address.clone()) == address {
            return;
        }
        peer.refused.store(false, Ordering::Relaxed);
        for lane in &peer.lanes {
            if let LaneState::Open(old) = std::mem::take(&mut *locked(lane)) {
                old.close("the peer has another address");
            }
        }
    }

    pub(crate) fn close_all(&self) {
        for peer in locked(&self.book).values() {
            for lane in &peer.lanes {
                if let LaneState::Open(old) = std::mem::take(&mut *locked(lane)) {
                    old.close("this node shuts down");
                }
            }
        }
    }

    /// The peer's machine refuses connections: its process has ended and no other took its place. Not so for a machine
    /// that is gone or cut off, which answers nothing. Tries anew: an earlier attempt says nothing of now.
    pub(crate) async fn probe_ended(&self, node: NodeId) -> bool {
        let peer = self.peer(node);
        let Some(address) = locked(&peer.address).clone() else { return false };
        let connecting = timeout(self.limits.connect_timeout, TcpStream::connect(address)).await;
        peer.note(&connecting.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())));
        peer.refused.load(Ordering::Relaxed)
    }

    /// As [`Peers::probe_ended`], for nodes whose last attempt was refused; others are not tried.
    pub(crate) async fn has_ended(&self, node: NodeId) -> bool {
        let refused = locked(&self.book).get(&node).is_some_and(|peer| peer.refused.load(Ordering::Relaxed));
        refused && self.probe_ended(node).await
    }

    /// How often somebody wanted a connection to the peer.
    #[cfg(test)]
    pub(crate) fn attempts(&self, node: NodeId) -> u64 {
        self.peer(node).attempts.load(Ordering::Relaxed)
    }

    /// The open connection, or a new one. Callers share a dial, and a dial goes on when they give up.
    pub(crate) async fn connection(&self, node: NodeId, lane: Lane) -> Dialled {
        let peer = self.peer(node);
        peer.attempts.fetch_add(1, Ordering::Relaxed);
        loop {
            let mut dialled = {
                let mut state = locked(&peer.lanes[lane as usize]);
                match &*state {
                    LaneState::Open(connection) if !connection.is_closed() => {
                        return Ok(connection.clone());
                    }
                    LaneState::Dialling(dialled) if dialled.has_changed().is_ok() || dialled.borrow().is_some() => {
                        dialled.clone()
                    }
                    LaneState::Failed { retry_at, why, .. } if Instant::now() < *retry_at => {
                        return Err(why.clone());
                    }
                    _ => self.dial(&peer, lane, &mut state),
                }
            };
            let Ok(outcome) = dialled.wait_for(Option::is_some).await else {
                return Err(CallError::Unreachable("dialling was given up".into()));
            };
            match outcome.as_ref() {
                Some(Ok(connection)) if connection.is_closed() => continue,
                Some(outcome) => return outcome.clone(),
                None => continue,
            }
        }
    }

    /// Asks who answers at an address of this cluster, and notes it in the address book.
    pub(crate) async fn learn(&self, address: &str) -> Result<NodeId, CallError> {
        let anyone = 0;
        let dialled = shake_hands(address, &self.identity, anyone, Lane::Application, self.limits);
        let (_, answerer) = dialled.await.map_err(|why| unreachable(address, &why))?;
        let counters = self.traffic.of(answerer.node);
        counters.sent(kind::HANDSHAKE, answerer.bytes_sent);
        counters.received(kind::HANDSHAKE, answerer.bytes_received);
        if answerer.node != self.identity.node_id {
            self.set_address(answerer.node, Some(address.to_owned()));
        }
        Ok(answerer.node)
    }

    fn dial(&self, peer: &Arc<Peer>, lane: Lane, state: &mut LaneState) -> watch::Receiver<Option<Dialled>> {
        let delay = match state {
            LaneState::Failed { next_delay, .. } => *next_delay,
            _ => REDIAL_MIN,
        };
        let (outcome, dialled) = watch::channel(None);
        *state = LaneState::Dialling(dialled.clone());
        let (peers, peer) = (self.clone(), peer.clone());
        tokio::spawn(async move {
            let address = locked(&peer.address).clone();
            let result = match &address {
                None => Err(CallError::Unreachable(format!("no address of node {} is known", peer.node))),
                Some(address) => {
                    let counters = peers.traffic.of(peer.node);
                    let connecting = connect(address, &peers.identity, peer.node, lane, peers.limits, counters).await;
                    peer.note(&connecting);
                    connecting.map(Arc::new).map_err(|why| unreachable(address, &why))
                }
            };
            let mut state = locked(&peer.lanes[lane as usize]);
            // A changed address has reset the lane; what was dialled is the old one.
            let still_wanted =
                matches!(&*state, LaneState::Dialling(dialled) if dialled.same_channel(&outcome.subscribe()));
            if still_wanted {
                *state = match &result {
                    Ok(connection) => LaneState::Open(connection.clone()),
                    Err(why) => LaneState::Failed {
                        retry_at: Instant::now() + delay,
                        next_delay: (delay * 2).min(REDIAL_MAX),
                        why: why.clone(),
                    },
                };
            }
            drop(state);
            outcome.send_replace(Some(result));
        });
        dialled
    }
}

async fn shake_hands(
    address: &str,
    identity: &Identity,
    to: NodeId,
    lane: Lane,
    limits: Limits,
) -> io::Result<(TcpStream, Answerer)> {
    let dial = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let answerer = handshake::call(&mut stream, identity, to, lane).await?;
        Ok((stream, answerer))
    };
    let in_time = timeout(limits.connect_timeout, dial).await;
    in_time.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no connection in time")))
}

fn unreachable(address: &str, why: &io::Error) -> CallError {
    CallError::Unreachable(format!("{address}: {why}"))
}

async fn connect(
    address: &str,
    identity: &Identity,
    to: NodeId,
    lane: Lane,
    limits: Limits,
    counters: PeerCounters,
) -> io::Result<Connection> {
    let (stream, answerer) = shake_hands(address, identity, to, lane, limits).await?;
    counters.sent(kind::HANDSHAKE, answerer.bytes_sent);
    counters.received(kind::HANDSHAKE, answerer.bytes_received);
    let (read, write) = stream.into_split();
    Ok(Connection::start(read, write, limits, counters))
}

/// One request to an address, before one has a node id (to join). The handshake carries node id 0.
///
/// # Errors
/// See [`CallError`]; a node of another cluster is unreachable.
pub async fn call_address(
    address: &str,
    cluster_id: &str,
    kind: u8,
    body: Bytes,
    within: Duration,
) -> Result<Bytes, CallError> {
    let limits = Limits {
        connect_timeout: within,
        ..Limits::of(&crate::Config::new(([127, 0, 0, 1], 0).into(), std::path::PathBuf::new()))
    };
    let deadline = Instant::now() + within;
    let identity = Identity { cluster_id: cluster_id.to_owned(), node_id: 0 };
    let connecting = connect(address, &identity, 0, Lane::Application, limits, PeerCounters::new());
    let connection = connecting.await.map_err(|why| unreachable(address, &why))?;
    let mut request = connection.request(kind, body, false)?;
    request.answer(deadline.saturating_duration_since(Instant::now())).await
}
