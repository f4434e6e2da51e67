use futures::future::join_all;

use super::zone_test::Alone;
use super::*;
use crate::object::Memory;
use crate::object::fault::{Fault, Faulty, Gate, Operation};
use crate::types::{ObjectId, StorageClass};

fn id(sequence: u64) -> ObjectId {
    ObjectId { broker: 1, epoch: 1, sequence, attempt: 0, class: StorageClass::Regional }
}

fn bytes(len: usize) -> Bytes {
    (0..len).map(|i| (i % 251) as u8).collect()
}

/// Heads of 100 bytes, chunks of 40, room for everything.
fn small() -> Settings {
    Settings {
        capacity_bytes: 1 << 20,
        object_whole_bytes_max: 100,
        chunk_bytes: 40,
        get_timeout: Duration::from_secs(10),
        // Tests that count GETs decide themselves which are repeated.
        hedging: hedge::Settings::percent(0.0),
        ..Settings::default()
    }
}

async fn with(objects: &[(u64, usize)], settings: Settings) -> (Faulty, Cache) {
    let store = Faulty::new(Arc::new(Memory::new()), 1);
    let paths = Paths::new("cluster", 1).unwrap();
    for (sequence, len) in objects {
        store.put_if_absent(&paths.key(id(*sequence)), bytes(*len)).await.unwrap();
    }
    let cache = Cache::open(Arc::new(store.clone()), paths, Arc::new(Alone), settings).await.unwrap();
    (store, cache)
}

#[tokio::test]
async fn a_small_object_is_fetched_once_and_whole() {
    let (store, cache) = with(&[(1, 100)], small()).await;
    assert_eq!(cache.get_range(id(1), ByteRange::new(30, 10)).await.unwrap(), bytes(100)[30..40]);
    assert_eq!(cache.get_range(id(1), ByteRange::new(90, 10)).await.unwrap(), bytes(100)[90..]);
    assert_eq!(cache.get(id(1), 100).await.unwrap(), bytes(100));
    assert_eq!(store.calls(Operation::Get), 1);
    let metrics = cache.metrics();
    assert_eq!((metrics.hits.get(), metrics.misses.get(), metrics.gets.get()), (2, 1, 1));
}

#[tokio::test]
async fn what_is_returned_shares_the_cached_allocation() {
    let (_, cache) = with(&[(1, 100)], small()).await;
    let whole = cache.get(id(1), 100).await.unwrap();
    let part = cache.get_range(id(1), ByteRange::new(20, 5)).await.unwrap();
    assert_eq!(part.as_ptr(), whole[20..].as_ptr());
}

#[tokio::test]
async fn a_large_object_is_fetched_in_parts() {
    let (store, cache) = with(&[(1, 250)], small()).await;
    assert_eq!(cache.get_range(id(1), ByteRange::new(145, 30)).await.unwrap(), bytes(250)[145..175]);
    assert_eq!(store.calls(Operation::Get), 1);
    assert_eq!(cache.get_range(id(1), ByteRange::new(90, 155)).await.unwrap(), bytes(250)[90..245]);
    assert_eq!(store.calls(Operation::Get), 4 + 1);
    assert_eq!(cache.get(id(1), 250).await.unwrap(), bytes(250));
    assert_eq!(store.calls(Operation::Get), 5);
}

#[tokio::test]
async fn the_producers_copy_makes_a_get_needless() {
    let (store, cache) = with(&[], small()).await;
    for len in [100, 101, 250] {
        cache.insert(id(len), bytes(len as usize));
        assert_eq!(cache.get(id(len), len).await.unwrap(), bytes(len as usize));
    }
    assert_eq!(store.calls(Operation::Get), 0);
}

#[tokio::test]
async fn bytes_that_are_not_there_are_an_error() {
    let (_, cache) = with(&[(1, 50), (2, 250)], small()).await;
    for (object, start, len) in [(1, 45, 6), (1, 50, 1), (1, 100, 1), (2, 245, 6), (2, 250, 1), (2, 0, u64::MAX)] {
        let beyond = cache.get_range(id(object), ByteRange::new(start, len)).await;
        assert!(matches!(beyond, Err(Error::OutOfRange { .. })), "{object} {start} {len} {beyond:?}");
    }
    let absent = cache.get(id(3), 10).await;
    assert!(matches!(absent, Err(Error::NotFound { .. })), "{absent:?}");
    assert_eq!(cache.get_range(id(3), ByteRange::new(7, 0)).await.unwrap(), "");
}

#[tokio::test]
async fn a_hundred_readers_make_one_get() {
    let (store, cache) = with(&[(1, 100)], small()).await;
    let readers = (0..100).map(|_| cache.get(id(1), 100));
    assert!(join_all(readers).await.into_iter().all(|read| read.unwrap() == bytes(100)));
    assert_eq!(store.calls(Operation::Get), 1);
}

#[tokio::test]
async fn a_reader_that_leaves_does_not_take_the_others_bytes() {
    let (store, cache) = with(&[(1, 100)], small()).await;
    let gate = Gate::default();
    store.next_get(Fault::Gate(gate.clone()));
    let read = |cache: Cache| tokio::spawn(async move { cache.get(id(1), 100).await });
    let first = read(cache.clone());
    gate.arrival().await;
    let second = read(cache.clone());
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    gate.open();
    assert_eq!(second.await.unwrap().unwrap(), bytes(100));
    assert_eq!(store.calls(Operation::Get), 1);
}

