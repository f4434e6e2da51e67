//! What a replica knows without changing anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use openraft::errors::{LinearizableReadError, RaftError};
use openraft::{Instant as _, ReadPolicy, ServerState};
use tokio::time::{Instant, timeout};

use super::{Replica, lock};
use crate::{MemberProgress, NodeId, Progress, ReadError, WaitError};

impl Replica {
    /// Something of a leader was accepted.
    pub(crate) fn heard(&self) {
        *lock(&self.heard) = Some(Instant::now());
    }

    pub(crate) fn last_heard(&self) -> Option<Instant> {
        let metrics = self.parts.raft.metrics();
        let metrics = metrics.borrow_watched();
        if metrics.state != ServerState::Leader {
            return *lock(&self.heard);
        }
        if metrics.membership_config.voter_ids().eq([self.parts.node]) {
            return Some(Instant::now());
        }
        metrics.last_quorum_acked.and_then(|acked| Instant::now().checked_sub(acked.into_inner().elapsed()))
    }

    pub(crate) fn heard_within(&self, window: Duration) -> BTreeMap<NodeId, bool> {
        let metrics = self.parts.raft.metrics();
        let metrics = metrics.borrow_watched();
        let Some(beats) = metrics.heartbeat.as_ref().filter(|_| metrics.state == ServerState::Leader) else {
            return BTreeMap::new();
        };
        let nodes = metrics.membership_config.nodes().map(|(node, _)| *node);
        nodes
            .map(|node| {
                let acked = beats.get(&node).copied().flatten();
                let lately = acked.is_some_and(|at| at.into_inner().elapsed() <= window);
                (node, node == self.parts.node || lately)
            })
            .collect()
    }

    pub(crate) fn progress(&self) -> Option<Progress> {
        let metrics = self.metrics();
        let (beats, matched) = (metrics.heartbeat.as_ref()?, metrics.replication.as_ref()?);
        let voters: BTreeSet<NodeId> = metrics.membership_config.voter_ids().collect();
        let members = metrics.membership_config.nodes().map(|(node, _)| {
            let (matched, silent) = match *node == self.parts.node {
                true => (metrics.last_log_index, Some(Duration::ZERO)),
                false => (
                    matched.get(node).and_then(|id| id.as_ref()).map(|id| id.index),
                    beats.get(node).and_then(|at| at.as_ref()).map(|at| at.into_inner().elapsed()),
                ),
            };
            MemberProgress { node: *node, voter: voters.contains(node), matched, silent }
        });
        let committed = metrics.cluster_committed.as_ref().map_or(0, |id| id.index);
        Some(Progress { term: metrics.current_term, committed, members: members.collect() })
    }

    pub(crate) fn voters(&self) -> BTreeSet<NodeId> {
        self.parts.raft.voter_ids().collect()
    }

    pub(crate) fn learners(&self) -> BTreeSet<NodeId> {
        self.parts.raft.learner_ids().collect()
    }

    pub(crate) fn is_joint(&self) -> bool {
        let metrics = self.parts.raft.metrics();
        let metrics = metrics.borrow_watched();
        metrics.membership_config.membership().get_joint_config().len() > 1
    }

    pub(crate) fn is_settled(&self) -> bool {
        let metrics = self.parts.raft.metrics();
        let metrics = metrics.borrow_watched();
        let uniform = metrics.membership_config.membership().get_joint_config().len() == 1;
        uniform && metrics.membership_config == metrics.committed_membership_config
    }

    pub(crate) fn caught_up(&self, node: NodeId) -> bool {
        let metrics = self.metrics();
        let last = metrics.last_log_index.unwrap_or(0);
        match metrics.replication.as_ref().and_then(|progress| progress.get(&node)) {
            Some(Some(matched)) => matched.index + self.parts.config.caught_up_entries >= last,
            _ => node == self.parts.node && metrics.state == ServerState::Leader,
        }
    }

    pub(crate) async fn wait_applied(&self, index: u64, within: Duration) -> Result<(), WaitError> {
        let (mut applied, mut stopped) = (self.parts.applied.clone(), self.stopped.subscribe());
        let reached = async {
            tokio::select! {
                biased;
                Ok(_) = applied.wait_for(|at| at.index >= index) => Ok(()),
                // Also when the state machine is gone already: the reason is known once this is set.
                _ = stopped.wait_for(Option::is_some) => Err(WaitError::Stopped),
            }
        };
        timeout(within, reached).await.map_err(|_| WaitError::Timeout)?
    }

    pub(crate) async fn read_index(&self) -> Result<u64, ReadError> {
        if self.stopped().is_some() {
            return Err(ReadError::Stopped);
        }
        self.parts.reads_waiting.fetch_add(1, Ordering::Relaxed);
        let read = self.parts.raft.get_read_log_id(ReadPolicy::ReadIndex).await;
        self.parts.reads_waiting.fetch_sub(1, Ordering::Relaxed);
        match read {
            Ok((read, _)) => Ok(read.log_id().index),
            Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(to))) => {
                Err(ReadError::NotLeader { leader: to.leader_id })
            }
            Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_))) => Err(ReadError::NoQuorum),
            Err(RaftError::Fatal(_)) => Err(ReadError::Stopped),
        }
    }
}
