use super::*;
use crate::group::classic::InTransaction;
use crate::shard::{Markers, Target};
use crate::types::Producer;

fn may_fetch(site: &mut Site, member: &str, epoch: i32) -> ErrorCode {
    code(match site.told(Ask::MayFetch { member: member.into(), epoch }) {
        AnyReply::Consumer(Reply::Done) => AnyReply::Classic(classic::Reply::Done),
        other => other,
    })
}

#[test]
fn members_commit_and_fetch_in_their_epoch_only() {
    let mut site = Site::new(2);
    site.join("a");
    assert_eq!(site.commit("a", 1), ErrorCode::None);
    assert_eq!(site.commit("a", 0), ErrorCode::StaleMemberEpoch);
    assert_eq!(site.commit("a", 2), ErrorCode::StaleMemberEpoch);
    assert_eq!(site.commit("b", 1), ErrorCode::UnknownMemberId);
    assert_eq!(site.commit("", -1), ErrorCode::UnknownMemberId, "a tool, while there are members");
    assert_eq!(may_fetch(&mut site, "a", 1), ErrorCode::None);
    assert_eq!(may_fetch(&mut site, "a", 2), ErrorCode::StaleMemberEpoch);
    assert_eq!(may_fetch(&mut site, "b", 1), ErrorCode::UnknownMemberId);
    site.beat(leaves("a")).unwrap();
    assert_eq!(site.commit("a", 1), ErrorCode::UnknownMemberId);
    assert_eq!(site.commit("", -1), ErrorCode::None);
}

#[test]
fn a_commit_of_an_older_client_is_refused() {
    let mut site = Site::new(2);
    site.join("a");
    let caller = Caller { member: "a".into(), instance: None, generation: 1 };
    let commit =
        Commit { caller, retention_ms: None, offsets: Vec::new(), knows_group_id_not_found: false, transaction: None };
    assert_eq!(code(site.told(classic::Ask::Commit(commit))), ErrorCode::UnsupportedVersion);
}

#[test]
fn a_commit_within_a_transaction_is_allowed_by_rules_of_its_own() {
    let mut site = Site::new(2);
    site.join("a");
    let transaction = Some(InTransaction { producer: Producer { id: 5, epoch: 1 }, txn_no: 3 });
    let commits = |site: &mut Site, member: &str, generation| {
        let caller = Caller { member: member.into(), instance: None, generation };
        let offsets = vec![(Partition { topic: topic("t"), index: 0 }, Committed::default())];
        let commit = Commit { caller, retention_ms: None, offsets, knows_group_id_not_found: false, transaction };
        code(site.told(classic::Ask::Commit(commit)))
    };
    assert_eq!(commits(&mut site, "", -1), ErrorCode::None, "a producer that is not told of members");
    assert!(matches!(site.log.last(), Some(Change::TransactionalCommit { txn_no: 3, .. })));
    assert_eq!(commits(&mut site, "a", 1), ErrorCode::None);
    assert_eq!(commits(&mut site, "a", 0), ErrorCode::IllegalGeneration);
    assert_eq!(commits(&mut site, "nobody", 1), ErrorCode::UnknownMemberId);
}

#[test]
fn only_an_empty_group_is_deleted() {
    let mut site = Site::new(2);
    assert_eq!(code(site.told(classic::Ask::DeleteGroup)), ErrorCode::GroupIdNotFound);
    site.join("a");
    assert_eq!(code(site.told(classic::Ask::DeleteGroup)), ErrorCode::NonEmptyGroup);
    site.beat(leaves("a")).unwrap();
    assert_eq!(code(site.told(classic::Ask::DeleteGroup)), ErrorCode::None);
    assert_eq!(site.state.groups().all().count(), 0);
    assert_eq!(site.join("a").epoch, 1, "another group of that name");
}

#[test]
fn offsets_of_topics_somebody_is_subscribed_to_stay() {
    let mut site = Site::new(2);
    site.join("a");
    let offsets = |name: &str| vec![(name.to_owned(), Partition { topic: topic(name), index: 0 })];
    let delete = |site: &mut Site, name| code(site.told(classic::Ask::DeleteOffsets(offsets(name))));
    assert_eq!(delete(&mut site, "t"), ErrorCode::GroupSubscribedToTopic);
    assert_eq!(delete(&mut site, "other"), ErrorCode::None);
    site.beat(Beat { topics: names(&[]), pattern: Some("o.*|t".into()), ..beats("a", 1) }).unwrap();
    assert_eq!(delete(&mut site, "t"), ErrorCode::GroupSubscribedToTopic);
    site.beat(leaves("a")).unwrap();
    assert_eq!(delete(&mut site, "t"), ErrorCode::None);
}

#[test]
fn what_is_committed_grows_old_while_nobody_is_subscribed() {
    let mut site = Site::new(2);
    site.join("a");
    site.commit("a", 1);
    let names = std::collections::HashMap::from([(topic("t"), "t".to_owned())]);
    let sweep = |site: &mut Site, clock_ms| {
        let id = "g".to_owned();
        let group = site.state.groups().get(0, "g").cloned().unwrap();
        let groups = site.state.groups().clone();
        let undecided = |slot, id: &str| groups.pending(slot, id).copied().collect::<Vec<_>>();
        site.groups.sweep(clock_ms, &[(0, &id, &group)], &names, &undecided);
        site.obey();
        site.state.groups().get(0, "g").map(|group| group.offsets.len())
    };
    assert_eq!(sweep(&mut site, 2_000_000), Some(1));
    site.beat(leaves("a")).unwrap();
    assert_eq!(sweep(&mut site, 999_999), Some(1));
    let producer = Producer { id: 5, epoch: 1 };
    let offsets = vec![(Partition { topic: topic("t"), index: 0 }, Committed::default())];
    assert!(site.apply(Change::TransactionalCommit { producer, txn_no: 1, offsets }));
    assert_eq!(sweep(&mut site, 1_000_000), Some(1), "a transaction may replace it, or not");
    let targets = vec![Target { slot: 0, groups: true }];
    let aborts = Markers { append_time: 0, producer, txn_no: 1, commit: false, coordinator_epoch: 0, targets };
    site.state.apply(TERM, &Entry::Markers(aborts).encode()).unwrap();
    assert_eq!(sweep(&mut site, 1_000_000), None, "and with the last the group goes");
}
