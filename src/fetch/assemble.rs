use bytes::Bytes;

use crate::batch::{self, Header, Segments, patch};
use crate::shard::BatchPointer;
use crate::types::Offset;

/// One batch inside a pointer's bytes.
pub(crate) struct Placed {
    pub header: Header,
    pub bytes: Bytes,
    pub base: Offset,
}

/// Walks the batches of a pointer; their offsets follow one another from the pointer's base.
pub(crate) fn batches(pointer: BatchPointer, bytes: Bytes) -> impl Iterator<Item = Result<Placed, batch::Error>> {
    let (mut rest, mut base) = (bytes, pointer.base);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let header = match Header::peek(&rest) {
            Ok(header) => header,
            Err(e) => {
                rest = Bytes::new();
                return Some(Err(e));
            }
        };
        let bytes = rest.split_to(header.total_len);
        let placed = Placed { base, bytes, header };
        base += Offset::from(placed.header.last_offset_delta) + 1;
        Some(Ok(placed))
    })
}

/// Appends a pointer's batches from `offset` on while they fit in `bytes_max` together with what is there. The first
/// batch of an empty answer always fits when `whole_first`. Answers whether there is room for the next pointer.
pub(super) fn assemble(
    pointer: &BatchPointer,
    bytes: Bytes,
    offset: Offset,
    bytes_max: usize,
    whole_first: bool,
    out: &mut Segments,
) -> Result<bool, batch::Error> {
    for placed in batches(*pointer, bytes) {
        let Placed { header, bytes, base } = placed?;
        if base + Offset::from(header.last_offset_delta) < offset {
            continue;
        }
        let first = out.is_empty() && whole_first;
        if out.len() + bytes.len() > bytes_max && !first {
            return Ok(false);
        }
        patch::for_reader(&bytes, base, pointer.leader_epoch, pointer.append_time, out)?;
    }
    Ok(out.len() < bytes_max)
}
