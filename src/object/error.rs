use super::Key;

/// What went wrong, by what the caller should do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no such object. Look up again what should be read; repeating the same read will not help.
    #[error("{key}: no such object")]
    NotFound { key: Key },

    /// The key is taken. Only the content tells by whom: see [`super::put_own`].
    #[error("{key}: exists already")]
    AlreadyExists { key: Key },

    /// The range starts at or after the end of the object: whoever made the range was wrong.
    #[error("{key}: range starts at {start}, at or after the end of the object")]
    OutOfRange { key: Key, start: u64 },

    /// Had certainly no effect, or is harmless to repeat. Try again after a pause.
    #[error("{operation}: {reason} (may be repeated)")]
    Retryable { operation: &'static str, reason: String },

    /// May have taken effect, or may still. Find out before acting on either.
    #[error("{operation}: {reason} (outcome unknown)")]
    Unknown { operation: &'static str, reason: String },

    /// The store or the settings forbid it: permissions, no such bucket, a broken contract. Tell the operator.
    #[error("{operation}: refused: {reason}")]
    Refused { operation: &'static str, reason: String },

    /// The bytes are not what was written. Do not use them.
    #[error("{key}: corrupt: {reason}")]
    Corrupt { key: Key, reason: String },
}

impl Error {
    /// A pause and another try may help, or may at least bring a verdict.
    pub fn is_transient(&self) -> bool {
        matches!(self, Error::Retryable { .. } | Error::Unknown { .. })
    }

    pub(crate) fn retryable(operation: &'static str, reason: impl ToString) -> Self {
        Error::Retryable { operation, reason: reason.to_string() }
    }

    pub(crate) fn unknown(operation: &'static str, reason: impl ToString) -> Self {
        Error::Unknown { operation, reason: reason.to_string() }
    }

    pub(crate) fn refused(operation: &'static str, reason: impl ToString) -> Self {
        Error::Refused { operation, reason: reason.to_string() }
    }

    pub(crate) fn corrupt(key: &Key, reason: impl ToString) -> Self {
        Error::Corrupt { key: key.clone(), reason: reason.to_string() }
    }
}
