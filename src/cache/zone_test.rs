//! Several caches over one store, as the brokers of one zone.

use std::sync::{Mutex, OnceLock};

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use milepost_raft::NodeId;

use super::*;
use crate::object::Memory;
use crate::object::fault::{Fault, Faulty, Gate, Operation};
use crate::peer::Answer;
use crate::types::{ObjectId, StorageClass};

/// A broker without others in its zone.
#[derive(Debug)]
pub(super) struct Alone;

impl Neighbours for Alone {
    fn owner(&self, _: &Name) -> Option<NodeId> {
        None
    }

    fn read(&self, _: NodeId, _: Request) -> BoxFuture<'_, Result<Bytes, object::Error>> {
        unreachable!("there is no owner to ask")
    }

    fn is_near(&self, _: NodeId) -> bool {
        false
    }
}

/// Node 1 owns every object, as nodes 2 and 3 see it; when it does not answer, node 2 does.
#[derive(Debug)]
struct Street {
    me: NodeId,
    caches: Arc<OnceLock<Vec<Cache>>>,
    gone: Arc<Mutex<Vec<NodeId>>>,
}

impl Neighbours for Street {
    fn owner(&self, _: &Name) -> Option<NodeId> {
        let gone = self.gone.lock().unwrap();
        let owner = [1, 2].into_iter().find(|node| *node == self.me || !gone.contains(node));
        owner.filter(|node| *node != self.me)
    }

    fn read(&self, owner: NodeId, request: Request) -> BoxFuture<'_, Result<Bytes, object::Error>> {
        if self.gone.lock().unwrap().contains(&owner) {
            return futures::future::ready(Err(object::Error::retryable("read", "gone"))).boxed();
        }
        let cache = self.caches.get().unwrap()[owner as usize - 1].clone();
        async move {
            match cache.answer(self.me, request.encode()).await {
                Answer::Done(bytes) => Ok(bytes),
                other => Err(object::Error::refused("read", format!("{other:?}"))),
            }
        }
        .boxed()
    }

    fn is_near(&self, node: NodeId) -> bool {
        (1..=3).contains(&node)
    }
}

struct Zone {
    store: Faulty,
    caches: Vec<Cache>,
    gone: Arc<Mutex<Vec<NodeId>>>,
}

const LEN: u64 = 250;

fn id(sequence: u64) -> ObjectId {
    ObjectId { broker: 1, epoch: 1, sequence, attempt: 1, class: StorageClass::Regional }
}

fn bytes() -> Bytes {
    (0..LEN).map(|i| i as u8).collect()
}

async fn zone(settings: Settings) -> Zone {
    let store = Faulty::new(Arc::new(Memory::new()), 1);
    let paths = Paths::new("cluster", 1).unwrap();
    for sequence in 0..10 {
        store.put_if_absent(&paths.key(id(sequence)), bytes()).await.unwrap();
    }
    let (shared, gone) = (Arc::new(OnceLock::new()), Arc::default());
    let mut caches = Vec::new();
    for me in 1..=3 {
        let street = Street { me, caches: shared.clone(), gone: Arc::clone(&gone) };
        let cache = Cache::open(Arc::new(store.clone()), paths.clone(), Arc::new(street), settings.clone());
        caches.push(cache.await.unwrap());
    }
    shared.set(caches.clone()).unwrap();
    Zone { store, caches, gone }
}

fn whole() -> Settings {
    Settings { object_whole_bytes_max: 1000, hedging: hedge::Settings::percent(0.0), ..Settings::default() }
}

#[tokio::test]
async fn readers_at_every_broker_of_a_zone_make_one_get() {
    let zone = zone(whole()).await;
    let reads = (0..30).map(|i| zone.caches[i % 3].get(id(1), LEN));
    assert!(join_all(reads).await.into_iter().all(|read| read.unwrap() == bytes()));
    assert_eq!(zone.store.calls(Operation::Get), 1);
    let metrics = zone.caches[2].metrics();
    assert_eq!((metrics.gets.get(), metrics.neighbour_reads.get()), (0, 1));
    assert_eq!(zone.caches[0].metrics().neighbour_reads_served.get(), 2);
}

#[tokio::test]
async fn parts_of_a_large_object_come_from_the_owner_too() {
    let zone = zone(Settings { object_whole_bytes_max: 100, chunk_bytes: 40, ..whole() }).await;
    for cache in &zone.caches {
        assert_eq!(cache.get(id(1), LEN).await.unwrap(), bytes());
    }
    assert_eq!(zone.store.calls(Operation::Get), 5);
}

