use std::collections::BTreeSet;

use super::*;
use crate::snapshot::{Newest, SnapshotDir};
use crate::testing::MemoryStore;
use crate::types::{Membership, StoredMembership, log_id};

#[tokio::test]
async fn a_snapshot_is_stored_once_until_it_is_forgotten() {
    let place = tempfile::tempdir().expect("a directory");
    let dir = SnapshotDir::open(place.path()).expect("opened");
    let membership = Membership::new_with_defaults(vec![BTreeSet::from([1])], []);
    let last_membership = StoredMembership::new(Some(log_id(1, 0)), membership);
    let meta = SnapshotMeta { last_log_id: Some(log_id(1, 3)), last_membership };
    let prepared = dir.prepare(5, &meta, b"state").expect("room");
    let file = Newest::default().adopt(&dir, 5, &prepared).expect("adopted");
    let store = MemoryStore::default();
    let offers = Offers::new(Arc::new(store.clone()));
    let vote = Vote::new_committed(1, 1);
    let offer = offers.offer(5, vote, &file).await.expect("stored");
    assert_eq!(offers.fetch(&offer).await.expect("there"), "state");
    store.lose_all();
    assert!(offers.fetch(&offer).await.is_err(), "swept");
    let again = offers.offer(5, vote, &file).await.expect("remembered");
    assert!(offers.fetch(&again).await.is_err(), "offered without storing it again");
    offers.forget();
    let again = offers.offer(5, vote, &file).await.expect("stored");
    assert_eq!(offers.fetch(&again).await.expect("there"), "state");
    let forged = SnapshotOffer { crc: again.crc ^ 1, ..again };
    assert!(offers.fetch(&forged).await.is_err(), "other bytes than offered");
}
