//! The cluster marker: whose objects these are. Written once, when a cluster first uses a root; another cluster that
//! finds it there must not start.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::retry::{Backoff, repeat, within};
use super::{Error, Paths, Store, paths};

/// The format of everything below the root.
pub const FORMAT: u32 = 1;

/// The incarnation of a cluster that was never restored.
pub const INCARNATION_FIRST: u32 = 1;

const READ_ATTEMPTS_MAX: u32 = 8;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Marker {
    pub cluster_id: String,
    pub incarnation: u32,
    pub format: u32,
    /// The data directory that claimed the root: of several that want to found the same cluster, the one that may.
    pub founder: String,
}

impl Marker {
    /// # Errors
    /// [`Error::Refused`] when the cluster id is none.
    pub fn paths(&self) -> Result<Paths, Error> {
        Paths::new(&self.cluster_id, self.incarnation)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// The root is this founder's, now or since an earlier attempt whose reply was lost.
    Claimed(Marker),
    /// Somebody else was here before, perhaps another founder of the same cluster.
    Exists(Marker),
}

/// Claims the root for a cluster, until there is a verdict or the deadline has passed. Harmless to repeat by the same
/// founder, also after an error: that one's claim may have taken effect, or may yet.
///
/// # Errors
/// [`Error::Refused`] when the cluster id is none, or another format is there; [`Error::Corrupt`] when the marker
/// cannot be read.
pub async fn claim(store: &dyn Store, cluster_id: &str, founder: &str, deadline: Instant) -> Result<Claim, Error> {
    let marker = Marker {
        cluster_id: cluster_id.to_owned(),
        incarnation: INCARNATION_FIRST,
        format: FORMAT,
        founder: founder.to_owned(),
    };
    marker.paths()?;
    let json = Bytes::from(serde_json::to_vec_pretty(&marker).expect("a marker has nothing JSON cannot say"));
    let key = paths::marker_key();
    let mut backoff = Backoff::new();
    loop {
        let put = store.put_if_absent(&key, json.clone());
        match within("claim", deadline, put).await {
            Ok(()) => return Ok(Claim::Claimed(marker)),
            Err(Error::AlreadyExists { .. }) => {
                let found = read(store, deadline).await?;
                return Ok(if found == marker { Claim::Claimed(found) } else { Claim::Exists(found) });
            }
            Err(error) if error.is_transient() => {
                if !backoff.wait(deadline).await {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// # Errors
/// [`Error::NotFound`] when nobody has claimed the root.
pub async fn read(store: &dyn Store, deadline: Instant) -> Result<Marker, Error> {
    let key = paths::marker_key();
    let json = repeat("marker", READ_ATTEMPTS_MAX, deadline, || store.get(&key)).await?;
    // The format first: a newer one may have fields that this program does not know.
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let corrupt = |e: serde_json::Error| Error::corrupt(&key, e);
    let Format { format } = serde_json::from_slice(&json).map_err(corrupt)?;
    if format != FORMAT {
        return Err(Error::refused("marker", format!("the root has format {format}, this program reads {FORMAT}")));
    }
    let marker: Marker = serde_json::from_slice(&json).map_err(corrupt)?;
    marker.paths().map_err(|e| Error::corrupt(&key, e))?;
    Ok(marker)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::object::Memory;
    use crate::object::fault::{Fault, Faulty};

    fn deadline() -> Instant {
        Instant::now() + Duration::from_secs(30)
    }

    #[tokio::test]
    async fn the_first_founder_owns_the_root() {
        let store = Memory::new();
        assert!(matches!(read(&store, deadline()).await, Err(Error::NotFound { .. })));
        let Claim::Claimed(marker) = claim(&store, "first", "x", deadline()).await.unwrap() else { panic!("not free") };
        assert_eq!((marker.cluster_id.as_str(), marker.founder.as_str()), ("first", "x"));
        assert_eq!(claim(&store, "first", "x", deadline()).await.unwrap(), Claim::Claimed(marker.clone()));
        assert_eq!(claim(&store, "first", "y", deadline()).await.unwrap(), Claim::Exists(marker.clone()));
        assert_eq!(claim(&store, "second", "x", deadline()).await.unwrap(), Claim::Exists(marker.clone()));
        assert_eq!(read(&store, deadline()).await.unwrap(), marker);
    }

    #[tokio::test]
    async fn a_claim_whose_reply_was_lost_is_the_founders_own() {
        let store = Faulty::new(Arc::new(Memory::new()), 1);
        store.next_put(Fault::LostReply);
        assert!(matches!(claim(&store, "first", "x", deadline()).await.unwrap(), Claim::Claimed(_)));
    }

    #[tokio::test]
    async fn a_marker_that_is_not_ours_is_an_error() {
        let no_id = r#"{"cluster_id":"a/b","incarnation":1,"format":1,"founder":"x"}"#;
        let cases = [r#"{"format":2,"new":true}"#, "{", r#"{"format":1}"#, no_id];
        for json in cases {
            let store = Memory::new();
            store.put_if_absent(&paths::marker_key(), Bytes::from_static(json.as_bytes())).await.unwrap();
            assert!(read(&store, deadline()).await.is_err(), "{json}");
        }
        assert!(claim(&Memory::new(), "a/b", "x", deadline()).await.is_err());
    }
}