#[tokio::test]
async fn what_the_owner_has_produced_needs_no_get_in_its_zone() {
    let zone = zone(whole()).await;
    zone.caches[0].insert(id(77), bytes());
    assert_eq!(zone.caches[2].get(id(77), LEN).await.unwrap(), bytes());
    assert_eq!(zone.store.calls(Operation::Get), 0);
}

#[tokio::test]
async fn when_the_owner_is_gone_another_takes_its_place() {
    let zone = zone(whole()).await;
    zone.gone.lock().unwrap().push(1);
    for cache in &zone.caches[1..] {
        assert_eq!(cache.get(id(1), LEN).await.unwrap(), bytes());
    }
    assert_eq!(zone.store.calls(Operation::Get), 1);
    zone.gone.lock().unwrap().push(2);
    assert_eq!(zone.caches[2].get(id(2), LEN).await.unwrap(), bytes());
}

#[tokio::test]
async fn an_owner_that_is_slow_is_overtaken_by_the_store() {
    let blink = Duration::from_millis(5);
    let hedging = hedge::Settings { fraction: 0.0, burst: 1.0, delay_min: blink, delay_first: blink, delay_max: blink };
    let zone = zone(Settings { hedging, ..whole() }).await;
    // The owner's own GET hangs, and so does the second one it sends.
    zone.store.next_get(Fault::Hang);
    zone.store.next_get(Fault::Hang);
    let cold = zone.caches[0].clone();
    let owner = tokio::spawn(async move { cold.get(id(1), LEN).await });
    while zone.store.calls(Operation::Get) < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(zone.caches[2].get(id(1), LEN).await.unwrap(), bytes());
    owner.abort();
}

#[tokio::test]
async fn an_owner_that_has_no_such_bytes_is_not_the_last_word() {
    let zone = zone(whole()).await;
    assert!(matches!(zone.caches[2].get(id(50), LEN).await, Err(Error::NotFound { .. })));
    zone.store.next_get(Fault::Refused);
    assert_eq!(zone.caches[2].get(id(1), LEN).await.unwrap(), bytes());
}

#[tokio::test]
async fn a_neighbour_that_catches_up_holds_up_no_reader_here() {
    let zone = zone(Settings { gets_max: 1, catch_up_gets_max: 1, ..whole() }).await;
    let gate = Gate::default();
    zone.store.next_get(Fault::Gate(gate.clone()));
    let behind = zone.caches[2].catch_up();
    let behind = tokio::spawn(async move { behind.get(id(1), LEN).await });
    gate.arrival().await;
    assert_eq!(zone.caches[0].get(id(2), LEN).await.unwrap(), bytes());
    assert_eq!(zone.caches[0].catch_up().get(id(3), LEN).await.unwrap(), bytes());
    assert_eq!(zone.caches[2].get(id(4), LEN).await.unwrap(), bytes());
    gate.open();
    assert_eq!(behind.await.unwrap().unwrap(), bytes());
}

#[tokio::test]
async fn bytes_are_refused_to_other_zones_and_to_malformed_requests() {
    let zone = zone(whole()).await;
    let request = |range| Request { name: id(1).into(), range, catch_up: false }.encode();
    let whole = ByteRange::new(0, 1000);
    let refused = [
        zone.caches[0].answer(4, request(whole)).await,
        zone.caches[0].answer(2, request(ByteRange::new(0, 999))).await,
        zone.caches[0].answer(2, Bytes::from_static(b"\x07")).await,
    ];
    assert!(refused.iter().all(|answer| matches!(answer, Answer::Refused(_))), "{refused:?}");
    assert_eq!(zone.store.calls(Operation::Get), 0);
    assert_eq!(zone.caches[0].answer(2, request(whole)).await, Answer::Done(bytes()));
}

#[tokio::test]
async fn what_leaves_memory_is_found_on_disk_also_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Some(Disk { dir: dir.path().to_owned(), capacity_bytes: 64 << 20 });
    let settings = Settings { capacity_bytes: 1000, disk, ..whole() };
    let store = Faulty::new(Arc::new(Memory::new()), 1);
    let open = || {
        let paths = Paths::new("cluster", 1).unwrap();
        Cache::open(Arc::new(store.clone()), paths, Arc::new(Alone), settings.clone())
    };
    let cache = open().await.unwrap();
    assert!(open().await.is_err(), "a directory serves one broker");
    for sequence in 0..10 {
        cache.insert(id(sequence), bytes());
    }
    assert_eq!(cache.get(id(0), LEN).await.unwrap(), bytes());
    assert!(cache.metrics().disk_hits.get() > 0);
    cache.parts.cache.close().await.unwrap();
    drop(cache);
    let cache = open().await.unwrap();
    assert_eq!(cache.get(id(0), LEN).await.unwrap(), bytes());
    assert_eq!(store.calls(Operation::Get), 0);
}