#[tokio::test]
async fn an_insert_during_a_fetch_serves_those_who_wait() {
    let (store, cache) = with(&[(1, 100)], small()).await;
    let gate = Gate::default();
    store.next_get(Fault::Gate(gate.clone()));
    let reader = tokio::spawn({
        let cache = cache.clone();
        async move { cache.get(id(1), 100).await }
    });
    gate.arrival().await;
    cache.insert(id(1), bytes(100));
    assert_eq!(cache.get(id(1), 100).await.unwrap(), bytes(100));
    gate.open();
    assert_eq!(reader.await.unwrap().unwrap(), bytes(100));
    assert_eq!(cache.get(id(1), 100).await.unwrap(), bytes(100));
    assert_eq!(store.calls(Operation::Get), 1);
}

#[tokio::test]
async fn a_transient_error_is_tried_again_and_never_kept() {
    let (store, cache) = with(&[(1, 100)], small()).await;
    store.next_get(Fault::Retryable);
    store.next_get(Fault::Unknown);
    assert_eq!(cache.get(id(1), 100).await.unwrap(), bytes(100));
    assert_eq!(store.calls(Operation::Get), 3);

    let (store, cache) = with(&[(1, 100)], small()).await;
    (0..GET_ATTEMPTS_MAX).for_each(|_| store.next_get(Fault::Retryable));
    assert!(matches!(cache.get(id(1), 100).await, Err(Error::Unavailable(_))));
    assert_eq!(cache.get(id(1), 100).await.unwrap(), bytes(100));
}

#[tokio::test]
async fn what_will_not_change_is_asked_once() {
    let (store, cache) = with(&[(1, 100)], small()).await;
    store.next_get(Fault::Refused);
    assert!(matches!(cache.get(id(1), 100).await, Err(Error::Store(object::Error::Refused { .. }))));
    assert!(matches!(cache.get(id(2), 100).await, Err(Error::NotFound { .. })));
    assert_eq!(store.calls(Operation::Get), 2);
}

#[tokio::test]
async fn a_store_that_hangs_is_given_up() {
    let (store, cache) = with(&[(1, 100)], Settings { get_timeout: Duration::from_millis(30), ..small() }).await;
    store.next_get(Fault::Hang);
    assert!(matches!(cache.get(id(1), 100).await, Err(Error::Unavailable(_))));
    assert_eq!(cache.get(id(1), 100).await.unwrap(), bytes(100));
}

#[tokio::test]
async fn catching_up_does_not_hold_up_the_newest() {
    let settings = Settings { gets_max: 1, catch_up_gets_max: 1, ..small() };
    let (store, cache) = with(&[(1, 100), (2, 100), (3, 100)], settings).await;
    let gate = Gate::default();
    store.next_get(Fault::Gate(gate.clone()));
    let read = |cache: Cache, sequence| tokio::spawn(async move { cache.get(id(sequence), 100).await });
    let first = read(cache.catch_up(), 1);
    gate.arrival().await;
    let waiting = read(cache.catch_up(), 2);
    assert_eq!(cache.get(id(3), 100).await.unwrap(), bytes(100));
    assert_eq!(store.calls(Operation::Get), 2, "the second one that catches up waits for the first");
    gate.open();
    for reader in [first, waiting] {
        assert_eq!(reader.await.unwrap().unwrap(), bytes(100));
    }
}

#[tokio::test]
async fn a_get_that_hangs_is_sent_again() {
    let blink = Duration::from_millis(5);
    let hedging = hedge::Settings { fraction: 0.0, burst: 1.0, delay_min: blink, delay_first: blink, delay_max: blink };
    let (store, cache) = with(&[(1, 100)], Settings { hedging, ..small() }).await;
    store.next_get(Fault::Hang);
    assert_eq!(cache.get(id(1), 100).await.unwrap(), bytes(100));
    assert_eq!((store.calls(Operation::Get), cache.metrics().gets.get()), (2, 2));
}

#[tokio::test]
async fn what_is_prefetched_is_fetched_once_and_not_again_by_its_reader() {
    let (store, cache) = with(&[(1, 100), (2, 250)], small()).await;
    tokio::join!(cache.prefetch(id(1), ByteRange::new(30, 10)), cache.prefetch(id(1), ByteRange::new(50, 10)));
    cache.prefetch(id(1), ByteRange::new(0, 100)).await;
    cache.prefetch(id(2), ByteRange::new(120, 50)).await;
    cache.prefetch(id(9), ByteRange::new(0, 100)).await;
    assert_eq!(store.calls(Operation::Get), 1 + 2 + 1);
    assert_eq!(cache.get_range(id(2), ByteRange::new(120, 50)).await.unwrap(), bytes(250)[120..170]);
    assert_eq!(cache.get(id(1), 100).await.unwrap(), bytes(100));
    assert_eq!(store.calls(Operation::Get), 4);
}

#[tokio::test]
async fn the_cache_keeps_within_its_capacity() {
    let settings = Settings { capacity_bytes: 4000, ..small() };
    let objects: Vec<_> = (0..100).map(|sequence| (sequence, 100)).collect();
    let (_, cache) = with(&objects, settings).await;
    for (sequence, _) in objects {
        cache.get(id(sequence), 100).await.unwrap();
        assert!(cache.parts.cache.memory().usage() <= 4000);
    }
    assert!(cache.parts.cache.memory().entries() > 5);
}
