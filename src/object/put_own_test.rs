use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::object::Memory;
use crate::object::fault::{Fault, Faulty, Operation};

fn key() -> Key {
    Key::parse("wal/1").unwrap()
}

fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

fn soon() -> Instant {
    Instant::now() + Duration::from_millis(50)
}

fn store() -> (Arc<Memory>, Faulty) {
    let memory = Arc::new(Memory::new());
    (memory.clone(), Faulty::new(memory, 1))
}

async fn put(store: &dyn Store, bytes: &'static [u8], deadline: Instant) -> Result<(), Error> {
    put_own(store, &key(), Bytes::from_static(bytes), deadline).await
}

#[tokio::test]
async fn a_lost_reply_is_found_out() {
    let (memory, store) = store();
    store.next_put(Fault::LostReply);
    put(&store, b"mine", deadline()).await.unwrap();
    assert_eq!(memory.get(&key()).await.unwrap(), "mine");
    assert_eq!(store.calls(Operation::Put), 2);
}

#[tokio::test]
async fn errors_without_effect_are_tried_again() {
    let (memory, store) = store();
    store.next_put(Fault::Retryable);
    store.next_put(Fault::Unknown);
    store.next_put(Fault::LostReply);
    store.next(Operation::Head, Fault::Retryable);
    put(&store, b"mine", deadline()).await.unwrap();
    assert_eq!(memory.get(&key()).await.unwrap(), "mine");
}

#[tokio::test]
async fn other_bytes_under_the_key_are_an_error() {
    let (_, store) = store();
    put(&store, b"them", deadline()).await.unwrap();
    put(&store, b"them", deadline()).await.unwrap();
    for other in [b"mine".as_slice(), b"longer"] {
        let error = put_own(&store, &key(), Bytes::copy_from_slice(other), deadline()).await.unwrap_err();
        assert_eq!(error, Error::AlreadyExists { key: key() });
    }
}

#[tokio::test]
async fn a_late_effect_and_a_second_attempt_leave_one_object() {
    let (memory, store) = store();
    store.next_put(Fault::Late(Duration::ZERO));
    put(&store, b"mine", deadline()).await.unwrap();
    assert_eq!(memory.get(&key()).await.unwrap(), "mine");
}

#[tokio::test]
async fn out_of_time_tells_unknown_from_untouched() {
    let (_, untouched) = store();
    untouched.rate(Operation::Put, 1.0, Fault::Retryable);
    assert!(matches!(put(&untouched, b"mine", soon()).await, Err(Error::Retryable { .. })));

    let (_, hanging) = store();
    hanging.next_put(Fault::Hang);
    assert!(matches!(put(&hanging, b"mine", soon()).await, Err(Error::Unknown { .. })));

    let (_, unseen) = store();
    unseen.next_put(Fault::Unknown);
    unseen.rate(Operation::Put, 1.0, Fault::Retryable);
    assert!(matches!(put(&unseen, b"mine", soon()).await, Err(Error::Unknown { .. })));
}

#[tokio::test]
async fn a_refusal_is_final() {
    let (_, store) = store();
    store.next_put(Fault::Refused);
    assert!(matches!(put(&store, b"mine", deadline()).await, Err(Error::Refused { .. })));
    assert_eq!(store.calls(Operation::Put), 1);
}
