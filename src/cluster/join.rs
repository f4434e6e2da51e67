//! From an empty directory to a node of the cluster.
//!
//! The bucket decides who founds: the marker names one data directory, everybody else joins through the seeds. So two
//! founders never make two clusters on one bucket, not even under one configured cluster id; a founder that died
//! half-way is the same founder again; and a wiped broker finds the cluster it belongs to.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use milepost_raft::{NodeId, call_address};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};
use uuid::Uuid;

use crate::cluster::Registration;
use crate::cluster::identity::{Identity, IdentityError};
use crate::object::marker::{self, Claim, Marker};
use crate::object::{self, Store};
use crate::peer::{self, Answer};

const STORE_TIMEOUT: Duration = Duration::from_secs(30);
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Of the rounds without success, one in so many is logged.
pub(super) const ROUNDS_PER_WARNING: u64 = 25;

#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error("object store: {0}")]
    Store(#[from] object::Error),
    #[error("data_dir belongs to cluster {found}, the bucket to cluster {wanted}: wrong data_dir or wrong store")]
    OtherCluster { found: String, wanted: String },
    #[error(
        "data_dir founded cluster {cluster_id}, but the bucket names another founder of it: wrong store, or the bucket \
         was emptied and used again"
    )]
    OtherFounder { cluster_id: String },
    #[error(
        "data_dir belongs to cluster {found}, but the bucket has no cluster in it: wrong store, or the bucket was emptied"
    )]
    NoMarker { found: String },
    #[error(
        "the bucket belongs to cluster {cluster_id} and this data_dir is empty: name brokers of that cluster in `seeds` \
         to join it, or use another prefix for a new cluster"
    )]
    NoSeeds { cluster_id: String },
    #[error("cluster_id is set to {wanted}, but {owner} belongs to cluster {found}")]
    ConfiguredOther { wanted: String, owner: &'static str, found: String },
}

/// What a newcomer asks of the cluster.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct JoinRequest {
    pub(super) directory: String,
    pub(super) registration: Registration,
}

/// The leader's answer: the directory's node id.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct JoinAnswer {
    pub node: NodeId,
}

pub fn raft_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("raft")
}

/// What a start knows before it has an identity.
pub struct Start<'a> {
    pub store: &'a dyn Store,
    pub data_dir: &'a Path,
    /// Internal addresses of brokers that may know the cluster.
    pub seeds: &'a [String],
    pub registration: &'a Registration,
    /// The cluster id that the operator asked for.
    pub cluster_id: Option<&'a str>,
}

