//! From a node to a seat: a broker registered in the root state. And the leader's side of joining.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use milepost_raft::{Group, Node, NodeId, call_address};
use tokio::time::timeout;
use tracing::warn;

use crate::cluster::addresses::Addresses;
use crate::cluster::handle::decode_decision;
use crate::cluster::identity::Identity;
use crate::cluster::join::{JoinAnswer, JoinRequest, ROUNDS_PER_WARNING};
use crate::cluster::{Cluster, Registration, RootAnswer, RootEntry, RootMachine, RootRefusal};
use crate::peer::{self, Answer};
use crate::types::BrokerEpoch;

const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Below the caller's own patience, so that it hears what came of it.
const PASSED_ON_TIMEOUT: Duration = Duration::from_secs(4);
const APPLY_TIMEOUT: Duration = Duration::from_secs(30);
const RETRY_PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug, thiserror::Error)]
pub enum SeatError {
    #[error(
        "node {node} of this data_dir was replaced by a newer data_dir of broker {broker}, or that broker was unregistered: \
         use the newer one, or empty this one to come back as a new node"
    )]
    Replaced { broker: i32, node: NodeId },
    #[error("the founder's directory is not node {node} in the root state: this data_dir belongs to another cluster")]
    NotFounder { node: NodeId },
}

/// What registering needs.
struct Applicant<'a> {
    node: &'a Node,
    root: &'a Group<RootMachine>,
    identity: &'a Identity,
    registration: Registration,
    seeds: &'a [String],
    addresses: &'a Addresses,
}

impl Cluster {
    /// Takes a seat: founds the root group or waits to be fed by it, then registers this life of the broker. Waits for
    /// the cluster as long as it takes.
    ///
    /// # Errors
    /// This directory has no seat in the cluster any more.
    pub async fn seat(
        node: Node,
        root: Group<RootMachine>,
        identity: &Identity,
        registration: Registration,
        seeds: &[String],
    ) -> Result<Cluster, SeatError> {
        let (me, node_id) = (registration.broker, identity.node_id);
        let seeds: Vec<String> = seeds.iter().filter(|seed| **seed != registration.internal).cloned().collect();
        let addresses = Addresses::new(node.clone());
        // What was true at the last stop comes first; what is learned from now on is newer.
        addresses.follow(&root.machine().view());
        if identity.founder
            && let Err(e) = root.initialize(BTreeSet::from([node_id])).await
        {
            warn!(error = %e, "founding the root group failed");
        }
        let registration = Registration { node: node_id, life: identity.lives, ..registration };
        let applicant =
            Applicant { node: &node, root: &root, identity, registration, seeds: &seeds, addresses: &addresses };
        let epoch = tokio::select! {
            epoch = applicant.register() => epoch?,
            never = addresses.learn(seeds.clone()) => match never {},
        };
        Ok(Cluster::new(node, root, addresses, me, node_id, epoch, identity.cluster_id.clone()))
    }

    /// Lets a newcomer in: a node id for its directory, its address for everybody, a learner of the root.
    pub async fn let_in(&self, request: Bytes) -> Answer {
        let (root, node) = (self.root(), self.node());
        let Ok(JoinRequest { directory, mut registration }) = rmp_serde::from_slice(&request) else {
            return Answer::Refused("malformed join request".into());
        };
        let issued = match decide(root, RootEntry::IssueNode { directory }).await {
            Ok(RootAnswer::Node(node)) => node,
            Ok(other) => return Answer::Refused(format!("{other:?}")),
            Err(answer) => return answer,
        };
        registration.node = issued;
        let internal = registration.internal.clone();
        match decide(root, RootEntry::RegisterBroker(registration)).await {
            Ok(RootAnswer::Epoch(_)) => {}
            Ok(RootAnswer::Refused(refusal)) => return Answer::Refused(refusal.to_string()),
            Ok(_) => return Answer::Unknown,
            Err(answer) => return answer,
        }
        node.set_address(issued, internal);
        if !root.voters().contains(&issued)
            && let Err(e) = root.add_learner(issued).await
        {
            warn!(node = issued, error = %e, "adding the newcomer to the root group failed; it will ask again");
            return Answer::Unknown;
        }
        let answer = JoinAnswer { node: issued };
        Answer::Done(rmp_serde::to_vec(&answer).expect("writing to memory does not fail").into())
    }

