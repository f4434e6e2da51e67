use std::sync::Arc;

use crate::shard::group::{
    Assignment, Change, Classic, ClassicMember, Committed, ConsumerChange, Current, Epochs, GroupCommit, GroupCommits,
    GroupEntry, Member, MemberChange, MemberState, ShareChange, ShareMemberChange, ShareWho, Who,
};
use crate::shard::{Create, Entry, Markers, Outcome, Refusal, State, Target};
use crate::types::{Partition, Producer, TopicId};

const OFFSETS: TopicId = TopicId::ZERO;
const TERM: u64 = 3;

fn topic(n: u8) -> TopicId {
    TopicId::from_bytes([n; 16])
}

fn at(topic: TopicId, index: i32) -> Partition {
    Partition { topic, index }
}

/// A shard with one partition of `__consumer_offsets`, which has slot 0.
fn shard() -> State {
    let mut state = State::default();
    let create = Create { topic: OFFSETS, partitions: vec![7], epoch_base: 0, append_time: false, fences: Vec::new() };
    state.apply(TERM, &Entry::Create(create).encode()).unwrap();
    state
}

fn entry(term: u64, clock_ms: u64, change: Change) -> Entry {
    Entry::Group(GroupEntry { slot: 0, term, clock_ms, group: "g".into(), change })
}

fn offset(partition: Partition, offset: i64) -> (Partition, Committed) {
    (partition, Committed { offset, leader_epoch: 4, metadata: "m".into(), ..Committed::default() })
}

fn commit(partition: Partition, at: i64) -> Change {
    Change::Commit { retention_ms: None, offsets: vec![offset(partition, at)] }
}

const PRODUCER: Producer = Producer { id: 7, epoch: 1 };

fn commit_in(producer: Producer, txn_no: u64, partition: Partition, at: i64) -> Entry {
    entry(TERM, 5, Change::TransactionalCommit { producer, txn_no, offsets: vec![offset(partition, at)] })
}

/// Ends a transaction in the slot that holds groups.
fn end(state: &mut State, producer: Producer, txn_no: u64, commit: bool) -> Result<(), Refusal> {
    let targets = vec![Target { slot: 0, groups: true }];
    let markers = Markers { append_time: 9, producer, txn_no, commit, coordinator_epoch: 1, targets };
    match apply(state, Entry::Markers(markers)) {
        Some(Outcome::Marked(results)) => results[0],
        other => panic!("{other:?}"),
    }
}

fn pending(state: &State) -> Vec<Partition> {
    state.groups().pending(0, "g").copied().collect()
}

fn saved(members: usize) -> Change {
    let members = (0..members).map(|n| Member {
        id: format!("m{n}"),
        instance: (n == 0).then(|| "static".into()),
        client_id: "c".into(),
        client_host: "/127.0.0.1".into(),
        rebalance_timeout_ms: 60_000,
        session_timeout_ms: 45_000,
        metadata: vec![0, 1, 2],
        assignment: vec![n as u8; 20],
    });
    Change::Save(Classic {
        generation: 5,
        protocol_type: "consumer".into(),
        protocol_name: Some("range".into()),
        leader: Some("m0".into()),
        members: members.collect(),
        since_ms: 0,
    })
}

fn assignment(partitions: &[i32]) -> Assignment {
    Assignment::from([(topic(1), partitions.iter().copied().collect())])
}

/// A member `a` with all that there can be, `b` with a new target, and `c` that has gone.
fn step(revision: u64) -> Change {
    let who = Who {
        instance: Some("i".into()),
        rack: Some("az1".into()),
        client_id: "c".into(),
        client_host: "/127.0.0.1".into(),
        rebalance_timeout_ms: 60_000,
        topics: ["t".to_owned(), "u".to_owned()].into(),
        pattern: Some("t.*".into()),
        assignor: Some("uniform".into()),
        classic: Some(ClassicMember { session_timeout_ms: 1, protocols: vec![("range".into(), vec![1, 2].into())] }),
    };
    let (assigned, revoking) = (assignment(&[0, 3, 900]), assignment(&[4]));
    let current = Current { epoch: -2, previous_epoch: 3, state: MemberState::Unrevoked, assigned, revoking };
    let all = MemberChange { who: Some(who), target: Some(assignment(&[1])), current: Some(current) };
    let target = MemberChange { target: Some(Assignment::new()), ..MemberChange::default() };
    let members = vec![("a".into(), Some(all)), ("b".into(), Some(target)), ("c".into(), None)];
    let change = ConsumerChange { revision, epoch: 4, assignment_epoch: 3, topics_digest: u32::MAX, members };
    Change::Consumer(Box::new(change))
}

