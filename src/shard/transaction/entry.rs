//! ▲ The packed form of what coordinators of transactions decide. Each change is a kind of entry with a version of its
//! own.

use bytes::{BufMut, BytesMut};

use crate::shard::Slot;
use crate::types::varint::{self, Malformed, Reader};
use crate::types::{Partition, Producer, ShardId, Timestamp, TopicId};

/// One decision about one transactional id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionEntry {
    pub slot: Slot,
    /// The term it was decided in: applied in no other.
    pub term: u64,
    /// The coordinator's count of the shard's clock.
    pub clock_ms: u64,
    pub id: String,
    /// Of the id when this was decided; 0 for one that is new. Applied to no other revision: the outcome of the decision
    /// before may have been unknown to the coordinator.
    pub revision: u64,
    pub change: Change,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A producer begins, and fences those before it.
    Init { producer: Producer, last_epoch: i16, timeout_ms: u32 },
    /// The first of a transaction begins it, at this time for people to read.
    Add { partitions: Vec<(Partition, ShardId)>, started_at: Timestamp },
    /// The transaction's end is decided. A transaction without partitions begins and ends with it.
    Prepare { commit: bool, epoch: i16, last_epoch: i16, next_id: Option<i64>, at: Timestamp },
    /// Every partition has its marker.
    Complete,
    /// Nobody has asked for the id in a long time.
    Remove,
}

pub(in crate::shard) const INIT: u8 = 20;
const ADD: u8 = 21;
const PREPARE: u8 = 22;
const COMPLETE: u8 = 23;
pub(in crate::shard) const REMOVE: u8 = 24;

impl TransactionEntry {
    pub(in crate::shard) fn put(&self, out: &mut BytesMut) {
        let kind = match &self.change {
            Change::Init { .. } => INIT,
            Change::Add { .. } => ADD,
            Change::Prepare { .. } => PREPARE,
            Change::Complete => COMPLETE,
            Change::Remove => REMOVE,
        };
        out.put_slice(&[kind, 1]);
        varint::put(out, self.slot.into());
        varint::put(out, self.term);
        varint::put(out, self.clock_ms);
        varint::put_bytes(out, self.id.as_bytes());
        varint::put(out, self.revision);
        match &self.change {
            Change::Init { producer, last_epoch, timeout_ms } => {
                varint::put_signed(out, producer.id);
                varint::put_signed(out, producer.epoch.into());
                varint::put_signed(out, (*last_epoch).into());
                varint::put(out, (*timeout_ms).into());
            }
            Change::Add { partitions, started_at } => {
                varint::put_signed(out, *started_at);
                put_partitions(out, partitions);
            }
            Change::Prepare { commit, epoch, last_epoch, next_id, at } => {
                out.put_u8((*commit).into());
                varint::put_signed(out, (*epoch).into());
                varint::put_signed(out, (*last_epoch).into());
                varint::put_signed(out, next_id.unwrap_or(-1));
                varint::put_signed(out, *at);
            }
            Change::Complete | Change::Remove => {}
        }
    }

    /// What follows the kind and its version.
    pub(in crate::shard) fn read(kind: u8, r: &mut Reader) -> Result<TransactionEntry, Malformed> {
        let (slot, term, clock_ms) = (r.int()?, r.u64()?, r.u64()?);
        let id = String::from_utf8(r.bytes()?.to_vec()).map_err(|_| Malformed)?;
        let revision = r.u64()?;
        let change = match kind {
            INIT => {
                let producer = Producer { id: r.signed()?, epoch: epoch(r)? };
                Change::Init { producer, last_epoch: epoch(r)?, timeout_ms: r.int()? }
            }
            ADD => Change::Add { started_at: r.signed()?, partitions: read_partitions(r)? },
            PREPARE => Change::Prepare {
                commit: r.byte()? != 0,
                epoch: epoch(r)?,
                last_epoch: epoch(r)?,
                next_id: Some(r.signed()?).filter(|id| *id >= 0),
                at: r.signed()?,
            },
            COMPLETE => Change::Complete,
            REMOVE => Change::Remove,
            _ => return Err(Malformed),
        };
        Ok(TransactionEntry { slot, term, clock_ms, id, revision, change })
    }
}

fn epoch(r: &mut Reader) -> Result<i16, Malformed> {
    i16::try_from(r.signed()?).map_err(|_| Malformed)
}

/// Runs of one topic name it once.
pub(crate) fn put_partitions(out: &mut BytesMut, partitions: &[(Partition, ShardId)]) {
    let runs: Vec<&[(Partition, ShardId)]> = partitions.chunk_by(|a, b| a.0.topic == b.0.topic).collect();
    varint::put(out, runs.len() as u64);
    for run in runs {
        out.put_slice(run[0].0.topic.as_bytes());
        varint::put(out, run.len() as u64);
        for (partition, shard) in run {
            varint::put(out, partition.index as u64);
            varint::put(out, (*shard).into());
        }
    }
}

pub(crate) fn read_partitions(r: &mut Reader) -> Result<Vec<(Partition, ShardId)>, Malformed> {
    let mut partitions = Vec::new();
    for _ in 0..r.count(17)? {
        let topic = TopicId::from_bytes(r.array()?);
        for _ in 0..r.count(2)? {
            partitions.push((Partition { topic, index: r.int()? }, r.int()?));
        }
    }
    Ok(partitions)
}
