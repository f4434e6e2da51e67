use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Kafka's topic id (KIP-516): sixteen random bytes, new with every creation of a name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TopicId(#[serde(with = "serde_bytes")] [u8; 16]);

impl TopicId {
    /// All zeros: Kafka's "no topic id".
    pub const ZERO: TopicId = TopicId([0; 16]);

    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        TopicId(bytes)
    }

    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }
}

impl From<Uuid> for TopicId {
    fn from(uuid: Uuid) -> Self {
        TopicId(*uuid.as_bytes())
    }
}

impl From<TopicId> for Uuid {
    fn from(id: TopicId) -> Self {
        Uuid::from_bytes(id.0)
    }
}

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Uuid::from_bytes(self.0).fmt(f)
    }
}

impl fmt::Debug for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One partition, named by the topic's id so that a re-created topic never meets old state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Partition {
    pub topic: TopicId,
    pub index: i32,
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.index)
    }
}
