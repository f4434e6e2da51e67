//! Who belongs to the group, and who leads it.

use std::collections::BTreeSet;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use openraft::errors::{ClientWriteError, InitializeError, RaftError};
use openraft::raft::TransferLeaderRequest;
use openraft::{ChangeMembers, EmptyNode, RaftMetrics, ServerState};
use tokio::time::timeout;

use super::{CHANGE_TIMEOUT, Replica};
use crate::types::TypeConfig;
use crate::{Error, NodeId};

impl Replica {
    pub(crate) async fn initialize(&self, voters: BTreeSet<NodeId>) -> Result<(), Error> {
        match self.parts.raft.initialize(voters).await {
            Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Ok(()),
            Err(RaftError::APIError(why @ InitializeError::NotInMembers(_))) => Err(Error::Refused(why.to_string())),
            Err(RaftError::Fatal(why)) => Err(self.fatal(&why)),
        }
    }

    pub(crate) async fn change(&self, members: ChangeMembers<NodeId, EmptyNode>, retain: bool) -> Result<(), Error> {
        let change = self.parts.raft.change_membership(members, retain);
        match timeout(CHANGE_TIMEOUT, change).await {
            Err(_) => Err(Error::Timeout("a membership change is not committed; it may still be".into())),
            Ok(result) => self.changed(result.map(|_| ())),
        }
    }

    pub(crate) async fn add_learner(&self, node: NodeId) -> Result<(), Error> {
        match timeout(CHANGE_TIMEOUT, self.parts.raft.add_learner(node, EmptyNode {}, false)).await {
            Err(_) => Err(Error::Timeout("a learner is not committed; it may still be".into())),
            Ok(result) => self.changed(result.map(|_| ())),
        }
    }

    fn changed(&self, result: Result<(), RaftError<TypeConfig, ClientWriteError<TypeConfig>>>) -> Result<(), Error> {
        match result {
            Ok(()) => Ok(()),
            Err(RaftError::APIError(ClientWriteError::ForwardToLeader(to))) => {
                Err(Error::NotLeader { leader: to.leader_id })
            }
            Err(RaftError::APIError(ClientWriteError::LogEntryDiscarded(_))) => {
                Err(Error::Timeout("leadership ended before the change was committed; it may still be".into()))
            }
            Err(RaftError::APIError(why)) => Err(Error::Refused(why.to_string())),
            Err(RaftError::Fatal(why)) => Err(self.fatal(&why)),
        }
    }

    /// Waits for a voter's log to equal ours, hands over, and waits for the other to lead.
    pub(crate) async fn transfer_leader(&self, to: NodeId) -> Result<(), Error> {
        let leadership = *self.leadership.borrow();
        if leadership.leader != Some(self.parts.node) {
            return Err(Error::NotLeader { leader: leadership.leader });
        }
        if to == self.parts.node {
            return Ok(());
        }
        if !self.voters().contains(&to) {
            return Err(Error::Refused(format!("node {to} is no voter")));
        }
        let patience = self.parts.config.election_max * 2;
        let equal = |metrics: &RaftMetrics<TypeConfig>| {
            let matched = metrics.replication.as_ref().and_then(|progress| progress.get(&to).copied().flatten());
            metrics.state != ServerState::Leader || matched.map(|id| id.index) == metrics.last_log_index
        };
        let mut metrics = self.parts.raft.metrics();
        match timeout(patience, metrics.wait_until(equal)).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) => return Err(Error::Stopped("replica is gone".into())),
            Err(_) => return Err(Error::Refused(format!("the log of node {to} is not equal"))),
        }
        self.parts.raft.trigger().transfer_leader(to).await.map_err(|why| self.fatal(&why))?;
        let mut leading = self.leadership.subscribe();
        let handed_over = leading.wait_for(|now| now.term > leadership.term && now.leader.is_some());
        match timeout(patience * 2, handed_over).await {
            Ok(Ok(now)) if now.leader == Some(to) => Ok(()),
            Ok(Ok(now)) => Err(Error::Refused(format!("node {:?} won instead", now.leader))),
            Ok(Err(_)) => Err(Error::Stopped("replica is gone".into())),
            Err(_) => Err(Error::Timeout(format!("node {to} does not lead yet"))),
        }
    }

    /// The voter that should lead when this node goes: heard of lately, and with the longest log.
    fn successor(&self) -> Option<NodeId> {
        let metrics = self.metrics();
        if metrics.state != ServerState::Leader {
            return None;
        }
        let heard = self.heard_within(self.parts.config.election_max);
        let progress = metrics.replication?;
        let voters = metrics.membership_config.voter_ids().filter(|node| *node != self.parts.node);
        voters
            .filter(|node| heard.get(node) == Some(&true))
            .max_by_key(|node| progress.get(node).copied().flatten().map(|id| id.index))
    }

    /// The node that led has ended: campaigns without waiting for the end of its lease, in turn with the other voters.
    pub(crate) async fn succeed(&self, ended: NodeId, turn: Duration) {
        let metrics = self.metrics();
        let heirs: Vec<NodeId> = metrics.membership_config.voter_ids().filter(|node| *node != ended).collect();
        let Some(place) = heirs.iter().position(|node| *node == self.parts.node) else { return };
        // The groups that the node led go to different heirs.
        let place = (place + self.parts.group as usize) % heirs.len();
        tokio::time::sleep(turn * place as u32).await;
        if !self.is_led_by(ended) {
            return;
        }
        // What a leader says to its heir. The lease that voters grant it, and wait for, is over with its process.
        let request = TransferLeaderRequest::new(metrics.vote, self.parts.node, None);
        match self.parts.raft.handle_transfer_leader(request).await {
            Ok(Ok(())) => tracing::info!(group = self.parts.group, ended, "campaigns: the leader's process has ended"),
            Ok(Err(why)) => tracing::info!(group = self.parts.group, ended, %why, "does not campaign yet"),
            // Whoever watches the replica says why it stopped.
            Err(_) => {}
        }
    }

    /// Leaves in good order: leadership first.
    pub(crate) async fn leave(&self) {
        if let Some(successor) = self.successor()
            && let Err(why) = self.transfer_leader(successor).await
        {
            // Nobody has to do anything: the others elect one when this one is silent, if a majority is left.
            tracing::info!(group = self.parts.group, successor, %why, "leadership was not handed over");
        }
        self.stop("node is shut down").await;
    }
}
