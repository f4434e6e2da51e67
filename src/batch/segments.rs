use bytes::{BufMut, Bytes, BytesMut};

/// Shared bytes shorter than this are copied: a segment of its own costs more than the copy.
const SHARED_BYTES_MIN: usize = 1024;

/// A reply or an object in the making: a list of byte strings that are written with one gather write.
/// Small pieces run together in one buffer, big ones are shared with whoever owns them.
#[derive(Debug, Default)]
pub struct Segments {
    done: Vec<Bytes>,
    running: BytesMut,
    len: usize,
}

impl Segments {
    pub fn new() -> Self {
        Segments::default()
    }

    /// Bytes in all segments.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies `bytes` to the end.
    pub fn put(&mut self, bytes: &[u8]) {
        self.running.put_slice(bytes);
        self.len += bytes.len();
    }

    /// Appends `bytes` without copying them, unless they are few.
    pub fn share(&mut self, bytes: Bytes) {
        if bytes.len() < SHARED_BYTES_MIN {
            self.put(&bytes);
        } else {
            self.close_running();
            self.len += bytes.len();
            self.done.push(bytes);
        }
    }

    /// Appends everything `other` holds.
    pub fn append(&mut self, other: Segments) {
        for segment in other.into_chunks() {
            self.share(segment);
        }
    }

    /// Writes over bytes that are there, in one segment, copying that if it is shared. False if they are not.
    pub fn overwrite(&mut self, mut at: usize, with: &[u8]) -> bool {
        for segment in &mut self.done {
            let Some(beyond) = at.checked_sub(segment.len()) else {
                let mut copy = BytesMut::from(&segment[..]);
                let Some(there) = copy.get_mut(at..at + with.len()) else { return false };
                there.copy_from_slice(with);
                *segment = copy.freeze();
                return true;
            };
            at = beyond;
        }
        let there = self.running.get_mut(at..at.saturating_add(with.len()));
        there.map(|there| there.copy_from_slice(with)).is_some()
    }

    /// The segments in order; none of them is empty.
    pub fn into_chunks(mut self) -> Vec<Bytes> {
        self.close_running();
        self.done
    }

    /// One contiguous copy.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len);
        for segment in &self.done {
            all.extend_from_slice(segment);
        }
        all.extend_from_slice(&self.running);
        all
    }

    fn close_running(&mut self) {
        if !self.running.is_empty() {
            self.done.push(self.running.split().freeze());
        }
    }
}

impl From<Bytes> for Segments {
    fn from(bytes: Bytes) -> Self {
        let len = bytes.len();
        let done = if bytes.is_empty() { Vec::new() } else { vec![bytes] };
        Segments { done, running: BytesMut::new(), len }
    }
}

impl From<BytesMut> for Segments {
    fn from(running: BytesMut) -> Self {
        let len = running.len();
        Segments { done: Vec::new(), running, len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_order_and_length_across_kinds() {
        let big = Bytes::from(vec![7u8; 5000]);
        let mut inner = Segments::new();
        inner.put(b"in");
        inner.share(big.clone());
        let mut all = Segments::new();
        all.put(b"head");
        all.append(inner);
        all.share(Bytes::from_static(b"tail"));
        assert_eq!(all.len(), 4 + 2 + 5000 + 4);
        let expected = [b"headin".as_slice(), &big, b"tail"].concat();
        assert_eq!(all.to_vec(), expected);
        let chunks = all.into_chunks();
        assert_eq!(chunks.len(), 3);
        assert_eq!(chunks[1].as_ptr(), big.as_ptr(), "big bytes are shared, not copied");
    }

    #[test]
    fn bytes_are_written_over_wherever_they_are() {
        let shared = Bytes::from(vec![7u8; 2000]);
        let mut all = Segments::from(shared.clone());
        all.put(b"tail");
        assert!(all.overwrite(1, b"ab") && all.overwrite(2001, b"cd"));
        assert!(!all.overwrite(1999, b"ef") && !all.overwrite(2003, b"ef"));
        assert_eq!((&all.to_vec()[..3], &all.to_vec()[2000..]), (&b"\x07ab"[..], &b"tcdl"[..]));
        assert_eq!(shared[1], 7, "what is shared stays as it is");
    }

    #[test]
    fn holds_no_empty_segment() {
        let mut all = Segments::from(Bytes::new());
        all.share(Bytes::new());
        all.put(b"");
        assert!(all.is_empty());
        assert!(all.into_chunks().is_empty());
    }
}
