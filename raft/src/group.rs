use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use openraft::ChangeMembers;
use openraft::alias::{CommittedLeaderIdOf, OneshotReceiverOf};
use openraft::errors::ClientWriteError;
use openraft::impls::ProgressResponder;
use openraft::raft::ClientWriteResult;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::replica::Replica;
use crate::types::{Payload, TypeConfig, position};
use crate::{Error, GroupId, LogPosition, NodeId, ProposeError, ReadError, StateMachine, WaitError};

/// Who leads a group, as this replica knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    pub term: u64,
    pub leader: Option<NodeId>,
    /// This node leads and has applied an entry of its own term.
    pub ready: bool,
}

/// How far the members of a group are, as its leader knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    pub term: u64,
    pub committed: u64,
    pub members: Vec<MemberProgress>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberProgress {
    pub node: NodeId,
    pub voter: bool,
    /// Index of the last entry that the member is known to have.
    pub matched: Option<u64>,
    /// Since its last acknowledgement; zero for the leader itself.
    pub silent: Option<Duration>,
}

/// A handle on this node's replica of a group. A cheap clone.
pub struct Group<S: StateMachine> {
    replica: Arc<Replica>,
    machine: Arc<S>,
    payload_bytes_max: usize,
}

impl<S: StateMachine> Clone for Group<S> {
    fn clone(&self) -> Self {
        Group {
            replica: self.replica.clone(),
            machine: self.machine.clone(),
            payload_bytes_max: self.payload_bytes_max,
        }
    }
}

impl<S: StateMachine> Group<S> {
    pub(crate) fn new(replica: Arc<Replica>, machine: Arc<S>, payload_bytes_max: usize) -> Self {
        Group { replica, machine, payload_bytes_max }
    }

    pub fn id(&self) -> GroupId {
        self.replica.group()
    }

    pub fn machine(&self) -> &Arc<S> {
        &self.machine
    }

