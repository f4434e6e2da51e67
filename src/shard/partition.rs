use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::shard::entry::{Batch, Sequence, Slot};
use crate::shard::marker::Markers;
use crate::shard::pointer::{BatchPointer, CONTROL_BATCH_BYTES, Control, PointerLog};
use crate::shard::producer::{Check, Held, ProducerState};
use crate::shard::stable::Transactions;
use crate::shard::verdict::{Refusal, Released, Verdict};
use crate::types::{LeaderEpoch, ObjectId, Offset, Partition, Producer, Timestamp};

/// One partition as every replica of its shard knows it.
///
/// ```text
/// log_start_offset ≤ last_stable_offset ≤ high_watermark = end of the applied spans
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionState {
    pub id: Partition,
    pub slot: Slot,
    pub epoch_base: LeaderEpoch,
    pub append_time: bool,
    pub log_start_offset: Offset,
    pub high_watermark: Offset,
    pub pointers: PointerLog,
    /// (epoch, first offset of it), ascending: answers OffsetForLeaderEpoch.
    pub epochs: Vec<(LeaderEpoch, Offset)>,
    producers: BTreeMap<i64, ProducerState>,
    pub transactions: Transactions,
    last_append_time: Timestamp,
    /// The last change of `append_time` that is known here.
    #[serde(default)]
    pub(super) stamping_change: u64,
}

/// A batch with where its bytes are: what `append` needs beyond the batch itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    pub object: ObjectId,
    pub batch_index: u32,
    pub start: u64,
    pub term: u64,
    pub append_time: Timestamp,
}

/// What a batch is to a transaction.
enum Role {
    Begins,
    /// In the middle of one, or outside.
    Goes,
    Ends(Control),
}

impl PartitionState {
    pub(super) fn new(id: Partition, slot: Slot, epoch_base: LeaderEpoch, append_time: bool) -> Self {
        PartitionState {
            id,
            slot,
            epoch_base,
            append_time,
            log_start_offset: 0,
            high_watermark: 0,
            pointers: PointerLog::default(),
            epochs: Vec::new(),
            producers: BTreeMap::new(),
            transactions: Transactions::default(),
            last_append_time: 0,
            stamping_change: 0,
        }
    }

    /// Where the earliest open transaction begins, else the end: everything before it is decided. A pointer begins there.
    pub fn undecided_from(&self) -> Offset {
        self.transactions.first_open().unwrap_or(self.high_watermark)
    }

    /// As above, but never before the log's start.
    pub fn last_stable_offset(&self) -> Offset {
        self.undecided_from().max(self.log_start_offset)
    }

    pub fn leader_epoch(&self, term: u64) -> LeaderEpoch {
        self.epoch_base.saturating_add(LeaderEpoch::try_from(term).unwrap_or(LeaderEpoch::MAX))
    }

    /// OffsetForLeaderEpoch (KIP-101, Kafka's `LeaderEpochFileCache.endOffsetFor`): the largest epoch ≤ `epoch` seen
    /// here and the offset where it ends; the asked epoch itself when all that were seen are larger; `None` for one
    /// that has not been yet. The current epoch counts as seen, from the end of the log on.
    pub fn epoch_end(&self, epoch: LeaderEpoch, current: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        if epoch < 0 || epoch > current {
            return None;
        }
        if epoch == current {
            return Some((current, self.high_watermark));
        }
        let next = self.epochs.partition_point(|(e, _)| *e <= epoch);
        let end = self.epochs.get(next).map_or(self.high_watermark, |(_, start)| *start);
        let floor = next.checked_sub(1).map_or(epoch, |before| self.epochs[before].0);
        Some((floor, end))
    }

    pub fn producer(&self, id: i64) -> Option<&ProducerState> {
        self.producers.get(&id)
    }

    pub fn producers(&self) -> impl Iterator<Item = (&i64, &ProducerState)> {
        self.producers.iter()
    }

