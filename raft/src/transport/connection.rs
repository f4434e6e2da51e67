//! A dialled connection: requests out, answers in.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::Limits;
use super::frame::{FrameReader, Tag};
use super::kind;
use super::sender::{FrameSender, NotQueued, Outgoing, Pace, frame_queue, write_frames};
use super::traffic::PeerCounters;
use crate::CallError;

/// An idle connection shows that it lives this often; the listener drops one it has not heard of for thrice as long.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// Far more than can wait at a time, so that a late answer to a request that was given up finds nobody.
const REQUEST_ID_MAX: u32 = u32::MAX >> 1;
const PING_ID: u32 = u32::MAX;

struct Waiting {
    kind: u8,
    /// Handed to the socket: from here on it may be delivered.
    sent: bool,
    answer: oneshot::Sender<Result<Bytes, CallError>>,
}

#[derive(Default)]
struct State {
    next_id: u32,
    waiting: HashMap<u32, Waiting>,
    closed: Option<String>,
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<State>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every update leaves the state whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails everything that waits. Only the first reason counts.
    fn close(&self, why: &str) {
        let waiting = {
            let mut state = self.lock();
            if state.closed.is_some() {
                return;
            }
            state.closed = Some(why.to_owned());
            std::mem::take(&mut state.waiting)
        };
        for (_, waiting) in waiting {
            // A requester that is gone needs no answer.
            let _ = waiting.answer.send(Err(fate(waiting.sent, why)));
        }
    }
}

fn fate(sent: bool, why: &str) -> CallError {
    if sent { CallError::Unknown(why.to_owned()) } else { CallError::Unreachable(why.to_owned()) }
}

/// One connection. Dropping it closes it.
pub(crate) struct Connection {
    shared: Shared,
    sender: FrameSender,
    task: JoinHandle<()>,
}

impl Connection {
    /// Takes over a stream after the handshake.
    pub(super) fn start<R, W>(read: R, write: W, limits: Limits, counters: PeerCounters) -> Self
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let shared = Shared::default();
        let (sender, queue) = frame_queue(limits.queue_bytes_max);
        let pace = Pace::of(&limits);
        let claiming = shared.clone();
        let claim = move |frame: &Outgoing| {
            frame.kind == kind::PING || claiming.lock().waiting.get_mut(&frame.id).map(|w| w.sent = true).is_some()
        };
        let writing = write_frames(write, queue, pace, counters.clone(), claim);
        let reading = read_answers(
            FrameReader::new(read, limits.frame_bytes_max),
            shared.clone(),
            sender.clone(),
            limits,
            counters,
        );
        let closing = shared.clone();
        let task = tokio::spawn(async move {
            let why = tokio::select! {
                result = writing => result.map_or_else(|why| format!("write: {why}"), |()| "closed".into()),
                why = reading => why,
            };
            closing.close(&why);
        });
        Connection { shared, sender, task }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.shared.lock().closed.is_some()
    }

    pub(super) fn close(&self, why: &str) {
        self.shared.close(why);
        self.task.abort();
    }

    /// Enqueues a request. `patient` requests may wait for the next tick.
    ///
    /// # Errors
    /// [`CallError::Unreachable`] when the connection is closed or its queue is full.
    pub(crate) fn request(&self, kind: u8, body: Bytes, patient: bool) -> Result<Request, CallError> {
        let (answer, answered) = oneshot::channel();
        let id = {
            let mut state = self.shared.lock();
            if let Some(why) = &state.closed {
                return Err(CallError::Unreachable(why.clone()));
            }
            let mut id = state.next_id;
            while state.waiting.contains_key(&id) {
                id = (id + 1) & REQUEST_ID_MAX;
            }
            state.next_id = (id + 1) & REQUEST_ID_MAX;
            state.waiting.insert(id, Waiting { kind, sent: false, answer });
            id
        };
        let request = Request { id, shared: self.shared.clone(), answered };
        match self.sender.send(Outgoing { tag: Tag::Request, kind, id, body, patient }) {
            Ok(()) => Ok(request),
            Err(NotQueued::Full) => Err(CallError::Unreachable("too much is queued for the peer".into())),
            Err(NotQueued::Closed) => Err(CallError::Unreachable("connection is closed".into())),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.close("connection was dropped");
    }
}

