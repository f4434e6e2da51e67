use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

use super::intake::Charge;
use super::{Error, Limits};
use crate::batch::Segments;

/// Segments handed to one gather write.
const GATHER_MAX: usize = 64;

/// Slow or not, a reader that takes this many is none to get rid of.
const BYTES_PER_SECOND_MIN: u64 = 64 * 1024;

/// Answers on their way to the socket.
pub(super) struct Outbox<W> {
    io: W,
    chunks: VecDeque<Bytes>,
    /// What each answer holds, and the position in the stream at which it is written.
    charges: VecDeque<(u64, Charge)>,
    queued_bytes: u64,
    written_bytes: u64,
    stall_max: Duration,
    slow_after: Duration,
    stalled_at: Instant,
    /// When the oldest answer came to be the next.
    since: Instant,
    /// How much was written when the reader was last looked at, and when it is looked at again.
    judged_bytes: u64,
    judged_at: Instant,
    slow: bool,
}

impl<W: AsyncWrite + Unpin> Outbox<W> {
    pub(super) fn new(io: W, limits: &Limits) -> Self {
        let Limits { write_stall_max: stall_max, slow_after, .. } = *limits;
        let now = Instant::now();
        Outbox {
            io,
            chunks: VecDeque::new(),
            charges: VecDeque::new(),
            queued_bytes: 0,
            written_bytes: 0,
            stall_max,
            slow_after,
            stalled_at: now + stall_max,
            since: now,
            judged_bytes: 0,
            judged_at: now + slow_after,
            slow: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// # Errors
    /// The peer is slow, and there is no room for another answer to such a peer.
    pub(super) fn push(&mut self, answer: Segments, charge: Charge) -> Result<(), Error> {
        if self.chunks.is_empty() {
            self.stalled_at = Instant::now() + self.stall_max;
            self.next_answer();
        }
        self.queued_bytes += answer.len() as u64;
        if self.slow {
            if !charge.answer.turn_slow() {
                return Err(Error::SlowReader);
            }
            self.chunks.extend(answer.into_chunks().iter().map(|chunk| Bytes::copy_from_slice(chunk)));
        } else {
            self.chunks.extend(answer.into_chunks());
        }
        self.charges.push_back((self.queued_bytes, charge));
        Ok(())
    }

    /// Writes what the socket takes now, and answers how much that was: nothing when the peer has just turned out slow.
    /// Safe to drop and call again.
    ///
    /// # Errors
    /// [`Error::SlowReader`] when the peer takes nothing for too long, or too little; the socket's own errors.
    pub(super) async fn write(&mut self) -> Result<usize, Error> {
        let mut slices = [IoSlice::new(&[]); GATHER_MAX];
        let mut used = 0;
        for (slice, chunk) in slices.iter_mut().zip(&self.chunks) {
            *slice = IoSlice::new(chunk);
            used += 1;
        }
        let until = self.stalled_at.min(self.judged_at);
        let Ok(written) = timeout_at(until, self.io.write_vectored(&slices[..used])).await else {
            return self.judge().map(|()| 0);
        };
        let written = written?;
        if written == 0 {
            return Err(io::Error::from(io::ErrorKind::WriteZero).into());
        }
        self.advance(written);
        self.stalled_at = Instant::now() + self.stall_max;
        if self.judged_at <= Instant::now() {
            self.judge()?;
        }
        Ok(written)
    }

    /// The oldest answer has been on its way for long, or has been for a while longer.
    fn judge(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        if self.stalled_at <= now {
            return Err(Error::SlowReader);
        }
        // The window is short: the socket's own buffer takes megabytes from any answer at once.
        let taken = (self.written_bytes - self.judged_bytes) as f64;
        let trickles = taken < BYTES_PER_SECOND_MIN as f64 * self.slow_after.as_secs_f64();
        self.judged_bytes = self.written_bytes;
        self.judged_at = now + self.slow_after;
        if self.chunks.is_empty() {
            return Ok(());
        }
        let elapsed = now.saturating_duration_since(self.since);
        // A peer that takes something now and then does not stall, but must come to an end.
        if trickles && elapsed > self.stall_max {
            return Err(Error::SlowReader);
        }
        if self.slow {
            return Ok(());
        }
        if self.charges.iter().all(|(_, charge)| charge.answer.turn_slow()) {
            self.slow = true;
            // What is shared with the cache would keep whole objects in memory, which nobody counts.
            self.chunks.iter_mut().for_each(|chunk| *chunk = Bytes::copy_from_slice(chunk));
        } else if trickles {
            return Err(Error::SlowReader);
        }
        Ok(())
    }

    fn next_answer(&mut self) {
        self.since = Instant::now();
        self.judged_bytes = self.written_bytes;
        self.judged_at = self.since + self.slow_after;
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
        let before = self.charges.len();
        while self.charges.front().is_some_and(|(end, _)| *end <= self.written_bytes) {
            self.charges.pop_front();
        }
        if self.charges.len() < before {
            self.next_answer();
        }
        if self.chunks.is_empty() {
            self.slow = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::types::{AnswerMemory, Answers};

    fn limits() -> Limits {
        let (slow_after, write_stall_max) = (Duration::from_millis(2), Duration::from_millis(40));
        Limits { slow_after, write_stall_max, ..Limits::default() }
    }

    async fn charge(answers: &Arc<Answers>, bytes: usize) -> Charge {
        let answer = AnswerMemory::new(answers);
        answer.take(bytes, false).await;
        Charge::for_tests(answer)
    }

    #[tokio::test]
    async fn a_reader_that_trickles_comes_to_an_end() {
        let answers = Answers::new(1 << 20);
        let (io, mut reader) = tokio::io::duplex(64);
        let mut outbox = Outbox::new(io, &limits());
        let answer = Segments::from(Bytes::from(vec![7; 100_000]));
        outbox.push(answer, charge(&answers, 100_000).await).unwrap();
        let trickle = tokio::spawn(async move {
            while reader.read_u8().await.is_ok() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        let ended = loop {
            if let Err(error) = outbox.write().await {
                break error;
            }
        };
        assert!(matches!(ended, Error::SlowReader), "{ended}");
        drop(outbox);
        trickle.await.unwrap();
    }

    #[tokio::test]
    async fn a_slow_reader_keeps_no_shared_bytes_and_gets_every_byte() {
        let answers = Answers::new(1 << 20);
        let (io, mut reader) = tokio::io::duplex(64);
        let mut outbox = Outbox::new(io, &limits());
        let object: Bytes = (0..200_000).map(|i| (i % 251) as u8).collect();
        let mut answer = Segments::new();
        answer.share(object.slice(100..50_100));
        outbox.push(answer, charge(&answers, 50_000).await).unwrap();
        while outbox.write().await.unwrap() > 0 {}
        assert!(object.is_unique(), "what is left was copied");
        let mut answer = Segments::new();
        answer.share(object.slice(60_000..65_000));
        outbox.push(answer, charge(&answers, 5_000).await).unwrap();
        assert!(object.is_unique());
        let read = tokio::spawn(async move {
            let mut got = vec![0; 55_000];
            reader.read_exact(&mut got).await.unwrap();
            got
        });
        while !outbox.is_empty() {
            outbox.write().await.unwrap();
        }
        assert_eq!(read.await.unwrap(), [&object[100..50_100], &object[60_000..65_000]].concat());
    }
}
