//! Offsets committed within transactions that are not decided yet.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::shard::group::Committed;
use crate::shard::marker::{Endings, Markers};
use crate::shard::verdict::Refusal;
use crate::types::{Partition, Producer, Timestamp, TopicId};

/// By producer id, of one slot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pending {
    producers: BTreeMap<i64, InTransaction>,
}

/// A group and a partition that it reads.
type Of = (String, Partition);

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct InTransaction {
    /// The largest that was seen.
    epoch: i16,
    open: Option<u64>,
    endings: Endings,
    /// Of the last marker.
    last_time: Timestamp,
    offsets: Vec<(Of, Committed)>,
}

impl Pending {
    pub fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }

    /// A group's partitions with an offset that waits.
    pub fn of(&self, group: &str) -> impl Iterator<Item = &Partition> {
        let offsets = self.producers.values().flat_map(|state| &state.offsets);
        offsets.filter(move |((of, _), _)| of == group).map(|((_, partition), _)| partition)
    }

    /// # Errors
    /// The transaction is over, or another of the producer's is open.
    pub fn add(
        &mut self,
        producer: Producer,
        txn_no: u64,
        group: &str,
        offsets: Vec<(Partition, Committed)>,
    ) -> Result<(), Refusal> {
        let state = self.producers.get(&producer.id);
        if state.is_some_and(|state| producer.epoch < state.epoch) {
            return Err(Refusal::StaleProducerEpoch);
        }
        let ended = state.map_or(0, |state| state.endings.ended);
        let open = state.and_then(|state| state.open).unwrap_or(txn_no);
        if txn_no <= ended || txn_no != open {
            return Err(Refusal::WrongTransaction);
        }
        let state = self.producers.entry(producer.id).or_default();
        (state.epoch, state.open) = (producer.epoch, Some(txn_no));
        state.endings.ended = txn_no - 1;
        // A request may name a partition many times: its last word counts. One look at what waits already, however many
        // there are: this runs on every replica, and nothing else of the shard meanwhile.
        let mut named = HashSet::with_capacity(offsets.len());
        let mut news: Vec<_> = offsets.into_iter().rev().filter(|(partition, _)| named.insert(*partition)).collect();
        news.reverse();
        state.offsets.retain(|((of, at), _)| of != group || !named.contains(at));
        state.offsets.extend(news.into_iter().map(|(partition, committed)| ((group.to_owned(), partition), committed)));
        Ok(())
    }

    /// The offsets that are committed herewith.
    ///
    /// # Errors
    /// See [`Endings::judge`].
    pub fn end(&mut self, marker: &Markers) -> Result<Vec<(Of, Committed)>, Refusal> {
        let state = self.producers.get(&marker.producer.id);
        if !state.map_or(Ok(true), |state| state.endings.judge(Some(state.epoch), marker))? {
            return Ok(Vec::new());
        }
        let state = self.producers.entry(marker.producer.id).or_default();
        let open = state.open.take();
        state.endings.end(marker, open);
        state.epoch = marker.producer.epoch;
        state.last_time = state.last_time.max(marker.append_time);
        let offsets = std::mem::take(&mut state.offsets);
        Ok(if marker.commit { offsets } else { Vec::new() })
    }

    pub fn forget_group(&mut self, group: &str) {
        self.retain(|(of, _), _| of != group);
    }

    pub fn forget_topic(&mut self, topic: TopicId) {
        self.retain(|(_, at), _| at.topic != topic);
    }

    /// Those of a group that are not newer than that.
    pub fn forget(&mut self, group: &str, partitions: &[Partition], until_ms: u64) {
        let gone: HashSet<&Partition> = partitions.iter().collect();
        self.retain(|(of, at), committed| of != group || !gone.contains(at) || committed.at_ms > until_ms);
    }

    fn retain(&mut self, keep: impl Fn(&Of, &Committed) -> bool) {
        self.producers.values_mut().for_each(|state| state.offsets.retain(|(of, committed)| keep(of, committed)));
    }

    pub fn has_producers_before(&self, time: Timestamp) -> bool {
        self.producers.values().any(|state| state.open.is_none() && state.last_time < time)
    }

    /// Producers whose last transaction ended before that time: nothing of theirs can be late any more.
    pub fn forget_producers(&mut self, before: Timestamp) {
        self.producers.retain(|_, state| state.open.is_some() || state.last_time >= before);
    }
}
