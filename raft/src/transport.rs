use std::time::Duration;

use bytes::Bytes;

use crate::{CallError, NodeId};

/// What was exchanged with one peer for one kind of request, frame headers included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerTraffic {
    pub peer: NodeId,
    pub kind: u8,
    pub frames_sent: u64,
    pub bytes_sent: u64,
    pub frames_received: u64,
    pub bytes_received: u64,
}

/// One request to an address, before one has a node id (to join). The handshake carries node id 0.
pub async fn call_address(
    _address: &str,
    _cluster_id: &str,
    _kind: u8,
    _body: Bytes,
    _timeout: Duration,
) -> Result<Bytes, CallError> {
    unimplemented!()
}
