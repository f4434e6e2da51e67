//! Hazards: sequence 0 fails while 3 and 4 are still in the socket; a PUT whose reply was lost; a PUT that takes effect
//! long after it was given up, perhaps in another life of the broker; one that hangs and is sent again as another
//! attempt, of which both may be stored.
//!
//! Why it holds: objects are handed on in order, and a failed upload poisons its producer until the failed sequence
//! comes again, so nothing overtakes it. A key names one (broker, epoch, sequence, attempt) and is written if absent;
//! a sequence whose PUT was given up is never used again, so a late effect is an orphan that nobody names. Of two
//! attempts the one that was acknowledged first is named, before anything is handed on.

use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use kafka_protocol::messages::{ApiKey, ProduceResponse};
use tempfile::TempDir;
use tokio::time::{Duration, Instant};

use crate::batch::build::Spec;
use crate::hazards::log::object;
use crate::hazards::network::state_of;
use crate::hazards::producers::older_producer;
use crate::node::Node;
use crate::node::testing::{Client, Topic, batches, claim, records_of, start_on};
use crate::object::fault::{Fault, Faulty, Gate, Operation};
use crate::object::{Durable, Error, Memory, Name, Paths, Prefix, Start, Store, list_pages};
use crate::protocol::ErrorCode;
use crate::shard::{State, invariants};
use crate::types::ObjectId;

const FLAGS: [&str; 2] = ["--store=memory://", "--hedge-percent=0"];

struct Broker {
    store: Faulty,
    node: Node,
    client: Client,
    dir: TempDir,
}

impl Broker {
    /// Each PUT is sent once, however long it takes: which call meets which fault is then certain.
    async fn start() -> Broker {
        Broker::start_with(&FLAGS).await
    }

    async fn start_with(flags: &[&str]) -> Broker {
        let store = Faulty::new(Arc::new(Memory::new()), 1);
        let dir = tempfile::tempdir().unwrap();
        let node = start_on(Arc::new(store.clone()), dir.path(), flags).await.unwrap();
        let client = Client::connect(&node).await;
        Broker { store, node, client, dir }
    }

    async fn restart(self) -> Broker {
        self.node.shut_down().await;
        let node = start_on(Arc::new(self.store.clone()), self.dir.path(), &FLAGS).await.unwrap();
        let client = Client::connect(&node).await;
        Broker { client, node, ..self }
    }

    async fn send(&mut self, topic: &Topic, id: i64, sequence: i32) {
        let request = topic.produce(9, -1, &[records_of(1, &claim(id, sequence))]);
        self.client.send(ApiKey::Produce, 9, &request).await;
    }

    /// (error, base offset) of the next answer.
    async fn answer(&mut self) -> (i16, i64) {
        let response: ProduceResponse = self.client.receive(ApiKey::Produce, 9).await;
        let partition = &response.responses[0].partition_responses[0];
        (partition.error_code, partition.base_offset)
    }

    /// The producer's first batch, whose PUT is given up; it takes effect at the gate.
    async fn give_up_first(&mut self, topic: &Topic) -> Gate {
        let late = Gate::default();
        self.store.next_put(Fault::LateAt(late.clone()));
        self.store.next_put(Fault::Refused);
        self.send(topic, 0, 0).await;
        assert_eq!(self.answer().await, AGAIN);
        late
    }

    /// Write-ahead objects in the store, in order.
    async fn stored(&self) -> Vec<ObjectId> {
        let prefix = Prefix::all();
        let pages: Vec<_> = list_pages(&self.store, &prefix, Start::Beginning).try_collect().await.unwrap();
        let paths = Paths::new(self.node.cluster().cluster_id(), 1).unwrap();
        let names = pages.iter().flatten().filter_map(|listed| paths.name(&listed.key));
        let mut objects: Vec<ObjectId> = names
            .filter_map(|name| match name {
                Name::WriteAhead(object) => Some(object),
                _ => None,
            })
            .collect();
        objects.sort();
        objects
    }

