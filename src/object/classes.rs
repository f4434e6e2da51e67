use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;

use super::{Error, Head, Key, Page, Prefix, Start, Store, Zonal, paths};
use crate::types::{ByteRange, StorageClass};

/// Buckets of zones, and perhaps a regional store beside them: each key goes where its kind belongs. What is of no
/// class (snapshots, what jobs write) is in the regional store, or in the zones' buckets when there is none.
///
/// The marker is in all of them and concerns each alone: see [`super::marker`].
#[derive(Debug, Clone)]
pub struct Classes {
    regional: Option<Arc<dyn Store>>,
    zonal: Zonal,
}

impl Classes {
    pub fn new(regional: Option<Arc<dyn Store>>, zonal: Zonal) -> Classes {
        Classes { regional, zonal }
    }

    pub fn zonal(&self) -> &Zonal {
        &self.zonal
    }

    fn of(&self, class: StorageClass) -> &dyn Store {
        match (class, &self.regional) {
            (StorageClass::Regional, Some(regional)) => &**regional,
            _ => &self.zonal,
        }
    }

    fn of_key(&self, key: &Key) -> &dyn Store {
        self.of(paths::class_of(key))
    }
}

#[async_trait]
impl Store for Classes {
    fn classes(&self) -> Option<&Classes> {
        Some(self)
    }

    async fn put_if_absent(&self, key: &Key, bytes: Bytes) -> Result<(), Error> {
        self.of_key(key).put_if_absent(key, bytes).await
    }

    async fn get(&self, key: &Key) -> Result<Bytes, Error> {
        self.of_key(key).get(key).await
    }

    async fn get_range(&self, key: &Key, range: ByteRange) -> Result<Bytes, Error> {
        self.of_key(key).get_range(key, range).await
    }

    async fn head(&self, key: &Key) -> Result<Head, Error> {
        self.of_key(key).head(key).await
    }

    async fn holds(&self, key: &Key, bytes: &Bytes) -> Result<bool, Error> {
        self.of_key(key).holds(key, bytes).await
    }

    async fn list(&self, prefix: &Prefix, start: Start) -> Result<Page, Error> {
        self.of(paths::class_below(prefix)).list(prefix, start).await
    }

    async fn delete(&self, keys: &[Key]) -> Result<(), Error> {
        let (zonal, regional): (Vec<Key>, Vec<Key>) =
            keys.iter().cloned().partition(|key| paths::class_of(key) == StorageClass::Zonal);
        self.of(StorageClass::Zonal).delete(&zonal).await?;
        self.of(StorageClass::Regional).delete(&regional).await
    }

    async fn now(&self) -> Result<SystemTime, Error> {
        self.of(StorageClass::Regional).now().await
    }
}

/// One bucket of a store that may have several.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// `None` for the regional store.
    pub zone: Option<&'a str>,
    pub store: &'a dyn Store,
}

impl Part<'_> {
    /// Says in an error which bucket it is about.
    pub fn named(&self, error: Error) -> Error {
        let Some(zone) = self.zone else { return error };
        match error {
            Error::Retryable { operation, reason } => {
                Error::Retryable { operation, reason: format!("bucket of {zone}: {reason}") }
            }
            Error::Unknown { operation, reason } => {
                Error::Unknown { operation, reason: format!("bucket of {zone}: {reason}") }
            }
            Error::Refused { operation, reason } => {
                Error::Refused { operation, reason: format!("bucket of {zone}: {reason}") }
            }
            error => error,
        }
    }
}

/// Every bucket behind the store, always in the same order: the regional one, then those of the zones by name.
pub fn parts(store: &dyn Store) -> Vec<Part<'_>> {
    let Some(classes) = store.classes() else { return vec![Part { zone: None, store }] };
    let regional = classes.regional.iter().map(|store| Part { zone: None, store: &**store });
    let zonal = classes.zonal.buckets().iter().map(|b| Part { zone: Some(&b.zone), store: &*b.store });
    regional.chain(zonal).collect()
}

/// Whether a bucket has its copy of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyState {
    Present,
    Missing,
    /// Another length or checksum than the other copies.
    Different,
    NoAnswer,
}

/// The copies of an object by zone; empty where there is one bucket, whose care they are.
pub async fn copies(store: &dyn Store, key: &Key) -> BTreeMap<String, CopyState> {
    let is_zonal = |classes: &&Classes| classes.regional.is_none() || paths::class_of(key) == StorageClass::Zonal;
    let Some(classes) = store.classes().filter(is_zonal) else { return BTreeMap::new() };
    let heads = classes.zonal.heads(key).await;
    let first = heads.iter().find_map(|head| head.as_ref().ok().copied());
    let state = |head: Result<Head, Error>| match (head, first) {
        (Ok(head), Some(first)) if (head.len, head.crc32c) == (first.len, first.crc32c) => CopyState::Present,
        (Ok(_), _) => CopyState::Different,
        (Err(Error::NotFound { .. }), _) => CopyState::Missing,
        (Err(_), _) => CopyState::NoAnswer,
    };
    let zones = classes.zonal.buckets().iter().map(|bucket| bucket.zone.clone());
    zones.zip(heads.into_iter().map(state)).collect()
}