    /// Takes the next offsets for `batch`, or says why not. Released batches of the same producer follow at once.
    pub(super) fn append(&mut self, batch: &Batch, at: Placed, released: &mut Vec<Released>) -> Verdict {
        let Some(claim) = batch.sequence else {
            let (base, append_time) = self.take_offsets(batch, at, Role::Goes);
            return Verdict::Appended { base, append_time };
        };
        let id = claim.producer.id;
        match ProducerState::check(self.producers.get(&id), claim, batch.span) {
            Check::Append => {
                let verdict = self.append_claimed(claim, batch, at);
                self.release_ready(id, at.term, released);
                verdict
            }
            Check::Duplicate { base } => self.duplicate(base),
            Check::StaleEpoch => Verdict::Refused(Refusal::StaleProducerEpoch),
            Check::Behind => Verdict::Refused(Refusal::DuplicateSequence),
            Check::OutOfOrder => Verdict::Refused(Refusal::OutOfOrderSequence),
            Check::WrongTransaction => Verdict::Refused(Refusal::WrongTransaction),
            Check::Ahead => {
                let o = at.object;
                let held = Held {
                    object: o.packed(),
                    batch_index: at.batch_index,
                    start: at.start,
                    len: batch.len,
                    span: batch.span,
                    max_timestamp: batch.max_timestamp,
                    epoch: claim.producer.epoch,
                    base_sequence: claim.base,
                    transaction: claim.transaction,
                    append_time: at.append_time,
                };
                let state = self.producers.entry(id).or_default();
                let repeated =
                    state.take_repeated(&held).map(|h| Released::of(&h, Verdict::Refused(Refusal::SequenceGap)));
                released.extend(repeated);
                match state.hold(held) {
                    true => Verdict::Held,
                    false => Verdict::Refused(Refusal::SequenceGap),
                }
            }
        }
    }

    /// Ends a producer's transaction here: the marker takes an offset. Held batches that it passes are refused.
    ///
    /// # Errors
    /// See [`Endings::judge`](crate::shard::marker::Endings::judge).
    pub(super) fn end_transaction(
        &mut self,
        marker: &Markers,
        term: u64,
        released: &mut Vec<Released>,
    ) -> Result<(), Refusal> {
        let id = marker.producer.id;
        let known = self.producers.get(&id);
        let epoch = known.filter(|state| state.is_known()).map(|state| state.epoch);
        if !known.map_or(Ok(true), |state| state.endings.judge(epoch, marker))? {
            return Ok(());
        }
        let offset = self.take_marker(marker, term);
        let open = self.producers.entry(id).or_default().end(marker);
        if let Some(open) = open {
            self.transactions.end(open.first, offset, marker.commit);
        }
        self.release_ready(id, term, released);
        Ok(())
    }

    /// Ends the wait. When nothing can come before what is held any more, an unknown producer begins at its lowest sequence,
    /// and a known one hears that it has left a gap; else all that is still held is to come again.
    pub(super) fn release(&mut self, producer_id: i64, settled: bool, term: u64, released: &mut Vec<Released>) {
        let Some(state) = self.producers.get_mut(&producer_id) else { return };
        let refused = match state.is_known() && settled {
            true => Verdict::Refused(Refusal::OutOfOrderSequence),
            false => Verdict::Refused(Refusal::SequenceGap),
        };
        if !state.is_known() && settled {
            state.held.sort_by_key(|h| (h.epoch, h.base_sequence));
            if !state.held.is_empty() {
                let first = state.held.remove(0);
                let verdict = self.append_held(producer_id, &first, term);
                released.push(Released::of(&first, verdict));
                self.release_ready(producer_id, term, released);
            }
        }
        let Some(state) = self.producers.get_mut(&producer_id) else { return };
        released.extend(state.held.drain(..).map(|held| Released::of(&held, refused)));
        if !state.is_known() {
            self.producers.remove(&producer_id);
        }
    }

    pub(super) fn expire_producers(&mut self, before: Timestamp, released: &mut Vec<Released>) {
        self.producers.retain(|_, state| {
            let keep = state.last_time >= before || state.open.is_some();
            if !keep {
                let refused = Verdict::Refused(Refusal::SequenceGap);
                released.extend(state.held.iter().map(|held| Released::of(held, refused)));
            }
            keep
        });
    }

    pub fn has_producers_before(&self, time: Timestamp) -> bool {
        self.producers.values().any(|state| state.last_time < time && state.open.is_none())
    }

    /// Whether a producer's batch, one of an object's, waits for others before it.
    pub fn is_held(&self, producer_id: i64, object: ObjectId, batch_index: u32) -> bool {
        let is_it = |held: &Held| held.batch_index == batch_index && held.object_id() == object;
        self.producers.get(&producer_id).is_some_and(|state| state.held.iter().any(is_it))
    }

    /// The offset a retry of this claim would be answered with.
    pub fn remembered(&self, claim: Sequence, span: u32) -> Option<Offset> {
        match ProducerState::check(self.producers.get(&claim.producer.id), claim, span) {
            Check::Duplicate { base } => Some(base),
            _ => None,
        }
    }

    /// Of a batch that was appended there.
    pub(super) fn duplicate(&self, base: Offset) -> Verdict {
        let pointer = self.pointers.from_offset(base).next().filter(|pointer| pointer.base <= base);
        Verdict::Duplicate { base, append_time: pointer.and_then(|pointer| pointer.append_time) }
    }

