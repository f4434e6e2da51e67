use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

use crate::object::{Error, Key};

/// Whether an attempt without a verdict matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Harmless to repeat: reads, and deletes of things that are never written again.
    Read,
    Write,
}

impl Effect {
    pub fn without_verdict(self, operation: &'static str, reason: String) -> Error {
        match self {
            Effect::Read => Error::retryable(operation, reason),
            Effect::Write => Error::unknown(operation, reason),
        }
    }
}

/// What a failed call means. `key` is that of the object asked for; calls on many objects have none.
pub fn classify<E>(operation: &'static str, key: Option<&Key>, effect: Effect, error: SdkError<E>) -> Error
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    let reason = causes(&error);
    let service = match &error {
        SdkError::ServiceError(service) => service,
        // Nothing was sent. The settings are wrong, or the credentials cannot be had.
        SdkError::ConstructionFailure(_) => return Error::refused(operation, reason),
        SdkError::DispatchFailure(failure) if failure.is_user() => return Error::refused(operation, reason),
        _ => return effect.without_verdict(operation, reason),
    };
    let status = service.raw().status().as_u16();
    let code = service.err().code().unwrap_or_default();
    let reason = format!("{status} {code} {}", service.err().message().unwrap_or_default());
    match (status, code, key) {
        (_, "NoSuchBucket", _) => Error::refused(operation, reason),
        (404, _, Some(key)) if effect == Effect::Read => Error::NotFound { key: key.clone() },
        (412, _, Some(key)) => Error::AlreadyExists { key: key.clone() },
        // Another conditional write of the same key was under way. Says nothing about who won.
        (409, ..) => Error::retryable(operation, reason),
        (416, _, Some(key)) => Error::OutOfRange { key: key.clone(), start: 0 },
        (429, ..) | (503, "SlowDown", _) => Error::retryable(operation, reason),
        (500.., ..) => effect.without_verdict(operation, reason),
        _ => by_code(operation, code, reason),
    }
}

/// What an error code means where nothing took effect.
pub fn by_code(operation: &'static str, code: &str, reason: String) -> Error {
    match code {
        // The bytes were damaged on the way, or their clock or token had just run out.
        "BadDigest"
        | "XAmzContentChecksumMismatch"
        | "RequestTimeout"
        | "ExpiredToken"
        | "SlowDown"
        | "InternalError"
        | "ServiceUnavailable" => Error::retryable(operation, reason),
        _ => Error::refused(operation, reason),
    }
}

/// An error and what caused it, in one line; the SDK's own text of the outermost says little.
pub fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
