use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use tokio::time::{Instant, timeout};

use super::LATE_COPIES_MAX;
use super::testing::{deadline, key, keys, zones};
use crate::object::fault::{Fault, Gate, Operation};
use crate::object::{CopyState, Error, Store, copies, put_own};
use crate::types::ByteRange;

#[tokio::test]
async fn a_majority_is_enough_and_the_third_copy_comes_later() {
    let (zones, gate) = (zones(), Gate::default());
    zones.buckets[2].next_put(Fault::Gate(gate.clone()));
    zones.put(&key("a"), b"bytes").await.unwrap();
    assert_eq!(zones.zonal.get(&key("a")).await.unwrap(), "bytes");
    gate.arrival().await;
    assert!(!zones.has(2, &key("a")).await);
    gate.open();
    zones.until_there(2, &key("a")).await;
    assert_eq!(zones.zonal.metrics().late.get(), 1);
    assert_eq!(zones.zonal.inner.missing.of(2), []);
}

#[tokio::test]
async fn every_bucket_may_be_the_one_that_is_away() {
    for away in 0..3 {
        for fault in [Fault::Hang, Fault::Unknown, Fault::Retryable, Fault::Refused] {
            let zones = zones();
            zones.put(&key("before"), b"1").await.unwrap();
            zones.until_there(away, &key("before")).await;
            zones.hurt(away, &fault);
            zones.put(&key("after"), b"22").await.unwrap();
            for (name, bytes) in [("before", "1"), ("after", "22")] {
                assert_eq!(zones.zonal.get(&key(name)).await.unwrap(), bytes, "{fault:?} of {away}");
                assert_eq!(zones.zonal.head(&key(name)).await.unwrap().len, bytes.len() as u64);
                assert_eq!(zones.zonal.get_range(&key(name), ByteRange::new(0, 1)).await.unwrap(), bytes[..1]);
            }
            assert_eq!(keys(&zones.zonal).await, [key("after"), key("before")]);
            zones.zonal.now().await.unwrap();
        }
    }
}

#[tokio::test]
async fn an_emptied_bucket_loses_nothing() {
    for emptied in 0..3 {
        let zones = zones();
        zones.put(&key("a"), b"bytes").await.unwrap();
        zones.until_there(emptied, &key("a")).await;
        zones.empty(emptied).await;
        assert_eq!(zones.zonal.get(&key("a")).await.unwrap(), "bytes");
        assert_eq!(keys(&zones.zonal).await, [key("a")]);
        // The reader found out, if it is its own.
        let known = if emptied == 0 { vec![key("a")] } else { vec![] };
        assert_eq!(zones.zonal.inner.missing.of(emptied), known);
    }
}

#[tokio::test]
async fn without_a_majority_nothing_is_acknowledged() {
    let zones = zones();
    zones.hurt(0, &Fault::Hang);
    zones.hurt(2, &Fault::Retryable);
    let soon = Instant::now() + Duration::from_millis(50);
    let error = put_own(&zones.zonal, &key("a"), Bytes::from_static(b"bytes"), soon).await.unwrap_err();
    assert!(matches!(error, Error::Unknown { .. }), "{error}");
    // Its outcome is open; the same writer may go on.
    zones.buckets.iter().for_each(|bucket| bucket.heal());
    put_own(&zones.zonal, &key("a"), Bytes::from_static(b"bytes"), deadline()).await.unwrap();
    for bucket in 0..3 {
        zones.until_there(bucket, &key("a")).await;
    }
}

#[tokio::test]
async fn a_refusal_counts_when_it_prevents_a_majority() {
    let zones = zones();
    zones.buckets[1].next_put(Fault::Refused);
    zones.put(&key("a"), b"bytes").await.unwrap();
    while zones.zonal.inner.missing.of(1).is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(zones.zonal.inner.missing.of(1), [key("a")]);
    zones.buckets[0].next_put(Fault::Refused);
    zones.buckets[1].next_put(Fault::Refused);
    assert!(matches!(zones.put(&key("b"), b"bytes").await, Err(Error::Refused { .. })));
}

#[tokio::test]
async fn lost_replies_are_found_out_bucket_by_bucket() {
    let zones = zones();
    zones.buckets.iter().for_each(|bucket| bucket.next_put(Fault::LostReply));
    zones.put(&key("a"), b"bytes").await.unwrap();
    for bucket in 0..3 {
        zones.until_there(bucket, &key("a")).await;
    }
    assert!(zones.zonal.holds(&key("a"), &Bytes::from_static(b"bytes")).await.unwrap());
}

#[tokio::test]
async fn other_bytes_under_a_key_are_never_a_success() {
    let zones = zones();
    zones.put(&key("a"), b"first").await.unwrap();
    zones.until_there(2, &key("a")).await;
    let other = zones.put(&key("a"), b"second").await;
    assert_eq!(other, Err(Error::AlreadyExists { key: key("a") }));
    // One copy of mine is none when two are another's.
    zones.empty(0).await;
    let other = put_own(&zones.zonal, &key("a"), Bytes::from_static(b"second"), deadline()).await;
    assert_eq!(other, Err(Error::AlreadyExists { key: key("a") }));
    assert!(!zones.zonal.holds(&key("a"), &Bytes::from_static(b"second")).await.unwrap());
    assert!(zones.zonal.holds(&key("a"), &Bytes::from_static(b"first")).await.unwrap());
    assert_eq!(copies(&zones.classes(), &key("a")).await["az2"], CopyState::Different);
}

