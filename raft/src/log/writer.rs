//! The one thread that writes: drain the queue, one write, one sync, then tell everybody.

use std::any::Any;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::disk::{Disk, DiskFile};
use super::record;
use super::recover::Recovered;
use super::segments::{Place, Segments, file_name};
use crate::{Error, GroupId, Identity};

/// A segment with little more than its head is not closed, however small the limit.
const SMALLEST_SEGMENT_BYTES: u64 = 512;

/// One write is at most this long, unless a single record is longer.
pub(super) const WRITE_BYTES_MAX: usize = 4 << 20;

pub(crate) struct LogConfig {
    pub(crate) identity: Identity,
    pub(crate) segment_bytes: u64,
    pub(crate) queue_bytes_max: usize,
}

/// How the records of an operation change what is alive.
pub(super) enum Change {
    /// Index and encoded length of each entry, in order.
    Entries(Vec<(u64, u64)>),
    Vote,
    TruncateFrom(u64),
    Purge(u64),
    Remove,
    /// Nothing but the commit that rides along.
    Note,
}

type Done = Box<dyn FnOnce(io::Result<()>) + Send>;

/// Encoded records of one group. With `done`, they are synced before it is called.
pub(super) struct Op {
    pub(super) group: GroupId,
    pub(super) change: Change,
    /// Encoded length of the commit that rides along, if one does.
    pub(super) commit_bytes: Option<u64>,
    pub(super) encoded: Vec<u8>,
    pub(super) done: Option<Done>,
}

enum Message {
    Op { op: Op, permits: u32 },
    Close(oneshot::Sender<()>),
}

/// Counters since the start.
#[derive(Debug, Default)]
pub(crate) struct LogStats {
    pub(crate) operations: AtomicU64,
    pub(crate) syncs: AtomicU64,
}

/// A handle on the writer; a cheap clone. The writer ends when the last handle is gone, or after [`Log::close`].
#[derive(Clone)]
pub(crate) struct Log {
    queue: mpsc::UnboundedSender<Message>,
    permits: Arc<Semaphore>,
    queue_bytes_max: usize,
    poisoned: watch::Receiver<Option<String>>,
    stats: Arc<LogStats>,
}

impl Log {
    /// Opens a fresh segment and starts the writer, which holds `guard` (the lock of the directory) until it ends.
    pub(crate) fn start(
        disk: Arc<dyn Disk>,
        config: LogConfig,
        recovered: Recovered,
        guard: Guard,
    ) -> Result<Log, Error> {
        let (queue, inbox) = mpsc::unbounded_channel();
        let (poison, poisoned) = watch::channel(None);
        let permits = Arc::new(Semaphore::new(config.queue_bytes_max));
        let stats = Arc::new(LogStats::default());
        let queue_bytes_max = config.queue_bytes_max;
        let mut segments = recovered.segments;
        let sequence = recovered.next_sequence;
        let what = format!("creating {}", disk.path(&file_name(sequence)).display());
        let file = create(&*disk, &config.identity, sequence, &mut segments).map_err(Error::io(what))?;
        let writer = Writer {
            disk,
            config,
            segments,
            sequence,
            file,
            unsynced: false,
            failed: None,
            poison,
            stats: stats.clone(),
            permits: permits.clone(),
        };
        start(writer, inbox, guard).map_err(Error::io("starting the log writer"))?;
        Ok(Log { queue, permits, queue_bytes_max, poisoned, stats })
    }

    /// Waits for room in the queue, then enqueues.
    pub(super) async fn submit(&self, op: Op) {
        let permits = op.encoded.len().min(self.queue_bytes_max) as u32;
        match self.permits.acquire_many(permits).await {
            Ok(room) => room.forget(),
            Err(_) => return refuse(op, &io::Error::other("log is closed")),
        }
        self.send(op, permits);
    }

    /// Enqueues at once: for records that are small and few.
    pub(super) fn submit_now(&self, op: Op) {
        self.send(op, 0);
    }

    fn send(&self, op: Op, permits: u32) {
        if let Err(mpsc::error::SendError(Message::Op { op, .. })) = self.queue.send(Message::Op { op, permits }) {
            refuse(op, &io::Error::other("log is closed"));
        }
    }