    fn append_claimed(&mut self, claim: Sequence, batch: &Batch, at: Placed) -> Verdict {
        let state = self.producers.entry(claim.producer.id).or_default();
        let begins = claim.transaction.is_some() && state.open.is_none();
        state.record(claim, batch, self.high_watermark, at.append_time);
        if begins {
            self.transactions.begin(self.high_watermark, claim.producer.id);
        }
        let (base, append_time) = self.take_offsets(batch, at, if begins { Role::Begins } else { Role::Goes });
        Verdict::Appended { base, append_time }
    }

    fn append_held(&mut self, producer_id: i64, held: &Held, term: u64) -> Verdict {
        let producer = Producer { id: producer_id, epoch: held.epoch };
        let claim = Sequence { producer, base: held.base_sequence, transaction: held.transaction };
        let batch = Batch { len: held.len, span: held.span, max_timestamp: held.max_timestamp, sequence: Some(claim) };
        let at = Placed {
            object: held.object_id(),
            batch_index: held.batch_index,
            start: held.start,
            term,
            append_time: held.append_time,
        };
        self.append_claimed(claim, &batch, at)
    }

    /// Appends held batches for as long as one is no longer ahead. Bounded: each turn takes one of at most five.
    fn release_ready(&mut self, producer_id: i64, term: u64, released: &mut Vec<Released>) {
        loop {
            let Some(state) = self.producers.get(&producer_id) else { return };
            let ready = state.held.iter().enumerate().find_map(|(i, h)| {
                let producer = Producer { id: producer_id, epoch: h.epoch };
                let claim = Sequence { producer, base: h.base_sequence, transaction: h.transaction };
                match ProducerState::check(Some(state), claim, h.span) {
                    Check::Ahead => None,
                    check => Some((i, check)),
                }
            });
            let Some((i, check)) = ready else { return };
            let state = self.producers.get_mut(&producer_id).expect("found above");
            let held = state.held.remove(i);
            let verdict = match check {
                Check::Append => self.append_held(producer_id, &held, term),
                Check::Duplicate { base } => self.duplicate(base),
                Check::StaleEpoch => Verdict::Refused(Refusal::StaleProducerEpoch),
                Check::Behind => Verdict::Refused(Refusal::DuplicateSequence),
                Check::OutOfOrder | Check::Ahead => Verdict::Refused(Refusal::OutOfOrderSequence),
                Check::WrongTransaction => Verdict::Refused(Refusal::WrongTransaction),
            };
            released.push(Released::of(&held, verdict));
        }
    }

    fn take_marker(&mut self, marker: &Markers, term: u64) -> Offset {
        let control = Control {
            producer_id: marker.producer.id,
            producer_epoch: marker.producer.epoch,
            commit: marker.commit,
            coordinator_epoch: marker.coordinator_epoch,
        };
        let batch = Batch { len: CONTROL_BATCH_BYTES, span: 1, max_timestamp: marker.append_time, sequence: None };
        let no_object = ObjectId::unpacked((0, 0, 0, 0));
        let at = Placed { object: no_object, batch_index: 0, start: 0, term, append_time: marker.append_time };
        self.take_offsets(&batch, at, Role::Ends(control)).0
    }

    /// The one place where offsets are given out. Byte-adjacent batches of one object and epoch share a pointer; but a
    /// transaction begins with a pointer of its own, so that the last stable offset is always where one begins.
    fn take_offsets(&mut self, batch: &Batch, at: Placed, role: Role) -> (Offset, Option<Timestamp>) {
        let base = self.high_watermark;
        let end = base + Offset::from(batch.span);
        let leader_epoch = self.leader_epoch(at.term);
        self.last_append_time = self.last_append_time.max(at.append_time);
        let append_time = self.append_time.then_some(self.last_append_time);
        let max_timestamp = append_time.unwrap_or(batch.max_timestamp);
        if self.epochs.last().is_none_or(|(epoch, _)| *epoch < leader_epoch) {
            self.epochs.push((leader_epoch, base));
        }
        let pointer = BatchPointer {
            base,
            last: end - 1,
            leader_epoch,
            object: at.object,
            start: at.start,
            len: batch.len.into(),
            max_timestamp,
            max_timestamp_so_far: max_timestamp,
            append_time,
            control: match role {
                Role::Ends(control) => Some(control),
                Role::Goes | Role::Begins => None,
            },
        };
        if !(matches!(role, Role::Goes) && self.pointers.extend_last(&pointer)) {
            self.pointers.push(pointer);
        }
        self.high_watermark = end;
        (base, append_time)
    }
}
