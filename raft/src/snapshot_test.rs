use std::collections::BTreeSet;
use std::fs;

use super::*;
use crate::types::{Membership, StoredMembership, log_id};

fn meta(index: u64) -> SnapshotMeta {
    let membership = Membership::new_with_defaults(vec![BTreeSet::from([1, 2])], [3]);
    let last_membership = StoredMembership::new(Some(log_id(1, 0)), membership);
    SnapshotMeta { last_log_id: Some(log_id(2, index)), last_membership }
}

fn written(dir: &SnapshotDir, index: u64, bytes: &[u8]) -> SnapshotFile {
    let prepared = dir.prepare(5, &meta(index), bytes).expect("room");
    dir.adopt(5, &prepared).expect("adopted")
}

#[test]
fn the_newest_comes_back_and_older_ones_are_gone() {
    let place = tempfile::tempdir().expect("a directory");
    let dir = SnapshotDir::open(place.path()).expect("opened");
    written(&dir, 7, b"old");
    written(&dir, 8, b"new");
    let other = dir.prepare(6, &meta(1), b"other group").expect("room");
    dir.adopt(6, &other).expect("adopted");
    let (file, bytes) = dir.newest(5).expect("undamaged").expect("there");
    assert_eq!((file.meta, &bytes[..]), (meta(8), &b"new"[..]));
    assert_eq!(fs::read_dir(place.path()).expect("listed").count(), 2);
    dir.remove_group(5).expect("removed");
    assert!(dir.newest(5).expect("undamaged").is_none());
    assert!(dir.newest(6).expect("undamaged").is_some());
}

#[test]
fn a_late_older_one_does_not_replace_a_newer_one() {
    let place = tempfile::tempdir().expect("a directory");
    let dir = SnapshotDir::open(place.path()).expect("opened");
    let newest = Newest::default();
    let slow = dir.prepare(5, &meta(100), b"slow").expect("room");
    let installed = dir.prepare(5, &meta(5_000), b"installed").expect("room");
    newest.adopt(&dir, 5, &installed).expect("adopted");
    let kept = newest.adopt(&dir, 5, &slow).expect("dropped");
    assert_eq!(kept.meta, meta(5_000));
    assert_eq!(newest.get().expect("adopted").meta, meta(5_000));
    let again = newest.adopt(&dir, 5, &kept).expect("there already");
    assert_eq!(again.path, kept.path);
    let (file, bytes) = dir.newest(5).expect("undamaged").expect("there");
    assert_eq!((file.meta, &bytes[..]), (meta(5_000), &b"installed"[..]));
    assert_eq!(fs::read_dir(place.path()).expect("listed").count(), 1);
}

#[test]
fn one_that_was_not_adopted_is_gone_after_a_restart() {
    let place = tempfile::tempdir().expect("a directory");
    let dir = SnapshotDir::open(place.path()).expect("opened");
    written(&dir, 7, b"whole");
    dir.prepare(5, &meta(9), b"interrupted").expect("room");
    let dir = SnapshotDir::open(place.path()).expect("opened");
    let (file, _) = dir.newest(5).expect("undamaged").expect("there");
    assert_eq!(file.meta, meta(7));
    assert_eq!(fs::read_dir(place.path()).expect("listed").count(), 1);
}

#[test]
fn a_changed_or_missing_byte_anywhere_is_refused() {
    let place = tempfile::tempdir().expect("a directory");
    let dir = SnapshotDir::open(place.path()).expect("opened");
    let file = written(&dir, 7, b"state machine");
    let whole = fs::read(&file.path).expect("read");
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x20;
        fs::write(&file.path, &changed).expect("written");
        assert!(matches!(dir.newest(5), Err(Error::Damaged { .. })), "changed byte {at}");
        fs::write(&file.path, &whole[..at]).expect("written");
        assert!(matches!(dir.newest(5), Err(Error::Damaged { .. })), "cut at byte {at}");
    }
}
