//! What readers ask of a partition's applied state. Pure: the same state gives the same reply at every replica, whether
//! the reader is on the replica's broker or on another.

use crate::shard::{Aborted, BatchPointer, PartitionState, ProducerState};
use crate::types::{LeaderEpoch, Offset, Partition, Producer, Timestamp};

/// Pointers given for one lookup by time; a batch whose header promised a timestamp and has none costs one.
const BY_TIME_MAX: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query {
    pub partition: Partition,
    /// The leader epoch that the client knows (KIP-320), -1 for none. One that is newer than ours means that we are
    /// behind; an older one is served.
    pub client_epoch: LeaderEpoch,
    /// Only what is decided is to be seen (Kafka: `read_committed`).
    pub committed: bool,
    pub question: Question,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// What there is from an offset on.
    Look { offset: Offset, bytes_max: usize },
    /// The end for this reader, and the current epoch.
    Latest,
    /// The log's start and its first epoch, -1 while the log is empty.
    Earliest,
    /// Where records at or after this time may be.
    FromTime(Timestamp),
    /// Where the record with the largest timestamp is (KIP-734).
    MaxTime,
    /// Where this epoch, or the one before it, ends (KIP-101).
    EpochEnd(LeaderEpoch),
    /// Who has written here (KIP-664).
    Producers,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// To [`Question::Look`].
    Found(Found),
    /// To [`Question::Latest`], [`Question::Earliest`] and [`Question::EpochEnd`]; both -1 when there is none.
    At {
        epoch: LeaderEpoch,
        offset: Offset,
    },
    /// To the questions about times. The log begins at `start`, which may be inside the first pointer.
    Pointers {
        start: Offset,
        pointers: Vec<BatchPointer>,
    },
    Producers(Vec<ProducerSeen>),
}

/// What a partition knows of an idempotent producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerSeen {
    pub producer: Producer,
    /// -1 before the first of its epoch.
    pub last_sequence: i32,
    pub last_time: Timestamp,
    /// Of the last marker, -1 before the first.
    pub coordinator_epoch: i32,
    /// Where the open transaction begins.
    pub open_since: Option<Offset>,
}

/// A producer whose records from there on are to be passed over, up to its next marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedFrom {
    pub producer_id: i64,
    pub first: Offset,
}

/// What a partition has for a reader now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    pub high_watermark: Offset,
    pub last_stable_offset: Offset,
    pub log_start_offset: Offset,
    /// In order of offsets; empty when there is nothing yet.
    pub pointers: Vec<BatchPointer>,
    /// For a reader of what is committed: what of the pointers' records was aborted, sorted by first offset.
    pub aborted: Vec<AbortedFrom>,
    /// About as many bytes as the pointers hold for this reader.
    pub bytes: usize,
    /// There is more behind the pointers: this reader catches up.
    pub more: bool,
    /// The asked offset is past what is applied at the replica.
    pub ahead: bool,
}

impl Found {
    /// Keeps the first pointers; their bytes and what was aborted are still told of all.
    pub(super) fn keep(&mut self, pointers_max: usize) {
        self.more |= self.pointers.len() > pointers_max;
        self.pointers.truncate(pointers_max);
    }
}

/// Why a partition is not answered for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No replica that may answer was reached, or it has not applied the partition's creation: ask again later.
    #[error("no replica can answer now")]
    Unavailable,
    #[error("the client knows a newer epoch")]
    NewerEpoch,
    /// Before the log's start, or past everything that is committed anywhere.
    #[error("the offset is out of range")]
    OutOfRange,
}

/// One for each query, in their order.
pub type Replies = Vec<Result<Reply, Error>>;

pub(super) fn reply(partition: &PartitionState, term: u64, query: &Query) -> Result<Reply, Error> {
    let current = partition.leader_epoch(term);
    if query.client_epoch > current {
        return Err(Error::NewerEpoch);
    }
    let end = if query.committed { partition.undecided_from() } else { partition.high_watermark };
    Ok(match query.question {
        Question::Look { offset, bytes_max } => Reply::Found(look(partition, offset, bytes_max, query.committed)?),
        Question::Latest => Reply::At { epoch: current, offset: end.max(partition.log_start_offset) },
        Question::Earliest => {
            let epoch = partition.epochs.first().map_or(-1, |(epoch, _)| *epoch);
            Reply::At { epoch, offset: partition.log_start_offset }
        }
        Question::FromTime(target) => {
            let start = partition.log_start_offset;
            // A pointer begins at the end for this reader, so none lies across it.
            let seen = |pointer: &&BatchPointer| pointer.last >= start && pointer.base < end;
            let later = partition.pointers.from_timestamp(target).filter(seen);
            Reply::Pointers { start, pointers: later.take(BY_TIME_MAX).copied().collect() }
        }
        Question::MaxTime => {
            let mut pointers = largest(partition);
            pointers.retain(|pointer| pointer.base < end);
            Reply::Pointers { start: partition.log_start_offset, pointers }
        }
        // None that was ever told to a reader is larger than the newest state's: this is of another log, as of a topic that
        // was deleted and created anew.
        Question::EpochEnd(epoch) => {
            let (epoch, offset) = partition.epoch_end(epoch, current).unwrap_or((-1, -1));
            Reply::At { epoch, offset }
        }
        Question::Producers => {
            let known = partition.producers().filter(|(_, state)| state.is_known());
            Reply::Producers(known.map(|(id, state)| seen(*id, state)).collect())
        }
    })
}

