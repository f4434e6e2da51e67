use std::collections::HashMap;

use super::*;
use crate::shard::group::Committed;
use crate::types::{Partition, Producer, TopicId};

fn at(topic: u8) -> Partition {
    Partition { topic: TopicId::from_bytes([topic; 16]), index: 0 }
}

fn commit(caller: Caller) -> Commit {
    Commit {
        caller,
        retention_ms: None,
        offsets: vec![(at(1), Committed { offset: 7, ..Committed::default() })],
        knows_group_id_not_found: true,
        transaction: None,
    }
}

fn committed(site: &mut Site, caller: Caller) -> ErrorCode {
    code(site.told(Ask::Commit(commit(caller))))
}

#[test]
fn whoever_assigns_by_hand_may_commit_while_the_group_has_no_members() {
    let mut site = Site::new();
    assert_eq!(committed(&mut site, caller("", -1)), ErrorCode::None);
    assert_eq!(site.state(), "Empty");
    assert_eq!(committed(&mut site, caller("", -1)), ErrorCode::None);
    assert_eq!(committed(&mut site, caller("m", 1)), ErrorCode::UnknownMemberId);
    site.stable(&["a"]);
    assert_eq!(committed(&mut site, caller("", -1)), ErrorCode::UnknownMemberId);
    assert_eq!(site.log.len(), 3);
}

#[test]
fn a_group_that_is_not_there_has_no_generation() {
    let mut site = Site::new();
    assert_eq!(committed(&mut site, caller("m", 3)), ErrorCode::GroupIdNotFound);
    let old = Commit { knows_group_id_not_found: false, ..commit(caller("m", 3)) };
    assert_eq!(code(site.told(Ask::Commit(old))), ErrorCode::IllegalGeneration);
    assert!(site.log.is_empty());
}

#[test]
fn members_commit_in_their_generation_only_and_not_before_they_are_assigned() {
    let mut site = Site::new();
    let ids = site.stable(&["a", "b"]);
    assert_eq!(committed(&mut site, caller(&ids[1], 1)), ErrorCode::None);
    assert_eq!(committed(&mut site, caller(&ids[1], 0)), ErrorCode::IllegalGeneration);
    assert_eq!(committed(&mut site, caller(&ids[1], -1)), ErrorCode::IllegalGeneration);
    assert_eq!(committed(&mut site, caller("nobody", 1)), ErrorCode::UnknownMemberId);
    let stranger = Caller { instance: Some("i".into()), ..caller(&ids[1], 1) };
    assert_eq!(committed(&mut site, stranger), ErrorCode::UnknownMemberId);
    // While the others join, what was read is still committed.
    let first = site.ask(join("", &ids[0]));
    assert_eq!(committed(&mut site, caller(&ids[1], 1)), ErrorCode::None);
    site.ask(join("", &ids[1]));
    site.joined(first);
    assert_eq!(committed(&mut site, caller(&ids[1], 1)), ErrorCode::IllegalGeneration);
    assert_eq!(committed(&mut site, caller(&ids[1], 2)), ErrorCode::RebalanceInProgress);
}

#[test]
fn a_commit_within_a_transaction_is_allowed_by_rules_of_its_own() {
    let mut site = Site::new();
    let transaction = Some(InTransaction { producer: Producer { id: 5, epoch: 1 }, txn_no: 3 });
    let commits = |site: &mut Site, caller: Caller| {
        let knows_group_id_not_found = false;
        code(site.told(Ask::Commit(Commit { transaction, knows_group_id_not_found, ..commit(caller) })))
    };
    assert_eq!(commits(&mut site, caller("m", 3)), ErrorCode::IllegalGeneration, "there is no group");
    assert_eq!(commits(&mut site, caller("", -1)), ErrorCode::None);
    let Some(Change::TransactionalCommit { producer, txn_no, offsets }) = site.log.last() else {
        panic!("{:?}", site.log)
    };
    assert_eq!((producer.id, producer.epoch, *txn_no, offsets.len()), (5, 1, 3, 1));
    let ids = site.stable(&["a", "b"]);
    assert_eq!(commits(&mut site, caller("", -1)), ErrorCode::None, "a producer that is not told of members");
    assert_eq!(commits(&mut site, caller(&ids[0], 1)), ErrorCode::None);
    assert_eq!(commits(&mut site, caller(&ids[0], 0)), ErrorCode::IllegalGeneration);
    assert_eq!(commits(&mut site, caller("nobody", 1)), ErrorCode::UnknownMemberId);
    assert_eq!(commits(&mut site, caller(&ids[0], -1)), ErrorCode::IllegalGeneration);
    let (first, _) = (site.ask(join("", &ids[0])), site.ask(join("", &ids[1])));
    site.joined(first);
    assert_eq!(commits(&mut site, caller(&ids[0], 2)), ErrorCode::None, "not assigned yet");
}