/// A request on its way. Dropping it takes it back if it has not been written yet.
pub(crate) struct Request {
    id: u32,
    shared: Shared,
    answered: oneshot::Receiver<Result<Bytes, CallError>>,
}

impl Request {
    pub(crate) async fn answer(&mut self, within: Duration) -> Result<Bytes, CallError> {
        match timeout(within, &mut self.answered).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(CallError::Unknown("connection was dropped".into())),
            Err(_) => {
                let sent = self.shared.lock().waiting.remove(&self.id).is_none_or(|waiting| waiting.sent);
                Err(fate(sent, "no answer in time"))
            }
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.shared.lock().waiting.remove(&self.id);
    }
}

/// Runs until the connection is of no use any more; says why.
async fn read_answers<R: AsyncRead + Unpin>(
    mut reader: FrameReader<R>,
    shared: Shared,
    sender: FrameSender,
    limits: Limits,
    counters: PeerCounters,
) -> String {
    let mut watch = tokio::time::interval(limits.progress_timeout / 2);
    watch.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut heard = Instant::now();
    let mut pinged: Option<Instant> = None;
    loop {
        tokio::select! {
            frame = reader.next() => match frame {
                Ok(Some((frame, bytes))) => {
                    heard = Instant::now();
                    pinged = None;
                    counters.received(frame.kind, bytes);
                    let result = match frame.tag {
                        Tag::Answer => Ok(frame.body),
                        Tag::Refused => Err(CallError::Unreachable("the peer has too much in work".into())),
                        Tag::Request => return "the peer asked where it should answer".into(),
                    };
                    let waiting = shared.lock().waiting.remove(&frame.id);
                    match waiting {
                        Some(waiting) if waiting.kind == frame.kind => {
                            // A requester that is gone needs no answer.
                            let _ = waiting.answer.send(result);
                        }
                        Some(_) => return "the peer answered another question".into(),
                        // Taken back, or a keep-alive.
                        None => {}
                    }
                }
                Ok(None) => return "closed by the peer".into(),
                Err(why) => return format!("read: {why}"),
            },
            now = watch.tick() => {
                if !sender.is_drained() {
                    // Bytes wait to be written: the writer has its own limit on progress.
                    pinged = pinged.map(|_| now);
                } else if pinged.is_some_and(|at| now.duration_since(at) >= limits.progress_timeout) {
                    return "no progress".into();
                }
                let silent = now.duration_since(heard);
                let waited_for = shared.lock().waiting.values().any(|waiting| waiting.sent);
                let due = if waited_for { limits.progress_timeout / 2 } else { KEEP_ALIVE };
                if pinged.is_none() && silent >= due {
                    let (tag, kind, body) = (Tag::Request, kind::PING, Bytes::new());
                    match sender.send(Outgoing { tag, kind, id: PING_ID, body, patient: false }) {
                        Ok(()) => pinged = Some(now),
                        Err(NotQueued::Full) => {}
                        Err(NotQueued::Closed) => return "closed".into(),
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::PATIENCE;

    #[tokio::test]
    async fn held_beats_do_not_keep_a_silent_peer_connected() {
        let config = crate::Config::new(([127, 0, 0, 1], 0).into(), "");
        let limits = Limits {
            progress_timeout: Duration::from_millis(40),
            // For ever: whenever somebody looks, a beat is held.
            beat_hold: PATIENCE * 10,
            ..Limits::of(&config)
        };
        let (stream, _silent) = tokio::io::duplex(1 << 20);
        let (read, write) = tokio::io::split(stream);
        let connection = Connection::start(read, write, limits, PeerCounters::new());
        let beats = async {
            let mut held = Vec::new();
            while let Ok(beat) = connection.request(kind::BEAT, Bytes::new(), true) {
                held.push(beat);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let mut asked = connection.request(kind::VOTE, Bytes::new(), false).expect("room");
        let (answer, ()) = tokio::join!(asked.answer(PATIENCE), beats);
        assert_eq!(answer, Err(CallError::Unknown("no progress".into())));
    }
}
