//! Power cuts at every byte, damage at every byte, full disks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use openraft::storage::{IOFlushed, RaftLogStorage, RaftLogStorageExt};
use openraft::type_config::TypeConfigExt;
use proptest::prelude::*;

use super::disk::Disk;
use super::disk_memory::MemoryDisk;
use super::recover::GroupState;
use super::*;
use crate::types::{Entry, EntryPayload, Payload, TypeConfig, Vote, log_id};
use crate::{Error, GroupId, Identity};

fn identity() -> Identity {
    Identity { cluster_id: "test".into(), node_id: 7 }
}

fn config(segment_bytes: u64) -> LogConfig {
    LogConfig { identity: identity(), segment_bytes, queue_bytes_max: 1 << 20 }
}

fn start(disk: &MemoryDisk, segment_bytes: u64) -> (Log, BTreeMap<GroupId, GroupState>) {
    let recovered = recover(disk, &identity()).expect("an undamaged log");
    let groups = recovered.groups.clone();
    let log = Log::start(Arc::new(disk.clone()), config(segment_bytes), recovered, Box::new(())).expect("room");
    (log, groups)
}

fn recovered(disk: &MemoryDisk) -> BTreeMap<GroupId, GroupState> {
    recover(disk, &identity()).expect("an undamaged log").groups
}

fn entry(term: u64, index: u64, payload: &'static [u8]) -> Entry {
    Entry { log_id: log_id(term, index), payload: EntryPayload::Normal(Payload(Bytes::from_static(payload))) }
}

fn group(log: &Log, id: GroupId) -> GroupLog {
    GroupLog::new(id, log.clone(), GroupState::default())
}

#[tokio::test]
async fn a_cut_at_any_byte_keeps_what_was_synced_and_invents_nothing() {
    let disk = MemoryDisk::default();
    let (log, _) = start(&disk, 1 << 20);
    let mut one = group(&log, 1);
    one.save_vote(&Vote::new(3, 7)).await.expect("room");
    one.blocking_append([entry(3, 0, b"a"), entry(3, 1, b"bb")]).await.expect("room");
    log.close().await;
    let synced = disk.read(&disk.newest()).expect("the segment").len();
    let before = recovered(&disk.crash(|_| 0));

    // The same again, plus more, as bytes that were written but never synced.
    let longer = MemoryDisk::default();
    let (log, _) = start(&longer, 1 << 20);
    let mut one = group(&log, 1);
    one.save_vote(&Vote::new(3, 7)).await.expect("room");
    one.blocking_append([entry(3, 0, b"a"), entry(3, 1, b"bb")]).await.expect("room");
    one.blocking_append([entry(4, 2, b"\0\0\0"), entry(4, 3, b"")]).await.expect("room");
    log.close().await;
    let bytes = longer.read(&longer.newest()).expect("the segment");

    for kept in synced..=bytes.len() {
        for zeros in [0, 1, 40] {
            let cut = disk.crash(|_| 0);
            cut.edit(&disk.newest(), |content| {
                *content = bytes[..kept].to_vec();
                content.resize(kept + zeros, 0);
            });
            let after = recovered(&cut);
            assert_eq!(after[&1].vote, before[&1].vote);
            assert_eq!(after[&1].entries[..2], before[&1].entries[..]);
            let all = [entry(4, 2, b"\0\0\0"), entry(4, 3, b"")];
            assert_eq!(after[&1].entries[2..], all[..after[&1].entries.len() - 2], "{kept} bytes and {zeros} zeros");
            assert_eq!(recovered(&cut), after, "a second recovery sees the same");
        }
    }
}

#[tokio::test]
async fn a_changed_byte_anywhere_is_refused_with_file_and_position() {
    let disk = MemoryDisk::default();
    let (log, _) = start(&disk, 1 << 20);
    let mut one = group(&log, 1);
    one.save_vote(&Vote::new(3, 7)).await.expect("room");
    one.blocking_append([entry(3, 0, b"payload"), entry(3, 1, b"")]).await.expect("room");
    log.close().await;
    let name = disk.newest();
    let length = disk.read(&name).expect("the segment").len();
    for at in 0..length {
        let damaged = disk.crash(|_| 0);
        damaged.edit(&name, |content| content[at] ^= 0x10);
        match recover(&damaged, &identity()) {
            Err(Error::Damaged { file, position, .. }) => {
                assert_eq!(file, damaged.path(&name));
                assert!(position <= at as u64);
            }
            Err(other) => panic!("byte {at}: {other}"),
            Ok(_) => panic!("a changed byte {at} of {length} went unnoticed"),
        }
    }
}

