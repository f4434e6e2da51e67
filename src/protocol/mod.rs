//! Kafka's wire protocol: bytes of a frame to typed requests, typed answers to bytes.
//!
//! In: the bytes of one frame. Out: its header, the typed body; for answers, [`Segments`].
//!
//! The APIs and versions we serve stand in one table, [`APIS`]. Most bodies go through the generated
//! codec ([`decode`], [`encode`]). The two that carry records are written by hand: [`produce`] shares
//! the frame's bytes and limits topics and partitions, [`fetch`] gathers shared batches into the answer.
//!
//! Promises: no frame makes this floor panic, and none makes it allocate out of proportion to its size.
//! Never: sockets, async, what a request means.
//!
//! [`Segments`]: crate::batch::Segments

mod apis;
mod error_code;
pub mod fetch;
mod header;
pub mod produce;
mod reader;
pub mod share;
mod throttle;
mod writer;

#[cfg(test)]
mod fetch_test;
#[cfg(test)]
mod produce_test;

use bytes::{Bytes, BytesMut};
use kafka_protocol::protocol::{Decodable, Encodable};

pub use apis::{
    APIS, Api, ApiSupport, FeatureLevel, Features, api_versions, api_versions_refused, find, is_software, support,
};
pub use error_code::ErrorCode;
pub use header::{FRONT_BYTES, Front, RequestHeader, response_header};
pub use kafka_protocol::messages::ApiKey;
pub use kafka_protocol::protocol::StrBytes;
pub use throttle::set_throttle;

use crate::batch::Segments;
use crate::types::TopicId;

/// Bytes that do not follow the protocol, or an answer that the asked version cannot carry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The frame ends within a field.
    #[error("frame ends within {0}")]
    Cut(&'static str),
    #[error("invalid {0}")]
    Invalid(&'static str),
    /// More elements than the limits of the request allow.
    #[error("{what}: {count} exceeds the limit of {max}")]
    TooMany { what: &'static str, count: usize, max: usize },
    #[error("{0}")]
    Codec(String),
}

/// How a request names a topic: by name in older versions, by id in newer ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TopicRef {
    Name(StrBytes),
    Id(TopicId),
}

impl TopicRef {
    /// What Kafka calls the absence of a topic that was named this way.
    pub fn unknown(&self) -> ErrorCode {
        match self {
            TopicRef::Name(_) => ErrorCode::UnknownTopicOrPartition,
            TopicRef::Id(_) => ErrorCode::UnknownTopicId,
        }
    }
}

/// Decodes a body with the generated codec.
///
/// # Errors
/// The bytes do not follow the schema of this version: the connection is to be closed.
pub fn decode<T: Decodable>(version: i16, mut body: Bytes) -> Result<T, Error> {
    T::decode(&mut body, version).map_err(|error| Error::Codec(error.to_string()))
}

/// Encodes a body with the generated codec.
///
/// # Errors
/// A field that this version does not have is set: a fault of the caller.
pub fn encode<T: Encodable>(version: i16, body: &T) -> Result<Segments, Error> {
    let mut out = BytesMut::new();
    body.encode(&mut out, version).map_err(|error| Error::Codec(error.to_string()))?;
    Ok(Segments::from(out))
}
