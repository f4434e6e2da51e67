//! ▲ A leader's decisions about records that share groups have got.

use bytes::{BufMut, BytesMut};

use crate::shard::Slot;
use crate::shard::share::Run;
use crate::types::Offset;
use crate::types::varint::{self, Malformed, Reader};

/// What was decided together. An outcome for each update comes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareEntry {
    pub term: u64,
    pub updates: Vec<ShareUpdate>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareUpdate {
    pub slot: Slot,
    pub group: String,
    pub change: Change,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Delivery begins (anew) at `start`, in an epoch that follows the last.
    Begin { epoch: u64, start: Offset },
    /// Delivery has come to `start`, and what became of records behind it. Runs are in order and do not overlap.
    Move { epoch: u64, start: Offset, runs: Vec<Run> },
    /// The group has nothing to do with the partition any more.
    Forget,
}

pub(in crate::shard) const SHARE: u8 = 46;

const BEGIN: u8 = 0;
const MOVE: u8 = 1;
const FORGET: u8 = 2;

impl ShareEntry {
    pub(in crate::shard) fn put(&self, out: &mut BytesMut) {
        out.put_slice(&[SHARE, 1]);
        varint::put(out, self.term);
        varint::put(out, self.updates.len() as u64);
        let mut before = "";
        for update in &self.updates {
            varint::put(out, update.slot.into());
            // Most updates of an entry are of the same group: an empty name stands for the one before.
            let again = update.group == before;
            varint::put_bytes(out, if again { b"" } else { update.group.as_bytes() });
            before = &update.group;
            match &update.change {
                Change::Begin { epoch, start } => {
                    out.put_u8(BEGIN);
                    varint::put(out, *epoch);
                    varint::put_signed(out, *start);
                }
                Change::Move { epoch, start, runs } => {
                    out.put_u8(MOVE);
                    varint::put(out, *epoch);
                    varint::put_signed(out, *start);
                    varint::put(out, runs.len() as u64);
                    let mut end = *start;
                    for run in runs {
                        varint::put_signed(out, run.first.wrapping_sub(end));
                        varint::put(out, run.last.wrapping_sub(run.first) as u64);
                        varint::put(out, u64::from(run.count) << 1 | u64::from(run.done));
                        end = run.last.wrapping_add(1);
                    }
                }
                Change::Forget => out.put_u8(FORGET),
            }
        }
    }

    /// What follows the kind and its version.
    pub(in crate::shard) fn read(r: &mut Reader) -> Result<ShareEntry, Malformed> {
        let term = r.u64()?;
        let count = r.count(3)?;
        let mut updates: Vec<ShareUpdate> = Vec::with_capacity(count);
        for _ in 0..count {
            let slot = r.int()?;
            let name = String::from_utf8(r.bytes()?.to_vec()).map_err(|_| Malformed)?;
            let group = match (name.is_empty(), updates.last()) {
                (true, Some(before)) => before.group.clone(),
                _ => name,
            };
            let change = match r.byte()? {
                BEGIN => Change::Begin { epoch: r.u64()?, start: r.signed()? },
                MOVE => {
                    let (epoch, start) = (r.u64()?, r.signed()?);
                    Change::Move { epoch, start, runs: read_runs(r, start)? }
                }
                FORGET => Change::Forget,
                _ => return Err(Malformed),
            };
            updates.push(ShareUpdate { slot, group, change });
        }
        Ok(ShareEntry { term, updates })
    }
}

fn read_runs(r: &mut Reader, start: Offset) -> Result<Vec<Run>, Malformed> {
    let count = r.count(3)?;
    let mut end = start;
    let mut runs = Vec::with_capacity(count);
    for _ in 0..count {
        let first = end.checked_add(r.signed()?).filter(|first| *first >= end).ok_or(Malformed)?;
        let last = Offset::try_from(r.u64()?).ok().and_then(|len| first.checked_add(len)).ok_or(Malformed)?;
        end = last.checked_add(1).ok_or(Malformed)?;
        let tail = r.u64()?;
        let count = u16::try_from(tail >> 1).map_err(|_| Malformed)?;
        runs.push(Run { first, last, count, done: tail & 1 != 0 });
    }
    Ok(runs)
}
