use std::collections::BTreeMap;

use bytes::Bytes;

use crate::commit::Reply;
use crate::object::layout::{self, Builder, Contents, Section};
use crate::shard::{Batch, Part, Slot};
use crate::types::{Partition, ShardId, Timestamp};
use crate::upload::{Pending, claim_of};

/// An object's bytes and, per shard, what its pointers will say and who waits for them.
pub(super) struct Assembled {
    pub bytes: Bytes,
    pub shards: BTreeMap<ShardId, ShardParts>,
}

#[derive(Default)]
pub(super) struct ShardParts {
    pub parts: Vec<Part>,
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
        group.min_timestamp = if first { header.base_timestamp } else { group.min_timestamp.min(header.base_timestamp) };
        group.record_count += one.batch.count() as u32;
        group.batches.push(Batch {
            len: one.batch.bytes().len() as u32,
            span: one.batch.count() as u32,
            max_timestamp: one.batch.max_timestamp(),
            sequence: claim_of(&one.batch),
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

fn by_shard(groups: impl Iterator<Item = Group>, sections: &[Section]) -> BTreeMap<ShardId, ShardParts> {
    let mut shards: BTreeMap<ShardId, ShardParts> = BTreeMap::new();
    for (group, section) in groups.zip(sections) {
        let shard = shards.entry(section.shard).or_default();
        shard.parts.push(Part { slot: group.slot, start: section.range.start, batches: group.batches });
        shard.replies.extend(group.replies);
    }
    shards
}
