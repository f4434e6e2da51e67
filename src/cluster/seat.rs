//! From a node to a seat: a broker registered in the root state, and the leader's side of joining and registering.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use milepost_raft::{Group, Node, call_address};
use tokio::time::sleep;
use tracing::warn;

use crate::cluster::identity::Identity;
use crate::cluster::join::{JoinAnswer, JoinRequest};
use crate::cluster::{Cluster, Registration, RootAnswer, RootEntry, RootMachine};
use crate::peer::{self, Answer};

const CALL_TIMEOUT: Duration = Duration::from_secs(5);
const RETRY_PAUSE: Duration = Duration::from_millis(200);

impl Cluster {
    /// Takes a seat: founds the root group or waits to be fed by it, then registers this life of the broker.
    /// `peers` are addresses that may know the root leader while this node does not.
    pub async fn seat(
        node: Node,
        root: Group<RootMachine>,
        identity: &Identity,
        mut registration: Registration,
        peers: &[String],
    ) -> Cluster {
        registration.node = identity.node_id;
        if identity.founder {
            found(&root, identity).await;
        }
        let entry = RootEntry::RegisterBroker(registration.clone()).encode();
        let epoch = loop {
            if let Some(epoch) = register(&node, &root, identity, &entry, peers).await {
                break epoch;
            }
            sleep(RETRY_PAUSE).await;
        };
        let (me, node_id) = (registration.broker, identity.node_id);
        Cluster::new(node, root, me, node_id, epoch, identity.cluster_id.clone())
    }

    /// Lets a newcomer in: a node id for its directory, its address for everybody, a learner of the root.
    pub async fn let_in(root: &Group<RootMachine>, node: &Node, request: Bytes) -> Answer {
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
}

async fn decide(root: &Group<RootMachine>, entry: RootEntry) -> Result<RootAnswer, Answer> {
    match Cluster::decide(root, entry.encode()).await {
        Answer::Done(body) => super::handle::decode_decision(&body).map(|(_, answer)| answer).ok_or(Answer::Unknown),
        answer => Err(answer),
    }
}

async fn found(root: &Group<RootMachine>, identity: &Identity) {
    if let Err(e) = root.initialize(BTreeSet::from([identity.node_id])).await {
        warn!(error = %e, "founding the root group failed");
    }
    // The founder's own directory takes node id 1 before anybody else is let in.
    loop {
        let entry = RootEntry::IssueNode { directory: identity.directory.clone() };
        match decide(root, entry).await {
            Ok(_) => return,
            // A founder that restarts into a grown cluster need not lead it.
            Err(Answer::NotLeader { leader: Some(leader) }) if leader != identity.node_id => return,
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    }
}

/// One attempt to register, through this node's own root replica or through any peer.
async fn register(
    node: &Node,
    root: &Group<RootMachine>,
    identity: &Identity,
    entry: &Bytes,
    peers: &[String],
) -> Option<u64> {
    let leader = root.leadership().borrow().leader;
    let mut answer = match leader {
        Some(leader) if leader == identity.node_id => Some(Cluster::decide(root, entry.clone()).await),
        Some(leader) => {
            let call = node.call(leader, peer::ROOT, entry.clone(), CALL_TIMEOUT).await;
            call.ok().and_then(|body| Answer::decode(body).ok())
        }
        None => None,
    };
    for peer in peers {
        if matches!(answer, Some(Answer::Done(_))) {
            break;
        }
        let call = call_address(peer, &identity.cluster_id, peer::ROOT, entry.clone(), CALL_TIMEOUT).await;
        answer = call.ok().and_then(|body| Answer::decode(body).ok());
    }
    let Some(Answer::Done(body)) = answer else { return None };
    let (index, answer) = super::handle::decode_decision(&body)?;
    match answer {
        RootAnswer::Epoch(epoch) => {
            root.wait_applied(index, Duration::from_secs(30)).await.ok()?;
            Some(epoch)
        }
        RootAnswer::Refused(refusal) => {
            warn!(%refusal, "registering was refused; this data_dir may have been replaced by another");
            None
        }
        _ => None,
    }
}
