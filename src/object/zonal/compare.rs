use std::collections::HashMap;

use crate::object::{Key, crc32c};

/// What one bucket has listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sighting {
    pub bucket: usize,
    /// Old enough that no writer is still at it.
    pub is_settled: bool,
}

/// Finds the copies that are missing, from the listings of all buckets of one range, page by page.
///
/// A key that every bucket has shown is forgotten, so with listings of one order little is remembered, however long
/// they are. Where they have none, the range can be gone through in several parts, by the hashes of the keys.
#[derive(Debug)]
pub struct Comparison {
    ended: Vec<bool>,
    part: u32,
    parts: u32,
    seen: HashMap<Key, Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// A bit per bucket.
    buckets: u64,
    is_settled: bool,
}

impl Comparison {
    /// Of keys of this part only, of so many.
    pub fn new(buckets: usize, part: u32, parts: u32) -> Comparison {
        assert!(buckets < 64 && part < parts, "a bit per bucket, and parts are counted from 0");
        Comparison { ended: vec![false; buckets], part, parts, seen: HashMap::new() }
    }

    pub fn sighted(&mut self, key: Key, sighting: Sighting) {
        if crc32c(key.as_str().as_bytes()) % self.parts != self.part {
            return;
        }
        let all = (1 << self.ended.len()) - 1;
        let seen = self.seen.entry(key.clone()).or_default();
        seen.buckets |= 1 << sighting.bucket;
        seen.is_settled |= sighting.is_settled;
        if seen.buckets == all {
            self.seen.remove(&key);
        }
    }

    /// The bucket has listed everything.
    pub fn end(&mut self, bucket: usize) {
        self.ended[bucket] = true;
    }

    /// Keys waited for.
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// Takes the settled keys out that are certainly missing somewhere, with the buckets that lack them.
    pub fn missing(&mut self) -> Vec<(Key, Vec<usize>)> {
        let ended: u64 = self.ended.iter().enumerate().map(|(bucket, ended)| u64::from(*ended) << bucket).sum();
        let all = (1 << self.ended.len()) - 1;
        // Every bucket that has not shown the key has ended.
        let decided = self.seen.extract_if(|_, seen| all & !seen.buckets & !ended == 0);
        let lacking = |seen: &Seen| (0..self.ended.len()).filter(|b| seen.buckets & 1 << b == 0).collect();
        decided.filter(|(_, seen)| seen.is_settled).map(|(key, seen)| (key, lacking(&seen))).collect()
    }
}
