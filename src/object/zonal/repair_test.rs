use std::time::Duration;

use futures::future::select;

use super::repair::SETTLED_AFTER;
use super::testing::{Zones, deadline, key, keys, zones};
use super::{Repair, Share};
use crate::object::fault::{Fault, Operation};
use crate::object::marker::{self, Claim, Marker};
use crate::object::{Key, Name, Paths, Store};
use crate::types::{ObjectId, StorageClass};

const ALL: Share = Share { index: 0, count: 1 };

struct Site {
    zones: Zones,
    marker: Marker,
    paths: Paths,
}

impl Site {
    async fn found() -> Site {
        let zones = zones();
        let claim = marker::claim(&zones.classes(), "cluster", "founder", deadline()).await.unwrap();
        let Claim::Claimed(marker) = claim else { panic!("taken") };
        Site { zones, paths: marker.paths().unwrap(), marker }
    }

    fn repair(&self) -> Repair {
        let every = Duration::from_secs(3600);
        Repair::new(self.zones.classes(), self.paths.clone(), self.marker.clone(), every)
    }

    fn key(&self, sequence: u64) -> Key {
        self.paths.key(ObjectId { broker: 1, epoch: 1, sequence, attempt: 1, class: StorageClass::Zonal })
    }

    /// Objects with all copies, old enough to be compared.
    async fn fill(&self, objects: u64) {
        let snapshot = self.paths.key(Name::Snapshot { shard: 1, log_index: 7, unique: 9 });
        for key in (1..=objects).map(|sequence| self.key(sequence)).chain([snapshot]) {
            self.zones.put(&key, b"bytes").await.unwrap();
            for bucket in 0..3 {
                self.zones.until_there(bucket, &key).await;
            }
        }
        self.zones.memories.iter().for_each(|memory| memory.advance(2 * SETTLED_AFTER));
    }

    /// Runs repair until every one of these is in every bucket.
    async fn repaired(&self, keys: &[Key]) {
        let repair = std::pin::pin!(self.repair().run(|| ALL));
        let there = std::pin::pin!(async {
            for key in keys {
                for bucket in 0..3 {
                    self.zones.until_there(bucket, key).await;
                }
            }
        });
        select(repair, there).await;
    }
}

#[tokio::test]
async fn what_the_writer_knows_to_be_missing_is_copied_when_the_bucket_takes_it() {
    let site = Site::found().await;
    site.zones.buckets[2].next_put(Fault::Refused);
    site.zones.put(&site.key(1), b"bytes").await.unwrap();
    while site.zones.zonal.inner.missing.of(2).is_empty() {
        tokio::task::yield_now().await;
    }
    // The first try of the repair fails too.
    site.zones.buckets[2].next_put(Fault::Unknown);
    assert_eq!(site.zones.zonal.inner.missing.of(2), [site.key(1)]);
    site.repaired(&[site.key(1)]).await;
    assert_eq!(site.zones.memories[2].get(&site.key(1)).await.unwrap(), "bytes");
    assert_eq!(site.zones.buckets[2].calls(Operation::List), 0);
}

#[tokio::test]
async fn what_a_reader_finds_missing_is_copied() {
    let site = Site::found().await;
    site.fill(2).await;
    site.zones.empty(0).await;
    site.zones.zonal.get(&site.key(2)).await.unwrap();
    site.repaired(&[site.key(2)]).await;
    assert!(!site.zones.has(0, &site.key(1)).await, "nobody knows of that one yet");
}

#[tokio::test]
async fn comparing_fills_a_bucket_that_was_emptied() {
    for emptied in 0..3 {
        let site = Site::found().await;
        site.fill(300).await;
        let all = keys(&*site.zones.memories[emptied]).await;
        assert_eq!(all.len(), 302);
        site.zones.empty(emptied).await;
        // Trouble on the way is waited out.
        site.zones.buckets[1].next(Operation::List, Fault::Retryable);
        site.repair().compare(&|| ALL).await;
        assert_eq!(keys(&*site.zones.memories[emptied]).await, all);
        assert_eq!(site.zones.zonal.metrics().repaired.get(), 301, "and the marker");
        // 258 ranges in three buckets, and the one that was asked again.
        let lists = site.zones.zonal.metrics().lists.get();
        assert!((3 * 258..=3 * 259).contains(&lists), "{lists} LISTs");
    }
}

#[tokio::test]
async fn copies_that_may_be_on_their_way_are_left_alone() {
    let site = Site::found().await;
    site.fill(1).await;
    site.zones.put(&site.key(2), b"bytes").await.unwrap();
    site.zones.until_there(2, &site.key(2)).await;
    site.zones.empty(2).await;
    site.repair().compare(&|| ALL).await;
    assert!(site.zones.has(2, &site.key(1)).await);
    assert!(!site.zones.has(2, &site.key(2)).await);
}

#[tokio::test]
async fn what_was_deleted_meanwhile_does_not_come_back() {
    let site = Site::found().await;
    site.zones.zonal.inner.missing.add(1, &site.key(5));
    site.zones.buckets[1].next_put(Fault::Refused);
    site.zones.put(&site.key(1), b"bytes").await.unwrap();
    site.repaired(&[site.key(1)]).await;
    for bucket in 0..3 {
        assert!(!site.zones.has(bucket, &site.key(5)).await);
    }
}

#[tokio::test]
async fn brokers_share_the_ranges() {
    let site = Site::found().await;
    site.fill(40).await;
    site.zones.empty(1).await;
    site.repair().compare(&|| Share { index: 1, count: 2 }).await;
    let half = keys(&*site.zones.memories[1]).await.len();
    assert!((5..36).contains(&half), "{half}");
    site.repair().compare(&|| Share { index: 0, count: 2 }).await;
    assert_eq!(keys(&*site.zones.memories[1]).await.len(), 42);
    assert_eq!(site.zones.zonal.metrics().lists.get(), 3 * 258);
    // One that is not seen compares nothing.
    site.repair().compare(&|| Share { index: 0, count: 0 }).await;
    assert_eq!(site.zones.zonal.metrics().lists.get(), 3 * 258);
}

#[tokio::test]
async fn a_key_below_no_range_is_none_of_repairs() {
    let site = Site::found().await;
    site.zones.put(&key("probe/1/0"), b"x").await.unwrap();
    site.zones.until_there(2, &key("probe/1/0")).await;
    site.zones.memories.iter().for_each(|memory| memory.advance(2 * SETTLED_AFTER));
    site.zones.empty(2).await;
    site.repair().compare(&|| ALL).await;
    assert!(!site.zones.has(2, &key("probe/1/0")).await);
}
