//! What a partition remembers of one idempotent producer, and the verdict on its next batch.
//!
//! The rules are Kafka's (`ProducerAppendInfo.checkSequence`, KIP-98), with one addition: a batch that arrives ahead
//! of its predecessor is *held*, because here the two may come through different brokers.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::shard::entry::{Batch, Sequence, sequence_after, sequence_distance};
use crate::shard::marker::{Endings, Markers};
use crate::types::{ObjectId, Offset, Timestamp};

/// Kafka remembers five batches: the most that a client may have in flight.
pub const RECENT_BATCHES_MAX: usize = 5;
pub const HELD_BATCHES_MAX: usize = 5;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProducerState {
    pub epoch: i16,
    /// The first sequence of this epoch that was appended here. What lies before it was never seen, so it is no duplicate.
    pub opened: i32,
    pub recent: VecDeque<Recent>,
    pub held: Vec<Held>,
    pub last_time: Timestamp,
    pub open: Option<OpenTransaction>,
    pub endings: Endings,
}

/// The transaction that the producer's next batch is to be part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenTransaction {
    pub number: u64,
    pub first: Offset,
}

/// An appended batch: enough to answer its retry with the offset it got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recent {
    pub base_sequence: i32,
    pub span: u32,
    pub base: Offset,
}

/// A batch whose predecessor has not come yet. Its bytes are durable; it has no offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Packed.
    pub object: (i32, u64, u64, u16),
    /// Position of the batch in its object's list for this shard.
    pub batch_index: u32,
    pub start: u64,
    pub len: u32,
    pub span: u32,
    pub max_timestamp: Timestamp,
    pub epoch: i16,
    pub base_sequence: i32,
    pub transaction: Option<u64>,
    pub append_time: Timestamp,
}

impl Held {
    pub fn object_id(&self) -> ObjectId {
        ObjectId::unpacked(self.object)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    Append,
    Duplicate {
        base: Offset,
    },
    /// Predecessors are missing: they may still be on their way.
    Ahead,
    StaleEpoch,
    /// Appended, and older than what is remembered: DUPLICATE_SEQUENCE_NUMBER, a success for the client (Kafka has forgotten
    /// that it was appended, and answers OUT_OF_ORDER_SEQUENCE_NUMBER).
    Behind,
    /// Never appended, and its place is past; or it overlaps what was appended in a way that no retry does.
    OutOfOrder,
    /// Its transaction is over, or another is open (Kafka: `InvalidTxnStateException`).
    WrongTransaction,
}

impl ProducerState {
    /// The verdict on a batch with this claim. `None` as state: the producer is unknown here.
    pub fn check(state: Option<&ProducerState>, claim: Sequence, span: u32) -> Check {
        let Some(state) = state.filter(|s| s.is_known()) else {
            // There is no transaction 0.
            if claim.transaction == Some(0) {
                return Check::WrongTransaction;
            }
            return if claim.base == 0 { Check::Append } else { Check::Ahead };
        };
        if claim.producer.epoch < state.epoch {
            return Check::StaleEpoch;
        }
        let same_epoch = claim.producer.epoch == state.epoch;
        let same = state.recent.iter().find(|r| r.base_sequence == claim.base && r.span == span && same_epoch);
        if let Some(same) = same {
            return Check::Duplicate { base: same.base };
        }
        if !state.is_in(claim.transaction) {
            return Check::WrongTransaction;
        }
        if !same_epoch {
            return if claim.base == 0 { Check::Append } else { Check::Ahead };
        }
        match sequence_distance(state.expected(), claim.base) {
            0 => Check::Append,
            1.. => Check::Ahead,
            behind if behind + i64::from(span) <= 0 && sequence_distance(state.opened, claim.base) >= 0 => {
                Check::Behind
            }
            _ => Check::OutOfOrder,
        }
    }

    /// Something of it was appended here, if only a marker.
    pub fn is_known(&self) -> bool {
        !self.recent.is_empty() || self.endings.coordinator_epoch.is_some()
    }

    /// The (epoch, sequence) that is to come next; `None` of an unknown producer.
    pub fn place(&self) -> Option<(i16, i32)> {
        self.is_known().then(|| (self.epoch, self.expected()))
    }

    fn is_in(&self, transaction: Option<u64>) -> bool {
        match (transaction, self.open) {
            (None, open) => open.is_none(),
            (Some(number), None) => number > self.endings.ended,
            (Some(number), Some(open)) => number == open.number,
        }
    }

    /// Of the current epoch.
    pub fn last_sequence(&self) -> Option<i32> {
        self.recent.back().map(|last| sequence_after(last.base_sequence, last.span - 1))
    }

    fn expected(&self) -> i32 {
        self.recent.back().map_or(0, |last| sequence_after(last.base_sequence, last.span))
    }

