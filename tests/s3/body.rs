use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use s3s::Body;
use tokio::time::{Sleep, sleep};

/// The longest body that is taken.
const BODY_BYTES_MAX: u64 = 256 << 20;

/// A slow body comes in so many pieces.
const SLOW_PIECES: u32 = 10;

/// Gathers a whole body.
pub async fn collect<B>(body: &mut B) -> io::Result<Bytes>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let expected = body.size_hint().exact().unwrap_or(0);
    if expected > BODY_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = BytesMut::with_capacity(expected as usize);
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
        let Ok(data) = frame.map_err(io::Error::other)?.into_data() else { continue };
        if (bytes.len() + data.len()) as u64 > BODY_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.freeze())
}

/// What becomes of a body on its way.
#[derive(Debug, Clone, Copy)]
pub enum Cut {
    /// The second half never comes, and the connection is closed.
    Truncated,
    /// The second half was never there.
    Short,
    /// It comes in pieces that take so long together.
    Slow(Duration),
}

impl Cut {
    pub fn of(self, bytes: Bytes) -> Body {
        let half = bytes.len() / 2;
        match self {
            Cut::Truncated => Body::http_body_unsync(Piecewise::new(bytes, half.max(1), Duration::ZERO, true)),
            Cut::Short => Body::from(bytes.slice(..half)),
            Cut::Slow(time) => {
                let piece = bytes.len().div_ceil(SLOW_PIECES as usize).max(1);
                Body::http_body_unsync(Piecewise::new(bytes, piece, time / SLOW_PIECES, false))
            }
        }
    }
}

/// Gives a body piece by piece, with a pause before each, or breaks after the first.
struct Piecewise {
    rest: Bytes,
    len: u64,
    piece: usize,
    pause: Duration,
    timer: Pin<Box<Sleep>>,
    breaks: bool,
    begun: bool,
}

impl Piecewise {
    fn new(bytes: Bytes, piece: usize, pause: Duration, breaks: bool) -> Piecewise {
        let len = bytes.len() as u64;
        Piecewise { rest: bytes, len, piece, pause, timer: Box::pin(sleep(pause)), breaks, begun: false }
    }
}

impl HttpBody for Piecewise {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        if self.breaks && self.begun {
            return Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into())));
        }
        ready!(self.timer.as_mut().poll(cx));
        self.begun = true;
        self.timer = Box::pin(sleep(self.pause));
        let piece = self.piece.min(self.rest.len());
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(piece)))))
    }

    /// What is promised, not what comes: this becomes the Content-Length.
    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len)
    }
}
