use bytes::Bytes;
use tokio::time::Instant;

use super::{Error, Name, Paths, Store, put_own};
use crate::types::ObjectId;

/// Proof that the store has acknowledged the object: only [`Durable::put`] makes one, so a pointer to an object that
/// is not there cannot be written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Durable<T> {
    id: T,
    len: u64,
}

impl<T: Copy + Into<Name>> Durable<T> {
    /// # Errors
    /// Those of [`put_own`]; on any of them the name must not be used for other bytes.
    pub async fn put(
        store: &dyn Store,
        paths: &Paths,
        id: T,
        bytes: Bytes,
        deadline: Instant,
    ) -> Result<Durable<T>, Error> {
        let len = bytes.len() as u64;
        put_own(store, &paths.key(id), bytes, deadline).await?;
        Ok(Durable { id, len })
    }

    pub fn id(&self) -> &T {
        &self.id
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl From<Durable<ObjectId>> for ObjectId {
    fn from(object: Durable<ObjectId>) -> ObjectId {
        object.id
    }
}
