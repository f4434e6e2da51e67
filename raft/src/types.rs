//! The types openraft is instantiated with, once for all groups: payloads are bytes, answers are erased.

use std::any::Any;
use std::fmt;
use std::sync::Mutex;

use bytes::Bytes;
use openraft::alias;
use openraft::impls::leader_id_std;

use crate::{LogPosition, NodeId};

openraft::declare_raft_types!(
    pub TypeConfig:
        D = Payload,
        R = Answer,
        NodeId = NodeId,
        Node = openraft::EmptyNode,
        // One leader per term, so that a term can stand for its leader.
        LeaderId = leader_id_std::LeaderId<Self::Term, Self::NodeId>,
);

pub(crate) type LogId = alias::LogIdOf<TypeConfig>;
pub(crate) type Vote = alias::VoteOf<TypeConfig>;
pub(crate) type Entry = alias::EntryOf<TypeConfig>;
pub(crate) type EntryPayload = alias::PayloadOf<TypeConfig>;
pub(crate) type Membership = openraft::Membership<NodeId, openraft::EmptyNode>;
pub(crate) type StoredMembership = alias::StoredMembershipOf<TypeConfig>;
pub(crate) type SnapshotMeta = alias::SnapshotMetaOf<TypeConfig>;
pub(crate) type AppendRequest = openraft::raft::AppendEntriesRequest<TypeConfig>;
pub(crate) type Raft = openraft::Raft<TypeConfig, crate::apply::Applier>;

/// What an entry of the application carries.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload(pub Bytes);

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The state machine's response, erased so that openraft is compiled once. The mutex only makes it `Sync`.
pub struct Answer(Mutex<Option<Box<dyn Any + Send>>>);

impl Answer {
    pub(crate) fn none() -> Self {
        Answer(Mutex::new(None))
    }

    pub(crate) fn new(response: Box<dyn Any + Send>) -> Self {
        Answer(Mutex::new(Some(response)))
    }

    pub(crate) fn into_response<R: 'static>(self) -> Option<R> {
        let erased = self.0.into_inner().ok()??;
        erased.downcast::<R>().ok().map(|response| *response)
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answer")
    }
}

pub(crate) fn log_id(term: u64, index: u64) -> LogId {
    LogId::new_term_index(term, index)
}

pub(crate) fn term_of(id: &LogId) -> u64 {
    **id.committed_leader_id()
}

pub(crate) fn position(id: &LogId) -> LogPosition {
    LogPosition { index: id.index, term: term_of(id) }
}
