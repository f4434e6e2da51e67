//! The end of a producer's transaction, as the coordinator tells it to partitions, and whether it is one.

use bytes::{BufMut, BytesMut};
use serde::{Deserialize, Serialize};

use crate::shard::entry::Slot;
use crate::shard::verdict::Refusal;
use crate::types::varint::{self, Malformed, Reader};
use crate::types::{Producer, Timestamp};

/// Instead of a transaction's number: whichever is open. Said by administrators, who do not know the number.
pub const ANY_TRANSACTION: u64 = 0;

/// Ends one transaction in partitions of this shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Markers {
    pub append_time: Timestamp,
    /// With the epoch from which on its batches count: that of the transaction, or (transaction version 2) the one after.
    pub producer: Producer,
    /// Transactions of a producer id are numbered from 1 on, upwards; or [`ANY_TRANSACTION`].
    pub txn_no: u64,
    pub commit: bool,
    pub coordinator_epoch: i32,
    pub targets: Vec<Target>,
}

/// A partition that was part of the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    pub slot: Slot,
    /// It holds groups and their offsets instead of records.
    pub groups: bool,
}

impl Markers {
    /// In the log: behind the time, which the leader adds to what it was asked.
    pub(super) fn put(&self, out: &mut BytesMut) {
        varint::put_signed(out, self.append_time);
        varint::put_signed(out, self.producer.id);
        varint::put_signed(out, self.producer.epoch.into());
        varint::put(out, self.txn_no);
        out.put_u8(self.commit.into());
        varint::put_signed(out, self.coordinator_epoch.into());
        varint::put(out, self.targets.len() as u64);
        for target in &self.targets {
            varint::put(out, u64::from(target.slot) << 1 | u64::from(target.groups));
        }
    }

    pub(super) fn read(r: &mut Reader) -> Result<Markers, Malformed> {
        let append_time = r.signed()?;
        let (id, epoch) = (r.signed()?, i16::try_from(r.signed()?).map_err(|_| Malformed)?);
        let (txn_no, commit) = (r.u64()?, r.byte()? != 0);
        let coordinator_epoch = i32::try_from(r.signed()?).map_err(|_| Malformed)?;
        let target = |r: &mut Reader| {
            let packed = r.u64()?;
            let slot = Slot::try_from(packed >> 1).map_err(|_| Malformed)?;
            Ok(Target { slot, groups: packed & 1 != 0 })
        };
        let targets = (0..r.count(1)?).map(|_| target(r)).collect::<Result<_, _>>()?;
        let producer = Producer { id, epoch };
        Ok(Markers { append_time, producer, txn_no, commit, coordinator_epoch, targets })
    }
}

/// What is remembered of a producer's transactions that are over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endings {
    /// Transactions up to this one: nothing of them is taken any more.
    pub ended: u64,
    /// Of the last marker; `None` before the first.
    pub coordinator_epoch: Option<i32>,
}

impl Endings {
    /// Whether this marker ends anything: one that comes again, however late, does not, and is as good as done.
    ///
    /// # Errors
    /// Kafka's rules (`ProducerAppendInfo.appendEndTxnMarker`): the producer goes on in a later epoch, or another
    /// coordinator has ended a transaction since.
    pub(super) fn judge(&self, epoch: Option<i16>, marker: &Markers) -> Result<bool, Refusal> {
        if marker.txn_no != ANY_TRANSACTION && marker.txn_no <= self.ended {
            return Ok(false);
        }
        if epoch.is_some_and(|epoch| marker.producer.epoch < epoch) {
            return Err(Refusal::StaleProducerEpoch);
        }
        if self.coordinator_epoch.is_some_and(|known| marker.coordinator_epoch < known) {
            return Err(Refusal::StaleCoordinator);
        }
        Ok(true)
    }

    /// `open` is the transaction that was open, if one was.
    pub(super) fn end(&mut self, marker: &Markers, open: Option<u64>) {
        self.ended = self.ended.max(marker.txn_no).max(open.unwrap_or(0));
        self.coordinator_epoch = Some(marker.coordinator_epoch);
    }
}
