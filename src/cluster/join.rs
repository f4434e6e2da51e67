//! From an empty directory to a seat in the cluster.
//!
//! The bucket decides who founds: the first put of the cluster's marker wins, everybody else joins through the seeds.
//! So two founders never make two clusters on one bucket, and a wiped broker finds the cluster it belongs to.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use milepost_raft::{Group, Node, NodeId, call_address};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};
use uuid::Uuid;

use crate::cluster::identity::{Identity, IdentityError};
use crate::cluster::{Cluster, Registration, RootAnswer, RootEntry, RootMachine};
use crate::object::marker::{self, Claim, Marker};
use crate::object::{self, Store};
use crate::peer::{self, Answer};

const STORE_TIMEOUT: Duration = Duration::from_secs(30);
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
const RETRY_PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error("object store: {0}")]
    Store(#[from] object::Error),
    #[error("data_dir belongs to cluster {found}, the bucket to cluster {wanted}: wrong data_dir or wrong store")]
    OtherCluster { found: String, wanted: String },
    #[error("data_dir belongs to cluster {found}, but the bucket has no cluster in it: wrong store, or the bucket was emptied")]
    NoMarker { found: String },
    #[error(
        "the bucket belongs to cluster {cluster_id} and this data_dir is empty: name brokers of that cluster in `seeds` \
         to join it, or use another prefix for a new cluster"
    )]
    NoSeeds { cluster_id: String },
    #[error("cluster_id is set to {wanted}, but the bucket belongs to cluster {found}")]
    ConfiguredOther { wanted: String, found: String },
}

/// What a newcomer asks of the cluster.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct JoinRequest {
    directory: String,
    registration: Registration,
}

/// The leader's answer: the directory's node id.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct JoinAnswer {
    pub node: NodeId,
}

/// Finds or makes this directory's identity. Waits for the cluster as long as it takes.
pub async fn establish(
    store: &Arc<dyn Store>,
    data_dir: PathBuf,
    seeds: &[String],
    registration: Registration,
    configured: Option<String>,
) -> Result<(Identity, Marker), JoinError> {
    let known = Identity::load(&data_dir)?;
    let marker = match marker::read(store.as_ref(), Instant::now() + STORE_TIMEOUT).await {
        Ok(marker) => Some(marker),
        Err(object::Error::NotFound { .. }) => None,
        Err(e) => return Err(e.into()),
    };
    if let (Some(wanted), Some(marker)) = (&configured, &marker)
        && *wanted != marker.cluster_id
    {
        return Err(JoinError::ConfiguredOther { wanted: wanted.clone(), found: marker.cluster_id.clone() });
    }
    match (known, marker) {
        (Some(identity), Some(marker)) if identity.cluster_id == marker.cluster_id => Ok((identity, marker)),
        // A founder that stopped between writing its identity and claiming the bucket has founded nothing yet.
        (Some(identity), marker) if identity.founder && !was_ever_running(&data_dir) => {
            Identity::forget(&data_dir)?;
            info!(cluster = identity.cluster_id, "an unfinished founding is taken back");
            fresh(store, data_dir, seeds, registration, configured, marker).await
        }
        (Some(identity), Some(marker)) => {
            Err(JoinError::OtherCluster { found: identity.cluster_id, wanted: marker.cluster_id })
        }
        (Some(identity), None) => Err(JoinError::NoMarker { found: identity.cluster_id }),
        (None, marker) => fresh(store, data_dir, seeds, registration, configured, marker).await,
    }
}

/// The Raft log appears with the node's first start.
fn was_ever_running(data_dir: &std::path::Path) -> bool {
    raft_dir(data_dir).exists()
}

pub fn raft_dir(data_dir: &std::path::Path) -> PathBuf {
    data_dir.join("raft")
}

async fn fresh(
    store: &Arc<dyn Store>,
    data_dir: PathBuf,
    seeds: &[String],
    mut registration: Registration,
    configured: Option<String>,
    marker: Option<Marker>,
) -> Result<(Identity, Marker), JoinError> {
    let directory = Identity::new_directory();
    let marker = match marker {
        Some(marker) => marker,
        None => {
            let cluster_id = configured.unwrap_or_else(|| Uuid::new_v4().to_string());
            let incarnation = marker::INCARNATION_FIRST;
            let identity =
                Identity { cluster_id, incarnation, directory: directory.clone(), node_id: 1, founder: true };
            identity.store(&data_dir)?;
            match marker::claim(store.as_ref(), &identity.cluster_id, Instant::now() + STORE_TIMEOUT).await? {
                Claim::Claimed(marker) => {
                    info!(cluster = marker.cluster_id, "a new cluster is founded in this bucket");
                    return Ok((identity, marker));
                }
                Claim::Exists(marker) => {
                    Identity::forget(&data_dir)?;
                    marker
                }
            }
        }
    };
    let others: Vec<&String> = seeds.iter().filter(|seed| **seed != registration.internal).collect();
    if others.is_empty() {
        return Err(JoinError::NoSeeds { cluster_id: marker.cluster_id });
    }
    registration.node = 0;
    let node_id = ask_to_join(&marker.cluster_id, &others, JoinRequest { directory: directory.clone(), registration }).await;
    let Marker { cluster_id, incarnation, .. } = marker.clone();
    let identity = Identity { cluster_id, incarnation, directory, node_id, founder: false };
    identity.store(&data_dir)?;
    Ok((identity, marker))
}

async fn ask_to_join(cluster_id: &str, seeds: &[&String], request: JoinRequest) -> NodeId {
    let body = Bytes::from(rmp_serde::to_vec(&request).expect("writing to memory does not fail"));
    for round in 0u64.. {
        for seed in seeds {
            match call_address(seed, cluster_id, peer::JOIN, body.clone(), CALL_TIMEOUT).await.map(Answer::decode) {
                Ok(Ok(Answer::Done(body))) => {
                    if let Ok(answer) = rmp_serde::from_slice::<JoinAnswer>(&body) {
                        info!(node = answer.node, seed, "the cluster has let this directory in");
                        return answer.node;
                    }
                }
                Ok(Ok(Answer::Refused(why))) => warn!(seed, why, "joining was refused; asking again"),
                Err(e) if round % 25 == 24 => warn!(seed, error = %e, cluster = cluster_id, "still waiting to join"),
                _ => {}
            }
        }
        sleep(RETRY_PAUSE).await;
    }
    unreachable!("the loop has no end but the return")
}

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
        if let Err(answer) = decide(root, RootEntry::RegisterBroker(registration)).await {
            return answer;
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
