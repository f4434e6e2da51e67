//! The cluster marker: whose objects these are. Written once, when a cluster first uses a root; another cluster that
//! finds it there must not start. Where there are several buckets it is in each of them.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};

use super::retry::{Backoff, repeat, within};
use super::{Error, Part, Paths, Store, parts, paths};

/// The format of everything below the root.
pub const FORMAT: u32 = 1;

/// The incarnation of a cluster that was never restored.
pub const INCARNATION_FIRST: u32 = 1;

const READ_ATTEMPTS_MAX: u32 = 8;

/// Buckets that do not answer are waited for so long when the others have said enough.
pub(super) const AWAY_TIME: Duration = Duration::from_secs(3);

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
/// founder, also after an error: that one's claim may have taken effect, or may yet. Of several buckets the first decides;
/// the claim counts when a majority has it.
///
/// # Errors
/// [`Error::Refused`] when the cluster id is none, or another format or cluster is there; [`Error::Corrupt`] when the
/// marker cannot be read.
pub async fn claim(store: &dyn Store, cluster_id: &str, founder: &str, deadline: Instant) -> Result<Claim, Error> {
    let marker = Marker {
        cluster_id: cluster_id.to_owned(),
        incarnation: INCARNATION_FIRST,
        format: FORMAT,
        founder: founder.to_owned(),
    };
    marker.paths()?;
    let parts = parts(store);
    match claim_part(&parts[0], &marker, deadline).await? {
        Claim::Claimed(marker) => {
            complete(store, &marker, deadline).await?;
            Ok(Claim::Claimed(marker))
        }
        // Its founder may have died before the others had it.
        exists => Ok(exists),
    }
}

/// Puts the marker into every bucket that has none; returns when a majority has it and the others have had their time.
///
/// # Errors
/// As for [`claim`]; [`Error::Refused`] too when a bucket is another cluster's.
pub async fn complete(store: &dyn Store, marker: &Marker, deadline: Instant) -> Result<(), Error> {
    let parts = parts(store);
    let mut asked: FuturesUnordered<_> =
        parts.iter().map(|part| async move { (part, claim_part(part, marker, deadline).await) }).collect();
    let (mut copies, mut trouble, mut until) = (0, None, deadline);
    while let Ok(Some((part, claimed))) = timeout_at(until, asked.next()).await {
        match claimed {
            Ok(Claim::Claimed(_)) => copies += 1,
            Ok(Claim::Exists(other)) => return Err(differ(part, &other, marker)),
            Err(error) if error.is_transient() => trouble = Some(error),
            Err(error) => return Err(error),
        }
        if copies > parts.len() / 2 {
            until = until.min(Instant::now() + AWAY_TIME);
        }
    }
    match trouble {
        _ if copies > parts.len() / 2 => Ok(()),
        Some(error) => Err(error),
        None => Err(Error::unknown("claim", "no answer in time")),
    }
}

