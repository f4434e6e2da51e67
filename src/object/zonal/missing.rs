use std::collections::{HashSet, VecDeque};
use std::sync::Mutex;

use tokio::sync::Notify;

use super::Metrics;
use crate::object::Key;

/// Missing copies known per bucket: a quarter of an hour at ten objects a second. What is more is found by comparing.
pub const MISSING_MAX: usize = 10_000;

/// The copies that writers and readers know to be missing, oldest first, per bucket.
#[derive(Debug)]
pub struct Missing {
    buckets: Vec<Known>,
    metrics: Metrics,
}

#[derive(Debug, Default)]
struct Known {
    keys: Mutex<Keys>,
    added: Notify,
}

#[derive(Debug, Default)]
struct Keys {
    order: VecDeque<Key>,
    set: HashSet<Key>,
}

impl Missing {
    pub fn new(buckets: usize, metrics: Metrics) -> Missing {
        Missing { buckets: (0..buckets).map(|_| Known::default()).collect(), metrics }
    }

    pub fn add(&self, bucket: usize, key: &Key) {
        let known = &self.buckets[bucket];
        let mut keys = known.keys.lock().expect("no holder panics");
        if keys.order.len() >= MISSING_MAX || !keys.set.insert(key.clone()) {
            return;
        }
        keys.order.push_back(key.clone());
        self.metrics.missing.inc();
        known.added.notify_one();
    }

    /// Waits until there is something, then gives at most so many.
    pub async fn take(&self, bucket: usize, max: usize) -> Vec<Key> {
        let known = &self.buckets[bucket];
        loop {
            let taken = known.pop(max);
            if !taken.is_empty() {
                self.metrics.missing.dec_by(taken.len() as i64);
                return taken;
            }
            known.added.notified().await;
        }
    }

    #[cfg(test)]
    pub fn of(&self, bucket: usize) -> Vec<Key> {
        self.buckets[bucket].keys.lock().unwrap().order.iter().cloned().collect()
    }
}

impl Known {
    fn pop(&self, max: usize) -> Vec<Key> {
        let mut keys = self.keys.lock().expect("no holder panics");
        let count = max.min(keys.order.len());
        let taken: Vec<Key> = keys.order.drain(..count).collect();
        for key in &taken {
            keys.set.remove(key);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Key {
        Key::parse(&format!("k/{number}")).unwrap()
    }

    #[tokio::test]
    async fn keys_are_known_once_and_no_more_than_the_limit() {
        let missing = Missing::new(2, Metrics::default());
        missing.add(1, &key(0));
        missing.add(1, &key(0));
        (0..MISSING_MAX + 5).for_each(|number| missing.add(1, &key(number)));
        assert_eq!(missing.metrics.missing.get(), MISSING_MAX as i64);
        assert_eq!(missing.take(1, 2).await, [key(0), key(1)]);
        missing.add(1, &key(0));
        assert_eq!(missing.of(1).last(), Some(&key(0)));
        assert_eq!(missing.of(0), []);
    }
}
