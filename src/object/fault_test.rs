use super::*;
use crate::object::Memory;

fn key(number: u32) -> Key {
    Key::parse(&format!("k/{number}")).unwrap()
}

fn faulty(seed: u64) -> (Arc<Memory>, Faulty) {
    let memory = Arc::new(Memory::new());
    (memory.clone(), Faulty::new(memory, seed))
}

#[tokio::test]
async fn the_same_seed_gives_the_same_faults() {
    let run = async |seed| {
        let (_, store) = faulty(seed);
        store.rate(Operation::Put, 0.3, Fault::Retryable);
        store.rate(Operation::Put, 0.3, Fault::LostReply);
        let mut results = Vec::new();
        for number in 0..64 {
            results.push(store.put_if_absent(&key(number), Bytes::new()).await);
        }
        results
    };
    let first = run(1).await;
    assert_eq!(first, run(1).await);
    assert_ne!(first, run(2).await);
    assert!(first.iter().any(Result::is_ok));
    assert!(first.iter().any(|result| matches!(result, Err(Error::Retryable { .. }))));
    assert!(first.iter().any(|result| matches!(result, Err(Error::Unknown { .. }))));
}

#[tokio::test]
async fn an_incomplete_listing_lacks_keys() {
    let (_, store) = faulty(1);
    for number in 0..10 {
        store.put_if_absent(&key(number), Bytes::new()).await.unwrap();
    }
    store.next(Operation::List, Fault::Incomplete);
    assert_eq!(store.list(&Prefix::all(), Start::Beginning).await.unwrap().objects.len(), 5);
    assert_eq!(store.list(&Prefix::all(), Start::Beginning).await.unwrap().objects.len(), 10);
}

#[tokio::test]
async fn a_gate_holds_a_call_until_it_is_opened() {
    let (memory, store) = faulty(1);
    let gate = Gate::default();
    store.next_put(Fault::Gate(gate.clone()));
    let late = tokio::spawn({
        let store = store.clone();
        async move { store.put_if_absent(&key(1), Bytes::new()).await }
    });
    gate.arrival().await;
    assert!(matches!(memory.head(&key(1)).await, Err(Error::NotFound { .. })));
    gate.open();
    late.await.unwrap().unwrap();
    memory.head(&key(1)).await.unwrap();
}

#[tokio::test]
async fn healing_forgets_all_faults() {
    let (_, store) = faulty(1);
    store.rate(Operation::Put, 1.0, Fault::Refused);
    store.next_put(Fault::Hang);
    store.heal();
    store.put_if_absent(&key(1), Bytes::new()).await.unwrap();
    assert_eq!(store.calls(Operation::Put), 1);
}

#[test]
fn latency_has_the_quantiles_asked_for() {
    let latency = Latency { p50: Duration::from_millis(30), p99: Duration::from_millis(200) };
    let mut rng = StdRng::seed_from_u64(1);
    let mut samples: Vec<Duration> = (0..10_000).map(|_| latency.sample(&mut rng)).collect();
    samples.sort_unstable();
    let near = |sample: Duration, millis: f64| (sample.as_secs_f64() * 1000.0 / millis - 1.0).abs() < 0.15;
    assert!(near(samples[5000], 30.0), "{:?}", samples[5000]);
    assert!(near(samples[9900], 200.0), "{:?}", samples[9900]);
}
