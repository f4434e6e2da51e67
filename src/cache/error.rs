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

/// The disk tier cannot be used. Tell the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("disk cache {dir}: {reason}")]
pub struct OpenError {
    pub dir: String,
    pub reason: String,
}

impl Error {
    pub(super) fn from_store(key: Key, range: ByteRange, error: object::Error) -> Error {
        match error {
            object::Error::NotFound { .. } => Error::NotFound { key },
            object::Error::OutOfRange { .. } => Error::OutOfRange { key, range },
            error if error.is_transient() => Error::Unavailable(error),
            error => Error::Store(error),
        }
    }
}
