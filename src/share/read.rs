//! The bytes of what was acquired, from this broker's cache.

use futures::future::join_all;
use tracing::error;

use crate::batch::{Header, Segments, patch};
use crate::cache::Cache;
use crate::fetch::{Missing, batches, load_alone};
use crate::share::wire::{Aborted, Ack, Acquired, Range};
use crate::types::Offset;

/// Objects loaded at once for one partition.
const LOADS_MAX: usize = 8;

/// What of the acquired records goes to the member.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub records: Segments,
    pub ranges: Vec<Range>,
    /// The rest, which the member never sees: not to be delivered to anybody, or for another time.
    pub acks: Vec<Ack>,
    pub missing: Option<Missing>,
}

/// Reads whole batches while they fit into `bytes_max`; one at least if `whole_first`.
pub(super) async fn read(cache: &Cache, acquired: &Acquired, bytes_max: usize, whole_first: bool) -> Read {
    let mut read = Read::default();
    // Up to here it is known what becomes of each record.
    let mut end = acquired.ranges.first().map_or(0, |range| range.first);
    'read: for some in acquired.pointers.chunks(LOADS_MAX) {
        let loads = join_all(some.iter().map(|pointer| load_alone(cache, pointer))).await;
        for (pointer, bytes) in some.iter().zip(loads) {
            let bytes = match bytes {
                Ok(bytes) => bytes,
                Err(missing) => {
                    read.missing = Some(missing);
                    break 'read;
                }
            };
            for placed in batches(*pointer, bytes) {
                let placed = placed.and_then(|placed| {
                    let last = placed.base + Offset::from(placed.header.last_offset_delta);
                    let wanted: Vec<Range> = within(&acquired.ranges, placed.base, last).collect();
                    if wanted.is_empty() {
                        return Ok(true);
                    }
                    if is_hidden(&placed.header, placed.base, &acquired.aborted) {
                        read.acks.extend(wanted.into_iter().map(Ack::gap));
                    } else {
                        let first = whole_first && read.records.is_empty();
                        if read.records.len() + placed.bytes.len() > bytes_max && !first {
                            return Ok(false);
                        }
                        let (epoch, time) = (pointer.leader_epoch, pointer.append_time);
                        patch::for_reader(&placed.bytes, placed.base, epoch, time, &mut read.records)?;
                        wanted.into_iter().for_each(|range| push(&mut read.ranges, range));
                    }
                    end = last + 1;
                    Ok(true)
                });
                match placed {
                    Ok(true) => {}
                    Ok(false) => break 'read,
                    Err(e) => {
                        error!(partition = ?acquired.partition, ?pointer, error = %e, "stored batches are damaged");
                        read.missing = Some(Missing::Damaged);
                        break 'read;
                    }
                }
            }
            end = end.max(pointer.last + 1);
        }
    }
    read.acks.extend(within(&acquired.ranges, end, Offset::MAX).map(Ack::give_back));
    read
}

/// Ends of transactions are for nobody; records of aborted ones not for who reads what is committed.
fn is_hidden(header: &Header, base: Offset, aborted: &[Aborted]) -> bool {
    let of = |one: &Aborted| one.producer_id == header.producer.id && (one.first..=one.last).contains(&base);
    header.attributes.is_control() || header.attributes.is_transactional() && aborted.iter().any(of)
}

/// The parts of ranges between two offsets, both included.
fn within(ranges: &[Range], first: Offset, last: Offset) -> impl Iterator<Item = Range> {
    let from = ranges.partition_point(|range| range.last < first);
    let cut = move |range: &Range| Range { first: range.first.max(first), last: range.last.min(last), ..*range };
    ranges[from..].iter().take_while(move |range| range.first <= last).map(cut)
}

fn push(ranges: &mut Vec<Range>, range: Range) {
    match ranges.last_mut().filter(|before| before.last + 1 == range.first && before.count == range.count) {
        Some(before) => before.last = range.last,
        None => ranges.push(range),
    }
}
