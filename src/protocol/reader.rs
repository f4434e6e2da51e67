use bytes::{Buf, Bytes};

use super::{Error, StrBytes};

/// Reads the protocol's primitive types off the front of a frame. What it hands out shares the frame.
pub(super) struct Reader {
    bytes: Bytes,
}

impl Reader {
    pub(super) fn new(bytes: Bytes) -> Self {
        Reader { bytes }
    }

    pub(super) fn rest(self) -> Bytes {
        self.bytes
    }

    pub(super) fn skip(&mut self, count: usize, what: &'static str) -> Result<(), Error> {
        self.take(count, what).map(drop)
    }

    pub(super) fn take(&mut self, count: usize, what: &'static str) -> Result<Bytes, Error> {
        if count > self.bytes.len() {
            return Err(Error::Cut(what));
        }
        Ok(self.bytes.split_to(count))
    }

    pub(super) fn i16(&mut self, what: &'static str) -> Result<i16, Error> {
        self.bytes.try_get_i16().map_err(|_| Error::Cut(what))
    }

    pub(super) fn i32(&mut self, what: &'static str) -> Result<i32, Error> {
        self.bytes.try_get_i32().map_err(|_| Error::Cut(what))
    }

    /// An unsigned varint of at most five bytes.
    pub(super) fn varint(&mut self, what: &'static str) -> Result<u32, Error> {
        let mut value = 0u64;
        for index in 0..5 {
            let byte = self.bytes.try_get_u8().map_err(|_| Error::Cut(what))?;
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                return u32::try_from(value).map_err(|_| Error::Invalid(what));
            }
        }
        Err(Error::Invalid(what))
    }

    /// A length of four bytes, or a compact one; None is null.
    pub(super) fn length(&mut self, compact: bool, what: &'static str) -> Result<Option<usize>, Error> {
        if compact {
            return Ok((self.varint(what)? as usize).checked_sub(1));
        }
        match self.i32(what)? {
            -1 => Ok(None),
            length => usize::try_from(length).map(Some).map_err(|_| Error::Invalid(what)),
        }
    }

    /// The count of an array whose elements take at least `element_bytes_min` each. A count that the
    /// rest of the frame cannot hold is refused before anything is allocated for it.
    pub(super) fn count(
        &mut self,
        compact: bool,
        element_bytes_min: usize,
        what: &'static str,
    ) -> Result<usize, Error> {
        let count = self.length(compact, what)?.ok_or(Error::Invalid(what))?;
        if count > self.bytes.len() / element_bytes_min {
            return Err(Error::Cut(what));
        }
        Ok(count)
    }

    pub(super) fn nullable_bytes(&mut self, compact: bool, what: &'static str) -> Result<Option<Bytes>, Error> {
        match self.length(compact, what)? {
            None => Ok(None),
            Some(length) => self.take(length, what).map(Some),
        }
    }

    /// A string with a length of two bytes.
    pub(super) fn nullable_string(&mut self, what: &'static str) -> Result<Option<StrBytes>, Error> {
        match self.i16(what)? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| Error::Invalid(what))?;
                self.text(length, what).map(Some)
            }
        }
    }

    pub(super) fn compact_nullable_string(&mut self, what: &'static str) -> Result<Option<StrBytes>, Error> {
        match self.length(true, what)? {
            None => Ok(None),
            Some(length) if length > i16::MAX as usize => Err(Error::Invalid(what)),
            Some(length) => self.text(length, what).map(Some),
        }
    }

    fn text(&mut self, length: usize, what: &'static str) -> Result<StrBytes, Error> {
        StrBytes::from_utf8(self.take(length, what)?).map_err(|_| Error::Invalid(what))
    }

    /// Skips the tagged fields of a structure.
    pub(super) fn tagged_fields(&mut self) -> Result<(), Error> {
        const WHAT: &str = "tagged fields";
        for _ in 0..self.varint(WHAT)? {
            self.varint(WHAT)?;
            let length = self.varint(WHAT)? as usize;
            self.skip(length, WHAT)?;
        }
        Ok(())
    }
}
