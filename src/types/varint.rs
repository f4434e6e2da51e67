//! LEB128 varints: seven bits a byte, least first. Used by every packed encoding of ours.

use bytes::BufMut;

/// The bytes ended early, or a number does not fit its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed packed bytes")]
pub struct Malformed;

pub fn put(out: &mut impl BufMut, mut value: u64) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

/// Small magnitudes of either sign stay small (zigzag).
pub fn put_signed(out: &mut impl BufMut, value: i64) {
    put(out, ((value << 1) ^ (value >> 63)) as u64);
}

pub fn put_bytes(out: &mut impl BufMut, value: &[u8]) {
    put(out, value.len() as u64);
    out.put_slice(value);
}

/// Reads packed numbers from untrusted bytes; never allocates, never panics.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.rest.split_first().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*first)
    }

    pub fn u64(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(Malformed);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    /// A `u64` that must fit the asked type.
    pub fn int<T: TryFrom<u64>>(&mut self) -> Result<T, Malformed> {
        T::try_from(self.u64()?).map_err(|_| Malformed)
    }

    pub fn signed(&mut self) -> Result<i64, Malformed> {
        let raw = self.u64()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    /// A count of items that take at least `item_bytes_min` each: a claim beyond what is left is refused
    /// before anything is reserved for it.
    pub fn count(&mut self, item_bytes_min: usize) -> Result<usize, Malformed> {
        let count: usize = self.int()?;
        match count.checked_mul(item_bytes_min) {
            Some(bytes) if bytes <= self.rest.len() => Ok(count),
            _ => Err(Malformed),
        }
    }

    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        if len > self.rest.len() {
            return Err(Malformed);
        }
        let (head, rest) = self.rest.split_at(len);
        self.rest = rest;
        Ok(head)
    }

    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.int()?;
        self.take(len)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N).map(|slice| slice.try_into().expect("take returned N bytes"))
    }

    /// Trailing bytes mean that writer and reader disagree on the format.
    pub fn finish(self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn reads_back_what_was_put(a in any::<u64>(), b in any::<i64>(), c in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut out = Vec::new();
            put(&mut out, a);
            put_signed(&mut out, b);
            put_bytes(&mut out, &c);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.u64().unwrap(), a);
            prop_assert_eq!(reader.signed().unwrap(), b);
            prop_assert_eq!(reader.bytes().unwrap(), &c[..]);
            prop_assert!(reader.finish().is_ok());
        }

        #[test]
        fn survives_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut reader = Reader::new(&bytes);
            while reader.u64().is_ok() {}
            let mut reader = Reader::new(&bytes);
            let _ = reader.count(3);
            let _ = reader.bytes();
        }
    }

    #[test]
    fn refuses_a_count_larger_than_what_is_left() {
        let mut out = Vec::new();
        put(&mut out, 1 << 31);
        assert_eq!(Reader::new(&out).count(1), Err(Malformed));
    }
}
