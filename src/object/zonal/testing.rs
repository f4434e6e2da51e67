//! Three buckets in memory that can be hurt.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::{Duration, Instant};

use super::{Bucket, Zonal};
use crate::object::fault::{Fault, Faulty, Operation};
use crate::object::{Classes, Error, Key, Memory, Prefix, Start, Store};

pub struct Zones {
    pub memories: Vec<Arc<Memory>>,
    pub buckets: Vec<Faulty>,
    /// Read from az1.
    pub zonal: Zonal,
}

pub fn zones() -> Zones {
    let memories: Vec<Arc<Memory>> = (0..3).map(|_| Arc::new(Memory::new())).collect();
    let buckets: Vec<Faulty> = memories.iter().map(|memory| Faulty::new(memory.clone(), 1)).collect();
    let bucket =
        |(zone, faulty): (usize, &Faulty)| Bucket { zone: format!("az{}", zone + 1), store: Arc::new(faulty.clone()) };
    let zonal = Zonal::new(buckets.iter().enumerate().map(bucket).collect(), Some("az1"));
    Zones { memories, buckets, zonal }
}

impl Zones {
    /// The zones' buckets and nothing beside them.
    pub fn classes(&self) -> Classes {
        Classes::new(None, self.zonal.clone())
    }

    /// Every call meets this fault from now on.
    pub fn hurt(&self, bucket: usize, fault: &Fault) {
        use Operation::{Delete, Get, Head, List, Now, Put};
        for operation in [Put, Get, Head, List, Delete, Now] {
            self.buckets[bucket].rate(operation, 1.0, fault.clone());
        }
    }

    pub async fn put(&self, key: &Key, bytes: &'static [u8]) -> Result<(), Error> {
        self.zonal.put_if_absent(key, Bytes::from_static(bytes)).await
    }

    pub async fn has(&self, bucket: usize, key: &Key) -> bool {
        self.memories[bucket].head(key).await.is_ok()
    }

    /// Lets other tasks go on until the bucket has the object.
    pub async fn until_there(&self, bucket: usize, key: &Key) {
        while !self.has(bucket, key).await {
            tokio::task::yield_now().await;
        }
    }

    /// As if the zone had burnt down and was built again.
    pub async fn empty(&self, bucket: usize) {
        let keys = keys(&*self.memories[bucket]).await;
        self.memories[bucket].delete(&keys).await.unwrap();
    }
}

pub async fn keys(store: &dyn Store) -> Vec<Key> {
    let page = store.list(&Prefix::all(), Start::Beginning).await.unwrap();
    assert!(page.next.is_none());
    page.objects.into_iter().map(|listed| listed.key).collect()
}

pub fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

pub fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(30)
}
