//! The start of a partition moves: what is below is gone for every reader (Kafka: DeleteRecords).

use crate::shard::partition::PartitionState;
use crate::types::Offset;

impl PartitionState {
    /// Forgets the pointers that lie wholly below `start`; their objects are not touched. A start that is no later than
    /// the present one, or past the high watermark, changes nothing: false.
    pub(super) fn trim(&mut self, start: Offset) -> bool {
        if start <= self.log_start_offset || start > self.high_watermark {
            return false;
        }
        self.log_start_offset = start;
        self.pointers.drop_below(start);
        self.transactions.drop_below(start);
        // The epoch that the log now begins in begins at the start (Kafka: `LeaderEpochFileCache.truncateFromStart`).
        let begun = self.epochs.partition_point(|(_, first)| *first <= start);
        if let Some(current) = begun.checked_sub(1) {
            self.epochs.drain(..current);
            self.epochs[0].1 = start;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::shard::{Append, Batch, Create, Effect, Entry, Part, State, invariants};
    use crate::types::{ObjectId, Offset, StorageClass, TopicId};

    /// Three objects of four records each, in terms 1, 1 and 3; pointers [0, 3], [4, 7], [8, 11].
    fn log() -> State {
        let mut state = State::default();
        let create =
            Create { topic: TopicId::ZERO, partitions: vec![0], epoch_base: 0, append_time: false, fences: vec![] };
        state.apply(1, &Entry::Create(create).encode()).unwrap();
        for (sequence, term) in [(1, 1), (2, 1), (3, 3)] {
            let object = ObjectId { broker: 0, epoch: 1, sequence, attempt: 1, class: StorageClass::Regional };
            let batch = Batch { len: 100, span: 4, max_timestamp: sequence as i64, sequence: None };
            let parts = vec![Part { slot: 0, start: 0, batches: vec![batch] }];
            let append = Append { object, previous: sequence - 1, parts };
            state.apply(term, &Entry::Append { append_time: 0, append }.encode()).unwrap();
        }
        state
    }

    fn trim(state: &mut State, start: Offset) -> Effect {
        let effect = state.apply(3, &Entry::Trim { starts: vec![(0, start)] }.encode()).unwrap();
        assert!(invariants::hold(state));
        effect
    }

    /// (start, first offsets of the pointers, bytes, epochs)
    fn seen(state: &State) -> (Offset, Vec<Offset>, u64, Vec<(i32, Offset)>) {
        let p = state.slot(0).unwrap();
        (p.log_start_offset, p.pointers.iter().map(|p| p.base).collect(), p.pointers.bytes(), p.epochs.clone())
    }

    #[test]
    fn a_pointer_is_kept_while_a_record_of_it_is_left() {
        let mut state = log();
        assert_eq!(trim(&mut state, 3).changed, [0]);
        assert_eq!(seen(&state), (3, vec![0, 4, 8], 300, vec![(1, 3), (3, 8)]));
        trim(&mut state, 4);
        assert_eq!(seen(&state), (4, vec![4, 8], 200, vec![(1, 4), (3, 8)]));
        trim(&mut state, 8);
        assert_eq!(seen(&state), (8, vec![8], 100, vec![(3, 8)]));
        trim(&mut state, 12);
        assert_eq!(seen(&state), (12, vec![], 0, vec![(3, 12)]));
    }

    #[test]
    fn the_start_never_goes_back_nor_past_the_end() {
        let mut state = log();
        trim(&mut state, 6);
        let before = state.clone();
        for start in [6, 5, 0, -1, 13, Offset::MIN, Offset::MAX] {
            assert!(trim(&mut state, start).changed.is_empty());
            assert_eq!(state, before);
        }
        let unknown = Entry::Trim { starts: vec![(7, 1)] };
        assert_eq!(state.apply(3, &unknown.encode()).unwrap(), Effect::default());
    }

    #[test]
    fn an_epoch_that_was_trimmed_away_ends_where_the_log_begins() {
        let mut state = log();
        trim(&mut state, 10);
        let p = state.slot(0).unwrap();
        assert_eq!(p.epoch_end(1, 5), Some((1, 10)));
        assert_eq!(p.epoch_end(3, 5), Some((3, 12)));
    }

    #[test]
    fn a_snapshot_keeps_the_start_and_counts_the_bytes_anew() {
        let mut state = log();
        trim(&mut state, 5);
        let restored = State::from_snapshot(&state.to_snapshot()).unwrap();
        assert_eq!(seen(&restored), seen(&state));
        assert_eq!(restored.digest(), state.digest());
    }
}
