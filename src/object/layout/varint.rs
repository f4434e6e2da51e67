use bytes::{BufMut, BytesMut};

use super::Error;

/// The longest varint of 64 bits.
pub const VARINT_BYTES_MAX: usize = 10;

pub fn put(out: &mut BytesMut, mut value: u64) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Reads from the front of a slice and never past its end.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0u64;
        for shift in 0..VARINT_BYTES_MAX {
            let [byte] = self.take::<1>()?;
            if shift == VARINT_BYTES_MAX - 1 && byte > 1 {
                return Err(Error::Malformed("a varint is wider than 64 bits"));
            }
            value |= u64::from(byte & 0x7f) << (7 * shift);
            if byte & 0x80 == 0 {
                // One value, one spelling: what was read can be written again byte for byte.
                return if byte == 0 && shift > 0 { Err(Error::Malformed("a varint is padded")) } else { Ok(value) };
            }
        }
        Err(Error::Malformed("a varint does not end"))
    }

    pub fn varint_as<T: TryFrom<u64>>(&mut self, too_large: &'static str) -> Result<T, Error> {
        T::try_from(self.varint()?).map_err(|_| Error::Malformed(too_large))
    }

    pub fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(Error::Malformed("the footer ends early"))?;
        self.0 = rest;
        Ok(*head)
    }
}
