use std::time::Duration;

use bytes::Bytes;
use milepost_raft::{NodeId, Progress};
use serde::{Deserialize, Serialize};

use crate::cluster::{Cluster, Error};
use crate::peer::{self, Answer, LeaderError};

/// The members of a Raft group and how far each is, as its leader tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quorum {
    pub term: u64,
    pub leader: NodeId,
    /// Index of the last committed entry.
    pub committed: u64,
    pub members: Vec<QuorumMember>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuorumMember {
    pub node: NodeId,
    pub voter: bool,
    /// Index of the last entry that it is known to have.
    pub matched: Option<u64>,
    /// Milliseconds since it acknowledged anything.
    pub silent_ms: Option<u64>,
}

impl Quorum {
    pub fn new(leader: NodeId, progress: Progress) -> Quorum {
        let members = progress.members.into_iter().map(|member| QuorumMember {
            node: member.node,
            voter: member.voter,
            matched: member.matched,
            silent_ms: member.silent.map(|silent| silent.as_millis() as u64),
        });
        Quorum { term: progress.term, leader, committed: progress.committed, members: members.collect() }
    }

    /// Entries in the leader's log.
    pub fn last(&self) -> u64 {
        let leader = self.members.iter().find(|member| member.node == self.leader);
        leader.and_then(|leader| leader.matched).unwrap_or(self.committed)
    }
}

impl Cluster {
    /// The members of the root shard, from its leader.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when it was not reached in time.
    pub async fn quorum(&self, within: Duration) -> Result<Quorum, Error> {
        let guess = || self.root().leadership().borrow().leader;
        let answer = peer::call_leader(self.node(), guess, peer::QUORUM, Bytes::new(), within).await;
        let answer = answer.map_err(|_: LeaderError| Error::Unavailable)?;
        rmp_serde::from_slice(&answer).map_err(|_| Error::Unknown)
    }

    /// The leader's side of [`Cluster::quorum`].
    pub fn answer_quorum(&self) -> Answer {
        let leadership = *self.root().leadership().borrow();
        match self.root().progress().filter(|_| leadership.ready) {
            Some(progress) => {
                let quorum = Quorum::new(self.node_id(), progress);
                Answer::Done(rmp_serde::to_vec(&quorum).expect("writing to memory does not fail").into())
            }
            None => Answer::NotLeader { leader: leadership.leader.filter(|leader| *leader != self.node_id()) },
        }
    }
}
