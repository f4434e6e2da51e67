use std::io::{self, BufRead, BufReader, Cursor, Read};

use bytes::Bytes;

use super::{Codec, Error};

/// `82 S N A P P Y 00`, then two versions of four bytes: the framing of Java's snappy streams.
const XERIAL_MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const XERIAL_HEADER_BYTES: usize = 16;

/// A reader is small: a scan needs only the front of each record.
const READ_BUFFER_BYTES: usize = 8 * 1024;

/// Reads the records of a batch while they are decompressed. Ends with an error once more than
/// `bytes_max` have come out, so that a small hostile batch can't occupy a reader for long.
pub(super) fn reader(codec: Codec, payload: &[u8], bytes_max: usize) -> Result<Box<dyn BufRead + '_>, Error> {
    let plain: Box<dyn Read + '_> = match codec {
        Codec::None => return Ok(Box::new(Capped::new(payload, bytes_max))),
        Codec::Gzip => Box::new(flate2::read::MultiGzDecoder::new(payload)),
        Codec::Lz4 => Box::new(lz4_flex::frame::FrameDecoder::new(payload)),
        // A frame may claim a window of up to 128 MiB; only what is written to is ever touched.
        Codec::Zstd => {
            Box::new(zstd::stream::read::Decoder::with_buffer(payload).map_err(|_| Error::Corrupt("zstd frame"))?)
        }
        // Snappy has no stream form of its own: its blocks are inflated at once, each checked against the cap.
        Codec::Snappy => return Ok(Box::new(Cursor::new(unsnap(payload, bytes_max)?))),
    };
    Ok(Box::new(Capped::new(BufReader::with_capacity(READ_BUFFER_BYTES, plain), bytes_max)))
}

/// The records of a batch in one piece: shared when they are not compressed.
pub(super) fn all(codec: Codec, payload: &Bytes, bytes_max: usize) -> Result<Bytes, Error> {
    match codec {
        Codec::None => Ok(payload.clone()),
        Codec::Snappy => unsnap(payload, bytes_max).map(Bytes::from),
        _ => {
            let mut plain = Vec::new();
            reader(codec, payload, bytes_max)?.read_to_end(&mut plain).map_err(|error| broken(&error, bytes_max))?;
            Ok(Bytes::from(plain))
        }
    }
}

/// What a failed read of [`reader`] means.
pub(super) fn broken(error: &io::Error, bytes_max: usize) -> Error {
    if error.kind() == io::ErrorKind::FileTooLarge {
        Error::InflatesTooLarge { max: bytes_max }
    } else {
        Error::Corrupt("records do not decompress")
    }
}

/// Passes at most `left` bytes on and fails where more would follow.
struct Capped<R> {
    inner: R,
    left: usize,
}

impl<R: BufRead> Capped<R> {
    fn new(inner: R, bytes_max: usize) -> Self {
        Capped { inner, left: bytes_max }
    }
}

impl<R: BufRead> Read for Capped<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let ready = self.fill_buf()?;
        let taken = ready.len().min(into.len());
        into[..taken].copy_from_slice(&ready[..taken]);
        self.consume(taken);
        Ok(taken)
    }
}

impl<R: BufRead> BufRead for Capped<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let left = self.left;
        let ready = self.inner.fill_buf()?;
        if left == 0 && !ready.is_empty() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(&ready[..ready.len().min(left)])
    }

    fn consume(&mut self, amount: usize) {
        self.left -= amount;
        self.inner.consume(amount);
    }
}

/// Both framings are met in the field: Java writes xerial blocks, others one raw block.
fn unsnap(payload: &[u8], bytes_max: usize) -> Result<Vec<u8>, Error> {
    if !payload.starts_with(&XERIAL_MAGIC) {
        let mut plain = Vec::new();
        unsnap_block(payload, &mut plain, bytes_max)?;
        return Ok(plain);
    }
    let mut rest = payload.get(XERIAL_HEADER_BYTES..).ok_or(Error::Corrupt("snappy header"))?;
    let mut plain = Vec::new();
    while !rest.is_empty() {
        let (length, after) = rest.split_first_chunk::<4>().ok_or(Error::Corrupt("snappy block length"))?;
        let length = u32::from_be_bytes(*length) as usize;
        let block = after.get(..length).ok_or(Error::Corrupt("snappy block"))?;
        unsnap_block(block, &mut plain, bytes_max)?;
        rest = &after[length..];
    }
    Ok(plain)
}

fn unsnap_block(block: &[u8], plain: &mut Vec<u8>, bytes_max: usize) -> Result<(), Error> {
    // A snappy block starts with its own claim of length; an honest one never exceeds 64 : 3.
    let claimed = snap::raw::decompress_len(block).map_err(|_| Error::Corrupt("snappy block"))?;
    let start = plain.len();
    if claimed > bytes_max - start {
        return Err(Error::InflatesTooLarge { max: bytes_max });
    }
    if claimed > block.len().saturating_mul(64) {
        return Err(Error::Corrupt("snappy block claims more than it can hold"));
    }
    plain.resize(start + claimed, 0);
    snap::raw::Decoder::new().decompress(block, &mut plain[start..]).map_err(|_| Error::Corrupt("snappy block"))?;
    Ok(())
}