/// A member `a` with all that there can be, `b` with another epoch, and `c` that has gone.
fn share_step(revision: u64) -> Change {
    let who = ShareWho {
        rack: Some("az1".into()),
        client_id: "c".into(),
        client_host: "/127.0.0.1".into(),
        topics: ["t".to_owned(), "u".to_owned()].into(),
    };
    let epochs = Some(Epochs { now: 9, before: 7 });
    let a = ShareMemberChange { who: Some(who), epochs, assigned: Some(assignment(&[0, 3, 900])) };
    let b = ShareMemberChange { epochs, ..ShareMemberChange::default() };
    let members = vec![("a".to_owned(), Some(a)), ("b".to_owned(), Some(b)), ("c".to_owned(), None)];
    let change = ShareChange { revision, epoch: 9, assignment_epoch: 8, topics_digest: 7, members };
    Change::Share(Box::new(change))
}

fn apply(state: &mut State, entry: Entry) -> Option<Outcome> {
    state.apply(TERM, &entry.encode()).unwrap().outcome
}

fn committed(state: &State, partition: Partition) -> Option<(i64, u64)> {
    let group = state.groups().get(0, "g")?;
    group.offsets.get(&partition).map(|c| (c.offset, c.at_ms))
}

#[test]
fn entries_read_back_as_written() {
    let many = (0..3).map(|i| (at(topic(1 + i % 2), i.into()), Committed { offset: -1, ..Committed::default() }));
    let changes = [
        commit(at(topic(1), 0), 1 << 40),
        Change::Commit { retention_ms: Some(0), offsets: many.collect() },
        saved(2),
        saved(0),
        step(1),
        step(u64::MAX),
        share_step(1),
        share_step(u64::MAX),
        Change::TransactionalCommit { producer: PRODUCER, txn_no: 300, offsets: vec![offset(at(topic(1), 2), 9)] },
        Change::Delete,
        Change::DeleteOffsets { partitions: vec![at(topic(1), 0), at(topic(1), 9), at(topic(2), 1)], until_ms: 77 },
        Change::DeleteIfUnused,
    ];
    for change in changes {
        let entry = entry(9, 12, change);
        let bytes = entry.encode();
        assert_eq!(Entry::decode(&bytes), Ok(entry));
        for cut in 0..bytes.len() {
            assert!(Entry::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }
    let clock = Entry::GroupClock { term: 1, clock_ms: 5 };
    assert_eq!(Entry::decode(&clock.encode()), Ok(clock));
}

/// Of groups `g` and `h`.
fn commits(term: u64) -> Entry {
    let commit = |group: &str, offset| GroupCommit {
        slot: 0,
        group: group.into(),
        retention_ms: Some(5),
        offsets: vec![(at(topic(1), 0), Committed { offset, ..Committed::default() })],
    };
    Entry::GroupCommits(GroupCommits {
        term,
        clock_ms: 9,
        commits: vec![commit("g", 1), commit("h", 2), commit("g", 3)],
    })
}

#[test]
fn commits_that_are_gathered_are_taken_together_or_not_at_all() {
    let mut state = shard();
    let bytes = commits(TERM).encode();
    assert_eq!(Entry::decode(&bytes), Ok(commits(TERM)));
    assert!((0..bytes.len()).all(|cut| Entry::decode(&bytes[..cut]).is_err()));
    let before = state.clone();
    assert_eq!(apply(&mut state, commits(TERM + 1)), Some(Outcome::Fenced));
    let Entry::GroupCommits(mut elsewhere) = commits(TERM) else { unreachable!() };
    elsewhere.commits[1].slot = 7;
    assert_eq!(apply(&mut state, Entry::GroupCommits(elsewhere)), Some(Outcome::Fenced));
    assert_eq!(state, before);
    assert_eq!(apply(&mut state, commits(TERM)), None);
    assert_eq!(committed(&state, at(topic(1), 0)), Some((3, 9)), "in their order");
    let other = state.groups().get(0, "h").unwrap().offsets[&at(topic(1), 0)].clone();
    assert_eq!((other.offset, other.retention_ms), (2, Some(5)));
}

#[test]
fn a_commit_costs_less_than_fifty_bytes() {
    assert!(entry(1, 1 << 32, commit(at(topic(1), 3), 1 << 30)).encode().len() < 50);
}

#[test]
fn an_entry_of_another_term_or_slot_is_refused_as_a_result() {
    let mut state = shard();
    let before = state.clone();
    for term in [TERM - 1, TERM + 1] {
        assert_eq!(apply(&mut state, entry(term, 50, commit(at(topic(1), 0), 10))), Some(Outcome::Fenced));
        assert_eq!(apply(&mut state, Entry::GroupClock { term, clock_ms: 50 }), Some(Outcome::Fenced));
    }
    let Entry::Group(elsewhere) = entry(TERM, 0, commit(at(topic(1), 0), 10)) else { unreachable!() };
    assert_eq!(apply(&mut state, Entry::Group(GroupEntry { slot: 1, ..elsewhere })), Some(Outcome::Fenced));
    assert_eq!(state, before);
    assert_eq!(apply(&mut state, entry(TERM, 50, commit(at(topic(1), 0), 10))), None);
    assert_eq!(committed(&state, at(topic(1), 0)), Some((10, 50)));
}

#[test]
fn the_clock_never_steps_back() {
    let mut state = shard();
    apply(&mut state, Entry::GroupClock { term: TERM, clock_ms: 100 });
    apply(&mut state, entry(TERM, 40, commit(at(topic(1), 0), 10)));
    assert_eq!(committed(&state, at(topic(1), 0)), Some((10, 100)));
}

#[test]
fn members_and_offsets_are_kept_apart() {
    let mut state = shard();
    apply(&mut state, entry(TERM, 1, commit(at(topic(1), 0), 10)));
    apply(&mut state, entry(TERM, 2, saved(2)));
    let group = state.groups().get(0, "g").cloned().unwrap();
    assert!(group.has_members());
    assert_eq!((group.classic().unwrap().generation, group.classic().unwrap().since_ms), (5, 2));
    apply(&mut state, entry(TERM, 3, commit(at(topic(1), 0), 11)));
    apply(&mut state, entry(TERM, 4, Change::DeleteIfUnused));
    assert_eq!(committed(&state, at(topic(1), 0)), Some((11, 3)));
    assert_eq!(state.groups().get(0, "g").unwrap().kind, group.kind);
    apply(&mut state, entry(TERM, 5, Change::Delete));
    assert_eq!(state.groups().all().count(), 0);
}

#[test]
fn a_step_of_a_group_is_taken_once_and_in_its_turn() {
    let mut state = shard();
    assert_eq!(apply(&mut state, entry(TERM, 1, step(2))), Some(Outcome::Fenced));
    assert_eq!(state.groups().all().count(), 0, "nothing is left of it");
    assert_eq!(apply(&mut state, entry(TERM, 1, step(1))), None);
    assert_eq!(apply(&mut state, entry(TERM, 1, step(1))), Some(Outcome::Fenced));
    apply(&mut state, entry(TERM, 1, commit(at(topic(1), 0), 10)));
    let gone = ConsumerChange { revision: 2, members: vec![("b".into(), None)], ..ConsumerChange::default() };
    assert_eq!(apply(&mut state, entry(TERM, 1, Change::Consumer(Box::new(gone)))), None);
    let group = state.groups().get(0, "g").unwrap();
    let consumer = group.consumer().unwrap();
    assert_eq!((consumer.revision, consumer.members.len()), (2, 1));
    assert_eq!(consumer.members["a"].current.assigned, assignment(&[0, 3, 900]));
    assert_eq!((group.has_members(), group.offsets.len()), (true, 1));
    let restored = State::from_snapshot(&state.to_snapshot()).unwrap();
    assert_eq!(restored, state);
    // A group of another kind takes its place, offsets stay, and the other way round.
    apply(&mut state, entry(TERM, 1, saved(0)));
    assert!(state.groups().get(0, "g").unwrap().consumer().is_none());
    assert_eq!(apply(&mut state, entry(TERM, 1, step(1))), None);
    assert_eq!(state.groups().get(0, "g").unwrap().offsets.len(), 1);
}

#[test]
fn a_step_of_a_share_group_is_taken_once_and_in_its_turn() {
    let mut state = shard();
    assert_eq!(apply(&mut state, entry(TERM, 1, share_step(2))), Some(Outcome::Fenced));
    assert_eq!(state.groups().all().count(), 0, "nothing is left of it");
    assert_eq!(apply(&mut state, entry(TERM, 1, share_step(1))), None);
    assert_eq!(apply(&mut state, entry(TERM, 1, share_step(1))), Some(Outcome::Fenced));
    assert_eq!(apply(&mut state, entry(TERM - 1, 1, share_step(2))), Some(Outcome::Fenced), "of another term");
    let group = state.groups().get(0, "g").unwrap();
    let share = group.share().unwrap();
    assert_eq!((share.revision, share.epoch, share.members.len(), group.has_members()), (1, 9, 2, true));
    assert_eq!(share.members["a"].assigned, assignment(&[0, 3, 900]));
    assert_eq!(share.members["b"].epochs, Epochs { now: 9, before: 7 });
    let restored = State::from_snapshot(&state.to_snapshot()).unwrap();
    assert_eq!((&restored, restored.digest()), (&state, state.digest()));
    let gone = ["a", "b"].map(|id| (id.to_owned(), None)).into();
    let gone = ShareChange { revision: 2, members: gone, ..ShareChange::default() };
    assert_eq!(apply(&mut state, entry(TERM, 1, Change::Share(Box::new(gone)))), None);
    apply(&mut state, entry(TERM, 1, Change::DeleteOffsets { partitions: vec![], until_ms: 9 }));
    assert!(!state.groups().get(0, "g").unwrap().has_members(), "it stays without members");
    apply(&mut state, entry(TERM, 1, Change::Delete));
    assert_eq!(state.groups().all().count(), 0);
}

#[test]
fn a_step_of_one_member_costs_less_than_a_hundred_bytes() {
    let current = Current { epoch: 100, previous_epoch: 99, assigned: assignment(&[1, 2, 3]), ..Current::default() };
    let change = MemberChange { current: Some(current), ..MemberChange::default() };
    // Ids are uuids.
    let members = vec![("x".repeat(36), Some(change))];
    let change = ConsumerChange { revision: 1000, epoch: 100, members, ..ConsumerChange::default() };
    assert!(entry(1, 1 << 32, Change::Consumer(Box::new(change))).encode().len() < 100);
    // Of a share group it is the epochs alone.
    let change = ShareMemberChange { epochs: Some(Epochs { now: 100, before: 99 }), ..ShareMemberChange::default() };
    let members = vec![("x".repeat(36), Some(change))];
    let change = ShareChange { revision: 1000, epoch: 100, members, ..ShareChange::default() };
    assert!(entry(1, 1 << 32, Change::Share(Box::new(change))).encode().len() < 100);
}

#[test]
fn an_offset_committed_since_it_was_found_too_old_stays() {
    let mut state = shard();
    let (old, renewed) = (at(topic(1), 0), at(topic(1), 1));
    apply(&mut state, entry(TERM, 10, commit(old, 1)));
    apply(&mut state, entry(TERM, 10, commit(renewed, 1)));
    apply(&mut state, entry(TERM, 20, commit(renewed, 2)));
    apply(&mut state, entry(TERM, 30, Change::DeleteOffsets { partitions: vec![old, renewed], until_ms: 10 }));
    assert_eq!((committed(&state, old), committed(&state, renewed)), (None, Some((2, 20))));
    apply(&mut state, entry(TERM, 30, Change::DeleteIfUnused));
    assert!(state.groups().get(0, "g").is_some());
    apply(&mut state, entry(TERM, 30, Change::DeleteOffsets { partitions: vec![renewed], until_ms: u64::MAX }));
    apply(&mut state, entry(TERM, 30, Change::DeleteIfUnused));
    assert!(state.groups().get(0, "g").is_none());
}

#[test]
fn a_deleted_topic_takes_its_commits_along_and_the_offsets_topic_its_groups() {
    let mut state = shard();
    apply(&mut state, entry(TERM, 1, commit(at(topic(1), 0), 1)));
    apply(&mut state, entry(TERM, 1, commit(at(topic(2), 0), 2)));
    apply(&mut state, Entry::Delete { topic: topic(1) });
    assert_eq!(committed(&state, at(topic(1), 0)), None);
    assert_eq!(committed(&state, at(topic(2), 0)), Some((2, 1)));
    apply(&mut state, Entry::Delete { topic: OFFSETS });
    assert_eq!(state.groups().all().count(), 0);
}

#[test]
fn offsets_committed_in_a_transaction_count_when_it_is_committed() {
    let mut state = shard();
    let partition = at(topic(1), 0);
    apply(&mut state, entry(TERM, 1, commit(partition, 1)));
    assert_eq!(apply(&mut state, commit_in(PRODUCER, 1, partition, 2)), None);
    assert_eq!(apply(&mut state, commit_in(PRODUCER, 1, partition, 3)), None);
    assert_eq!((committed(&state, partition), pending(&state)), (Some((1, 1)), vec![partition]));
    let restored = State::from_snapshot(&state.to_snapshot()).unwrap();
    assert_eq!(restored, state);
    assert_eq!(end(&mut state, PRODUCER, 1, true), Ok(()));
    assert_eq!((committed(&state, partition), pending(&state)), (Some((3, 5)), vec![]));
    apply(&mut state, commit_in(PRODUCER, 2, partition, 4));
    assert_eq!(end(&mut state, PRODUCER, 2, false), Ok(()));
    assert_eq!((committed(&state, partition), pending(&state)), (Some((3, 5)), vec![]));
}

#[test]
fn a_commit_that_is_late_for_its_transaction_is_refused_and_a_repeated_marker_moves_nothing() {
    let mut state = shard();
    let partition = at(topic(1), 0);
    let refused = |refusal| Some(Outcome::Refused(refusal));
    assert_eq!(end(&mut state, PRODUCER, 1, false), Ok(()), "nothing was committed here");
    assert_eq!(apply(&mut state, commit_in(PRODUCER, 1, partition, 2)), refused(Refusal::WrongTransaction));
    assert_eq!(apply(&mut state, commit_in(PRODUCER, 2, partition, 3)), None);
    assert_eq!(apply(&mut state, commit_in(PRODUCER, 3, partition, 3)), refused(Refusal::WrongTransaction));
    assert_eq!(end(&mut state, PRODUCER, 1, false), Ok(()));
    assert_eq!(pending(&state), [partition]);
    let zombie = Producer { epoch: 0, ..PRODUCER };
    assert_eq!(apply(&mut state, commit_in(zombie, 2, partition, 9)), refused(Refusal::StaleProducerEpoch));
    assert_eq!(end(&mut state, zombie, 2, true), Err(Refusal::StaleProducerEpoch));
    assert_eq!(end(&mut state, PRODUCER, 2, true), Ok(()));
    assert_eq!(committed(&state, partition), Some((3, 5)));
    assert_eq!(apply(&mut state, commit_in(PRODUCER, 2, partition, 9)), refused(Refusal::WrongTransaction));
}

#[test]
fn of_two_commits_the_later_counts_also_when_the_earlier_waited_for_its_transaction() {
    let mut state = shard();
    let partition = at(topic(1), 0);
    apply(&mut state, commit_in(PRODUCER, 1, partition, 10));
    apply(&mut state, entry(TERM, 6, commit(partition, 20)));
    let other = Producer { id: 8, epoch: 0 };
    apply(&mut state, commit_in(other, 1, partition, 30));
    assert_eq!(end(&mut state, PRODUCER, 1, true), Ok(()));
    assert_eq!(committed(&state, partition), Some((20, 6)));
    assert_eq!(end(&mut state, other, 1, true), Ok(()));
    assert_eq!(committed(&state, partition), Some((30, 6)));
}

#[test]
fn what_waits_goes_with_its_group_or_topic_and_keeps_the_group_in_use() {
    let mut state = shard();
    let (one, two) = (at(topic(1), 0), at(topic(2), 0));
    apply(&mut state, entry(TERM, 1, saved(0)));
    apply(&mut state, commit_in(PRODUCER, 1, one, 1));
    apply(&mut state, commit_in(PRODUCER, 1, two, 1));
    apply(&mut state, entry(TERM, 2, Change::DeleteIfUnused));
    assert!(state.groups().get(0, "g").is_some());
    apply(&mut state, Entry::Delete { topic: topic(1) });
    assert_eq!(pending(&state), [two]);
    apply(&mut state, entry(TERM, 2, Change::Delete));
    assert!(pending(&state).is_empty());
    assert_eq!(end(&mut state, PRODUCER, 1, true), Ok(()));
    assert_eq!(state.groups().all().count(), 0);
    apply(&mut state, Entry::ExpireProducers { before: 9 });
    assert_eq!(apply(&mut state, commit_in(PRODUCER, 1, one, 1)), Some(Outcome::Refused(Refusal::WrongTransaction)));
    apply(&mut state, Entry::ExpireProducers { before: 10 });
    assert_eq!(apply(&mut state, commit_in(PRODUCER, 1, one, 1)), None);
}

#[test]
fn groups_survive_a_snapshot() {
    let mut state = shard();
    apply(&mut state, entry(TERM, 1, commit(at(topic(1), 0), 1)));
    apply(&mut state, entry(TERM, 2, saved(3)));
    let restored = State::from_snapshot(&state.to_snapshot()).unwrap();
    assert_eq!(restored, state);
    assert_eq!(restored.digest(), state.digest());
}

#[test]
fn readers_of_a_group_do_not_see_it_change() {
    let mut state = shard();
    apply(&mut state, entry(TERM, 1, commit(at(topic(1), 0), 1)));
    let seen: Arc<_> = state.groups().get(0, "g").cloned().unwrap();
    apply(&mut state, entry(TERM, 1, commit(at(topic(1), 0), 2)));
    assert_eq!(seen.offsets[&at(topic(1), 0)].offset, 1);
}

#[test]
fn a_transactional_commit_of_many_partitions_takes_the_place_of_those_before() {
    let mut state = shard();
    let many = |from: i32, at_offset: i64| {
        let offsets = (from..from + 50_000).map(|index| offset(at(topic(1), index), at_offset)).collect();
        entry(TERM, 5, Change::TransactionalCommit { producer: PRODUCER, txn_no: 1, offsets })
    };
    assert_eq!(apply(&mut state, many(0, 1)), None);
    assert_eq!(apply(&mut state, many(25_000, 2)), None);
    // As an older broker may have written it: the last of a partition counts.
    let named = |index, at_offset| offset(at(topic(1), index), at_offset);
    let offsets = vec![named(1, 3), named(0, 4), named(1, 5)];
    apply(&mut state, entry(TERM, 5, Change::TransactionalCommit { producer: PRODUCER, txn_no: 1, offsets }));
    let waiting = pending(&state);
    assert_eq!(waiting.len(), 75_000);
    assert_eq!(waiting[waiting.len() - 2..], [at(topic(1), 0), at(topic(1), 1)]);
    assert_eq!(end(&mut state, PRODUCER, 1, true), Ok(()));
    let offsets = [0, 1, 2, 24_999, 25_000, 74_999].map(|index| committed(&state, at(topic(1), index)).unwrap().0);
    assert_eq!(offsets, [4, 5, 1, 1, 2, 2]);
}
