//! The contract of [`Store`] as tests, run over every implementation.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::join_all;
use futures::{StreamExt, TryStreamExt};

use uuid::Uuid;

use self::s3_server::Server;
use super::fault::Faulty;
use super::s3::{Credentials, Settings};
use super::{
    Directory, Error, Key, Listed, Memory, PAGE_KEYS_MAX, Paths, Prefix, S3, Start, Store, crc32c, list_pages, open,
    probe,
};
use crate::types::{ByteRange, ObjectId, StorageClass};

#[path = "../../tests/s3/mod.rs"]
pub mod s3_server;

type Shared = Arc<dyn Store>;

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

/// Names a server of which the suite makes a second opinion, as `s3://bucket?endpoint=...`; credentials from AWS_*.
const OTHER_SERVER: &str = "MILEPOST_TEST_S3_URL";

async fn s3() -> (Option<Server>, Shared) {
    if let Ok(url) = std::env::var(OTHER_SERVER) {
        let (bucket, query) = url.split_once('?').unwrap_or((&url, ""));
        return (None, open(&format!("{bucket}/{}?{query}", Uuid::new_v4())).await.unwrap());
    }
    let options = s3_server::Options::for_tests();
    let credentials = Credentials::new(&options.access_key, &options.secret_key, None, None, "test");
    let bucket = options.bucket.clone();
    let server = Server::start(options).await.unwrap();
    let settings = Settings {
        bucket,
        prefix: "some/where".to_owned(),
        endpoint: Some(server.url()),
        region: None,
        credentials: Some(credentials),
    };
    (Some(server), Arc::new(S3::open(settings).await.unwrap()))
}

async fn put(store: &Shared, key: &Key, bytes: &[u8]) {
    store.put_if_absent(key, Bytes::copy_from_slice(bytes)).await.unwrap();
}

async fn keys_below(store: &Shared, prefix: &Prefix, start: Start) -> Vec<Key> {
    let pages: Vec<Vec<Listed>> = list_pages(&**store, prefix, start).try_collect().await.unwrap();
    assert!(pages.iter().all(|page| page.len() <= PAGE_KEYS_MAX));
    pages.into_iter().flatten().map(|listed| listed.key).collect()
}

async fn bytes_come_back_as_they_went_in(store: Shared) {
    let large: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
    for (name, bytes) in [("one", b"x".as_slice()), ("large", &large)] {
        put(&store, &key(name), bytes).await;
        assert_eq!(store.get(&key(name)).await.unwrap(), bytes);
        let head = store.head(&key(name)).await.unwrap();
        assert_eq!(head.len, bytes.len() as u64);
        assert!(head.crc32c.is_none_or(|stored| stored == crc32c(bytes)));
    }
}

async fn an_empty_object_is_an_object(store: Shared) {
    put(&store, &key("empty"), b"").await;
    assert_eq!(store.get(&key("empty")).await.unwrap(), "");
    assert_eq!(store.head(&key("empty")).await.unwrap().len, 0);
    assert_eq!(store.get_range(&key("empty"), ByteRange::new(0, 0)).await.unwrap(), "");
    let beyond = store.get_range(&key("empty"), ByteRange::new(0, 1)).await;
    assert!(matches!(beyond, Err(Error::OutOfRange { .. })), "{beyond:?}");
}

async fn a_key_is_written_once(store: Shared) {
    put(&store, &key("once"), b"first").await;
    let second = store.put_if_absent(&key("once"), Bytes::from_static(b"second")).await;
    assert_eq!(second, Err(Error::AlreadyExists { key: key("once") }));
    assert_eq!(store.get(&key("once")).await.unwrap(), "first");
}

async fn one_of_sixteen_writers_wins(store: Shared) {
    for round in 0..8 {
        let contested = key(&format!("race/{round}"));
        let written = |writer: usize| Bytes::from(vec![writer as u8; 1000]);
        let writers = (0..16).map(|writer| {
            let (store, contested) = (store.clone(), contested.clone());
            tokio::spawn(async move { store.put_if_absent(&contested, written(writer)).await })
        });
        let results: Vec<_> = join_all(writers).await.into_iter().map(Result::unwrap).collect();
        let winners: Vec<usize> = (0..16).filter(|writer| results[*writer].is_ok()).collect();
        assert_eq!(winners.len(), 1, "{results:?}");
        assert_eq!(store.get(&contested).await.unwrap(), written(winners[0]));
        for result in results.into_iter().filter_map(Result::err) {
            assert!(matches!(result, Error::AlreadyExists { .. } | Error::Retryable { .. }), "{result:?}");
        }
    }
}

