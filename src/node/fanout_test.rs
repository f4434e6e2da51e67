//! Six brokers in three zones and three readers at each: an object is fetched once per zone, and not at all in the zone it
//! was produced in.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kafka_protocol::messages::{ApiKey, FetchResponse};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

use crate::batch::build::Spec;
use crate::node::Node;
use crate::node::testing::{Client, Site, Topic, batches, config, records_of};
use crate::object::fault::{Faulty, Operation};
use crate::object::{Memory, Store};
use crate::protocol::ErrorCode;

const BROKERS: usize = 6;
const ZONES: usize = 3;
const READERS_PER_BROKER: usize = 3;
const OBJECTS: usize = 15;
const PATIENCE: Duration = Duration::from_secs(90);

/// A broker that can be killed: everything it runs is on a runtime of its own.
struct Broker {
    runtime: Runtime,
    node: Node,
}

impl Broker {
    async fn start(site: &Site, store: &Faulty, broker: usize) -> Broker {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let seeds: Vec<usize> = (0..BROKERS).collect();
        let mut flags = site.flags(broker, &format!("az{}", broker % ZONES), &seeds);
        // Every GET is counted: a busy machine must not be taken for a slow store.
        flags.push("--hedge-percent=0".to_owned());
        let config = config(&site.data_dir(broker), &flags);
        let store: Arc<dyn Store> = Arc::new(store.clone());
        let node = runtime.spawn(Node::start_on(store, config)).await.unwrap().unwrap();
        Broker { runtime, node }
    }

    fn kill(self) {
        self.runtime.shutdown_background();
    }
}

/// Waits until the broker knows that this many are alive, and until it serves the topic.
async fn ready(broker: &Broker, topic: &Topic) {
    let mut client = Client::connect(&broker.node).await;
    let alive = || broker.node.cluster().view().brokers().filter(|b| b.alive).count();
    while alive() < BROKERS || topic.fetched(&mut client, 12, 0, 1).await.error_code != 0 {
        sleep(Duration::from_millis(20)).await;
    }
}

/// Reads batches `from..to`, one offset each, waiting for those that are not there yet.
async fn read(broker: &Broker, topic: &Topic, from: i64, to: i64) {
    let mut client = Client::connect(&broker.node).await;
    let mut next = from;
    while next < to {
        let response: FetchResponse = client.ask(ApiKey::Fetch, 12, &topic.fetch(12, next, 1 << 20, 5000)).await;
        let partition = &response.responses[0].partitions[0];
        let away = ErrorCode::NotLeaderOrFollower as i16;
        assert!([0, away].contains(&partition.error_code), "{}", partition.error_code);
        for (base, ..) in batches(partition) {
            assert_eq!(base, next);
            next += 1;
        }
    }
}

/// Produces one object per batch through the first broker while everybody reads, and checks the GETs it took: one per
/// object in each other zone. Another one only where a neighbour did not answer, be it dead or starved by the machine.
async fn fan_out(store: &Faulty, brokers: &[&Broker], topic: &Topic, from: i64) {
    let failed = || brokers.iter().map(|b| b.node.cache_metrics().neighbour_reads_failed.get()).sum::<u64>();
    let (before, failed_before) = (store.calls(Operation::Get), failed());
    let to = from + OBJECTS as i64;
    let readers = brokers.iter().flat_map(|broker| (0..READERS_PER_BROKER).map(move |_| read(broker, topic, from, to)));
    let produce = async {
        let mut client = Client::connect(&brokers[0].node).await;
        for _ in 0..OBJECTS {
            assert_eq!(topic.produced(&mut client, 9, &[records_of(1, &Spec::default())]).await.error_code, 0);
        }
    };
    timeout(PATIENCE, async { tokio::join!(join_all(readers), produce) }).await.expect("somebody is stuck");
    let gets = store.calls(Operation::Get) - before;
    let wanted = (OBJECTS * (ZONES - 1)) as u64;
    let excused = failed() - failed_before;
    assert!((wanted..=wanted + excused).contains(&gets), "{gets} GETs instead of {wanted}, {excused} failed reads");
    assert_eq!(brokers[0].node.cache_metrics().gets.get(), 0, "the producing zone has its own copy");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_get_per_object_and_zone_under_three_fold_fan_out_also_when_an_owner_is_killed() {
    let store = Faulty::new(Arc::new(Memory::new()), 1);
    let site = Site::new(BROKERS);
    // The first founds the cluster.
    let mut brokers = vec![Broker::start(&site, &store, 0).await];
    brokers.extend(join_all((1..BROKERS).map(|broker| Broker::start(&site, &store, broker))).await);
    let mut client = Client::connect(&brokers[0].node).await;
    let topic = Topic::create_replicated(&mut client, 1, BROKERS as i16, &[]).await;
    timeout(PATIENCE, join_all(brokers.iter().map(|broker| ready(broker, &topic)))).await.expect("not ready");

    let all: Vec<&Broker> = brokers.iter().collect();
    fan_out(&store, &all, &topic, 0).await;
    let prefetches: u64 = all.iter().map(|broker| broker.node.cache_metrics().prefetches.get()).sum();
    assert!(prefetches > 0, "of all these readers none waited when a pointer came");
    println!("{prefetches} of {} fetches began before their pointer was committed", OBJECTS * (BROKERS - 1));

    // Brokers 1 and 4 are one zone; each owns about half of the objects that come from another.
    brokers.remove(4).kill();
    let left: Vec<&Broker> = brokers.iter().collect();
    fan_out(&store, &left, &topic, OBJECTS as i64).await;
    // Readers had them at both, so the dead broker takes nothing with it.
    let before = store.calls(Operation::Get);
    timeout(PATIENCE, read(left[1], &topic, 0, 2 * OBJECTS as i64)).await.expect("stuck");
    assert_eq!(store.calls(Operation::Get), before);

    for broker in brokers {
        broker.node.shut_down().await;
        broker.runtime.shutdown_background();
    }
}
