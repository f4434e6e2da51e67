use crate::fetch::locate::Located;
use crate::fetch::request::Want;
use crate::protocol::ErrorCode;
use crate::shard::{BatchPointer, PartitionState};
use crate::types::Offset;

/// What a partition has for a reader now.
pub(super) struct Found {
    pub high_watermark: Offset,
    pub last_stable_offset: Offset,
    pub log_start_offset: Offset,
    /// In order of offsets; empty when there is nothing yet.
    pub pointers: Vec<BatchPointer>,
    /// About as many bytes as the pointers hold for this reader.
    pub bytes: usize,
    /// There is more behind the pointers: this reader catches up.
    pub more: bool,
    /// The asked offset is past what is applied here.
    pub ahead: bool,
}

/// # Errors
/// What the client is told about this partition.
pub(super) fn look_up(located: &Located, want: &Want, bytes_max: usize) -> Result<Found, ErrorCode> {
    located.read(want.client_epoch, |partition, _| found(partition, want.offset, bytes_max))?
}

fn found(partition: &PartitionState, offset: Offset, bytes_max: usize) -> Result<Found, ErrorCode> {
    if offset < partition.log_start_offset {
        return Err(ErrorCode::OffsetOutOfRange);
    }
    let mut found = Found {
        high_watermark: partition.high_watermark,
        last_stable_offset: partition.last_stable_offset(),
        log_start_offset: partition.log_start_offset,
        pointers: Vec::new(),
        bytes: 0,
        more: false,
        ahead: offset > partition.high_watermark,
    };
    for pointer in partition.pointers.from_offset(offset) {
        if found.bytes >= bytes_max && !found.pointers.is_empty() {
            found.more = true;
            break;
        }
        found.bytes += share(pointer, offset);
        found.pointers.push(*pointer);
    }
    Ok(found)
}

/// The part of a pointer's bytes from `offset` on, as if records were of one size. At least one byte.
fn share(pointer: &BatchPointer, offset: Offset) -> usize {
    let span = (pointer.last - pointer.base + 1).max(1) as u64;
    let wanted = (pointer.last - offset.max(pointer.base) + 1).max(1) as u64;
    (u128::from(pointer.len) * u128::from(wanted) / u128::from(span)).max(1) as usize
}