async fn ranges_end_where_the_object_ends(store: Shared) {
    let digits = key("digits");
    put(&store, &digits, b"0123456789").await;
    for (start, len, expected) in [(0, 10, "0123456789"), (0, 1, "0"), (9, 1, "9"), (3, 4, "3456"), (5, 0, "")] {
        assert_eq!(store.get_range(&digits, ByteRange::new(start, len)).await.unwrap(), expected);
    }
    assert_eq!(store.get_range(&digits, ByteRange::new(8, 100)).await.unwrap(), "89");
    assert_eq!(store.get_range(&digits, ByteRange::new(0, u64::MAX)).await.unwrap(), "0123456789");
    for (start, len) in [(10, 1), (11, 5), (1 << 40, 1), (u64::MAX, u64::MAX)] {
        let beyond = store.get_range(&digits, ByteRange::new(start, len)).await;
        assert_eq!(beyond, Err(Error::OutOfRange { key: digits.clone(), start }));
    }
}

async fn what_is_not_there_is_not_found(store: Shared) {
    put(&store, &key("there/below"), b"x").await;
    for absent in ["absent", "there", "there/below/more", "no/such/place"] {
        let absent = key(absent);
        let missing = Error::NotFound { key: absent.clone() };
        assert_eq!(store.get(&absent).await, Err(missing.clone()));
        assert_eq!(store.get_range(&absent, ByteRange::new(0, 1)).await, Err(missing.clone()));
        assert_eq!(store.head(&absent).await, Err(missing));
    }
}

async fn odd_keys_are_keys(store: Shared) {
    let odd = [
        "ünïcode/日本",
        "a b",
        "a+b",
        "a%2Fb",
        "q?x=1&y=2",
        "hash#tag",
        "qu\"ote'<xml>&amp;",
        "star*[x]",
        "~",
        "a.b",
        "a-b",
    ];
    for name in odd {
        put(&store, &key(name), name.as_bytes()).await;
    }
    for name in odd {
        assert_eq!(store.get(&key(name)).await.unwrap(), name, "{name}");
    }
    let listed = keys_below(&store, &Prefix::all(), Start::Beginning).await;
    let expected: BTreeSet<Key> = odd.into_iter().map(key).collect();
    assert_eq!(listed, expected.iter().cloned().collect::<Vec<_>>());
    store.delete(&listed).await.unwrap();
    assert_eq!(keys_below(&store, &Prefix::all(), Start::Beginning).await, []);
}

async fn listings_have_pages_and_starts(store: Shared) {
    let paths = Paths::new("cluster", 1).unwrap();
    let id = |sequence| ObjectId { broker: 1, epoch: 2, sequence, attempt: 0, class: StorageClass::Regional };
    let all: BTreeSet<Key> = (0..2 * PAGE_KEYS_MAX as u64 + 5).map(|sequence| paths.key(id(sequence))).collect();
    put(&store, &key("cluster-1/wal.not"), b"").await;
    put(&store, &key("cluster-10/wal/00/x"), b"").await;
    let puts = futures::stream::iter(all.iter()).map(|key| put(&store, key, b"abc"));
    puts.buffer_unordered(16).collect::<Vec<()>>().await;

    let prefix = paths.write_ahead_prefix();
    let listed = keys_below(&store, &prefix, Start::Beginning).await;
    assert_eq!(listed, all.iter().cloned().collect::<Vec<_>>());
    let first = store.list(&prefix, Start::Beginning).await.unwrap();
    assert_eq!(first.objects.len(), PAGE_KEYS_MAX);
    assert!(first.objects.iter().all(|object| object.len == 3));

    for skipped in [0, 1, PAGE_KEYS_MAX, listed.len() - 2, listed.len() - 1] {
        let rest = keys_below(&store, &prefix, Start::After(listed[skipped].clone())).await;
        assert_eq!(rest, listed[skipped + 1..], "after {skipped}");
    }
    // A start that is not there, and one before the prefix.
    let between = key(&format!("{}.x", listed[7]));
    let rest = keys_below(&store, &prefix, Start::After(between.clone())).await;
    assert_eq!(rest, listed.iter().filter(|key| **key > between).cloned().collect::<Vec<_>>());
    assert_eq!(keys_below(&store, &prefix, Start::After(key("a"))).await.len(), listed.len());
    assert_eq!(keys_below(&store, &prefix, Start::After(key("zzz"))).await, []);

    store.delete(&listed).await.unwrap();
    assert_eq!(keys_below(&store, &prefix, Start::Beginning).await, []);
    assert_eq!(keys_below(&store, &Prefix::all(), Start::Beginning).await.len(), 2);
}

