use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::watch;

use crate::{
    Error, GroupId, LogPosition, NodeId, ProposeError, ReadError, StateMachine, WaitError,
};

/// Who leads a group, as this replica knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    pub term: u64,
    pub leader: Option<NodeId>,
    /// This node leads and has applied an entry of its own term.
    pub ready: bool,
}

/// A handle on this node's replica of a group.
pub struct Group<S: StateMachine> {
    machine: Arc<S>,
}

impl<S: StateMachine> Clone for Group<S> {
    fn clone(&self) -> Self {
        Group {
            machine: self.machine.clone(),
        }
    }
}

impl<S: StateMachine> Group<S> {
    pub fn id(&self) -> GroupId {
        unimplemented!()
    }
    pub fn machine(&self) -> &Arc<S> {
        &self.machine
    }
    /// First configuration of a new group. Ok if it is initialised already.
    pub async fn initialize(&self, _voters: BTreeSet<NodeId>) -> Result<(), Error> {
        unimplemented!()
    }
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        unimplemented!()
    }
    /// Enqueues at once; the order of calls of one task is the order in the log. Appended only if this node still
    /// leads in exactly `term`.
    pub async fn propose(
        &self,
        _payload: Bytes,
        _term: u64,
    ) -> Result<Proposal<S::Response>, ProposeError> {
        unimplemented!()
    }
    /// Leader only: an index which, once applied, makes a local read linearizable. One round trip to a majority.
    pub async fn read_index(&self) -> Result<u64, ReadError> {
        unimplemented!()
    }
    pub fn applied(&self) -> watch::Receiver<LogPosition> {
        unimplemented!()
    }
    pub async fn wait_applied(&self, _index: u64, _timeout: Duration) -> Result<(), WaitError> {
        unimplemented!()
    }
    /// When this replica last accepted anything from a leader (a leader: when a majority last answered).
    pub fn last_heard(&self) -> Option<Instant> {
        unimplemented!()
    }
    /// Leader only: which voters and learners acknowledged lately, this node included. Empty elsewhere.
    pub fn heard_within(&self, _window: Duration) -> BTreeMap<NodeId, bool> {
        unimplemented!()
    }
    pub fn voters(&self) -> BTreeSet<NodeId> {
        unimplemented!()
    }
    pub fn learners(&self) -> BTreeSet<NodeId> {
        unimplemented!()
    }
    /// Adds a learner without waiting for it to catch up.
    pub async fn add_learner(&self, _node: NodeId) -> Result<(), Error> {
        unimplemented!()
    }
    pub async fn change_voters(
        &self,
        _voters: BTreeSet<NodeId>,
        _retain_removed_as_learners: bool,
    ) -> Result<(), Error> {
        unimplemented!()
    }
    pub async fn remove_learner(&self, _node: NodeId) -> Result<(), Error> {
        unimplemented!()
    }
    /// Leader only: the node has all but the last `caught_up_entries` entries.
    pub fn caught_up(&self, _node: NodeId) -> bool {
        unimplemented!()
    }
    /// Returns when the other node leads.
    pub async fn transfer_leader(&self, _to: NodeId) -> Result<(), Error> {
        unimplemented!()
    }
    pub async fn snapshot_now(&self) -> Result<(), Error> {
        unimplemented!()
    }
    /// Why the replica no longer runs, if so.
    pub fn stopped(&self) -> Option<String> {
        unimplemented!()
    }
}

/// The fate of one proposal. Dropping it does not take the proposal back.
pub struct Proposal<R> {
    response: PhantomData<fn() -> R>,
}

impl<R: Send + 'static> Future for Proposal<R> {
    type Output = Result<(LogPosition, R), ProposeError>;
    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Self::Output> {
        unimplemented!()
    }
}
