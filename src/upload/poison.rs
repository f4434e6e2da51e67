use std::collections::HashMap;
use std::sync::Mutex;

use crate::shard::Sequence;
use crate::types::{Partition, Producer};

/// Failed sequences remembered at once. Forgetting one costs a held batch and a retry, never order.
const POISONED_MAX: usize = 65_536;

/// Producers whose batch could not be stored. What they sent behind it is refused until that very sequence comes again:
/// so the retries arrive in order, and no batch waits at the shard for one that was never stored.
#[derive(Default)]
pub struct Poison {
    failed: Mutex<HashMap<(Producer, Partition), i32>>,
}

impl Poison {
    /// The batch with this claim was not stored.
    pub fn add(&self, partition: Partition, claim: Sequence) {
        let mut failed = self.failed.lock().expect("no holder panics");
        if failed.len() >= POISONED_MAX {
            failed.clear();
        }
        // Objects fail in any order; the retry begins at the lowest.
        let first = failed.entry((claim.producer, partition)).or_insert(claim.base);
        *first = (*first).min(claim.base);
    }

    /// May a batch with this claim go on? The failed sequence itself heals its producer.
    pub fn admits(&self, partition: Partition, claim: Sequence) -> bool {
        let mut failed = self.failed.lock().expect("no holder panics");
        let key = (claim.producer, partition);
        match failed.get(&key) {
            None => true,
            Some(first) if *first == claim.base => {
                failed.remove(&key);
                true
            }
            Some(_) => false,
        }
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
        let claim = |epoch, base| Sequence { producer: Producer { id: 1, epoch }, base };
        poison.add(partition, claim(0, 7));
        poison.add(partition, claim(0, 5));
        assert!(!poison.admits(partition, claim(0, 9)));
        assert!(!poison.admits(partition, claim(0, 7)));
        assert!(poison.admits(partition, claim(1, 0)));
        assert!(poison.admits(Partition { index: 1, ..partition }, claim(0, 9)));
        assert!(poison.admits(partition, claim(0, 5)));
        assert!(poison.admits(partition, claim(0, 7)));
    }
}
