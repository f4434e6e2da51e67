//! From offsets to where their bytes are. Pure.

use crate::shard::{BatchPointer, PartitionState};
use crate::share::wire::{Aborted, Acquired};
use crate::types::Offset;

/// Of the offered ranges as much as holds about `bytes_max`, the pointers to it, and about how many bytes they are: as
/// if the records of a pointer were of one size. Of the first one record is given in any case.
pub(super) fn gather(
    partition: &PartitionState,
    offered: &[(Offset, Offset)],
    bytes_max: u64,
    first: bool,
) -> (Vec<(Offset, Offset)>, Vec<BatchPointer>, u64) {
    let (mut ranges, mut pointers, mut bytes) = (Vec::new(), Vec::<BatchPointer>::new(), 0u64);
    for (from, to) in offered.iter().copied() {
        for pointer in partition.pointers.from_offset(from).take_while(|pointer| pointer.base <= to) {
            let (start, end) = (from.max(pointer.base), to.min(pointer.last));
            let span = (pointer.last - pointer.base + 1) as u64;
            let record = (pointer.len / span).max(1);
            let wanted = (end - start + 1) as u64;
            let least = u64::from(first && ranges.is_empty());
            let count = wanted.min((bytes_max.saturating_sub(bytes) / record).max(least));
            if count == 0 {
                return (ranges, pointers, bytes);
            }
            bytes = bytes.saturating_add(record * count);
            if pointers.last().is_none_or(|last| last.base < pointer.base) {
                pointers.push(*pointer);
            }
            ranges.push((start, start + count as Offset - 1));
            if count < wanted {
                return (ranges, pointers, bytes);
            }
        }
    }
    (ranges, pointers, bytes)
}

impl Acquired {
    pub(super) fn records(&self) -> u64 {
        self.ranges.iter().map(|range| (range.last - range.first + 1) as u64).sum()
    }

    pub(super) fn tell(&mut self, pointers: Vec<BatchPointer>, partition: &PartitionState, committed: bool) {
        if let (Some(first), Some(last), true) = (self.ranges.first(), self.ranges.last(), committed) {
            let aborted = partition.transactions.aborted_between(first.first, last.last + 1);
            let of = |aborted: crate::shard::Aborted| Aborted {
                producer_id: aborted.producer_id,
                first: aborted.first,
                last: aborted.last,
            };
            self.aborted = aborted.into_iter().map(of).collect();
        }
        self.pointers = pointers;
    }
}
