use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::Error;
use crate::protocol::{FRONT_BYTES, Front};

/// The size prefix of a frame.
const PREFIX_BYTES: usize = 4;

/// What an idle connection keeps. Small requests arrive in it whole, with one read.
const LOOKAHEAD_BYTES: usize = 512;

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
    pub(super) async fn take(&mut self, arriving: Arriving) -> Result<Bytes, Error> {
        self.start += PREFIX_BYTES;
        let mut frame = BytesMut::with_capacity(arriving.bytes);
        let ready = (self.end - self.start).min(arriving.bytes);
        frame.extend_from_slice(&self.lookahead[self.start..self.start + ready]);
        self.start += ready;
        while frame.len() < arriving.bytes {
            let left = (arriving.bytes - frame.len()) as u64;
            if (&mut self.io).take(left).read_buf(&mut frame).await? == 0 {
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
