use std::collections::BTreeMap;

use bytes::Bytes;

use crate::commit::Reply;
use crate::object::layout::{self, Builder, Contents, Section};
use crate::shard::{Batch, Part, Sequence, Slot};
use crate::types::{Partition, ShardId, Timestamp};
use crate::upload::Pending;

/// An object's bytes and, per shard, what its pointers will say and who waits for them.
pub(super) struct Assembled {
    pub bytes: Bytes,
    pub shards: BTreeMap<ShardId, ShardParts>,
}

#[derive(Default)]
pub(super) struct ShardParts {
    pub parts: Vec<Part>,
    /// Which partition each part is of.
    partitions: Vec<Partition>,
    /// One per batch, in the order of the parts.
    pub replies: Vec<Reply>,
}

#[derive(Default)]
struct Group {
    slot: Slot,
    slices: Vec<Bytes>,
    batches: Vec<Batch>,
    replies: Vec<Reply>,
    record_count: u32,
    min_timestamp: Timestamp,
}

/// Lays batches out: partitions of a shard adjacent, batches of a partition contiguous in the order they came.
/// The only copy of record bytes between socket and store happens here.
///
/// # Errors
/// The format's limits are exceeded: the buffer was sealed too late.
pub(super) fn assemble(pending: Vec<Pending>) -> Result<Assembled, (layout::Error, Vec<Reply>)> {
    let mut groups: BTreeMap<(ShardId, Partition), Group> = BTreeMap::new();
    for one in pending {
        let group = groups.entry((one.shard, one.partition)).or_default();
        let header = one.batch.header();
        let first = group.batches.is_empty();
        group.slot = one.slot;
        group.min_timestamp =
            if first { header.base_timestamp } else { group.min_timestamp.min(header.base_timestamp) };
        // Nobody counts the records of compressed batches: what they say may be anything.
        group.record_count = group.record_count.saturating_add(one.batch.count() as u32);
        group.batches.push(Batch {
            len: one.batch.bytes().len() as u32,
            span: one.batch.count() as u32,
            max_timestamp: one.batch.max_timestamp(),
            sequence: one.claim(),
        });
        group.slices.push(one.batch.bytes().clone());
        group.replies.push(one.reply);
    }
    let mut builder = Builder::new();
    for ((shard, partition), group) in &mut groups {
        let contents = Contents {
            shard: *shard,
            partition: *partition,
            slices: std::mem::take(&mut group.slices),
            batch_count: group.batches.len() as u32,
            record_count: group.record_count,
            min_timestamp: group.min_timestamp,
            max_timestamp: group.batches.iter().map(|b| b.max_timestamp).max().unwrap_or(-1),
        };
        if let Err(e) = builder.push(contents) {
            return Err((e, groups.into_values().flat_map(|g| g.replies).collect()));
        }
    }
    let (bytes, sections) = builder.finish();
    Ok(Assembled { bytes, shards: by_shard(groups.into_values(), &sections) })
}

impl ShardParts {
    /// Takes out the batches whose claim `blocked` names, and gives back who waits for them. What is left of a part
    /// falls into parts of adjacent bytes again.
    pub fn take_out(&mut self, blocked: impl Fn(Partition, Sequence) -> bool) -> Vec<Reply> {
        let claims = |part: &Part| part.batches.iter().filter_map(|b| b.sequence).collect::<Vec<_>>();
        let any = self.parts.iter().zip(&self.partitions);
        if !any.into_iter().any(|(part, at)| claims(part).into_iter().any(|claim| blocked(*at, claim))) {
            return Vec::new();
        }
        let mut replies = std::mem::take(&mut self.replies).into_iter();
        let (mut kept, mut out) = (ShardParts::default(), Vec::new());
        for (part, at) in std::mem::take(&mut self.parts).into_iter().zip(std::mem::take(&mut self.partitions)) {
            let mut start = part.start;
            let mut open = false;
            for (batch, reply) in part.batches.into_iter().zip(replies.by_ref()) {
                if batch.sequence.is_some_and(|claim| blocked(at, claim)) {
                    out.push(reply);
                    open = false;
                } else {
                    if !open {
                        kept.partitions.push(at);
                        kept.parts.push(Part { slot: part.slot, start, batches: Vec::new() });
                    }
                    kept.parts.last_mut().expect("pushed above").batches.push(batch);
                    kept.replies.push(reply);
                    open = true;
                }
                start += u64::from(batch.len);
            }
        }
        *self = kept;
        out
    }
}

fn by_shard(groups: impl Iterator<Item = Group>, sections: &[Section]) -> BTreeMap<ShardId, ShardParts> {
    let mut shards: BTreeMap<ShardId, ShardParts> = BTreeMap::new();
    for (group, section) in groups.zip(sections) {
        let shard = shards.entry(section.shard).or_default();
        shard.partitions.push(section.partition);
        shard.parts.push(Part { slot: group.slot, start: section.range.start, batches: group.batches });
        shard.replies.extend(group.replies);
    }
    shards
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::commit::Underway;
    use crate::types::{Producer, TopicId};

    fn batch(producer: i64, len: u32) -> Batch {
        let sequence = Some(Sequence { producer: Producer { id: producer, epoch: 0 }, base: 0, transaction: None });
        Batch { len, span: 1, max_timestamp: 0, sequence }
    }

    #[test]
    fn what_is_left_when_batches_are_taken_out_lies_where_it_lay() {
        let partition = Partition { topic: TopicId::ZERO, index: 0 };
        let batches = vec![batch(1, 10), batch(2, 20), batch(1, 30), batch(1, 40)];
        let parts = vec![Part { slot: 3, start: 100, batches }];
        let ticket = Arc::new(Underway::default()).enter();
        let replies = (0..4).map(|_| Reply::awaited(&ticket).0).collect();
        let mut shard = ShardParts { parts, partitions: vec![partition], replies };
        assert!(shard.take_out(|_, claim| claim.producer.id == 9).is_empty());
        assert_eq!(shard.parts.len(), 1);
        assert_eq!(shard.take_out(|_, claim| claim.producer.id == 2).len(), 1);
        let left: Vec<(u64, usize)> = shard.parts.iter().map(|p| (p.start, p.batches.len())).collect();
        assert_eq!((left, shard.replies.len()), (vec![(100, 1), (130, 2)], 3));
    }
}
