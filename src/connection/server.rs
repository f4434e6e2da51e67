use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, error, info, warn};

use crate::door::net::{TcpListener, TcpStream};

use super::intake::DECODING_EXPANSION;
use super::{CONTROL_FRAME_BYTES_MAX, Error, Limits, Metrics, Peer, Router, session};
use crate::types::Answers;

/// After a failed accept (no file descriptors left, say) others get time to close.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What all connections of all listeners share.
pub struct Server {
    router: Arc<dyn Router>,
    limits: Limits,
    memory: Arc<Semaphore>,
    /// What requests take while they are decoded, beside `memory`: as much as the largest needs.
    decoding: Arc<Semaphore>,
    decoding_bytes_max: usize,
    answers: Arc<Answers>,
    metrics: Metrics,
    peers: AtomicU64,
}

impl Server {
    pub fn new(router: Arc<dyn Router>, limits: Limits) -> Arc<Server> {
        let memory = limits.memory_bytes_max.min(Semaphore::MAX_PERMITS);
        let decoding_bytes_max = memory.min(CONTROL_FRAME_BYTES_MAX * DECODING_EXPANSION);
        Arc::new(Server {
            router,
            memory: Arc::new(Semaphore::new(memory)),
            decoding: Arc::new(Semaphore::new(decoding_bytes_max)),
            decoding_bytes_max,
            answers: Answers::new(limits.answer_bytes_max),
            limits,
            metrics: Metrics::default(),
            peers: AtomicU64::new(0),
        })
    }

    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(super) fn answers(&self) -> &Arc<Answers> {
        &self.answers
    }

    pub(super) fn router(&self) -> &dyn Router {
        &*self.router
    }

    /// Takes `bytes` of the budget, in the order asked for. More than the whole budget is the whole.
    pub(super) async fn take_memory(&self, bytes: usize) -> OwnedSemaphorePermit {
        let whole = self.limits.memory_bytes_max.min(Semaphore::MAX_PERMITS);
        let bytes = u32::try_from(bytes.min(whole)).unwrap_or(u32::MAX);
        if let Ok(permit) = self.memory.clone().try_acquire_many_owned(bytes) {
            return permit;
        }
        self.metrics.memory_waits.fetch_add(1, Relaxed);
        self.memory.clone().acquire_many_owned(bytes).await.expect("the budget is never closed")
    }

    /// Takes `bytes` of what decoding may take, in the order asked for. Whoever has them must wait for nothing that
    /// another gives back only after it was decoded.
    pub(super) async fn take_decoding(&self, bytes: usize) -> OwnedSemaphorePermit {
        let bytes = u32::try_from(bytes.min(self.decoding_bytes_max)).unwrap_or(u32::MAX);
        self.decoding.clone().acquire_many_owned(bytes).await.expect("the budget is never closed")
    }

    /// Accepts connections until `shutdown` turns true. Returns when the last one has ended: those in
    /// progress may answer what they have started, within `drain_max`.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, name: &str, mut shutdown: watch::Receiver<bool>) {
        let name: Arc<str> = name.into();
        let mut sessions = JoinSet::new();
        let inherited = shutdown.clone();
        loop {
            tokio::select! {
                () = told_to_stop(&mut shutdown) => break,
                Some(ended) = sessions.join_next() => {
                    // A panic in a room ends the connection whose request met it, and must be seen.
                    if let Err(error) = ended {
                        error!(listener = %name, %error, "connection failed");
                    }
                }
                accepted = listener.accept() => match accepted {
                    Ok((socket, address)) => {
                        let id = self.peers.fetch_add(1, Relaxed);
                        let peer = Arc::new(Peer { id, address, listener: name.clone(), software: OnceLock::new() });
                        self.clone().open(peer, socket, &mut sessions, inherited.clone());
                    }
                    Err(error) => {
                        warn!(listener = %name, %error, "cannot accept");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        drop(listener);
        let all = async { while sessions.join_next().await.is_some() {} };
        // Each session drains by itself; only one that waits for a room to take its request needs force.
        if timeout(self.limits.drain_max * 2, all).await.is_err() {
            sessions.shutdown().await;
        }
    }

    fn open(
        self: Arc<Self>,
        peer: Arc<Peer>,
        socket: TcpStream,
        sessions: &mut JoinSet<()>,
        mut shutdown: watch::Receiver<bool>,
    ) {
        self.metrics.connections_accepted.fetch_add(1, Relaxed);
        let open = Open::new(self.clone(), peer.clone());
        if self.metrics.connections_open.load(Relaxed) > self.limits.connections_max as u64 {
            self.metrics.connections_refused.fetch_add(1, Relaxed);
            warn!(%peer, max = self.limits.connections_max, "too many connections");
            return;
        }
        if let Err(wait) = self.router.connect(peer.address.ip()) {
            self.metrics.connections_refused.fetch_add(1, Relaxed);
            // Kept waiting, it does not come again at once (KIP-612).
            sessions.spawn(async move {
                let _held = (open, socket);
                let _ = timeout(wait, told_to_stop(&mut shutdown)).await;
            });
            return;
        }
        sessions.spawn(async move {
            let _open = open;
            match session::run(self.clone(), peer.clone(), socket, shutdown).await {
                Ok(()) => debug!(%peer, "closed"),
                Err(Error::Io(error)) if is_gone(&error) => debug!(%peer, %error, "peer is gone"),
                Err(error) => {
                    if error.blames_frame() {
                        self.metrics.frames_refused.fetch_add(1, Relaxed);
                    }
                    if matches!(error, Error::SlowReader) {
                        self.metrics.readers_dropped.fetch_add(1, Relaxed);
                    }
                    info!(%peer, %error, "closed by us");
                }
            }
        });
    }
}

/// Counts a connection while it lives, whatever ends it.
struct Open(Arc<Server>, Arc<Peer>);

impl Open {
    fn new(server: Arc<Server>, peer: Arc<Peer>) -> Self {
        server.metrics.connections_open.fetch_add(1, Relaxed);
        Open(server, peer)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.metrics.connections_open.fetch_sub(1, Relaxed);
        self.0.router.ended(&self.1);
    }
}

/// Waits for the order to stop, or for the one who could give it to be gone.
pub(super) async fn told_to_stop(shutdown: &mut watch::Receiver<bool>) {
    let _ = shutdown.wait_for(|stop| *stop).await;
}

fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset)
}

impl Error {
    /// Whether what the client sent closed the connection.
    fn blames_frame(&self) -> bool {
        match self {
            Error::FrameLength(_)
            | Error::FrameTooLarge { .. }
            | Error::CutFrame
            | Error::SlowFrame { .. }
            | Error::Unsupported { .. }
            | Error::Protocol(_) => true,
            Error::Io(_) | Error::SlowReader | Error::DrainTimeout | Error::Closed(_) => false,
        }
    }
}