/// The pointer with the largest timestamp. That record of it may lie before the start of the log: then the next best is
/// given too.
fn largest(partition: &PartitionState) -> Vec<BatchPointer> {
    let cut = |p: &&BatchPointer| p.base < partition.log_start_offset;
    let best = partition.pointers.max_timestamp();
    let next = best.filter(cut).and_then(|_| {
        let whole = || partition.pointers.iter().skip(1);
        let max = whole().map(|p| p.max_timestamp).max()?;
        whole().find(|p| p.max_timestamp == max)
    });
    best.into_iter().chain(next).copied().collect()
}

fn seen(id: i64, state: &ProducerState) -> ProducerSeen {
    ProducerSeen {
        producer: Producer { id, epoch: state.epoch },
        last_sequence: state.last_sequence().unwrap_or(-1),
        last_time: state.last_time,
        coordinator_epoch: state.endings.coordinator_epoch.unwrap_or(-1),
        open_since: state.open.map(|open| open.first),
    }
}

fn look(partition: &PartitionState, offset: Offset, bytes_max: usize, committed: bool) -> Result<Found, Error> {
    if offset < partition.log_start_offset {
        return Err(Error::OutOfRange);
    }
    let mut found = Found {
        high_watermark: partition.high_watermark,
        last_stable_offset: partition.last_stable_offset(),
        log_start_offset: partition.log_start_offset,
        ahead: offset > partition.high_watermark,
        ..Found::default()
    };
    let end = if committed { partition.undecided_from() } else { partition.high_watermark };
    for pointer in partition.pointers.from_offset(offset).take_while(|pointer| pointer.base < end) {
        if found.bytes >= bytes_max && !found.pointers.is_empty() {
            found.more = true;
            break;
        }
        found.bytes += share(pointer, offset);
        found.pointers.push(*pointer);
    }
    if let Some(last) = found.pointers.last().filter(|_| committed) {
        let aborted = partition.transactions.aborted_between(offset, last.last + 1);
        let from = |aborted: Aborted| AbortedFrom { producer_id: aborted.producer_id, first: aborted.first };
        found.aborted = aborted.into_iter().map(from).collect();
    }
    Ok(found)
}

/// The part of a pointer's bytes from `offset` on, as if records were of one size. At least one byte.
pub(super) fn share(pointer: &BatchPointer, offset: Offset) -> usize {
    let span = pointer.last.saturating_sub(pointer.base).saturating_add(1).max(1) as u64;
    let wanted = pointer.last.saturating_sub(offset.max(pointer.base)).saturating_add(1).max(1) as u64;
    (u128::from(pointer.len) * u128::from(wanted) / u128::from(span)).max(1) as usize
}

/// The bytes that were found; partitions that are not answered for have none.
pub fn bytes_of(replies: &Replies) -> usize {
    let found = replies.iter().flatten().map(|reply| match reply {
        Reply::Found(found) => found.bytes,
        Reply::At { .. } | Reply::Pointers { .. } | Reply::Producers(_) => 0,
    });
    found.fold(0, usize::saturating_add)
}

/// Nobody waits on when there are so many bytes, or when a partition has an error to tell.
pub(super) fn enough(replies: &Replies, bytes_min: usize) -> bool {
    bytes_of(replies) >= bytes_min || replies.iter().any(Result::is_err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::{Append, Batch, Create, Entry, Part, State};
    use crate::types::{ObjectId, StorageClass, TopicId};

    #[test]
    fn pointers_that_are_left_out_are_told_of_as_more() {
        let mut state = State::default();
        let (topic, partitions, fences) = (TopicId::ZERO, vec![0], vec![]);
        let create = Create { topic, partitions, epoch_base: 0, append_time: false, fences };
        state.apply(3, &Entry::Create(create).encode()).unwrap();
        for sequence in 1..=3 {
            let object = ObjectId { broker: 0, epoch: 1, sequence, attempt: 1, class: StorageClass::Regional };
            let batch = Batch { len: 100, span: 1, max_timestamp: 0, sequence: None };
            let parts = vec![Part { slot: 0, start: 0, batches: vec![batch] }];
            let append = Append { object, previous: sequence - 1, parts };
            state.apply(3, &Entry::Append { append_time: 0, append }.encode()).unwrap();
        }
        let mut found = look(state.slot(0).unwrap(), 0, 1 << 20, false).unwrap();
        found.keep(3);
        assert_eq!((found.pointers.len(), found.more), (3, false));
        found.keep(2);
        assert_eq!((found.pointers.len(), found.more), (2, true));
    }

    #[test]
    fn an_epoch_that_is_not_known_here_yet_is_no_cut_log() {
        let mut state = State::default();
        let (topic, partitions, fences) = (TopicId::ZERO, vec![0], vec![]);
        let (epoch_base, append_time) = (0, false);
        let create = Create { topic, partitions, epoch_base, append_time, fences };
        state.apply(3, &Entry::Create(create).encode()).unwrap();
        let partition = state.slot(0).unwrap();
        let at = partition.id;
        let query = |question| Query { partition: at, client_epoch: -1, committed: false, question };
        let end = |asked| reply(partition, 3, &query(Question::EpochEnd(asked)));
        assert_eq!(end(3), Ok(Reply::At { epoch: 3, offset: 0 }));
        assert_eq!(end(4), Ok(Reply::At { epoch: -1, offset: -1 }));
        assert_eq!(end(-1), Ok(Reply::At { epoch: -1, offset: -1 }));
    }
}
