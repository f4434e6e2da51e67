use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;

use super::*;
use crate::object::fault::{Fault, Faulty, Gate, Operation};
use crate::object::{Durable, Memory, Paths, Store};
use crate::types::{ObjectId, StorageClass};

const FIRST: ObjectId = ObjectId { broker: 1, epoch: 1, sequence: 7, attempt: 1, class: StorageClass::Regional };
const SECOND: ObjectId = ObjectId { attempt: 2, ..FIRST };

/// Repeats what takes longer than a blink, twice.
fn eager() -> Hedger {
    let blink = Duration::from_millis(5);
    Hedger::new(Settings { fraction: 0.0, burst: 2.0, delay_min: blink, delay_first: blink, delay_max: blink })
}

fn counts(hedger: &Hedger) -> (u64, u64, u64) {
    (hedger.counts.sent.get(), hedger.counts.won.get(), hedger.counts.refused.get())
}

struct Shelf {
    memory: Arc<Memory>,
    store: Faulty,
    paths: Paths,
    hedger: Hedger,
}

impl Shelf {
    fn new() -> Shelf {
        let memory = Arc::new(Memory::new());
        let store = Faulty::new(memory.clone(), 1);
        Shelf { memory, store, paths: Paths::new("c", 1).unwrap(), hedger: eager() }
    }

    async fn put(&self) -> Result<Durable<ObjectId>, Error> {
        let deadline = Instant::now() + Duration::from_secs(30);
        let bytes = Bytes::from_static(b"records");
        Durable::put_hedged(&self.store, &self.paths, FIRST, bytes, deadline, &self.hedger).await
    }

    async fn has(&self, id: ObjectId) -> bool {
        self.memory.head(&self.paths.key(id)).await.is_ok()
    }
}

#[tokio::test]
async fn a_put_that_is_answered_in_time_is_the_only_one() {
    let shelf = Shelf::new();
    assert_eq!(*shelf.put().await.unwrap().id(), FIRST);
    assert_eq!((shelf.store.calls(Operation::Put), counts(&shelf.hedger)), (1, (0, 0, 0)));
}

#[tokio::test]
async fn of_a_hung_put_and_its_second_the_second_is_named_and_a_late_effect_is_another_key() {
    let shelf = Shelf::new();
    let late = Gate::default();
    shelf.store.next_put(Fault::HangLateAt(late.clone()));
    assert_eq!(*shelf.put().await.unwrap().id(), SECOND);
    assert!(shelf.has(SECOND).await && !shelf.has(FIRST).await);
    late.arrival().await;
    late.open();
    late.arrival().await;
    assert!(shelf.has(FIRST).await, "the first took effect after all, under its own name");
    assert_eq!(counts(&shelf.hedger), (1, 1, 0));
}

#[tokio::test]
async fn when_the_first_comes_back_before_its_second_the_first_is_named() {
    let shelf = Shelf::new();
    let (first, second) = (Gate::default(), Gate::default());
    shelf.store.next_put(Fault::Gate(first.clone()));
    shelf.store.next_put(Fault::HangLateAt(second.clone()));
    let put = shelf.put();
    let ends = async {
        second.arrival().await;
        first.open();
    };
    assert_eq!(*tokio::join!(put, ends).0.unwrap().id(), FIRST);
    second.open();
    second.arrival().await;
    assert!(shelf.has(FIRST).await && shelf.has(SECOND).await, "both are stored, and one is named");
    assert_eq!(counts(&shelf.hedger), (1, 0, 0));
}

#[tokio::test]
async fn an_error_of_one_leaves_it_to_the_other() {
    let error = || Error::retryable("get", "no");
    let hedger = eager();
    let (fail, done) = (tokio::sync::Notify::new(), tokio::sync::Notify::new());
    // The second fails, then the first succeeds.
    let first = done.notified().map(|()| Ok(1));
    let second = async {
        done.notify_one();
        Err(error())
    };
    assert_eq!(hedger.run(first, || second).await, Ok(1));
    // The first fails, then the second succeeds.
    let first = fail.notified().map(|()| Err(error()));
    let second = async {
        fail.notify_one();
        tokio::task::yield_now().await;
        Ok(2)
    };
    assert_eq!(hedger.run(first, || second).await, Ok(2));
    assert_eq!(counts(&hedger), (2, 1, 0));
}

#[tokio::test]
async fn what_will_not_change_is_not_waited_for_twice() {
    let hedger = eager();
    let go = tokio::sync::Notify::new();
    let first = go.notified().map(|()| Err::<(), _>(Error::refused("get", "no")));
    let second = async {
        go.notify_one();
        std::future::pending().await
    };
    assert!(matches!(hedger.run(first, || second).await, Err(Error::Refused { .. })));
    // Answered before there was a second request.
    let failed = hedger.run(async { Err::<(), _>(Error::retryable("get", "busy")) }, std::future::pending).await;
    assert!(matches!(failed, Err(Error::Retryable { .. })));
    assert_eq!(hedger.counts.sent.get(), 1);
}

#[tokio::test]
async fn without_a_budget_the_first_is_waited_for() {
    let hedger = eager();
    let slow = || tokio::time::sleep(Duration::from_millis(20)).map(|()| Ok(()));
    for _ in 0..3 {
        hedger.run(slow(), std::future::pending).await.unwrap();
    }
    assert_eq!(counts(&hedger), (2, 0, 1));
}
