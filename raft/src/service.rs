use bytes::Bytes;
use futures::future::BoxFuture;

use crate::NodeId;

/// Answers the application's requests of other nodes. Kinds 0..=127 are the application's, the rest are Raft's own.
pub trait Service: Send + Sync + 'static {
    /// `from` is 0 when the caller is not a member yet ([`crate::call_address`]).
    fn call(&self, from: NodeId, kind: u8, body: Bytes) -> BoxFuture<'static, Bytes>;
}
