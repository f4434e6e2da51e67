use crate::object::{self, Key};
use crate::types::ByteRange;

/// Why bytes could not be had, by what the reader should do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The object is gone: it was compacted or has expired. Look up again where the bytes are.
    #[error("{key}: no such object")]
    NotFound { key: Key },

    /// The object has no such bytes, or they are more than one read may ask for. The pointer was wrong.
    #[error("{key}: no bytes {}..{}", range.start, range.end())]
    OutOfRange { key: Key, range: ByteRange },

    /// The store did not give them in time. Try again later.
    #[error("not available now: {0}")]
    Unavailable(object::Error),

    /// The store refused, or gave something else. Repeating will not help.
    #[error(transparent)]
    Store(object::Error),
}

impl Error {
    /// Takes apart what the fetch of a part, shared by all that waited for it, ended with.
    pub(super) fn from_fetch(key: Key, range: ByteRange, error: &foyer::Error) -> Error {
        match error.downcast_ref::<object::Error>() {
            Some(object::Error::NotFound { .. }) => Error::NotFound { key },
            Some(object::Error::OutOfRange { .. }) => Error::OutOfRange { key, range },
            Some(error) if error.is_transient() => Error::Unavailable(error.clone()),
            Some(error) => Error::Store(error.clone()),
            // The fetch did not end: its task was lost, for instance with the runtime.
            None => Error::Unavailable(object::Error::retryable("get", error)),
        }
    }
}
