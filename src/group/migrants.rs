//! Members on their way from one protocol to the other.

use std::time::Duration;

use bytes::Bytes;

/// All members of a group, in the words of the classic protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migrants {
    pub generation: i32,
    pub protocol_name: Option<String>,
    pub members: Vec<Migrant>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migrant {
    pub id: String,
    pub instance: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub rebalance_timeout: Duration,
    pub session_timeout: Duration,
    pub protocols: Vec<(String, Bytes)>,
    pub assignment: Bytes,
}