async fn claim_part(part: &Part<'_>, marker: &Marker, deadline: Instant) -> Result<Claim, Error> {
    let json = Bytes::from(serde_json::to_vec_pretty(marker).expect("a marker has nothing JSON cannot say"));
    let key = paths::marker_key();
    let mut backoff = Backoff::new();
    loop {
        let put = part.store.put_if_absent(&key, json.clone());
        match within("claim", deadline, put).await.map_err(|e| part.named(e)) {
            Ok(()) => return Ok(Claim::Claimed(marker.clone())),
            Err(Error::AlreadyExists { .. }) => {
                let found = read_part(part, deadline).await?;
                return Ok(if found == *marker { Claim::Claimed(found) } else { Claim::Exists(found) });
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

/// What any bucket says: only the founder that has won the first bucket writes to the others, so one word is enough, and
/// buckets that are away are not waited for. That *nobody* has claimed the root is said only when every bucket says so:
/// a cluster is not founded while a bucket that may know another is away.
///
/// # Errors
/// [`Error::NotFound`] when nobody has claimed the root; [`Error::Refused`] when buckets belong to different clusters.
pub async fn read(store: &dyn Store, deadline: Instant) -> Result<Marker, Error> {
    let parts = parts(store);
    let mut asked: FuturesUnordered<_> =
        parts.iter().map(|part| async move { (part, read_part(part, deadline).await) }).collect();
    let (mut found, mut trouble, mut until): (Option<Marker>, _, _) = (None, None, deadline);
    loop {
        match timeout_at(until, asked.next()).await {
            Ok(Some((part, Ok(marker)))) => match &found {
                Some(first) if *first != marker => return Err(differ(part, &marker, first)),
                _ => {
                    found = Some(marker);
                    until = until.min(Instant::now() + AWAY_TIME);
                }
            },
            Ok(Some((_, Err(Error::NotFound { .. })))) => {}
            Ok(Some((_, Err(error)))) if error.is_transient() => trouble = Some(error),
            Ok(Some((_, Err(error)))) => return Err(error),
            Ok(None) => break,
            Err(_) => {
                trouble = trouble.or_else(|| Some(Error::unknown("marker", "no answer in time")));
                break;
            }
        }
    }
    let absent = Error::NotFound { key: paths::marker_key() };
    found.ok_or(trouble.unwrap_or(absent))
}

fn differ(part: &Part<'_>, one: &Marker, other: &Marker) -> Error {
    let (here, there) = ((&one.cluster_id, &one.founder), (&other.cluster_id, &other.founder));
    part.named(Error::refused("marker", format!("belongs to cluster {here:?}, other buckets to {there:?}")))
}

async fn read_part(part: &Part<'_>, deadline: Instant) -> Result<Marker, Error> {
    let key = paths::marker_key();
    let json = repeat("marker", READ_ATTEMPTS_MAX, deadline, || part.store.get(&key)).await;
    let json = json.map_err(|e| part.named(e))?;
    // The format first: a newer one may have fields that this program does not know.
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let corrupt = |e: serde_json::Error| Error::corrupt(&key, e);
    let Format { format } = serde_json::from_slice(&json).map_err(corrupt)?;
    if format != FORMAT {
        let reason = format!("the root has format {format}, this program reads {FORMAT}");
        return Err(part.named(Error::refused("marker", reason)));
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
    use crate::object::fault::{Fault, Faulty};
    use crate::object::zonal::testing::zones;
    use crate::object::zonal::{Bucket, Zonal};
    use crate::object::{Classes, Memory};

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
    async fn a_claim_is_in_every_bucket_and_one_is_enough_to_know_it() {
        let zones = zones();
        let classes = zones.classes();
        let claimed = claim(&classes, "first", "x", deadline()).await.unwrap();
        let Claim::Claimed(marker) = claimed else { panic!("not free") };
        assert_eq!(claim(&classes, "first", "y", deadline()).await.unwrap(), Claim::Exists(marker.clone()));
        zones.empty(0).await;
        zones.hurt(1, &Fault::Unknown);
        assert_eq!(read(&classes, Instant::now() + Duration::from_millis(100)).await.unwrap(), marker);
        zones.buckets[1].heal();
        complete(&classes, &marker, deadline()).await.unwrap();
        assert!(zones.has(0, &paths::marker_key()).await);
    }

    #[tokio::test]
    async fn nothing_is_founded_while_a_bucket_may_know_a_cluster() {
        let zones = zones();
        let classes = zones.classes();
        claim(&classes, "first", "x", deadline()).await.unwrap();
        zones.empty(0).await;
        zones.empty(1).await;
        zones.hurt(2, &Fault::Hang);
        let error = read(&classes, Instant::now() + Duration::from_millis(50)).await.unwrap_err();
        assert!(error.is_transient(), "{error}");
    }

    #[tokio::test]
    async fn of_many_founders_the_first_bucket_chooses_one() {
        for _ in 0..20 {
            let zones = zones();
            let classes = zones.classes();
            let founders = ["a", "b", "c", "d"];
            let claims = founders.map(|founder| claim(&classes, "cluster", founder, deadline()));
            let claims = futures::future::try_join_all(claims).await.unwrap();
            assert_eq!(claims.iter().filter(|claim| matches!(claim, Claim::Claimed(_))).count(), 1);
            let marker = read(&classes, deadline()).await.unwrap();
            for claim in claims {
                let (Claim::Claimed(found) | Claim::Exists(found)) = claim;
                assert_eq!(found, marker);
            }
        }
    }

    #[tokio::test]
    async fn a_claim_without_a_majority_is_made_again_by_its_founder_only() {
        let zones = zones();
        let classes = zones.classes();
        zones.hurt(1, &Fault::Retryable);
        zones.hurt(2, &Fault::Retryable);
        let soon = Instant::now() + Duration::from_millis(50);
        assert!(claim(&classes, "first", "x", soon).await.unwrap_err().is_transient());
        zones.buckets.iter().for_each(|bucket| bucket.heal());
        assert!(matches!(claim(&classes, "second", "y", deadline()).await.unwrap(), Claim::Exists(_)));
        assert!(matches!(claim(&classes, "first", "x", deadline()).await.unwrap(), Claim::Claimed(_)));
        assert!(zones.has(1, &paths::marker_key()).await);
    }

    #[tokio::test]
    async fn buckets_of_different_clusters_are_refused() {
        let (one, other) = (zones(), zones());
        claim(&one.classes(), "one", "x", deadline()).await.unwrap();
        claim(&other.classes(), "other", "y", deadline()).await.unwrap();
        let mixed = [&one, &one, &other].map(|zones| zones.zonal.buckets()[2].store.clone());
        let mixed = (1..).zip(mixed).map(|(zone, store)| Bucket { zone: format!("az{zone}"), store }).collect();
        let mixed = Classes::new(None, Zonal::new(mixed, None));
        let error = read(&mixed, deadline()).await.unwrap_err();
        assert!(matches!(error, Error::Refused { .. }) && error.to_string().contains("other"), "{error}");
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
