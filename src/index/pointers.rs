//! Pointers as brokers tell them to each other.

use bytes::{BufMut, BytesMut};

use crate::shard::{BatchPointer, CONTROL_BATCH_BYTES, Control};
use crate::types::varint::{self, Malformed, Reader};
use crate::types::{ObjectId, Offset, Timestamp};

const STAMPED: u8 = 1;
const CONTROL: u8 = 2;
const COMMIT: u8 = 4;

/// Each as its difference from the one before: what follows it in offsets and comes from the next object is all zeros
/// and ones. Differences wrap, so that no pair of numbers is impossible.
pub(super) fn put_pointers(out: &mut BytesMut, pointers: &[BatchPointer]) {
    varint::put(out, pointers.len() as u64);
    let mut before = origin();
    for p in pointers {
        let commits = p.control.is_some_and(|control| control.commit);
        let flags = [(STAMPED, p.append_time.is_some()), (CONTROL, p.control.is_some()), (COMMIT, commits)];
        out.put_u8(flags.into_iter().filter(|(_, set)| *set).fold(0, |all, (flag, _)| all | flag));
        varint::put_signed(out, p.base.wrapping_sub(before.last));
        varint::put_signed(out, p.last.wrapping_sub(p.base));
        varint::put_signed(out, i64::from(p.leader_epoch) - i64::from(before.leader_epoch));
        varint::put_signed(out, p.max_timestamp.wrapping_sub(before.max_timestamp));
        varint::put_signed(out, p.max_timestamp_so_far.wrapping_sub(p.max_timestamp));
        p.append_time.inspect(|time| varint::put_signed(out, time.wrapping_sub(p.max_timestamp)));
        let object = match p.control {
            Some(control) => {
                varint::put_signed(out, control.producer_id);
                varint::put_signed(out, control.producer_epoch.into());
                varint::put_signed(out, control.coordinator_epoch.into());
                before.object
            }
            None => {
                varint::put_signed(out, i64::from(p.object.broker) - i64::from(before.object.broker));
                varint::put_signed(out, p.object.epoch.wrapping_sub(before.object.epoch) as i64);
                varint::put_signed(out, p.object.sequence.wrapping_sub(before.object.sequence) as i64);
                varint::put(out, p.object.packed().3.into());
                varint::put(out, p.start);
                varint::put(out, p.len);
                p.object
            }
        };
        before = BatchPointer { object, ..*p };
    }
}

pub(super) fn take_pointers(r: &mut Reader) -> Result<Vec<BatchPointer>, Malformed> {
    let count = r.count(9)?;
    let mut before = origin();
    let mut pointers = Vec::with_capacity(count);
    for _ in 0..count {
        let flags = r.byte()?;
        if flags & !(STAMPED | CONTROL | COMMIT) != 0 {
            return Err(Malformed);
        }
        let base: Offset = before.last.wrapping_add(r.signed()?);
        let last: Offset = base.wrapping_add(r.signed()?);
        let leader_epoch = near(before.leader_epoch, r.signed()?)?;
        let max_timestamp: Timestamp = before.max_timestamp.wrapping_add(r.signed()?);
        let max_timestamp_so_far: Timestamp = max_timestamp.wrapping_add(r.signed()?);
        let append_time = match flags & STAMPED {
            0 => None,
            _ => Some(max_timestamp.wrapping_add(r.signed()?)),
        };
        let placed = match flags & CONTROL {
            0 => take_place(r, before.object)?,
            _ => BatchPointer { control: Some(take_control(r, flags & COMMIT != 0)?), ..origin() },
        };
        let pointer =
            BatchPointer { base, last, leader_epoch, max_timestamp, max_timestamp_so_far, append_time, ..placed };
        let object = if pointer.control.is_some() { before.object } else { pointer.object };
        before = BatchPointer { object, ..pointer };
        pointers.push(pointer);
    }
    Ok(pointers)
}

fn near(old: i32, difference: i64) -> Result<i32, Malformed> {
    i64::from(old).checked_add(difference).and_then(|new| i32::try_from(new).ok()).ok_or(Malformed)
}

fn take_place(r: &mut Reader, before: ObjectId) -> Result<BatchPointer, Malformed> {
    let broker = near(before.broker, r.signed()?)?;
    let epoch = before.epoch.wrapping_add(r.signed()? as u64);
    let sequence = before.sequence.wrapping_add(r.signed()? as u64);
    let object = ObjectId::unpacked((broker, epoch, sequence, r.int()?));
    Ok(BatchPointer { object, start: r.u64()?, len: r.u64()?, ..origin() })
}

fn take_control(r: &mut Reader, commit: bool) -> Result<Control, Malformed> {
    let producer_id = r.signed()?;
    let producer_epoch = i16::try_from(r.signed()?).map_err(|_| Malformed)?;
    Ok(Control { producer_id, producer_epoch, commit, coordinator_epoch: near(0, r.signed()?)? })
}

/// What the first pointer is told as a difference from, and the place of one that no object holds.
fn origin() -> BatchPointer {
    BatchPointer {
        base: 0,
        last: 0,
        leader_epoch: 0,
        object: ObjectId::unpacked((0, 0, 0, 0)),
        start: 0,
        len: CONTROL_BATCH_BYTES.into(),
        max_timestamp: 0,
        max_timestamp_so_far: 0,
        append_time: None,
        control: None,
    }
}