#[tokio::test(flavor = "multi_thread")]
async fn at_most_one_of_many_writers_wins() {
    for round in 0..20 {
        let zones = Arc::new(zones());
        let contested = key(&format!("race/{round}"));
        let writers = (0..16u8).map(|writer| {
            let (zones, contested) = (zones.clone(), contested.clone());
            tokio::spawn(async move { zones.zonal.put_if_absent(&contested, Bytes::from(vec![writer; 10])).await })
        });
        let results = join_all(writers).await;
        assert!(results.into_iter().filter(|result| matches!(result, Ok(Ok(())))).count() <= 1);
    }
}

#[tokio::test]
async fn not_found_is_said_only_when_every_bucket_says_so() {
    let zones = zones();
    let absent = Err(Error::NotFound { key: key("a") });
    assert_eq!(zones.zonal.get(&key("a")).await, absent);
    zones.hurt(2, &Fault::Unknown);
    let error = zones.zonal.get(&key("a")).await.unwrap_err();
    assert!(matches!(error, Error::Retryable { .. }), "{error}");
    zones.buckets[2].heal();
    assert_eq!(zones.zonal.get(&key("a")).await, absent);
}

#[tokio::test]
async fn the_own_zones_bucket_is_read_and_no_other() {
    let zones = zones();
    zones.put(&key("a"), b"bytes").await.unwrap();
    zones.until_there(0, &key("a")).await;
    for _ in 0..5 {
        zones.zonal.get(&key("a")).await.unwrap();
    }
    let gets: Vec<u64> = zones.buckets.iter().map(|bucket| bucket.calls(Operation::Get)).collect();
    assert_eq!(gets, [5, 0, 0]);
    assert_eq!(zones.zonal.metrics().reads_elsewhere.get(), 0);
}

#[tokio::test]
async fn a_slow_bucket_is_overtaken_and_then_asked_last() {
    let zones = zones();
    zones.put(&key("a"), b"bytes").await.unwrap();
    zones.until_there(1, &key("a")).await;
    zones.hurt(0, &Fault::Hang);
    for _ in 0..5 {
        assert_eq!(zones.zonal.get(&key("a")).await.unwrap(), "bytes");
    }
    // Asked until it was known, then once in a while.
    assert!(zones.buckets[0].calls(Operation::Get) <= 4);
    assert_eq!(zones.zonal.metrics().reads_elsewhere.get(), 5);
}

#[tokio::test]
async fn late_copies_are_bounded_and_the_rest_is_known_to_be_missing() {
    let zones = zones();
    zones.buckets[1].rate(Operation::Put, 1.0, Fault::Hang);
    let key = |number: usize| key(&format!("k/{number}"));
    for number in 0..LATE_COPIES_MAX + 2 {
        zones.put(&key(number), b"bytes").await.unwrap();
    }
    let known = zones.zonal.inner.missing.of(1);
    assert_eq!(known, [key(LATE_COPIES_MAX), key(LATE_COPIES_MAX + 1)]);
}

#[tokio::test]
async fn a_write_that_is_dropped_ends_its_attempts() {
    let (zones, gate) = (zones(), Gate::default());
    for bucket in &zones.buckets {
        bucket.next_put(Fault::Gate(gate.clone()));
    }
    let put = timeout(Duration::from_millis(20), zones.put(&key("a"), b"bytes")).await;
    assert!(put.is_err());
    (0..3).for_each(|_| gate.open());
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    for bucket in 0..3 {
        assert!(!zones.has(bucket, &key("a")).await);
    }
}

#[tokio::test]
async fn a_listing_lacks_nothing_that_was_acknowledged() {
    let zones = zones();
    zones.buckets[0].next_put(Fault::Refused);
    zones.put(&key("b"), b"bytes").await.unwrap();
    zones.put(&key("a"), b"bytes").await.unwrap();
    zones.until_there(2, &key("a")).await;
    zones.hurt(2, &Fault::Retryable);
    assert_eq!(keys(&zones.zonal).await, [key("a"), key("b")]);
    // With two away nobody knows what they have.
    zones.hurt(1, &Fault::Retryable);
    assert!(zones.zonal.list(&crate::object::Prefix::all(), crate::object::Start::Beginning).await.is_err());
}

#[tokio::test]
async fn what_is_deleted_is_deleted_everywhere_or_not_reported() {
    let zones = zones();
    zones.put(&key("a"), b"bytes").await.unwrap();
    zones.until_there(2, &key("a")).await;
    zones.buckets[1].next(Operation::Delete, Fault::Retryable);
    assert!(zones.zonal.delete(&[key("a")]).await.is_err());
    zones.zonal.delete(&[key("a")]).await.unwrap();
    assert_eq!(keys(&zones.zonal).await, []);
}
