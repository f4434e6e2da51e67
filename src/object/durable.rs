use bytes::Bytes;
use tokio::time::Instant;

use super::{Error, Hedger, Name, Paths, Store, put_own};
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

impl Durable<ObjectId> {
    /// As [`Durable::put`]; a PUT that takes longer than most is joined by a second one under the next attempt's name.
    /// The proof names the one that the store acknowledged first. Whatever becomes of the other, nobody names it: if it
    /// is ever stored, it is an orphan.
    ///
    /// # Errors
    /// As for [`Durable::put`]; neither name must be used for other bytes.
    pub async fn put_hedged(
        store: &dyn Store,
        paths: &Paths,
        id: ObjectId,
        bytes: Bytes,
        deadline: Instant,
        hedger: &Hedger,
    ) -> Result<Durable<ObjectId>, Error> {
        let again = ObjectId { attempt: id.attempt + 1, ..id };
        let first = Durable::put(store, paths, id, bytes.clone(), deadline);
        hedger.run(first, || Durable::put(store, paths, again, bytes, deadline)).await
    }
}

impl From<Durable<ObjectId>> for ObjectId {
    fn from(object: Durable<ObjectId>) -> ObjectId {
        object.id
    }
}