    /// Why the log takes nothing any more, once a write or sync has failed.
    pub(crate) fn poisoned(&self) -> watch::Receiver<Option<String>> {
        self.poisoned.clone()
    }

    pub(crate) fn stats(&self) -> &LogStats {
        &self.stats
    }

    /// Writes and syncs what is queued, then ends the writer. Returns when the lock of the directory is released.
    pub(crate) async fn close(&self) {
        let (closed, done) = oneshot::channel();
        if self.queue.send(Message::Close(closed)).is_ok() {
            // An error here says that the writer has ended, which is what is waited for.
            let _ = done.await;
        }
    }
}

fn refuse(op: Op, why: &io::Error) {
    if let Some(done) = op.done {
        done(Err(copy(why)));
    }
}

fn copy(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}

fn create(
    disk: &dyn Disk,
    identity: &Identity,
    sequence: u64,
    segments: &mut Segments,
) -> io::Result<Box<dyn DiskFile>> {
    let head = record::encode_segment_head(sequence, identity);
    let mut file = disk.create(&file_name(sequence))?;
    file.append(&head)?;
    file.sync()?;
    disk.sync_dir()?;
    segments.open(sequence, head.len() as u64);
    Ok(file)
}

/// Runs the writer on a thread of its own: it waits for the disk.
#[cfg(not(feature = "simulation"))]
fn start(mut writer: Writer, mut inbox: mpsc::UnboundedReceiver<Message>, guard: Guard) -> io::Result<()> {
    let run = move || {
        let mut closed = None;
        while closed.is_none()
            && let Some(first) = inbox.blocking_recv()
        {
            let batch = Batch::gather(first, &mut inbox);
            writer.append(&batch);
            closed = writer.settle(batch);
        }
        drop(guard);
        // Whoever waits for the end may open the directory again at once.
        drop(closed);
    };
    std::thread::Builder::new().name("raft-log".into()).spawn(run).map(drop)
}

/// Runs the writer in simulated time, of which a sync takes some: a crash may come before it.
#[cfg(feature = "simulation")]
fn start(mut writer: Writer, mut inbox: mpsc::UnboundedReceiver<Message>, guard: Guard) -> io::Result<()> {
    tokio::spawn(async move {
        let mut closed = None;
        while closed.is_none()
            && let Some(first) = inbox.recv().await
        {
            let batch = Batch::gather(first, &mut inbox);
            writer.append(&batch);
            tokio::time::sleep(crate::simulation::SYNC_TIME).await;
            closed = writer.settle(batch);
        }
        drop(guard);
        drop(closed);
    });
    Ok(())
}

type Guard = Box<dyn Any + Send>;

/// What is written at once.
struct Batch {
    ops: Vec<Op>,
    bytes: usize,
    permits: usize,
    /// Who asked for the end, if somebody did.
    closed: Option<oneshot::Sender<()>>,
}

impl Batch {
    /// Everything that is queued, up to the size of one write.
    fn gather(first: Message, inbox: &mut mpsc::UnboundedReceiver<Message>) -> Batch {
        let mut batch = Batch { ops: Vec::new(), bytes: 0, permits: 0, closed: None };
        let mut next = Some(first);
        while let Some(message) = next.take() {
            match message {
                Message::Op { op, permits } => {
                    batch.bytes += op.encoded.len();
                    batch.permits += permits as usize;
                    batch.ops.push(op);
                }
                Message::Close(done) => batch.closed = Some(done),
            }
            if batch.bytes < WRITE_BYTES_MAX && batch.closed.is_none() {
                next = inbox.try_recv().ok();
            }
        }
        batch
    }
}

pub(super) struct Writer {
    pub(super) disk: Arc<dyn Disk>,
    config: LogConfig,
    pub(super) segments: Segments,
    /// Of the segment being written.
    pub(super) sequence: u64,
    pub(super) file: Box<dyn DiskFile>,
    pub(super) unsynced: bool,
    failed: Option<io::Error>,
    poison: watch::Sender<Option<String>>,
    stats: Arc<LogStats>,
    permits: Arc<Semaphore>,
}

impl Writer {
    /// Writes, without waiting for the disk to have it.
    fn append(&mut self, batch: &Batch) {
        if self.failed.is_none() {
            let written = self.write(batch);
            self.note(written);
        }
    }

