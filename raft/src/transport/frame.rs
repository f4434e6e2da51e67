//! A frame: `length varint | tag u8 | kind u8 | request id varint | body`. The length counts what follows it.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::codec;

/// Longest encoded length.
const LENGTH_BYTES_MAX: usize = 5;

/// Read at once into the buffer, and the most that is reserved ahead of what has arrived.
const READ_BYTES: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    Request = 0,
    Answer = 1,
    /// Instead of an answer: the request was not looked at, the listener has too much in work.
    Refused = 2,
}

#[derive(Debug)]
pub(crate) struct Frame {
    pub(super) tag: Tag,
    pub(super) kind: u8,
    pub(super) id: u32,
    pub(super) body: Bytes,
}

/// Everything of a frame but the body.
pub(crate) fn put_head(out: &mut Vec<u8>, tag: Tag, kind: u8, id: u32, body_bytes: usize) {
    let id_bytes = varint_bytes(id.into());
    codec::put_varint(out, (2 + id_bytes + body_bytes) as u64);
    out.push(tag as u8);
    out.push(kind);
    codec::put_varint(out, id.into());
}

fn varint_bytes(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

pub(crate) struct FrameReader<R> {
    read: R,
    buffer: BytesMut,
    frame_bytes_max: usize,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(crate) fn new(read: R, frame_bytes_max: usize) -> Self {
        FrameReader { read, buffer: BytesMut::new(), frame_bytes_max }
    }

    /// The next frame and its length on the wire; `None` when the peer closed between frames. May be dropped and
    /// called again without losing anything.
    pub(crate) async fn next(&mut self) -> io::Result<Option<(Frame, usize)>> {
        loop {
            if let Some(frame) = self.parse()? {
                return Ok(Some(frame));
            }
            // Memory is taken as bytes arrive, never on the word of a length.
            self.buffer.reserve(READ_BYTES);
            if self.read.read_buf(&mut self.buffer).await? == 0 {
                let clean = self.buffer.is_empty();
                return if clean { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
        }
    }

    fn parse(&mut self) -> io::Result<Option<(Frame, usize)>> {
        let mut length = 0u64;
        let mut length_bytes = 0;
        loop {
            let Some(byte) = self.buffer.get(length_bytes) else {
                return Ok(None);
            };
            length |= u64::from(byte & 0x7f) << (7 * length_bytes);
            length_bytes += 1;
            if byte & 0x80 == 0 {
                break;
            }
            if length_bytes == LENGTH_BYTES_MAX {
                return Err(malformed("frame length"));
            }
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > self.frame_bytes_max {
            return Err(malformed("frame is too long"));
        }
        if self.buffer.len() < length_bytes + length {
            return Ok(None);
        }
        self.buffer.advance(length_bytes);
        let mut rest = self.buffer.split_to(length).freeze();
        let tag = match codec::take_u8(&mut rest).map_err(io::Error::other)? {
            0 => Tag::Request,
            1 => Tag::Answer,
            2 => Tag::Refused,
            _ => return Err(malformed("frame tag")),
        };
        let kind = codec::take_u8(&mut rest).map_err(io::Error::other)?;
        let id = codec::take_u32(&mut rest).map_err(io::Error::other)?;
        Ok(Some((Frame { tag, kind, id, body: rest }, length_bytes + length)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_come_back_however_the_bytes_arrive() {
        let mut wire = Vec::new();
        for id in [0, 1, 127, 128, 70_000, u32::MAX] {
            put_head(&mut wire, Tag::Answer, 9, id, 3);
            wire.extend_from_slice(b"abc");
        }
        for chunk in [1, 2, 7, wire.len()] {
            let chunks = wire.chunks(chunk).map(|bytes| Ok::<_, io::Error>(Bytes::copy_from_slice(bytes)));
            let (mut write, read) = tokio::io::duplex(64);
            let chunks: Vec<_> = chunks.collect();
            let writer = tokio::spawn(async move {
                for chunk in chunks {
                    tokio::io::AsyncWriteExt::write_all(&mut write, &chunk.expect("bytes")).await.expect("room");
                }
            });
            let mut reader = FrameReader::new(read, 100);
            let mut total = 0;
            for id in [0, 1, 127, 128, 70_000, u32::MAX] {
                let (frame, bytes) = reader.next().await.expect("whole").expect("a frame");
                assert_eq!((frame.tag, frame.kind, frame.id, &frame.body[..]), (Tag::Answer, 9, id, &b"abc"[..]));
                total += bytes;
            }
            assert_eq!(total, wire.len());
            writer.await.expect("done");
            assert!(reader.next().await.expect("clean end").is_none());
        }
    }

    #[tokio::test]
    async fn a_length_beyond_the_limit_is_refused_before_the_body_comes() {
        let mut wire = Vec::new();
        put_head(&mut wire, Tag::Request, 1, 1, 101);
        let error = FrameReader::new(&wire[..], 100).next().await.expect_err("too long");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
