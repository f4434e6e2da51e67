use std::ops::Range;

use crate::types::ByteRange;

/// How objects are cut into parts: a head, then chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    pub head_bytes: u64,
    pub chunk_bytes: u64,
}

impl Cut {
    pub fn new(head_bytes: u64, chunk_bytes: u64) -> Cut {
        assert!(head_bytes > 0 && chunk_bytes > 0, "a part of no bytes");
        Cut { head_bytes, chunk_bytes }
    }

    pub fn part_bytes_max(&self) -> u64 {
        self.head_bytes.max(self.chunk_bytes)
    }

    /// The numbers of the parts that a range touches; the range is not empty.
    pub fn parts(&self, range: ByteRange) -> Range<u64> {
        self.part_of(range.start)..self.part_of(range.end() - 1) + 1
    }

    pub fn range(&self, part: u64) -> ByteRange {
        match part.checked_sub(1) {
            None => ByteRange::new(0, self.head_bytes),
            Some(chunk) => {
                ByteRange::new(self.head_bytes.saturating_add(chunk.saturating_mul(self.chunk_bytes)), self.chunk_bytes)
            }
        }
    }

    /// The part that is exactly this range.
    pub fn part_at(&self, range: ByteRange) -> Option<u64> {
        let part = self.part_of(range.start);
        (self.range(part) == range).then_some(part)
    }

    fn part_of(&self, byte: u64) -> u64 {
        byte.checked_sub(self.head_bytes).map_or(0, |behind| behind / self.chunk_bytes + 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_parts_of_a_range_cover_it(head in 1u64..50, chunk in 1u64..50, start in 0u64..500, len in 1u64..500) {
            let cut = Cut::new(head, chunk);
            let parts = cut.parts(ByteRange::new(start, len));
            let (first, last) = (cut.range(parts.start), cut.range(parts.end - 1));
            prop_assert!(first.start <= start && start < first.end());
            prop_assert!(last.start < start + len && start + len <= last.end());
            for part in parts.start..parts.end - 1 {
                prop_assert_eq!(cut.range(part).end(), cut.range(part + 1).start);
                prop_assert_eq!(cut.part_at(cut.range(part)), Some(part));
            }
        }

        #[test]
        fn hostile_ranges_do_not_overflow(start: u64, len in 1..=u64::MAX) {
            let cut = Cut::new(8 << 20, 4 << 20);
            for part in [cut.parts(ByteRange::new(start, len)).start, cut.parts(ByteRange::new(start, len)).end] {
                cut.range(part);
            }
        }
    }
}