    /// The topic's shard.
    async fn state(&self) -> State {
        let view = self.node.cluster().view();
        let state = state_of(&self.node, view.topics().next().expect("created").placement[0]).await;
        assert!(invariants::hold(&state));
        state
    }

    /// The objects that pointers name; each is in the store.
    async fn named(&self) -> Vec<ObjectId> {
        let state = self.state().await;
        let named: Vec<ObjectId> = state.partitions().flat_map(|p| p.pointers.iter().map(|p| p.object)).collect();
        let stored = self.stored().await;
        assert!(named.iter().all(|object| stored.contains(object)), "{named:?} of {stored:?}");
        named
    }

    /// Offsets that each batch takes.
    async fn read(&mut self, topic: &Topic) -> Vec<i64> {
        batches(&topic.fetched(&mut self.client, 12, 0, 1 << 20).await).iter().map(|b| b.0).collect()
    }
}

/// NOT_ENOUGH_REPLICAS: tried again by every client, under the same sequence.
const AGAIN: (i16, i64) = (ErrorCode::NotEnoughReplicas as i16, -1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_overtakes_a_first_batch_that_could_not_be_stored() {
    let mut broker = Broker::start().await;
    // Its id is older than the partition: a later sequence could open its state, and 0 would find its place past.
    let id = older_producer(&mut broker.client).await;
    let topic = Topic::create(&mut broker.client, 1, &[]).await;
    let before = broker.state().await.digest();
    let (first, second) = (Gate::default(), Gate::default());
    broker.store.next_put(Fault::RefusedAt(first.clone()));
    broker.store.next_put(Fault::Gate(second.clone()));
    broker.send(&topic, id, 0).await;
    first.arrival().await;
    broker.send(&topic, id, 1).await;
    second.arrival().await;
    // 0 fails; 1 is stored, and must not be handed on; 2 may be anywhere between the socket and the store.
    broker.send(&topic, id, 2).await;
    first.open();
    assert_eq!(broker.answer().await, AGAIN);
    second.open();
    assert_eq!((broker.answer().await, broker.answer().await), (AGAIN, AGAIN));
    // These were in the socket.
    broker.send(&topic, id, 3).await;
    broker.send(&topic, id, 4).await;
    assert_eq!((broker.answer().await, broker.answer().await), (AGAIN, AGAIN));
    // Nothing reached the shard, not even to be held there.
    assert_eq!(broker.state().await.digest(), before);
    for sequence in 0..5 {
        broker.send(&topic, id, sequence).await;
    }
    for base in 0..5 {
        assert_eq!(broker.answer().await, (0, base));
    }
    assert_eq!(broker.read(&topic).await, vec![0, 1, 2, 3, 4]);
    broker.named().await;
    broker.node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_whose_reply_was_lost_is_found_and_named_once() {
    let mut broker = Broker::start().await;
    let topic = Topic::create(&mut broker.client, 1, &[]).await;
    broker.store.next_put(Fault::LostReply);
    broker.send(&topic, 0, 0).await;
    assert_eq!(broker.answer().await, (0, 0));
    assert_eq!(broker.stored().await, broker.named().await);
    assert_eq!(broker.read(&topic).await, vec![0]);
    broker.node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_that_takes_effect_after_it_was_given_up_is_named_by_nobody() {
    let mut broker = Broker::start().await;
    let topic = Topic::create(&mut broker.client, 1, &[]).await;
    let late = broker.give_up_first(&topic).await;
    broker.send(&topic, 0, 0).await;
    assert_eq!(broker.answer().await, (0, 0));
    let before = broker.stored().await;
    takes_effect(&late).await;
    let after = broker.stored().await;
    assert_eq!((before.len(), after.len()), (1, 2));
    assert_eq!(broker.named().await, before);
    assert_eq!(broker.read(&topic).await, vec![0]);
    broker.node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_of_the_old_epoch_that_lands_after_the_restart_is_named_by_nobody() {
    let mut broker = Broker::start().await;
    let topic = Topic::create(&mut broker.client, 1, &[]).await;
    let late = broker.give_up_first(&topic).await;
    let before = broker.node.cluster().epoch();
    let mut broker = broker.restart().await;
    broker.send(&topic, 0, 0).await;
    assert_eq!(broker.answer().await, (0, 0));
    takes_effect(&late).await;
    let epochs: Vec<u64> = broker.stored().await.iter().map(|object| object.epoch).collect();
    let now = broker.node.cluster().epoch();
    assert!(before < now);
    assert_eq!(epochs, vec![before, now]);
    assert_eq!(broker.named().await.iter().map(|object| object.epoch).collect::<Vec<_>>(), vec![now]);
    // The same bytes, twice in the store and once in the log.
    assert_eq!(broker.read(&topic).await, vec![0]);
    let next = topic.produced(&mut broker.client, 9, &[records_of(1, &Spec::default())]).await;
    assert_eq!(next.base_offset, 1);
    broker.node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_that_hangs_holds_up_nobody_and_its_late_effect_is_named_by_nobody() {
    let mut broker = Broker::start_with(&FLAGS[..1]).await;
    let topic = Topic::create(&mut broker.client, 1, &[]).await;
    let late = Gate::default();
    broker.store.next_put(Fault::HangLateAt(late.clone()));
    for sequence in 0..3 {
        broker.send(&topic, 0, sequence).await;
    }
    for base in 0..3 {
        assert_eq!(broker.answer().await, (0, base));
    }
    takes_effect(&late).await;
    let (stored, named) = (broker.stored().await, broker.named().await);
    let attempts = |of: &[ObjectId]| of.iter().filter(|o| o.sequence == 1).map(|o| o.attempt).collect::<Vec<_>>();
    assert_eq!((attempts(&stored), attempts(&named)), (vec![1, 2], vec![2]));
    assert_eq!(broker.read(&topic).await, vec![0, 1, 2]);
    broker.node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_attempts_that_are_both_stored_one_is_named() {
    let mut broker = Broker::start_with(&FLAGS[..1]).await;
    let topic = Topic::create(&mut broker.client, 1, &[]).await;
    let (first, second) = (Gate::default(), Gate::default());
    broker.store.next_put(Fault::Gate(first.clone()));
    broker.store.next_put(Fault::HangLateAt(second.clone()));
    broker.send(&topic, 0, 0).await;
    second.arrival().await;
    first.open();
    assert_eq!(broker.answer().await, (0, 0));
    second.open();
    second.arrival().await;
    let stored = broker.stored().await;
    assert_eq!(stored.iter().map(|o| (o.sequence, o.attempt)).collect::<Vec<_>>(), vec![(1, 1), (1, 2)]);
    assert_eq!(broker.named().await, stored[..1]);
    assert_eq!(broker.read(&topic).await, vec![0]);
    broker.node.shut_down().await;
}

/// Opens the gate of a late PUT and waits for its effect.
async fn takes_effect(late: &Gate) {
    late.arrival().await;
    late.open();
    late.arrival().await;
}

#[tokio::test]
async fn whatever_becomes_of_a_put_its_key_never_gets_a_second_content() {
    let memory = Arc::new(Memory::new());
    let store = Faulty::new(memory.clone(), 1);
    let paths = Paths::new("c", 1).unwrap();
    let (id, late) = (object(0, 1, 1), Gate::default());
    store.next_put(Fault::LateAt(late.clone()));
    store.next_put(Fault::Refused);
    let put = |bytes: &'static [u8]| {
        let deadline = Instant::now() + Duration::from_secs(30);
        Durable::put(&store, &paths, id, Bytes::from_static(bytes), deadline)
    };
    assert!(put(b"first").await.is_err());
    takes_effect(&late).await;
    assert!(matches!(put(b"other").await, Err(Error::AlreadyExists { .. })));
    assert_eq!(memory.get(&paths.key(id)).await.unwrap(), "first");
    assert_eq!(store.calls(Operation::Put), 3);
}