#[test]
fn a_commit_is_answered_when_the_log_has_it_and_is_a_sign_of_life() {
    let mut site = Site::new();
    let ids = site.stable(&["a"]);
    site.holds = true;
    site.pass(SESSION - Duration::from_millis(1));
    let (first, second) =
        (site.ask(Ask::Commit(commit(caller(&ids[0], 1)))), site.ask(Ask::Commit(commit(caller(&ids[0], 1)))));
    site.pass(SESSION - Duration::from_millis(1));
    assert_eq!((site.state(), site.reply(first)), ("Stable", None));
    site.decide(Ok(()));
    assert_eq!(site.reply(first), Some(Reply::Done));
    site.decide(Err(ErrorCode::NotCoordinator));
    assert_eq!(site.reply(second), Some(Reply::Failed(ErrorCode::NotCoordinator)));
}

#[test]
fn groups_are_deleted_when_they_have_no_members() {
    let mut site = Site::new();
    assert_eq!(code(site.told(Ask::DeleteGroup)), ErrorCode::GroupIdNotFound);
    let ids = site.stable(&["a"]);
    assert_eq!(code(site.told(Ask::DeleteGroup)), ErrorCode::NonEmptyGroup);
    site.ask(leave(&ids[0]));
    assert_eq!(code(site.told(Ask::DeleteGroup)), ErrorCode::None);
    assert_eq!(site.log.last(), Some(&Change::Delete));
    assert_eq!(site.told(Ask::Describe), Reply::Described(None));
}

#[test]
fn offsets_of_topics_that_members_read_are_not_deleted() {
    let mut site = Site::new();
    let asked = || Ask::DeleteOffsets(vec![("t".into(), at(1)), ("other".into(), at(2))]);
    assert_eq!(code(site.told(asked())), ErrorCode::GroupIdNotFound);
    let ids = site.stable(&["a"]);
    let (subscribed, none) = (ErrorCode::GroupSubscribedToTopic, ErrorCode::None);
    assert_eq!(site.told(asked()), Reply::Each(vec![subscribed, none]));
    let deleted = |partitions| Change::DeleteOffsets { partitions, until_ms: u64::MAX };
    assert_eq!(site.log.last(), Some(&deleted(vec![at(2)])));
    site.ask(leave(&ids[0]));
    assert_eq!(site.told(asked()), Reply::Each(vec![none, none]));
    assert_eq!(site.log.last(), Some(&deleted(vec![at(1), at(2)])));
}

#[test]
fn groups_of_other_kinds_keep_their_offsets_while_they_have_members() {
    let mut site = Site::new();
    let waiter = site.ask(Ask::Join(Join { protocol_type: "connect".into(), id_required: false, ..joins("a", "") }));
    site.pass(DELAY);
    site.joined(waiter);
    assert_eq!(code(site.told(Ask::DeleteOffsets(vec![("t".into(), at(1))]))), ErrorCode::NonEmptyGroup);
}

/// What a sweep at this time would forget, of a group with an offset of "t" and of "other", both committed at 100.
fn swept(site: &mut Site, clock_s: u64, retention_ms: Option<u64>) -> Vec<Change> {
    swept_but(site, &[], clock_s, retention_ms)
}

/// As [`swept`], while these wait for a transaction.
fn swept_but(site: &mut Site, undecided: &[u8], clock_s: u64, retention_ms: Option<u64>) -> Vec<Change> {
    let group = site.applied.get_or_insert_default();
    for topic in [1, 2] {
        group.offsets.insert(at(topic), Committed { at_ms: 100_000, retention_ms, ..Committed::default() });
    }
    let names = HashMap::from([(at(1).topic, "t".to_owned()), (at(2).topic, "other".to_owned())]);
    let id = "g".to_owned();
    site.log.clear();
    site.groups.sweep(clock_s * 1000, [(0, &id, &*group)].into_iter(), &names, &|_, _| {
        undecided.iter().map(|topic| at(*topic)).collect::<Vec<_>>()
    });
    site.obey();
    std::mem::take(&mut site.log)
}

