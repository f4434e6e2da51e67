use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, timeout_at};

use super::Error;
use crate::protocol::{FRONT_BYTES, Front};

/// The size prefix of a frame.
const PREFIX_BYTES: usize = 4;

/// What an idle connection keeps. Small requests arrive in it whole, with one read.
const LOOKAHEAD_BYTES: usize = 512;

/// A frame's bytes may take this long to come, and longer at this rate for those that have come.
const FRAME_TIME_MAX: Duration = Duration::from_secs(30);
const FRAME_BYTES_PER_SECOND_MIN: usize = 64 * 1024;

/// Cuts the bytes of a socket into frames. A frame's body is given memory only when asked for.
pub(super) struct Frames<R> {
    io: R,
    lookahead: [u8; LOOKAHEAD_BYTES],
    start: usize,
    end: usize,
}

/// A frame that has begun to arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arriving {
    /// Bytes of the frame, without the prefix; at least [`FRONT_BYTES`].
    pub(super) bytes: usize,
    pub(super) front: Front,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub(super) fn new(io: R) -> Self {
        Frames { io, lookahead: [0; LOOKAHEAD_BYTES], start: 0, end: 0 }
    }

    /// Waits until a frame begins; None when the peer is done. Safe to drop and call again.
    pub(super) async fn next(&mut self) -> Result<Option<Arriving>, Error> {
        loop {
            if let Some(arriving) = self.arriving()? {
                return Ok(Some(arriving));
            }
            if self.start > 0 {
                self.lookahead.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            match self.io.read(&mut self.lookahead[self.end..]).await? {
                0 if self.end == 0 => return Ok(None),
                0 => return Err(Error::CutFrame),
                taken => self.end += taken,
            }
        }
    }

    /// Reads the whole frame, from the API key on.
    ///
    /// # Errors
    /// [`Error::SlowFrame`] as soon as it comes too slowly: what it is charged is wanted by others.
    pub(super) async fn take(&mut self, arriving: Arriving) -> Result<Bytes, Error> {
        self.start += PREFIX_BYTES;
        let mut frame = BytesMut::with_capacity(arriving.bytes);
        let ready = (self.end - self.start).min(arriving.bytes);
        frame.extend_from_slice(&self.lookahead[self.start..self.start + ready]);
        self.start += ready;
        let patient = Instant::now() + FRAME_TIME_MAX;
        while frame.len() < arriving.bytes {
            let left = (arriving.bytes - frame.len()) as u64;
            let until = patient + Duration::from_secs((frame.len() / FRAME_BYTES_PER_SECOND_MIN) as u64);
            let taken = timeout_at(until, (&mut self.io).take(left).read_buf(&mut frame)).await;
            if taken.map_err(|_| Error::SlowFrame { bytes: arriving.bytes })?? == 0 {
                return Err(Error::CutFrame);
            }
        }
        Ok(frame.freeze())
    }

    /// What the lookahead shows; None if it shows too little. A bad length is refused at once.
    fn arriving(&self) -> Result<Option<Arriving>, Error> {
        let shown = &self.lookahead[self.start..self.end];
        let Some((prefix, rest)) = shown.split_first_chunk::<PREFIX_BYTES>() else {
            return Ok(None);
        };
        let length = i32::from_be_bytes(*prefix);
        let bytes =
            usize::try_from(length).ok().filter(|&bytes| bytes >= FRONT_BYTES).ok_or(Error::FrameLength(length))?;
        Ok(rest.first_chunk().map(|front| Arriving { bytes, front: Front::parse(*front) }))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, duplex};

    use super::*;

    fn frame(body: &[u8]) -> Vec<u8> {
        let mut frame = ((FRONT_BYTES + body.len()) as i32).to_be_bytes().to_vec();
        frame.extend_from_slice(&[0, 3, 0, 9, 0, 0, 0, 77]);
        frame.extend_from_slice(body);
        frame
    }

    #[tokio::test]
    async fn cuts_small_and_large_frames_from_one_stream() {
        let bodies: Vec<Vec<u8>> =
            [0, 1, 500, 503, 504, 505, 5_000, 3, 0, 100_000].iter().map(|&n| vec![n as u8; n]).collect();
        let stream: Vec<u8> = bodies.iter().flat_map(|body| frame(body)).collect();
        let mut frames = Frames::new(stream.as_slice());
        for body in &bodies {
            let arriving = frames.next().await.unwrap().unwrap();
            assert_eq!(arriving.front, Front { api_key: 3, version: 9, correlation_id: 77 });
            assert_eq!(&frames.take(arriving).await.unwrap()[FRONT_BYTES..], body);
        }
        assert_eq!(frames.next().await.unwrap(), None);
    }

    #[tokio::test]
    async fn refuses_lengths_no_request_can_have() {
        for length in [-1, i32::MIN, 0, 7] {
            let bytes = length.to_be_bytes();
            let refused = Frames::new(bytes.as_slice()).next().await;
            assert!(matches!(refused, Err(Error::FrameLength(found)) if found == length));
        }
    }

    /// The end of a frame of 100 MiB of which so many bytes come every second, and when it came.
    async fn trickled(bytes: usize) -> (Result<Bytes, Error>, Duration) {
        let began = Instant::now();
        let (io, mut client) = duplex(1 << 20);
        let trickle = tokio::spawn(async move {
            let mut next = [&(100i32 << 20).to_be_bytes()[..], &[0; FRONT_BYTES]].concat();
            while client.write_all(&next).await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
                next = vec![0; bytes];
            }
        });
        let mut frames = Frames::new(io);
        let arriving = frames.next().await.unwrap().unwrap();
        let taken = frames.take(arriving).await;
        trickle.abort();
        (taken, began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_frame_that_does_not_come_is_given_up_long_before_it_could_have_come() {
        for bytes in [0, 1, 1000] {
            let (taken, after) = trickled(bytes).await;
            assert!(matches!(taken, Err(Error::SlowFrame { bytes: 104_857_600 })));
            assert!(after < Duration::from_secs(35), "{after:?}");
        }
        let (taken, _) = trickled(FRAME_BYTES_PER_SECOND_MIN).await;
        assert_eq!(taken.unwrap().len(), 100 << 20, "slow, but not too slow");
    }

    #[tokio::test]
    async fn an_end_within_a_frame_is_an_error() {
        let whole = frame(b"body");
        for cut in 1..whole.len() {
            let mut frames = Frames::new(&whole[..cut]);
            let end = match frames.next().await {
                Ok(Some(arriving)) => frames.take(arriving).await.map(drop),
                other => other.map(drop),
            };
            assert!(matches!(end, Err(Error::CutFrame)), "cut at {cut}");
        }
    }
}