async fn deleting_twice_is_deleting(store: Shared) {
    put(&store, &key("a/b/gone"), b"x").await;
    put(&store, &key("a/kept"), b"x").await;
    store.delete(&[]).await.unwrap();
    for _ in 0..2 {
        store.delete(&[key("a/b/gone"), key("never")]).await.unwrap();
    }
    assert!(matches!(store.get(&key("a/b/gone")).await, Err(Error::NotFound { .. })));
    assert_eq!(store.get(&key("a/kept")).await.unwrap(), "x");
    put(&store, &key("a/b/gone"), b"again").await;
}

async fn the_date_is_that_of_the_objects(store: Shared) {
    let began = Instant::now();
    let before = store.now().await.unwrap();
    put(&store, &key("dated"), b"x").await;
    let stored = store.head(&key("dated")).await.unwrap().last_modified;
    let after = store.now().await.unwrap();
    // Whole seconds, and a file system's clock that ticks coarsely: both may be cut off.
    let slack = Duration::from_secs(1);
    assert!(before <= stored + slack && stored <= after + slack, "{before:?} {stored:?} {after:?}");
    assert!(after.duration_since(before).unwrap_or_default() <= began.elapsed() + slack);
    let listed = store.list(&Prefix::all(), Start::Beginning).await.unwrap().objects;
    assert!(listed[0].last_modified <= stored + slack && stored <= listed[0].last_modified + slack);
}

async fn the_probe_passes_and_leaves_nothing(store: Shared) {
    probe(&*store, tokio::time::Instant::now() + Duration::from_secs(30)).await.unwrap();
    assert_eq!(keys_below(&store, &Prefix::all(), Start::Beginning).await, []);
}

/// Every claim over every implementation, each over a store of its own.
macro_rules! conformance {
    ($($claim:ident)*) => {
        mod memory { $(#[tokio::test] async fn $claim() { super::$claim(super::Arc::new(super::Memory::new())).await })* }

        mod directory { $(#[tokio::test(flavor = "multi_thread")] async fn $claim() {
            let root = tempfile::tempdir().unwrap();
            let store = super::Directory::open(root.path().join("objects")).await.unwrap();
            super::$claim(super::Arc::new(store)).await
        })* }

        mod s3 { $(#[tokio::test(flavor = "multi_thread")] async fn $claim() {
            let (_server, store) = super::s3().await;
            super::$claim(store).await
        })* }

        mod faultless { $(#[tokio::test] async fn $claim() {
            let store = super::Faulty::new(super::Arc::new(super::Memory::new()), 1);
            super::$claim(super::Arc::new(store)).await
        })* }
    };
}

/// Buckets of zones keep every claim but that of contested keys, where perhaps nobody wins: see `zonal`.
macro_rules! zonal_conformance {
    ($($claim:ident)*) => {
        mod zonal { $(#[tokio::test] async fn $claim() {
            let zones = crate::object::zonal::testing::zones();
            super::$claim(super::Arc::new(zones.classes())).await
        })* }
    };
}

conformance! {
    bytes_come_back_as_they_went_in
    an_empty_object_is_an_object
    a_key_is_written_once
    one_of_sixteen_writers_wins
    ranges_end_where_the_object_ends
    what_is_not_there_is_not_found
    odd_keys_are_keys
    listings_have_pages_and_starts
    deleting_twice_is_deleting
    the_date_is_that_of_the_objects
    the_probe_passes_and_leaves_nothing
}

zonal_conformance! {
    bytes_come_back_as_they_went_in
    an_empty_object_is_an_object
    a_key_is_written_once
    ranges_end_where_the_object_ends
    what_is_not_there_is_not_found
    odd_keys_are_keys
    listings_have_pages_and_starts
    deleting_twice_is_deleting
    the_date_is_that_of_the_objects
    the_probe_passes_and_leaves_nothing
}