    pub(super) fn record(&mut self, claim: Sequence, batch: &Batch, base: Offset, time: Timestamp) {
        if claim.producer.epoch != self.epoch || self.recent.is_empty() {
            self.epoch = claim.producer.epoch;
            self.opened = claim.base;
            self.recent.clear();
        }
        if self.recent.len() == RECENT_BATCHES_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(Recent { base_sequence: claim.base, span: batch.span, base });
        self.last_time = self.last_time.max(time);
        if let (Some(number), None) = (claim.transaction, self.open) {
            self.open = Some(OpenTransaction { number, first: base });
            // The coordinator begins none before all others are over.
            self.endings.ended = self.endings.ended.max(number - 1);
        }
    }

    /// The open transaction, if there is one, is over. A marker of a later epoch begins the sequences anew.
    pub(super) fn end(&mut self, marker: &Markers) -> Option<OpenTransaction> {
        let epoch = marker.producer.epoch;
        if !self.is_known() || epoch > self.epoch {
            self.epoch = epoch;
            self.opened = 0;
            self.recent.clear();
        }
        let open = self.open.take();
        self.endings.end(marker, open.map(|open| open.number));
        self.last_time = self.last_time.max(marker.append_time);
        open
    }

    /// A retry takes the place of the held batch it repeats. Whoever brought that one may be gone, with nobody left to
    /// end its wait: five such would shut their producer out.
    pub(super) fn take_repeated(&mut self, held: &Held) -> Option<Held> {
        let claim = |h: &Held| (h.epoch, h.base_sequence, h.span);
        let at = self.held.iter().position(|h| claim(h) == claim(held))?;
        Some(self.held.remove(at))
    }

    /// False when there is no room: five batches ahead is more than a client may send.
    pub(super) fn hold(&mut self, held: Held) -> bool {
        if self.held.len() >= HELD_BATCHES_MAX {
            return false;
        }
        self.last_time = self.last_time.max(held.append_time);
        self.held.push(held);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Producer;

    fn claim(epoch: i16, base: i32) -> Sequence {
        Sequence { producer: Producer { id: 7, epoch }, base, transaction: None }
    }

    fn batch(span: u32) -> Batch {
        Batch { len: 100, span, max_timestamp: 0, sequence: None }
    }

    fn appended(epoch: i16, spans: &[(i32, u32)]) -> ProducerState {
        let mut state = ProducerState::default();
        for (i, (base, span)) in spans.iter().enumerate() {
            state.record(claim(epoch, *base), &batch(*span), 100 * i as i64, 0);
        }
        state
    }

    #[test]
    fn unknown_producer_starts_at_zero_or_waits() {
        assert_eq!(ProducerState::check(None, claim(0, 0), 1), Check::Append);
        assert_eq!(ProducerState::check(None, claim(0, 9), 1), Check::Ahead);
    }

    #[test]
    fn retry_of_any_of_the_last_five_gets_its_offset() {
        let state = appended(0, &[(0, 10), (10, 10), (20, 10), (30, 10), (40, 10), (50, 10)]);
        assert_eq!(ProducerState::check(Some(&state), claim(0, 10), 10), Check::Duplicate { base: 100 });
        assert_eq!(ProducerState::check(Some(&state), claim(0, 50), 10), Check::Duplicate { base: 500 });
        assert_eq!(ProducerState::check(Some(&state), claim(0, 0), 10), Check::Behind);
        assert_eq!(ProducerState::check(Some(&state), claim(0, 60), 5), Check::Append);
        assert_eq!(ProducerState::check(Some(&state), claim(0, 61), 5), Check::Ahead);
        assert_eq!(ProducerState::check(Some(&state), claim(0, 55), 10), Check::OutOfOrder);
    }

    /// Opened at a later sequence, a producer's earlier batch must not be called a duplicate: its client would take that
    /// for success.
    #[test]
    fn what_lies_before_the_opening_is_never_a_duplicate() {
        let state = appended(0, &[(10, 5), (15, 5), (20, 5), (25, 5), (30, 5), (35, 5)]);
        assert_eq!(ProducerState::check(Some(&state), claim(0, 10), 5), Check::Behind);
        assert_eq!(ProducerState::check(Some(&state), claim(0, 5), 5), Check::OutOfOrder);
        assert_eq!(ProducerState::check(Some(&state), claim(0, 0), 5), Check::OutOfOrder);
    }

    #[test]
    fn epochs_fence_and_restart_at_zero() {
        let state = appended(3, &[(0, 10)]);
        assert_eq!(ProducerState::check(Some(&state), claim(2, 10), 1), Check::StaleEpoch);
        assert_eq!(ProducerState::check(Some(&state), claim(4, 0), 1), Check::Append);
        assert_eq!(ProducerState::check(Some(&state), claim(4, 10), 1), Check::Ahead);
    }

    #[test]
    fn sequences_wrap_to_zero() {
        let state = appended(0, &[(i32::MAX - 1, 2)]);
        assert_eq!(ProducerState::check(Some(&state), claim(0, 0), 4), Check::Append);
        let state = appended(0, &[(i32::MAX - 1, 4)]);
        assert_eq!(ProducerState::check(Some(&state), claim(0, 2), 4), Check::Append);
    }
}