impl Start<'_> {
    /// Finds or makes this directory's identity. Waits for the cluster as long as it takes.
    ///
    /// # Errors
    /// Bucket, directory and settings do not belong together, or one of the first two cannot be used. Unless it says
    /// otherwise, starting again is harmless.
    pub async fn establish(&self) -> Result<(Identity, Marker), JoinError> {
        let known = Identity::load(self.data_dir)?;
        let marker = match marker::read(self.store, Instant::now() + STORE_TIMEOUT).await {
            Ok(marker) => Some(marker),
            Err(object::Error::NotFound { .. }) => None,
            Err(e) => return Err(e.into()),
        };
        if let Some(marker) = &marker {
            self.expect_configured("the bucket", &marker.cluster_id)?;
        }
        match (known, marker) {
            // It lost the race for the bucket and stopped before it knew. Nothing was done under that identity.
            (Some(lost), Some(marker)) if lost.founder && !lost.started && lost.directory != marker.founder => {
                self.join_after_losing(lost, marker).await
            }
            (Some(identity), Some(marker)) if identity.cluster_id != marker.cluster_id => {
                Err(JoinError::OtherCluster { found: identity.cluster_id, wanted: marker.cluster_id })
            }
            (Some(identity), Some(marker)) if identity.founder && identity.directory != marker.founder => {
                Err(JoinError::OtherFounder { cluster_id: marker.cluster_id })
            }
            // It may have stopped before every bucket had its claim.
            (Some(identity), Some(_)) if identity.founder && !identity.started => self.found(identity).await,
            (Some(identity), Some(marker)) => Ok((identity, marker)),
            // Its claim is not there, or not there yet: only the same identity may claim again.
            (Some(identity), None) if identity.founder && !identity.started => self.found(identity).await,
            (Some(identity), None) => Err(JoinError::NoMarker { found: identity.cluster_id }),
            (None, Some(marker)) => self.join(marker).await,
            (None, None) => {
                let identity = Identity {
                    cluster_id: self.cluster_id.map_or_else(|| Uuid::new_v4().to_string(), str::to_owned),
                    incarnation: marker::INCARNATION_FIRST,
                    directory: Identity::new_directory(),
                    node_id: 1,
                    founder: true,
                    started: false,
                    lives: 0,
                };
                identity.store(self.data_dir)?;
                self.found(identity).await
            }
        }
    }

    fn expect_configured(&self, owner: &'static str, found: &str) -> Result<(), JoinError> {
        match self.cluster_id {
            Some(wanted) if wanted != found => {
                Err(JoinError::ConfiguredOther { wanted: wanted.into(), owner, found: found.into() })
            }
            _ => Ok(()),
        }
    }

    /// The identity is on disk already: whatever becomes of the claim, the next start makes the same one.
    async fn found(&self, identity: Identity) -> Result<(Identity, Marker), JoinError> {
        self.expect_configured("data_dir", &identity.cluster_id)?;
        let deadline = Instant::now() + STORE_TIMEOUT;
        match marker::claim(self.store, &identity.cluster_id, &identity.directory, deadline).await? {
            Claim::Claimed(marker) => {
                info!(cluster = marker.cluster_id, "a new cluster is founded in this bucket");
                Ok((identity, marker))
            }
            Claim::Exists(marker) => self.join_after_losing(identity, marker).await,
        }
    }

    async fn join_after_losing(&self, lost: Identity, marker: Marker) -> Result<(Identity, Marker), JoinError> {
        info!(cluster = lost.cluster_id, winner = marker.cluster_id, "another directory has founded in this bucket");
        Identity::forget(self.data_dir)?;
        self.join(marker).await
    }

    async fn join(&self, marker: Marker) -> Result<(Identity, Marker), JoinError> {
        self.expect_configured("the bucket", &marker.cluster_id)?;
        let seeds: Vec<&String> = self.seeds.iter().filter(|seed| **seed != self.registration.internal).collect();
        if seeds.is_empty() {
            return Err(JoinError::NoSeeds { cluster_id: marker.cluster_id });
        }
        let directory = Identity::new_directory();
        let registration = Registration { node: 0, ..self.registration.clone() };
        let request = JoinRequest { directory: directory.clone(), registration };
        let node_id = ask_to_join(&marker.cluster_id, &seeds, &request).await;
        let (cluster_id, incarnation) = (marker.cluster_id.clone(), marker.incarnation);
        let identity =
            Identity { cluster_id, incarnation, directory, node_id, founder: false, started: false, lives: 0 };
        identity.store(self.data_dir)?;
        Ok((identity, marker))
    }
}

async fn ask_to_join(cluster_id: &str, seeds: &[&String], request: &JoinRequest) -> NodeId {
    let body = Bytes::from(rmp_serde::to_vec(request).expect("writing to memory does not fail"));
    for round in 0u64.. {
        for seed in seeds {
            let why = match call_address(seed, cluster_id, peer::JOIN, body.clone(), CALL_TIMEOUT)
                .await
                .map(Answer::decode)
            {
                Ok(Ok(Answer::Done(body))) => match rmp_serde::from_slice::<JoinAnswer>(&body) {
                    Ok(answer) => {
                        info!(node = answer.node, seed, "the cluster has let this directory in");
                        return answer.node;
                    }
                    Err(e) => e.to_string(),
                },
                Ok(Ok(Answer::Refused(why))) => why,
                Ok(Ok(Answer::NotLeader { leader: None })) => "it is not seated itself, or knows no leader".into(),
                Ok(Ok(Answer::NotLeader { leader: Some(leader) })) => {
                    format!("node {leader} leads and was not reached")
                }
                Ok(Ok(Answer::Unknown)) => "outcome unknown".into(),
                Ok(Err(e)) => e.to_string(),
                Err(e) => e.to_string(),
            };
            if round % ROUNDS_PER_WARNING == 0 {
                warn!(seed, why, cluster = cluster_id, "not let in yet; asking again");
            }
        }
        sleep(RETRY_PAUSE).await;
    }
    unreachable!("the loop has no end but the return")
}

#[cfg(test)]
#[path = "join_test.rs"]
mod tests;
