use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::transport::PeerTraffic;
use crate::{
    CallError, Config, Error, Group, GroupId, Identity, NodeId, Service, SnapshotStore,
    StateMachine,
};

/// One node: its log, its listener and the groups opened on it. A cheap clone.
#[derive(Clone)]
pub struct Node {}

impl Node {
    /// Opens the log and starts the listener.
    pub async fn start(
        _config: Config,
        _identity: Identity,
        _snapshots: Arc<dyn SnapshotStore>,
        _service: Arc<dyn Service>,
    ) -> Result<Node, Error> {
        unimplemented!()
    }
    /// The real address, also when port 0 was asked for.
    pub fn listen_addr(&self) -> SocketAddr {
        unimplemented!()
    }
    pub fn identity(&self) -> &Identity {
        unimplemented!()
    }
    /// Adds to or changes the address book.
    pub fn set_address(&self, _node: NodeId, _address: String) {
        unimplemented!()
    }
    pub fn remove_address(&self, _node: NodeId) {
        unimplemented!()
    }
    pub fn groups_on_disk(&self) -> Vec<GroupId> {
        unimplemented!()
    }
    /// Restores the newest local snapshot, then the log. Also for a group with nothing on disk.
    pub async fn open_group<S: StateMachine>(
        &self,
        _id: GroupId,
        _machine: Arc<S>,
    ) -> Result<Group<S>, Error> {
        unimplemented!()
    }
    /// Closes the group and forgets it on disk.
    pub async fn remove_group(&self, _id: GroupId) -> Result<(), Error> {
        unimplemented!()
    }
    /// An application request. To this node itself it is answered by its own [`Service`].
    pub async fn call(
        &self,
        _to: NodeId,
        _kind: u8,
        _body: Bytes,
        _timeout: Duration,
    ) -> Result<Bytes, CallError> {
        unimplemented!()
    }
    /// Per peer and kind.
    pub fn traffic(&self) -> Vec<PeerTraffic> {
        unimplemented!()
    }
    /// Hands leadership over to a follower with an equal log (bounded in time), then stops.
    pub async fn shutdown(&self) {
        unimplemented!()
    }
}