fn forget(topics: &[u8]) -> Change {
    Change::DeleteOffsets { partitions: topics.iter().map(|topic| at(*topic)).collect(), until_ms: 100_000 }
}

#[test]
fn offsets_committed_by_hand_grow_old_from_their_commit() {
    let mut site = Site::new();
    assert_eq!(swept(&mut site, 1099, None), []);
    assert_eq!(swept(&mut site, 1100, None), [forget(&[1, 2]), Change::DeleteIfUnused]);
    assert_eq!(swept(&mut site, 104, Some(5000)), []);
    assert_eq!(swept(&mut site, 105, Some(5000)), [forget(&[1, 2]), Change::DeleteIfUnused]);
}

#[test]
fn an_offset_stays_while_a_transaction_may_replace_it() {
    let mut site = Site::new();
    assert_eq!(swept_but(&mut site, &[2], 1100, None), [forget(&[1])]);
    assert_eq!(swept_but(&mut site, &[1, 2], 1100, None), []);
}

#[test]
fn offsets_of_a_group_grow_old_when_its_last_member_has_left() {
    let mut site = Site::new();
    let since = Classic { protocol_type: "consumer".into(), since_ms: 500_000, ..Classic::default() };
    site.applied = Some(Group { kind: Kind::Classic(Box::new(since)), ..Group::default() });
    assert_eq!(swept(&mut site, 1499, None), []);
    assert_eq!(swept(&mut site, 1500, None), [forget(&[1, 2]), Change::DeleteIfUnused]);
}

#[test]
fn a_live_group_forgets_only_topics_that_it_no_longer_reads() {
    let mut site = Site::new();
    let ids = site.stable(&["a", "b"]);
    assert_eq!(swept(&mut site, 1099, None), []);
    assert_eq!(swept(&mut site, 1100, None), [forget(&[2])]);
    site.ask(join("", &ids[0]));
    assert_eq!(swept(&mut site, 1100, None), [], "not while it rebalances");
}

#[test]
fn offsets_do_not_grow_old_before_the_log_knows_that_the_last_member_has_left() {
    let mut site = Site::new();
    let ids = site.stable(&["a"]);
    site.holds = true;
    site.ask(leave(&ids[0]));
    assert_eq!(site.state(), "Empty");
    // The group was assigned at 0, and its offsets were committed at 100.
    site.holds = false;
    assert_eq!(swept(&mut site, 1050, None), []);
    // And if the log refuses to know, the member is there for one more session.
    site.decide(Err(ErrorCode::NotCoordinator));
    assert_eq!((site.state(), swept(&mut site, 1050, None)), ("Stable", vec![]));
    assert_eq!(site.heartbeat(&ids[0], 1), ErrorCode::None);
    site.pass(SESSION);
    site.pass(REBALANCE);
    assert_eq!((site.state(), saved(&site.log[0]).members.len()), ("Empty", 0));
    assert_eq!(swept(&mut site, 1050, None), [forget(&[1, 2]), Change::DeleteIfUnused]);
}

#[test]
fn whoever_comes_while_the_log_refuses_to_know_of_the_last_that_left_stays() {
    let mut site = Site::new();
    let ids = site.stable(&["a"]);
    site.holds = true;
    site.ask(leave(&ids[0]));
    let joins = site.ask(Ask::Join(Join { id_required: false, ..joins("b", "") }));
    site.decide(Err(ErrorCode::NotCoordinator));
    site.pass(DELAY);
    assert_eq!(site.joined(joins).members.len(), 1);
}

#[test]
fn a_group_deleted_right_after_its_last_member_has_left_does_not_come_back() {
    let mut site = Site::new();
    let ids = site.stable(&["a"]);
    site.holds = true;
    site.ask(leave(&ids[0]));
    let deletes = site.ask(Ask::DeleteGroup);
    assert_eq!((site.state(), site.heartbeat(&ids[0], 1)), ("Empty", ErrorCode::UnknownMemberId));
    site.decide(Ok(()));
    site.decide(Ok(()));
    assert_eq!(site.reply(deletes), Some(Reply::Done));
    assert_eq!(site.told(Ask::Describe), Reply::Described(None));
    site.pass(SESSION);
    assert!(site.held.is_empty());
}