    /// The first configuration of a new group: call it on one node, or with the same voters on several. Ok if the
    /// group is initialised already.
    ///
    /// # Errors
    /// [`Error::Refused`] when this node is not among the voters.
    pub async fn initialize(&self, voters: BTreeSet<NodeId>) -> Result<(), Error> {
        self.replica.initialize(voters).await
    }

    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.replica.leadership()
    }

    /// Enqueues at once; the order of calls of one task is the order in the log. The payload is appended only if this
    /// node still leads in exactly `term`. Waits when some thousand proposals are queued.
    ///
    /// # Errors
    /// Of those that come at once, all but [`ProposeError::Unknown`] mean that nothing was enqueued.
    pub async fn propose(&self, payload: Bytes, term: u64) -> Result<Proposal<S::Response>, ProposeError> {
        if payload.len() > self.payload_bytes_max {
            return Err(ProposeError::TooLarge { bytes: payload.len(), bytes_max: self.payload_bytes_max });
        }
        if self.replica.stopped().is_some() {
            return Err(ProposeError::Stopped);
        }
        let (responder, completed) = ProgressResponder::complete_only();
        let raft = self.replica.raft();
        let leader = CommittedLeaderIdOf::<TypeConfig>::new(term);
        let write = raft.write(Payload(payload)).with_leader(leader).responder(responder);
        match write.await {
            Ok(()) => Ok(Proposal { completed, response: PhantomData }),
            Err(_) => Err(ProposeError::Stopped),
        }
    }

    /// Leader only: an index which, once applied here, makes a local read linearizable. One round trip to a majority.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn read_index(&self) -> Result<u64, ReadError> {
        self.replica.read_index().await
    }

    /// The newest applied entry. Index 0 is the first configuration, so (0, 0) also stands for "nothing yet".
    pub fn applied(&self) -> watch::Receiver<LogPosition> {
        self.replica.applied()
    }

    /// # Errors
    /// See [`WaitError`].
    pub async fn wait_applied(&self, index: u64, timeout: Duration) -> Result<(), WaitError> {
        self.replica.wait_applied(index, timeout).await
    }

    /// When this replica last accepted anything from a leader; on a leader, when a majority last answered it.
    pub fn last_heard(&self) -> Option<Instant> {
        self.replica.last_heard()
    }

    /// Leader only: which voters and learners acknowledged lately; this node counts. Empty elsewhere.
    pub fn heard_within(&self, window: Duration) -> BTreeMap<NodeId, bool> {
        self.replica.heard_within(window)
    }

    /// Leader only.
    pub fn progress(&self) -> Option<Progress> {
        self.replica.progress()
    }

    pub fn voters(&self) -> BTreeSet<NodeId> {
        self.replica.voters()
    }

    pub fn learners(&self) -> BTreeSet<NodeId> {
        self.replica.learners()
    }

    /// A change of voters has been committed halfway: both the old and the new voters have to agree to anything. It is
    /// finished by the one who asked for it; if that one is gone, asking again for the same voters finishes it.
    pub fn is_joint(&self) -> bool {
        self.replica.is_joint()
    }

    /// The members in force are committed, and no change of them is under way.
    pub fn is_settled(&self) -> bool {
        self.replica.is_settled()
    }

    /// Leader only. Adds a learner without waiting for it to catch up ([`Group::caught_up`] tells).
    ///
    /// # Errors
    /// [`Error::NotLeader`], [`Error::Refused`] (another change is under way), [`Error::Timeout`] (outcome unknown).
    pub async fn add_learner(&self, node: NodeId) -> Result<(), Error> {
        self.replica.add_learner(node).await
    }

    /// Leader only. New voters have to be learners already.
    ///
    /// # Errors
    /// As for [`Group::add_learner`].
    pub async fn change_voters(&self, voters: BTreeSet<NodeId>, retain_removed_as_learners: bool) -> Result<(), Error> {
        self.replica.change(ChangeMembers::ReplaceAllVoters(voters), retain_removed_as_learners).await
    }

    /// Leader only.
    ///
    /// # Errors
    /// As for [`Group::add_learner`]; a voter is refused.
    pub async fn remove_learner(&self, node: NodeId) -> Result<(), Error> {
        self.replica.change(ChangeMembers::RemoveNodes(BTreeSet::from([node])), false).await
    }

    /// Leader only: the node has all but the last few entries ([`crate::Config::caught_up_entries`]).
    pub fn caught_up(&self, node: NodeId) -> bool {
        self.replica.caught_up(node)
    }

    /// Leader only. Returns when the other node leads. Stop proposing first: the logs have to become equal.
    ///
    /// # Errors
    /// [`Error::Refused`] when the other's log stays behind or somebody else wins; [`Error::Timeout`] when nobody leads
    /// yet.
    pub async fn transfer_leader(&self, to: NodeId) -> Result<(), Error> {
        self.replica.transfer_leader(to).await
    }

    /// Builds a snapshot of what is applied now.
    ///
    /// # Errors
    /// [`Error::Io`] when it could not be written; the group goes on and tries again later.
    pub async fn snapshot_now(&self) -> Result<(), Error> {
        self.replica.snapshot_now().await
    }

    /// Why the replica no longer runs, if so.
    pub fn stopped(&self) -> Option<String> {
        self.replica.stopped()
    }
}

/// The fate of one proposal. Dropping it does not take the proposal back.
pub struct Proposal<R> {
    completed: OneshotReceiverOf<TypeConfig, ClientWriteResult<TypeConfig>>,
    response: PhantomData<fn() -> R>,
}

impl<R: Send + 'static> Future for Proposal<R> {
    /// Only an answer is a verdict; [`ProposeError::NotLeader`] means "not in the log", anything else is open.
    type Output = Result<(LogPosition, R), ProposeError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let unknown = |why: &str| ProposeError::Unknown { why: why.to_owned() };
        Poll::Ready(match ready!(Pin::new(&mut self.completed).poll(context)) {
            Ok(Ok(written)) => {
                let at = position(&written.log_id);
                match written.data.into_response::<R>() {
                    Some(response) => Ok((at, response)),
                    None => Err(unknown("applied, but its response is lost")),
                }
            }
            Ok(Err(ClientWriteError::ForwardToLeader(to))) => Err(ProposeError::NotLeader { leader: to.leader_id }),
            Ok(Err(ClientWriteError::LogEntryDiscarded(_))) => Err(unknown("leadership ended before it was committed")),
            Ok(Err(why)) => Err(unknown(&why.to_string())),
            Err(_) => Err(unknown("the replica stopped")),
        })
    }
}
