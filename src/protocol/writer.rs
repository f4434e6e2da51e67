use super::{ErrorCode, StrBytes};
use crate::batch::Segments;

/// Writes the protocol's primitive types, in the encoding of one version, to the end of an answer.
pub(super) struct Writer<'a> {
    out: &'a mut Segments,
    compact: bool,
}

impl<'a> Writer<'a> {
    pub(super) fn new(out: &'a mut Segments, compact: bool) -> Self {
        Writer { out, compact }
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.out.put(bytes);
    }

    pub(super) fn i32(&mut self, value: i32) {
        self.out.put(&value.to_be_bytes());
    }

    pub(super) fn i64(&mut self, value: i64) {
        self.out.put(&value.to_be_bytes());
    }

    pub(super) fn error(&mut self, error: ErrorCode) {
        self.out.put(&error.code().to_be_bytes());
    }

    pub(super) fn varint(&mut self, mut value: u32) {
        let mut bytes = [0u8; 5];
        let mut used = 0;
        while value >= 0x80 {
            bytes[used] = (value as u8 & 0x7f) | 0x80;
            value >>= 7;
            used += 1;
        }
        bytes[used] = value as u8;
        self.out.put(&bytes[..=used]);
    }

    /// The length of an array or of bytes; None is null. What we send stays far below 2 GiB: the
    /// connection refuses an answer that its size prefix cannot count.
    pub(super) fn length(&mut self, length: Option<usize>) {
        let length = length.map(|length| length as u32);
        if self.compact {
            self.varint(length.map_or(0, |length| length.wrapping_add(1)));
        } else {
            self.i32(length.map_or(-1, |length| length as i32));
        }
    }

    pub(super) fn string(&mut self, text: &StrBytes) {
        if self.compact {
            self.length(Some(text.len()));
        } else {
            self.out.put(&(text.len() as i16).to_be_bytes());
        }
        self.out.put(text.as_bytes());
    }

    pub(super) fn records(&mut self, records: Segments) {
        self.length(Some(records.len()));
        self.out.append(records);
    }

    /// A tagged field whose content `body` has been written.
    pub(super) fn tagged(&mut self, tag: u32, body: Segments) {
        self.varint(tag);
        self.varint(body.len() as u32);
        self.out.append(body);
    }

    /// The end of a structure without tagged fields; nothing in versions that have none.
    pub(super) fn no_tagged_fields(&mut self) {
        if self.compact {
            self.varint(0);
        }
    }
}
