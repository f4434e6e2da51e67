use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::shard::Sequence;
use crate::types::{Partition, Producer};

/// A producer that has gone on through another broker must not be refused for ever when it comes back.
const POISONED_FOR: Duration = Duration::from_secs(30);

/// Failed sequences remembered at once. Forgetting one costs a held batch and a retry, never order.
const POISONED_MAX: usize = 65_536;

/// Producers whose batch could not be stored. What they sent behind it is refused until that very sequence comes again:
/// so the retries arrive in order, and no batch waits at the shard for one that was never stored.
pub struct Poison {
    remembered_for: Duration,
    failed: Mutex<HashMap<(Producer, Partition), Failed>>,
}

#[derive(Clone, Copy)]
struct Failed {
    base: i32,
    at: Instant,
}

impl Default for Poison {
    fn default() -> Self {
        Poison { remembered_for: POISONED_FOR, failed: Mutex::default() }
    }
}

impl Poison {
    /// The batch with this claim was not stored.
    pub fn add(&self, partition: Partition, claim: Sequence) {
        let mut failed = self.failed.lock().expect("no holder panics");
        if failed.len() >= POISONED_MAX {
            failed.clear();
        }
        let new = Failed { base: claim.base, at: Instant::now() };
        let first = failed.entry((claim.producer, partition)).or_insert(new);
        // Objects fail in any order; the retry begins at the lowest.
        *first = Failed { base: first.base.min(claim.base), at: new.at };
    }

    /// May a batch with this claim go on? The failed sequence itself heals its producer.
    pub fn admits(&self, partition: Partition, claim: Sequence) -> bool {
        let mut failed = self.failed.lock().expect("no holder panics");
        let key = (claim.producer, partition);
        match failed.get(&key) {
            Some(first) if first.base != claim.base && first.at.elapsed() < self.remembered_for => false,
            Some(_) => {
                failed.remove(&key);
                true
            }
            None => true,
        }
    }

    /// Was a batch that this one follows not stored? Asked of what was sealed before the failure was known.
    pub fn blocks(&self, partition: Partition, claim: Sequence) -> bool {
        let failed = self.failed.lock().expect("no holder panics");
        failed.get(&(claim.producer, partition)).is_some_and(|first| first.at.elapsed() < self.remembered_for)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::TopicId;

    #[test]
    fn refuses_later_sequences_until_the_failed_one_comes_again() {
        let poison = Poison::default();
        let partition = Partition { topic: TopicId::ZERO, index: 0 };
        let claim = |epoch, base| Sequence { producer: Producer { id: 1, epoch }, base, transaction: None };
        poison.add(partition, claim(0, 7));
        poison.add(partition, claim(0, 5));
        assert!(!poison.admits(partition, claim(0, 9)));
        assert!(!poison.admits(partition, claim(0, 7)));
        assert!(poison.admits(partition, claim(1, 0)));
        assert!(poison.admits(Partition { index: 1, ..partition }, claim(0, 9)));
        assert!(poison.blocks(partition, claim(0, 9)));
        assert!(poison.admits(partition, claim(0, 5)));
        assert!(!poison.blocks(partition, claim(0, 9)));
        assert!(poison.admits(partition, claim(0, 7)));
    }

    #[test]
    fn forgets_a_producer_that_went_on_elsewhere() {
        let poison = Poison { remembered_for: Duration::ZERO, ..Poison::default() };
        let partition = Partition { topic: TopicId::ZERO, index: 0 };
        let claim = |base| Sequence { producer: Producer { id: 1, epoch: 0 }, base, transaction: None };
        poison.add(partition, claim(5));
        assert!(poison.admits(partition, claim(21)));
    }
}