    /// Somebody who knows this broker's address only (`from` is 0) cannot follow "ask the leader": the request is
    /// passed on to it. A member's is not, so that no request goes in circles.
    pub async fn or_pass_on(&self, from: NodeId, kind: u8, body: Bytes, answer: Answer) -> Answer {
        match answer {
            Answer::NotLeader { leader: Some(leader) } if from == 0 && leader != self.node_id() => {
                let passed_on = self.node().call(leader, kind, body, PASSED_ON_TIMEOUT).await;
                passed_on.ok().and_then(|body| Answer::decode(body).ok()).unwrap_or(Answer::Unknown)
            }
            answer => answer,
        }
    }
}

async fn decide(root: &Group<RootMachine>, entry: RootEntry) -> Result<RootAnswer, Answer> {
    match Cluster::decide(root, entry.encode()).await {
        Answer::Done(body) => decode_decision(&body).map(|(_, answer)| answer).ok_or(Answer::Unknown),
        answer => Err(answer),
    }
}

impl Applicant<'_> {
    async fn register(&self) -> Result<BrokerEpoch, SeatError> {
        let mut leadership = self.root.leadership();
        for round in 0u64.. {
            let leader = leadership.borrow_and_update().leader;
            self.addresses.follow(&self.root.machine().view());
            let answer = if self.is_known(leader).await? { self.ask(leader).await } else { None };
            match answer {
                Some((index, RootAnswer::Epoch(epoch)))
                    if self.root.wait_applied(index, APPLY_TIMEOUT).await.is_ok() =>
                {
                    return Ok(epoch);
                }
                Some((_, RootAnswer::Refused(RootRefusal::UnknownNode))) => {
                    return Err(SeatError::Replaced { broker: self.registration.broker, node: self.identity.node_id });
                }
                Some((_, RootAnswer::Refused(why))) if round % ROUNDS_PER_WARNING == 0 => {
                    warn!(%why, "registering was refused; asking again");
                }
                _ if round % ROUNDS_PER_WARNING == ROUNDS_PER_WARNING - 1 => {
                    warn!(?leader, voters = ?self.root.voters(), "still waiting for the root shard to register");
                }
                _ => {}
            }
            // A new leader is worth asking at once.
            let _ = timeout(RETRY_PAUSE, leadership.changed()).await;
        }
        unreachable!("the loop has no end but the returns")
    }

    /// The founder's own directory takes node id 1 before anybody is registered, itself included. Everybody else has an
    /// id from the root.
    async fn is_known(&self, leader: Option<NodeId>) -> Result<bool, SeatError> {
        let Identity { founder, ref directory, node_id, .. } = *self.identity;
        if !founder || leader != Some(node_id) || self.root.machine().view().brokers().next().is_some() {
            return Ok(true);
        }
        match decide(self.root, RootEntry::IssueNode { directory: directory.clone() }).await {
            Ok(RootAnswer::Node(issued)) if issued == node_id => Ok(true),
            Ok(_) => Err(SeatError::NotFounder { node: node_id }),
            // Not yet.
            Err(_) => Ok(false),
        }
    }

    /// One attempt, through this node's own root replica or through anybody known.
    async fn ask(&self, leader: Option<NodeId>) -> Option<(u64, RootAnswer)> {
        let entry = RootEntry::RegisterBroker(self.registration.clone()).encode();
        let answer = match leader {
            Some(leader) if leader == self.identity.node_id => Some(Cluster::decide(self.root, entry.clone()).await),
            Some(leader) => {
                let call = self.node.call(leader, peer::ROOT, entry.clone(), CALL_TIMEOUT).await;
                call.ok().and_then(|body| Answer::decode(body).ok())
            }
            None => None,
        };
        if let Some(Answer::Done(body)) = answer {
            return decode_decision(&body);
        }
        let view = self.root.machine().view();
        let known: BTreeSet<&String> = view.brokers().map(|b| &b.internal).chain(self.seeds).collect();
        for address in known.into_iter().filter(|address| **address != self.registration.internal) {
            let call = call_address(address, &self.identity.cluster_id, peer::ROOT, entry.clone(), CALL_TIMEOUT).await;
            if let Some(Answer::Done(body)) = call.ok().and_then(|body| Answer::decode(body).ok()) {
                return decode_decision(&body);
            }
        }
        None
    }
}