/// Pages of one append may reach the disk in any order.
#[tokio::test]
async fn damage_in_the_last_segment_says_that_it_may_never_have_been_synced() {
    let disk = MemoryDisk::default();
    let mut names = Vec::new();
    for nth in 0..2 {
        let (log, groups) = start(&disk, 1 << 20);
        let state = groups.get(&1).cloned().unwrap_or_default();
        GroupLog::new(1, log.clone(), state)
            .blocking_append([entry(1, nth, b"first page, second page")])
            .await
            .expect("room");
        log.close().await;
        names.push(disk.newest());
    }
    for (name, last) in names.iter().zip([false, true]) {
        let damaged = disk.crash(|_| 0);
        damaged.edit(name, |content| {
            let page = content.len() - 30..content.len() - 15;
            content[page].fill(0);
        });
        let Err(why) = recover(&damaged, &identity()) else {
            panic!("an entry lacks its first half");
        };
        assert!(matches!(why, Error::Damaged { .. }), "{why}");
        assert_eq!(why.to_string().contains("never synced"), last, "{why}");
    }
}

/// Takes its time to let go.
struct SlowGuard(Arc<AtomicBool>);

impl Drop for SlowGuard {
    fn drop(&mut self) {
        std::thread::sleep(std::time::Duration::from_millis(50));
        self.0.store(true, Ordering::Release);
    }
}

#[tokio::test]
async fn a_closed_log_has_released_its_directory() {
    let disk = MemoryDisk::default();
    let found = recover(&disk, &identity()).expect("an empty directory");
    let released = Arc::new(AtomicBool::new(false));
    let guard = Box::new(SlowGuard(released.clone()));
    let log = Log::start(Arc::new(disk.clone()), config(1 << 20), found, guard).expect("room");
    log.close().await;
    assert!(released.load(Ordering::Acquire));
}

#[tokio::test]
async fn a_missing_segment_is_refused() {
    let disk = MemoryDisk::default();
    for nth in 0..3 {
        let (log, groups) = start(&disk, 1 << 20);
        let state = groups.get(&1).cloned().unwrap_or_default();
        GroupLog::new(1, log.clone(), state).blocking_append([entry(1, nth, b"x")]).await.expect("room");
        log.close().await;
    }
    disk.remove(&file_name(2)).expect("it exists");
    assert!(matches!(recover(&disk, &identity()), Err(Error::Damaged { .. })));
}

#[tokio::test]
async fn the_log_of_another_node_is_refused() {
    let disk = MemoryDisk::default();
    let (log, _) = start(&disk, 1 << 20);
    log.close().await;
    let other = Identity { cluster_id: "test".into(), node_id: 8 };
    assert!(matches!(recover(&disk, &other), Err(Error::WrongIdentity { .. })));
}

#[tokio::test]
async fn a_full_disk_is_an_error_and_poisons_the_log_for_good() {
    let disk = MemoryDisk::default();
    let (log, _) = start(&disk, 1 << 20);
    let mut one = group(&log, 1);
    one.blocking_append([entry(1, 0, b"kept")]).await.expect("room");
    disk.fill_after(10);
    assert!(one.blocking_append([entry(1, 1, b"does not fit")]).await.is_err());
    disk.fill_after(1 << 20);
    assert!(one.save_vote(&Vote::new(2, 7)).await.is_err(), "a failed write is never followed by another");
    assert!(log.poisoned().borrow().is_some());
    log.close().await;
    let state = &recovered(&disk.crash(|unsynced| unsynced))[&1];
    assert_eq!(state.entries, [entry(1, 0, b"kept")]);
    assert_eq!(state.vote, None);
}

#[tokio::test]
async fn a_failed_sync_is_not_retried() {
    let disk = MemoryDisk::default();
    let (log, _) = start(&disk, 1 << 20);
    let mut one = group(&log, 1);
    disk.fail_syncs();
    assert!(one.save_vote(&Vote::new(2, 7)).await.is_err());
    assert!(log.poisoned().borrow().as_ref().is_some_and(|why| why.contains("does not sync")));
}

#[tokio::test]
async fn appends_of_many_groups_share_syncs() {
    let disk = MemoryDisk::default();
    let (log, _) = start(&disk, 64 << 20);
    let mut groups: Vec<GroupLog> = (0..50).map(|id| group(&log, id)).collect();
    let before = log.stats().syncs.load(Ordering::Relaxed);
    let mut durable = Vec::new();
    // While the first is being synced, all others come.
    disk.hold_syncs(true);
    for index in 0..20 {
        for group in &mut groups {
            let (done, synced) = TypeConfig::oneshot();
            group.append([entry(1, index, b"x")], IOFlushed::signal(done)).await.expect("room");
            durable.push(synced);
        }
    }
    disk.hold_syncs(false);
    for synced in durable {
        synced.await.expect("an answer").expect("room");
    }
    let stats = log.stats();
    let order = Ordering::Relaxed;
    assert_eq!(stats.operations.load(order), 1_000);
    assert!(stats.syncs.load(order) - before <= 3, "{stats:?}");
}

