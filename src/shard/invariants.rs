//! The numbered invariants of ARCHITECTURE.md that a shard's state alone can show.
//! Tests, debug builds and the audit call these same predicates.

use crate::shard::{PartitionState, State};

/// 2: spans of a partition are contiguous and never overlap.
pub fn spans_are_contiguous(partition: &PartitionState) -> bool {
    let mut next = None;
    partition.pointers.iter().all(|p| {
        let joined = next.is_none_or(|next| next == p.base) && p.base <= p.last;
        next = Some(p.last + 1);
        joined
    }) && next.is_none_or(|next| next == partition.high_watermark)
}

/// 3: log_start_offset ≤ last_stable_offset ≤ high_watermark.
pub fn watermarks_are_ordered(partition: &PartitionState) -> bool {
    let stable = partition.last_stable_offset();
    0 <= partition.log_start_offset && partition.log_start_offset <= stable && stable <= partition.high_watermark
}

/// 3: no watermark steps back between two states of the same partition.
pub fn watermarks_only_grow(before: &PartitionState, after: &PartitionState) -> bool {
    before.log_start_offset <= after.log_start_offset
        && before.last_stable_offset() <= after.last_stable_offset()
        && before.high_watermark <= after.high_watermark
}

/// 6: leader epochs never fall along the log.
pub fn epochs_only_grow(partition: &PartitionState) -> bool {
    partition.epochs.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1)
        && partition.pointers.iter().is_sorted_by_key(|p| p.leader_epoch)
}

/// 7: a remembered (producer, epoch, sequence) has one offset.
pub fn sequences_have_one_offset(partition: &PartitionState) -> bool {
    partition.producers().all(|(_, producer)| {
        let recent = &producer.recent;
        recent.iter().zip(recent.iter().skip(1)).all(|(a, b)| a.base + i64::from(a.span) <= b.base)
    })
}

/// The producers and the partition agree on which transactions are open.
pub fn open_transactions_agree(partition: &PartitionState) -> bool {
    let open = partition.producers().filter_map(|(id, producer)| Some((producer.open?.first, *id)));
    let mut open: Vec<(i64, i64)> = open.collect();
    open.sort_unstable();
    partition.transactions.open().eq(open) && partition.transactions.aborted_are_ordered()
}

/// What share groups have got of a partition is in order, behind a start that is not before the log's.
pub fn deliveries_are_ordered(state: &State) -> bool {
    state.shares().all().all(|(slot, progress)| {
        let log_start = state.slot(slot).map(|partition| partition.log_start_offset);
        log_start.is_some_and(|log_start| log_start <= progress.start)
            && progress
                .runs
                .first()
                .is_none_or(|run| progress.start <= run.first && !(run.done && run.first == progress.start))
            && progress.runs.iter().all(|run| run.first <= run.last)
            && progress.runs.is_sorted_by(|a, b| a.last < b.first)
    })
}

/// All of the above, over every partition.
pub fn hold(state: &State) -> bool {
    deliveries_are_ordered(state)
        && state.partitions().all(|p| {
            let in_order = spans_are_contiguous(p) && watermarks_are_ordered(p) && epochs_only_grow(p);
            in_order && sequences_have_one_offset(p) && open_transactions_agree(p)
        })
}

/// What debug builds check after every entry, in constant time: the end of the log.
pub(super) fn tail_is_sound(partition: &PartitionState) -> bool {
    let mut tail = partition.pointers.iter().rev();
    let (last, before) = (tail.next(), tail.next());
    last.is_none_or(|last| {
        last.last + 1 == partition.high_watermark && before.is_none_or(|before| before.last + 1 == last.base)
    }) && watermarks_are_ordered(partition)
}