    /// Syncs what somebody waits for, then tells everybody. Answers who asked for the end, if somebody did.
    fn settle(&mut self, batch: Batch) -> Option<oneshot::Sender<()>> {
        if self.failed.is_none() {
            let settled = self.sync_and_clean(&batch);
            self.note(settled);
        }
        for op in batch.ops {
            match (&self.failed, op.done) {
                (Some(why), Some(done)) => done(Err(copy(why))),
                (None, Some(done)) => done(Ok(())),
                (_, None) => {}
            }
        }
        self.permits.add_permits(batch.permits);
        if batch.closed.is_some() {
            if self.failed.is_none() {
                let synced = self.sync();
                self.note(synced);
            }
            self.permits.close();
        }
        batch.closed
    }

    /// The first failure ends everything: what a failed write or sync left on disk is not known.
    fn note(&mut self, outcome: io::Result<()>) {
        if let Err(why) = outcome {
            tracing::error!(%why, "the raft log is poisoned: a write or sync failed");
            self.poison.send_replace(Some(format!("raft log: {why}")));
            self.failed = Some(why);
        }
    }

    fn write(&mut self, batch: &Batch) -> io::Result<()> {
        if batch.bytes == 0 {
            return Ok(());
        }
        self.roll_before(batch.bytes as u64)?;
        match &batch.ops[..] {
            [op] => self.file.append(&op.encoded)?,
            ops => {
                let mut joined = Vec::with_capacity(batch.bytes);
                ops.iter().for_each(|op| joined.extend_from_slice(&op.encoded));
                self.file.append(&joined)?;
            }
        }
        self.unsynced = true;
        self.segments.grow(self.sequence, batch.bytes as u64);
        self.stats.operations.fetch_add(batch.ops.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn sync_and_clean(&mut self, batch: &Batch) -> io::Result<()> {
        if batch.ops.iter().any(|op| op.done.is_some()) {
            self.sync()?;
        }
        batch.ops.iter().for_each(|op| self.account(op));
        self.clean()
    }

    pub(super) fn sync(&mut self) -> io::Result<()> {
        if self.unsynced {
            self.file.sync()?;
            self.stats.syncs.fetch_add(1, Ordering::Relaxed);
            self.unsynced = false;
        }
        Ok(())
    }

    /// Starts a new segment when `bytes` more would make this one too long. The old one is synced first: a segment
    /// that is not the last is whole.
    pub(super) fn roll_before(&mut self, bytes: u64) -> io::Result<()> {
        let now = self.segments.bytes_of(self.sequence);
        if now + bytes <= self.config.segment_bytes || now <= record::OVERHEAD_BYTES + SMALLEST_SEGMENT_BYTES {
            return Ok(());
        }
        self.sync()?;
        self.file = create(&*self.disk, &self.config.identity, self.sequence + 1, &mut self.segments)?;
        self.sequence += 1;
        Ok(())
    }

    fn account(&mut self, op: &Op) {
        let place = Place { sequence: self.sequence, bytes: op.encoded.len() as u64 };
        match &op.change {
            Change::Entries(entries) => {
                for (index, bytes) in entries {
                    self.segments.entry(op.group, *index, Place { bytes: *bytes, ..place });
                }
            }
            Change::Vote => self.segments.vote(op.group, place),
            Change::TruncateFrom(index) => self.segments.truncate_from(op.group, *index),
            Change::Purge(upto) => self.segments.purge(op.group, *upto, place),
            Change::Remove => self.segments.remove(op.group),
            Change::Note => {}
        }
        if let Some(bytes) = op.commit_bytes {
            self.segments.committed(op.group, Place { bytes, ..place });
        }
    }

    /// Deletes dead segments, oldest first and one directory sync each, so that no gap can appear in their sequence;
    /// copies the oldest one forward when that pays.
    fn clean(&mut self) -> io::Result<()> {
        if let Some(sequence) = self.segments.worth_copying(self.config.segment_bytes) {
            self.copy_forward(sequence)?;
        }
        while let Some(sequence) = self.segments.dead_oldest() {
            // What killed its records may be written, but not yet synced.
            self.sync()?;
            self.disk.remove(&file_name(sequence))?;
            self.disk.sync_dir()?;
            self.segments.forget(sequence);
        }
        Ok(())
    }
}
