use std::collections::HashMap;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use crate::cluster::{Cluster, LeaderGuess};
use crate::commit::wire::with_shard;
use crate::index::{OpenShard, Shards};
use crate::peer::{self, Answer, LeaderError};
use crate::shard::Slot;
use crate::types::varint::{self, Malformed, Reader};
use crate::types::{Partition, ShardId, TopicId};

const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);
const CACHED_MAX: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SlotError {
    #[error("the partition is not in its shard")]
    UnknownPartition,
    #[error("the shard cannot be asked now")]
    Unavailable,
}

/// Which slot of its shard a partition has. A slot is never given to another partition, so it can be kept for good.
pub struct Slots {
    cluster: Cluster,
    shards: Arc<Shards>,
    cached: RwLock<HashMap<Partition, Slot>>,
}

impl Slots {
    pub fn new(cluster: Cluster, shards: Arc<Shards>) -> Self {
        Slots { cluster, shards, cached: RwLock::default() }
    }

    /// # Errors
    /// [`SlotError::Unavailable`] may be tried again.
    pub async fn resolve(&self, shard: ShardId, partition: Partition) -> Result<Slot, SlotError> {
        if let Some(slot) = self.cached.read().expect("no writer panics").get(&partition) {
            return Ok(*slot);
        }
        let local = self
            .shards
            .get(shard)
            .and_then(|open| open.replica().read(|state| state.partition(&partition).map(|p| p.slot)));
        if let Some(slot) = local {
            self.keep([(partition, slot)]);
            return Ok(slot);
        }
        self.ask(shard, partition).await
    }

    /// A broker without the shard, or one whose replica is behind, asks the leader for the whole topic.
    async fn ask(&self, shard: ShardId, partition: Partition) -> Result<Slot, SlotError> {
        let body = with_shard(shard, partition.topic.as_bytes());
        let mut guess = LeaderGuess::new(self.cluster.clone(), self.shards.clone(), shard);
        let answer = peer::call_leader(self.cluster.node(), || guess.take(), peer::SLOTS, body, LOOKUP_TIMEOUT).await;
        let pairs = answer.map(|body| decode(&body)).map_err(|e: LeaderError| {
            tracing::debug!(shard, error = %e, "slots are not known yet");
            SlotError::Unavailable
        })?;
        let pairs = pairs.map_err(|_| SlotError::Unavailable)?;
        self.keep(pairs.iter().map(|(index, slot)| (Partition { topic: partition.topic, index: *index }, *slot)));
        let found = pairs.iter().find(|(index, _)| *index == partition.index);
        found.map(|(_, slot)| *slot).ok_or(SlotError::UnknownPartition)
    }

    fn keep(&self, pairs: impl IntoIterator<Item = (Partition, Slot)>) {
        let mut cached = self.cached.write().expect("no writer panics");
        if cached.len() >= CACHED_MAX {
            cached.clear();
        }
        cached.extend(pairs);
    }
}

/// The leader's side: every partition of the topic that lives in the shard.
pub fn answer_slots(shard: &OpenShard, topic: &[u8]) -> Answer {
    let leadership = *shard.group.leadership().borrow();
    if !leadership.ready {
        return Answer::NotLeader { leader: leadership.leader };
    }
    let Ok(topic) = topic.try_into().map(TopicId::from_bytes) else {
        return Answer::Refused("a topic id has sixteen bytes".into());
    };
    let pairs: Vec<(i32, Slot)> = shard
        .replica()
        .read(|state| state.partitions().filter(|p| p.id.topic == topic).map(|p| (p.id.index, p.slot)).collect());
    let mut out = BytesMut::new();
    varint::put(&mut out, pairs.len() as u64);
    for (index, slot) in pairs {
        varint::put(&mut out, index as u64);
        varint::put(&mut out, slot.into());
    }
    Answer::Done(Bytes::from(out))
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<(i32, Slot)>, Malformed> {
    let mut r = Reader::new(bytes);
    (0..r.count(2)?).map(|_| Ok((r.int()?, r.int()?))).collect()
}
