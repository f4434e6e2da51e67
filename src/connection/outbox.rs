use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

use super::Error;
use super::intake::Charge;
use crate::batch::Segments;

/// Segments handed to one gather write.
const GATHER_MAX: usize = 64;

/// Answers on their way to the socket.
pub(super) struct Outbox<W> {
    io: W,
    chunks: VecDeque<Bytes>,
    /// What each answer holds, and the position in the stream at which it is written.
    charges: VecDeque<(u64, Charge)>,
    queued_bytes: u64,
    written_bytes: u64,
    stall_max: Duration,
    stalled_at: Instant,
}

impl<W: AsyncWrite + Unpin> Outbox<W> {
    pub(super) fn new(io: W, stall_max: Duration) -> Self {
        Outbox {
            io,
            chunks: VecDeque::new(),
            charges: VecDeque::new(),
            queued_bytes: 0,
            written_bytes: 0,
            stall_max,
            stalled_at: Instant::now() + stall_max,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    pub(super) fn push(&mut self, answer: Segments, charge: Charge) {
        if self.chunks.is_empty() {
            self.stalled_at = Instant::now() + self.stall_max;
        }
        self.queued_bytes += answer.len() as u64;
        self.chunks.extend(answer.into_chunks());
        self.charges.push_back((self.queued_bytes, charge));
    }

    /// Writes what the socket takes now, and answers how much that was. Safe to drop and call again.
    pub(super) async fn write(&mut self) -> Result<usize, Error> {
        let mut slices = [IoSlice::new(&[]); GATHER_MAX];
        let mut used = 0;
        for (slice, chunk) in slices.iter_mut().zip(&self.chunks) {
            *slice = IoSlice::new(chunk);
            used += 1;
        }
        let written = timeout_at(self.stalled_at, self.io.write_vectored(&slices[..used]))
            .await
            .map_err(|_| Error::SlowReader)??;
        if written == 0 {
            return Err(io::Error::from(io::ErrorKind::WriteZero).into());
        }
        self.advance(written);
        self.stalled_at = Instant::now() + self.stall_max;
        Ok(written)
    }

    fn advance(&mut self, mut written: usize) {
        self.written_bytes += written as u64;
        while let Some(chunk) = self.chunks.front_mut() {
            if chunk.len() > written {
                chunk.advance(written);
                break;
            }
            written -= chunk.len();
            self.chunks.pop_front();
        }
        while self.charges.front().is_some_and(|(end, _)| *end <= self.written_bytes) {
            self.charges.pop_front();
        }
    }
}
