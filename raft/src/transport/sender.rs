//! The writing half of a connection: drains its queue into as few writes as it can.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::Limits;
use super::frame::{Tag, put_head};
use super::traffic::PeerCounters;

/// Frames are joined up to here; a longer body is written on its own.
const JOINED_BYTES_MAX: usize = 256 << 10;

/// Counted per queued frame beside its body.
const FRAME_OVERHEAD_BYTES: usize = 64;

pub(super) struct Outgoing {
    pub(super) tag: Tag,
    pub(super) kind: u8,
    pub(super) id: u32,
    pub(super) body: Bytes,
    /// May wait for the next beat of the connection's clock.
    pub(super) patient: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotQueued {
    Full,
    Closed,
}

/// A handle on the queue of a connection; a cheap clone.
#[derive(Clone)]
pub(super) struct FrameSender {
    queue: mpsc::UnboundedSender<Outgoing>,
    queued_bytes: Arc<AtomicUsize>,
    /// Frames in the queue that wait for nothing but the socket.
    queued_urgent: Arc<AtomicUsize>,
    queue_bytes_max: usize,
}

pub(super) struct FrameQueue {
    inbox: mpsc::UnboundedReceiver<Outgoing>,
    queued_bytes: Arc<AtomicUsize>,
    queued_urgent: Arc<AtomicUsize>,
}

pub(super) fn frame_queue(queue_bytes_max: usize) -> (FrameSender, FrameQueue) {
    let (queue, inbox) = mpsc::unbounded_channel();
    let (queued_bytes, queued_urgent) = (Arc::default(), Arc::default());
    (
        FrameSender {
            queue,
            queued_bytes: Arc::clone(&queued_bytes),
            queued_urgent: Arc::clone(&queued_urgent),
            queue_bytes_max,
        },
        FrameQueue { inbox, queued_bytes, queued_urgent },
    )
}

impl FrameSender {
    pub(super) fn send(&self, frame: Outgoing) -> Result<(), NotQueued> {
        let bytes = frame.body.len() + FRAME_OVERHEAD_BYTES;
        let before = self.queued_bytes.fetch_add(bytes, Ordering::AcqRel);
        if before > 0 && before + bytes > self.queue_bytes_max {
            self.queued_bytes.fetch_sub(bytes, Ordering::AcqRel);
            return Err(NotQueued::Full);
        }
        if !frame.patient {
            self.queued_urgent.fetch_add(1, Ordering::AcqRel);
        }
        // A frame that finds the queue closed is dropped with the counter it was counted in.
        self.queue.send(frame).map_err(|_| NotQueued::Closed)
    }

    /// Nothing waits for the socket; patient frames may wait for their tick.
    pub(super) fn is_drained(&self) -> bool {
        self.queued_urgent.load(Ordering::Acquire) == 0
    }
}

/// How a connection writes.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    pub(super) beat_hold: Duration,
    pub(super) progress_timeout: Duration,
    ticks_from: Instant,
}

impl Pace {
    pub(super) fn of(limits: &Limits) -> Self {
        let Limits { beat_hold, progress_timeout, ticks_from, .. } = *limits;
        Pace { beat_hold, progress_timeout, ticks_from }
    }

    fn next_tick(&self) -> Instant {
        let now = Instant::now();
        let since = now.duration_since(self.ticks_from);
        let into_tick = since.as_nanos() % self.beat_hold.as_nanos();
        now + self.beat_hold - Duration::from_nanos(into_tick as u64)
    }
}

/// Writes until the queue is closed (Ok) or the socket fails or stalls. `claim` is asked before a frame is written; a
/// frame it does not claim is skipped.
pub(super) async fn write_frames<W: AsyncWrite + Unpin>(
    mut write: W,
    mut queue: FrameQueue,
    pace: Pace,
    counters: PeerCounters,
    mut claim: impl FnMut(&Outgoing) -> bool,
) -> io::Result<()> {
    let mut joined = Vec::new();
    while let Some(batch) = next_batch(&mut queue, pace).await {
        for frame in batch {
            queue.queued_bytes.fetch_sub(frame.body.len() + FRAME_OVERHEAD_BYTES, Ordering::AcqRel);
            if !frame.patient {
                queue.queued_urgent.fetch_sub(1, Ordering::AcqRel);
            }
            if !claim(&frame) {
                continue;
            }
            let before = joined.len();
            put_head(&mut joined, frame.tag, frame.kind, frame.id, frame.body.len());
            counters.sent(frame.kind, joined.len() - before + frame.body.len());
            if frame.body.len() > JOINED_BYTES_MAX {
                flush(&mut write, &mut joined, pace).await?;
                write_all(&mut write, &frame.body, pace).await?;
                continue;
            }
            joined.extend_from_slice(&frame.body);
            if joined.len() > JOINED_BYTES_MAX {
                flush(&mut write, &mut joined, pace).await?;
            }
        }
        flush(&mut write, &mut joined, pace).await?;
    }
    Ok(())
}

async fn flush<W: AsyncWrite + Unpin>(write: &mut W, joined: &mut Vec<u8>, pace: Pace) -> io::Result<()> {
    write_all(write, joined, pace).await?;
    joined.clear();
    Ok(())
}

/// Fails when the peer takes nothing for the progress timeout; a slow peer that takes something is given time.
async fn write_all<W: AsyncWrite + Unpin>(write: &mut W, mut bytes: &[u8], pace: Pace) -> io::Result<()> {
    while !bytes.is_empty() {
        let written =
            timeout(pace.progress_timeout, write.write(bytes)).await.map_err(|_| io::ErrorKind::TimedOut)??;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[written..];
    }
    Ok(())
}

/// Everything that is queued, once something urgent is or the oldest patient frame has waited for its tick. `None` when
/// the queue is closed and empty.
async fn next_batch(queue: &mut FrameQueue, pace: Pace) -> Option<Vec<Outgoing>> {
    let first = queue.inbox.recv().await?;
    let mut urgent = !first.patient;
    let mut batch = vec![first];
    // Tasks that are ready to run get to add theirs: one pass through the scheduler, not a timer.
    tokio::task::yield_now().await;
    drain(queue, &mut batch, &mut urgent);
    if urgent || pace.beat_hold.is_zero() {
        return Some(batch);
    }
    let tick = tokio::time::sleep_until(pace.next_tick());
    tokio::pin!(tick);
    while !urgent {
        tokio::select! {
            () = &mut tick => break,
            more = queue.inbox.recv() => {
                let Some(more) = more else { break };
                urgent = !more.patient;
                batch.push(more);
            }
        }
    }
    drain(queue, &mut batch, &mut urgent);
    Some(batch)
}

fn drain(queue: &mut FrameQueue, batch: &mut Vec<Outgoing>, urgent: &mut bool) {
    while let Ok(more) = queue.inbox.try_recv() {
        *urgent |= !more.patient;
        batch.push(more);
    }
}