#[tokio::test]
async fn a_quiet_group_does_not_pin_old_segments() {
    let disk = MemoryDisk::default();
    let (log, _) = start(&disk, 8_192);
    let mut quiet = group(&log, 1);
    quiet.save_vote(&Vote::new_committed(1, 7)).await.expect("room");
    quiet.blocking_append([entry(1, 0, b"quiet"), entry(1, 1, b"group")]).await.expect("room");
    quiet.purge(log_id(1, 0)).await.expect("enqueued");
    quiet.save_committed(Some(log_id(1, 1))).await.expect("in memory");
    quiet.note_committed();
    let mut busy = group(&log, 2);
    for index in 0..2_000 {
        busy.blocking_append([entry(1, index, b"one hundred bytes of a busy group, more or less, as far as it goes")])
            .await
            .expect("room");
        busy.purge(log_id(1, index)).await.expect("enqueued");
    }
    log.close().await;
    assert!(disk.total_bytes() < 8 * 8_192, "{} bytes are left", disk.total_bytes());
    let state = &recovered(&disk.crash(|_| 0))[&1];
    assert_eq!(state.entries, [entry(1, 1, b"group")]);
    assert_eq!(state.vote, Some(Vote::new_committed(1, 7)));
    assert_eq!(state.purged, Some(log_id(1, 0)));
    // Without it, nobody knows what is applied when all nodes have lost power.
    assert_eq!(state.committed, Some(log_id(1, 1)));
}

#[tokio::test]
async fn a_removed_group_stays_removed() {
    let disk = MemoryDisk::default();
    let (log, _) = start(&disk, 1 << 20);
    let mut one = group(&log, 1);
    one.blocking_append([entry(1, 0, b"x")]).await.expect("room");
    one.remove().await.expect("room");
    group(&log, 2).save_vote(&Vote::new(1, 7)).await.expect("room");
    log.close().await;
    let groups = recovered(&disk.crash(|_| 0));
    assert_eq!(groups.keys().copied().collect::<BTreeSet<_>>(), BTreeSet::from([2]));
}

/// One step of a random history of one group.
#[derive(Clone, Debug)]
enum Act {
    Append(u8),
    TruncateAndAppend(u8),
    Purge(u8),
    Vote,
    Commit,
}

fn act() -> impl Strategy<Value = (GroupId, Act)> {
    let act = prop_oneof![
        4 => (1u8..5).prop_map(Act::Append),
        1 => (0u8..4).prop_map(Act::TruncateAndAppend),
        2 => (0u8..6).prop_map(Act::Purge),
        1 => Just(Act::Vote),
        1 => Just(Act::Commit),
    ];
    (1u32..4, act)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// With small segments, so that rolling, deleting and copying forward happen all the time.
    #[test]
    fn any_history_survives_crashes_and_restarts(
        lives in proptest::collection::vec(proptest::collection::vec(act(), 1..60), 1..5),
        keep in 0usize..200,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let mut disk = MemoryDisk::default();
        let mut model: BTreeMap<GroupId, GroupState> = BTreeMap::new();
        for (nth, life) in lives.into_iter().enumerate() {
            let (log, groups) = start(&disk, 700);
            let mut logs: BTreeMap<GroupId, GroupLog> = BTreeMap::new();
            let mut term = nth as u64 * 1_000;
            runtime.block_on(async {
                for (id, act) in life {
                    term += 1;
                    let log = logs.entry(id).or_insert_with(|| {
                        GroupLog::new(id, log.clone(), groups.get(&id).cloned().unwrap_or_default())
                    });
                    step_both(log, model.entry(id).or_default(), act, term).await;
                }
                log.close().await;
            });
            disk = disk.crash(|unsynced| keep.min(unsynced));
            let after = recovered(&disk);
            model.retain(|_, state| *state != GroupState::default());
            prop_assert_eq!(&after, &model);
        }
    }
}

async fn step_both(log: &mut GroupLog, model: &mut GroupState, act: Act, term: u64) {
    let next = |model: &GroupState| {
        let last = model.entries.last().map(|entry| entry.log_id).or(model.purged);
        last.map_or(0, |id| id.index + 1)
    };
    match act {
        Act::Append(count) => {
            let from = next(model);
            let new: Vec<Entry> = (from..from + u64::from(count))
                .map(|index| entry(term, index, b"thirty bytes or so of a payload"))
                .collect();
            model.entries.extend(new.clone());
            log.blocking_append(new).await.expect("room");
        }
        Act::TruncateAndAppend(count) => {
            let committed = model.committed.map_or(0, |id| id.index + 1);
            let keep = model
                .entries
                .partition_point(|entry| entry.log_id.index < committed)
                .max(model.entries.len().saturating_sub(count.into()));
            model.entries.truncate(keep);
            let after = model.entries.last().map(|entry| entry.log_id).or(model.purged);
            log.truncate_after(after).await.expect("enqueued");
            let new = entry(term, next(model), b"another");
            model.entries.push(new.clone());
            log.blocking_append([new]).await.expect("room");
        }
        Act::Purge(count) => {
            let count = usize::from(count).min(model.entries.len());
            if let Some(upto) = model.entries.drain(..count).next_back() {
                model.purged = Some(upto.log_id);
                log.purge(upto.log_id).await.expect("enqueued");
            }
        }
        Act::Vote => {
            let vote = Vote::new(term, 7);
            model.vote = Some(vote);
            log.save_vote(&vote).await.expect("room");
        }
        Act::Commit => {
            if let Some(last) = model.entries.last() {
                model.committed = Some(last.log_id);
                log.save_committed(model.committed).await.expect("in memory");
                log.note_committed();
            }
        }
    }
}
