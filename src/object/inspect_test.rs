use super::*;
use crate::object::layout::{Builder, Contents};
use crate::object::{Memory, Paths};
use crate::types::{ObjectId, Partition, StorageClass, TopicId};

fn key() -> Key {
    Paths::new("cluster", 1).unwrap().key(ObjectId {
        broker: 1,
        epoch: 2,
        sequence: 3,
        attempt: 0,
        class: StorageClass::Regional,
    })
}

fn object(partitions: i32) -> Bytes {
    let mut builder = Builder::new();
    for index in 0..partitions {
        let partition = Partition { topic: TopicId::from_bytes([7; 16]), index };
        let contents = Contents {
            shard: 5,
            partition,
            slices: vec![Bytes::from_static(b"records")],
            batch_count: 1,
            record_count: 9,
            min_timestamp: 1000,
            max_timestamp: 2000,
        };
        builder.push(contents).unwrap();
    }
    builder.finish().0
}

#[tokio::test]
async fn an_index_longer_than_the_first_read_is_shown_in_full() {
    let store = Memory::new();
    let bytes = object(10_000);
    store.put_if_absent(&key(), bytes.clone()).await.unwrap();
    let inspection = inspect(&store, &key()).await.unwrap();
    let index = inspection.index.as_ref().unwrap();
    assert!(index.index_bytes > TAIL_BYTES);
    assert_eq!(index.sections.len(), 10_000);
    let json = serde_json::to_value(&inspection).unwrap();
    assert_eq!(json["len"], bytes.len());
    assert_eq!(
        json["name"],
        "write-ahead object 3 (attempt 0) of broker 1 in its epoch 2, of cluster cluster, incarnation 1"
    );
    assert_eq!(json["index"]["sections"][1]["topic_id"], "07070707-0707-0707-0707-070707070707");
    assert_eq!(json["index"]["sections"][1]["start"], 7);
}

#[tokio::test]
async fn other_objects_have_no_index_and_damaged_ones_are_named() {
    let store = Memory::new();
    let other = Key::parse("milepost.json").unwrap();
    store.put_if_absent(&other, Bytes::from_static(b"{}")).await.unwrap();
    assert_eq!(inspect(&store, &other).await.unwrap().index, None);
    let empty = Key::parse("empty").unwrap();
    store.put_if_absent(&empty, Bytes::new()).await.unwrap();
    assert_eq!(inspect(&store, &empty).await.unwrap().index, None);
    let mut damaged = object(3).to_vec();
    let at = damaged.len() - 20;
    damaged[at] ^= 1;
    store.put_if_absent(&key(), damaged.into()).await.unwrap();
    assert!(matches!(inspect(&store, &key()).await, Err(Error::Corrupt { .. })));
    let absent = Key::parse("absent").unwrap();
    assert!(matches!(inspect(&store, &absent).await, Err(Error::NotFound { .. })));
}
