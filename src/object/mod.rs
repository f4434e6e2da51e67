//! The object store: immutable things under keys, written once.
//!
//! In: a [`Key`] made by [`Paths`] and bytes. Out: bytes, lengths, listings, the store's own date.
//!
//! Promises: [`Store`] is one narrow contract, tested by one suite over every implementation ([`open`] picks one by
//! URL: S3, a local directory, memory). [`Zonal`] makes one store of a bucket in each zone, [`Classes`] of that and a
//! regional one. An [`Error`] tells the caller what to do; "outcome unknown" is never "failed". [`put_own`] turns an
//! ambiguous PUT into a verdict, [`Hedger`] sends a slow request again within a budget. [`layout`] is the format of a
//! write-ahead object.
//!
//! Never: overwrites a key, deletes on its own account, knows Kafka, Raft or what a record is.
//!
//! Limits: a key has at most [`KEY_BYTES_MAX`] bytes, an object read whole [`OBJECT_BYTES_MAX`], a page of a listing
//! [`PAGE_KEYS_MAX`] keys; every request has a timeout.

use std::fmt;
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;

use crate::types::ByteRange;

mod classes;
mod directory;
mod durable;
mod error;
pub mod fault;
pub mod hedge;
mod hedged;
mod inspect;
pub mod layout;
pub mod marker;
mod memory;
mod open;
pub mod paths;
mod probe;
mod put_own;
pub(crate) mod retry;
pub mod s3;
pub mod zonal;

#[cfg(test)]
mod conformance;

pub use classes::{Classes, CopyState, Part, copies, parts};
pub use directory::Directory;
pub use durable::Durable;
pub use error::Error;
pub use hedged::{Counts as HedgeCounts, Hedger};
pub use inspect::{Inspection, inspect};
pub use memory::Memory;
pub use open::{open, open_all};
pub use paths::{Key, Name, Paths, Prefix};
pub use probe::probe;
pub use put_own::put_own;
pub use s3::S3;
pub use zonal::Zonal;

/// The longest key. S3 allows 1,024 bytes, the prefix of the bucket takes its part.
pub const KEY_BYTES_MAX: usize = 800;

/// The longest object that is read in one piece; [`layout::Builder`] makes none longer.
pub const OBJECT_BYTES_MAX: u64 = 1 << 30;

/// The most keys in one page of a listing, and in one request to delete: S3's own limit.
pub const PAGE_KEYS_MAX: usize = 1000;

/// What every store does. The contract, tested by `conformance`:
///
/// - a key is written at most once: of any number of concurrent writers exactly one succeeds;
/// - what was acknowledged is durable and visible to every later call, listings included;
/// - bytes come back exactly as they went in;
/// - a call may be dropped at any point: a dropped write is of unknown outcome.
///
/// Keys are relative to the root the store was opened with.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync {
    /// Creates the object. It exists in full, or not at all.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`] when the key is taken, perhaps by an earlier attempt of the caller: see [`put_own`].
    /// [`Error::Retryable`] when it certainly did not take effect, [`Error::Unknown`] when it may have, or may yet.
    async fn put_if_absent(&self, key: &Key, bytes: Bytes) -> Result<(), Error>;

    /// The whole object, checked against the store's checksum where it has one.
    async fn get(&self, key: &Key) -> Result<Bytes, Error>;

    /// The bytes of the range that exist: fewer than `range.len` when it passes the end of the object.
    /// An empty range is answered without asking the store.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] when the range starts at or after the end.
    async fn get_range(&self, key: &Key, range: ByteRange) -> Result<Bytes, Error>;

    async fn head(&self, key: &Key) -> Result<Head, Error>;

    /// Whether exactly these bytes are under the key, as safe as an acknowledged write of them: compared by length and
    /// checksum, or by reading where the store keeps none.
    async fn holds(&self, key: &Key, bytes: &Bytes) -> Result<bool, Error> {
        let head = self.head(key).await?;
        if head.len != bytes.len() as u64 {
            return Ok(false);
        }
        match head.crc32c {
            Some(stored) => Ok(stored == crc32c(bytes)),
            None => Ok(self.get(key).await? == *bytes),
        }
    }

    /// One page of the objects below `prefix`. Ordered by key where the store orders; callers must not rely on it.
    /// Foreign keys that no [`Key`] can name are left out.
    async fn list(&self, prefix: &Prefix, start: Start) -> Result<Page, Error>;

    /// Deletes each key; one that does not exist counts as deleted. On an error some may be gone: repeat all.
    async fn delete(&self, keys: &[Key]) -> Result<(), Error>;

    /// The buckets behind the store, where it is several.
    fn classes(&self) -> Option<&Classes> {
        None
    }

    /// The store's date, on the same clock as `last_modified`. Whole seconds at worst.
    async fn now(&self) -> Result<SystemTime, Error>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub len: u64,
    pub last_modified: SystemTime,
    /// CRC-32C of the whole object, where the store keeps one.
    pub crc32c: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub key: Key,
    pub len: u64,
    pub last_modified: SystemTime,
}

/// Where a page of a listing starts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Start {
    #[default]
    Beginning,
    /// Just after this key, which need not exist. Directory buckets of S3 do not know it.
    After(Key),
    /// Where the page before ended.
    Next(Cursor),
}

/// The place in a listing, opaque, valid for the store and prefix that made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(String);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub objects: Vec<Listed>,
    /// `None` on the last page.
    pub next: Option<Cursor>,
}

/// Every object below `prefix`, page by page; ends with the first error. A page is asked for when the one before
/// has been taken, so memory holds one page.
pub fn list_pages<'a>(
    store: &'a dyn Store,
    prefix: &'a Prefix,
    start: Start,
) -> impl futures::Stream<Item = Result<Vec<Listed>, Error>> + Send + 'a {
    futures::stream::try_unfold(Some(start), move |start| async move {
        let Some(start) = start else { return Ok(None) };
        let page = store.list(prefix, start).await?;
        Ok(Some((page.objects, page.next.map(Start::Next))))
    })
}

/// CRC-32C (Castagnoli), the checksum of objects, sections and Kafka's record batches alike.
pub fn crc32c(bytes: &[u8]) -> u32 {
    // A 32-bit checksum comes back in the low half.
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}
