//! The state machine, event by event, on a clock of its own, over the shard's own state.

use std::time::Duration;

use super::*;
use crate::group::classic::{self, Caller, Leaver, Waiter};
use crate::group::consumer;
use crate::group::consumer::Beaten;
use crate::group::consumer::test::{SESSION, Site, beating, code, join_classic, joins, of_t};
use crate::protocol::ErrorCode;
use crate::shard::group::Share;

impl Site {
    fn told_share(&mut self, ask: Ask) -> Reply {
        self.told(ask).into_share()
    }

    fn share_beat(&mut self, beat: Beat) -> Result<Beaten, ErrorCode> {
        beaten(self.told_share(Ask::Beat(Box::new(beat))))
    }

    fn share_reply(&mut self, waiter: Waiter) -> Option<Result<Beaten, ErrorCode>> {
        Some(beaten(self.replies.remove(&waiter)?.into_share()))
    }

    fn share_described(&mut self) -> Described {
        match self.told_share(Ask::Describe) {
            Reply::Described(described) => *described,
            other => panic!("{other:?}"),
        }
    }

    /// (member, its epoch, its partitions of `t`)
    fn shares(&mut self) -> Vec<(String, i32, Vec<i32>)> {
        let members = self.share_described().members.into_iter();
        let of = |assigned: crate::shard::group::Assignment| assigned.into_values().flatten().collect();
        members.map(|found| (found.id, found.member.epochs.now, of(found.member.assigned))).collect()
    }

    fn share_logged(&self) -> Option<&Share> {
        self.state.groups().get(0, "g").and_then(|group| group.share())
    }
}

fn beaten(reply: Reply) -> Result<Beaten, ErrorCode> {
    match reply {
        Reply::Beaten(beaten) => Ok(beaten),
        Reply::Failed { error, .. } => Err(error),
        Reply::Described(described) => panic!("{described:?}"),
    }
}

/// Nothing new.
fn beats(member: &str, epoch: i32) -> Beat {
    Beat { member: member.into(), epoch, client_id: "c".into(), client_host: "/h".into(), ..Beat::default() }
}

fn subscribes(member: &str, epoch: i32, topics: &[&str]) -> Beat {
    let topics = topics.iter().map(|topic| topic.to_string()).collect();
    Beat { topics: Some(topics), ..beats(member, epoch) }
}

fn enters(member: &str) -> Beat {
    subscribes(member, 0, &["t"])
}

#[test]
fn members_share_what_there_is_and_learn_of_it_with_their_next_heartbeat() {
    let mut site = Site::new(2);
    let first = site.share_beat(enters("a")).unwrap();
    assert_eq!((first.epoch, first.assignment), (1, Some(of_t(&[0, 1]))));
    assert_eq!(first.interval, Duration::from_secs(5));
    let second = site.share_beat(enters("b")).unwrap();
    assert_eq!((second.epoch, second.assignment), (2, Some(of_t(&[1]))));
    // Nobody had to let go first.
    let first = site.share_beat(beats("a", 1)).unwrap();
    assert_eq!((first.epoch, first.assignment), (2, Some(of_t(&[0]))));
    assert_eq!(site.share_beat(beats("a", 2)).unwrap().assignment, None, "nothing is new");
    // With more members than partitions they share those.
    site.share_beat(enters("c")).unwrap();
    let shared: Vec<usize> = site.shares().iter().map(|(_, _, partitions)| partitions.len()).collect();
    assert_eq!(shared.iter().sum::<usize>(), 4, "each of two has two members");
    assert!(shared.iter().all(|count| (1..=2).contains(count)));
    let described = site.share_described();
    assert_eq!((described.state, described.epoch, described.assignment_epoch), ("Stable", 3, 3));
}

#[test]
fn a_heartbeat_with_nothing_new_writes_nothing() {
    let mut site = Site::new(2);
    site.share_beat(enters("a")).unwrap();
    let written = site.log.len();
    assert_eq!(written, 1, "joining is one entry");
    site.share_beat(beats("a", 1)).unwrap();
    site.share_beat(enters("a")).unwrap();
    site.share_beat(subscribes("a", 1, &["t"])).unwrap();
    assert_eq!(site.log.len(), written);
}

#[test]
fn epochs_that_a_member_cannot_have_are_fenced() {
    let mut site = Site::new(2);
    assert_eq!(site.share_beat(beats("a", 1)), Err(ErrorCode::GroupIdNotFound));
    assert_eq!(site.share_beat(beats("a", LEAVES)), Err(ErrorCode::GroupIdNotFound));
    site.share_beat(enters("a")).unwrap();
    for member in ["b", "c"] {
        site.share_beat(enters(member)).unwrap();
    }
    assert_eq!(site.share_beat(beats("d", 3)), Err(ErrorCode::UnknownMemberId));
    assert_eq!(site.share_beat(beats("d", LEAVES)), Err(ErrorCode::UnknownMemberId));
    assert_eq!(site.share_beat(beats("a", 2)), Err(ErrorCode::FencedMemberEpoch), "it was told of 1");
    assert_eq!(site.share_beat(beats("a", 1)).unwrap().epoch, 3);
    // The answer may have been lost.
    let again = site.share_beat(beats("a", 1)).unwrap();
    assert_eq!(again.epoch, 3);
    assert!(again.assignment.is_some());
    assert_eq!(site.share_beat(beats("a", 4)), Err(ErrorCode::FencedMemberEpoch));
    assert_eq!(site.share_beat(enters("a")).unwrap().epoch, 3, "it may join again");
}

#[test]
fn partitions_of_members_that_leave_or_fall_silent_go_to_the_others() {
    let mut site = Site::new(2);
    site.share_beat(enters("a")).unwrap();
    site.share_beat(enters("b")).unwrap();
    let left = site.share_beat(beats("b", LEAVES)).unwrap();
    assert_eq!((left.epoch, left.assignment), (LEAVES, None));
    assert_eq!(site.share_beat(beats("a", 1)).unwrap().assignment, Some(of_t(&[0, 1])));
    site.share_beat(enters("c")).unwrap();
    site.pass(SESSION - Duration::from_secs(1));
    let epoch = site.share_beat(beats("a", 3)).unwrap().epoch;
    site.pass(Duration::from_secs(1));
    let alone = site.share_beat(beats("a", epoch)).unwrap();
    assert_eq!((alone.epoch, alone.assignment), (5, Some(of_t(&[0, 1]))));
    site.pass(SESSION);
    assert_eq!(site.share_described().state, "Empty");
    assert_eq!(site.groups.deadline(), None);
    // It stays a share group, and goes on from its epoch.
    assert_eq!(site.share_beat(beats("a", 5)), Err(ErrorCode::UnknownMemberId));
    assert_eq!(site.share_beat(enters("a")).unwrap().epoch, 7);
}

#[test]
fn new_topics_partitions_and_subscriptions_are_found() {
    let mut site = Site::new(1);
    let first = site.share_beat(subscribes("a", 0, &["t", "u"])).unwrap();
    assert_eq!(first.assignment, Some(of_t(&[0])));
    site.topic("t", 2);
    let more = site.share_beat(beats("a", 1)).unwrap();
    assert_eq!((more.epoch, more.assignment), (2, Some(of_t(&[0, 1]))));
    site.topic("other", 1);
    assert_eq!(site.share_beat(beats("a", 2)).unwrap().epoch, 2, "nobody is subscribed to it");
    site.topic("u", 1);
    assert_eq!(site.share_beat(beats("a", 2)).unwrap().assignment.unwrap().len(), 2);
    let less = site.share_beat(subscribes("a", 3, &["t"])).unwrap();
    assert_eq!((less.epoch, less.assignment), (4, Some(of_t(&[0, 1]))));
    site.topic("t", 0);
    assert_eq!(site.share_beat(beats("a", 4)).unwrap().assignment, Some(of_t(&[])));
}

#[test]
fn a_group_has_so_many_members_and_a_shard_so_many_groups() {
    let mut site = Site::with(2, |settings| {
        settings.share.members_max = 1;
        settings.share.groups_max = 1;
    });
    site.share_beat(enters("a")).unwrap();
    assert_eq!(site.share_beat(enters("b")), Err(ErrorCode::GroupMaxSizeReached));
    assert!(site.share_beat(beats("a", 1)).is_ok());
    let applied = None;
    let ask = crate::group::Ask::Share(Ask::Beat(Box::new(enters("a"))));
    site.groups.ask(site.now, &site.view, (0, "h"), applied, ask, 99);
    let told = site.groups.take_commands().pop();
    assert!(format!("{told:?}").contains("CoordinatorNotAvailable"), "{told:?}");
}

#[test]
fn a_groups_own_times_come_before_the_brokers() {
    let mut site = Site::new(1);
    let (session, interval) = (Duration::from_secs(60), Duration::from_secs(7));
    site.view.times = [("share.session.timeout.ms", session), ("share.heartbeat.interval.ms", interval)].into();
    assert_eq!(site.share_beat(enters("a")).unwrap().interval, interval);
    site.pass(session - Duration::from_millis(1));
    assert_eq!(site.share_described().state, "Stable");
    site.succeed();
    site.pass(session - Duration::from_millis(1));
    assert_eq!(site.share_described().state, "Stable");
    site.pass(Duration::from_millis(1));
    assert_eq!(site.share_described().state, "Empty");
}

#[test]
fn a_new_coordinator_goes_on_where_the_old_one_was() {
    let mut site = Site::new(2);
    site.share_beat(enters("a")).unwrap();
    site.share_beat(enters("b")).unwrap();
    site.succeed();
    let written = site.log.len();
    assert_eq!(site.share_beat(beats("b", 2)).unwrap().assignment, None);
    assert_eq!(site.log.len(), written, "nothing is new");
    assert_eq!(site.share_beat(beats("a", 1)).unwrap().epoch, 2);
    site.succeed();
    assert_eq!(site.share_beat(beats("a", 2)).unwrap().assignment, None);
    site.pass(SESSION - Duration::from_millis(1));
    assert_eq!(site.share_described().state, "Stable");
}

#[test]
fn nothing_is_told_that_the_log_does_not_have_and_what_it_refused_was_never_so() {
    let mut site = Site::new(2);
    site.share_beat(enters("a")).unwrap();
    site.holds = true;
    let joins = site.ask(Ask::Beat(Box::new(enters("b"))));
    let waits = site.ask(Ask::Beat(Box::new(beats("a", 1))));
    let describes = site.ask(Ask::Describe);
    assert!(site.replies.is_empty());
    let late = site.held[0].0.clone();
    site.decide(Err(ErrorCode::CoordinatorNotAvailable));
    for waiter in [joins, waits] {
        assert_eq!(site.share_reply(waiter), Some(Err(ErrorCode::CoordinatorNotAvailable)));
    }
    assert!(site.replies.remove(&describes).is_some());
    assert_eq!(site.share_described().members.len(), 1);
    // It is in the log after all; the next change does not mix with it.
    assert!(site.apply(late));
    let next = site.ask(Ask::Beat(Box::new(enters("c"))));
    site.decide(Ok(()));
    assert_eq!(site.share_reply(next), Some(Err(ErrorCode::NotCoordinator)));
    site.holds = false;
    assert_eq!(site.share_described().members.len(), 2);
    site.share_beat(enters("c")).unwrap();
    assert_eq!(site.share_logged().unwrap().members.len(), 3);
}

#[test]
fn members_that_come_together_are_one_entry() {
    let mut site = Site::new(2);
    site.share_beat(enters("a")).unwrap();
    let before = site.log.len();
    site.holds = true;
    let waiters = ["b", "c", "d"].map(|member| site.ask(Ask::Beat(Box::new(enters(member)))));
    site.decide(Ok(()));
    site.decide(Ok(()));
    assert!(site.held.is_empty());
    assert_eq!(site.log.len(), before + 2);
    for (waiter, epoch) in waiters.into_iter().zip(2..) {
        assert_eq!(site.share_reply(waiter).unwrap().unwrap().epoch, epoch);
    }
}

#[test]
fn a_group_is_made_without_members_where_its_offsets_are_altered_first() {
    let mut site = Site::new(2);
    for _ in 0..2 {
        let Reply::Described(described) = site.told_share(Ask::Create) else { panic!("not made") };
        assert_eq!((described.state, described.members.len()), ("Empty", 0));
        assert_eq!(site.share_logged().map(|share| share.revision), Some(1));
    }
    assert!(site.share_beat(enters("a")).is_ok());
    let Reply::Described(described) = site.told_share(Ask::Create) else { panic!("it is gone") };
    assert_eq!(described.members.len(), 1);
}

#[test]
fn a_group_of_another_kind_is_none() {
    let mut site = Site::new(2);
    site.join("a");
    assert_eq!(site.share_beat(enters("b")), Err(ErrorCode::GroupIdNotFound));
    assert!(matches!(site.told_share(Ask::Describe), Reply::Failed { error: ErrorCode::GroupIdNotFound, .. }));
    site.beat(consumer::Beat { member: "a".into(), epoch: consumer::LEAVES, ..consumer::Beat::default() }).unwrap();
    assert_eq!(site.share_beat(enters("b")), Err(ErrorCode::GroupIdNotFound), "it is one without members");
    let mut site = Site::new(2);
    assert_eq!(site.commit("", -1), ErrorCode::None);
    assert_eq!(site.share_beat(enters("b")), Err(ErrorCode::GroupIdNotFound), "it has offsets");
}

#[test]
fn other_protocols_are_told_what_kafka_tells_them() {
    let mut site = Site::new(2);
    site.share_beat(enters("a")).unwrap();
    for emptied in [false, true] {
        let caller = Caller { member: "a".into(), instance: None, generation: 1 };
        let leaver = Leaver { member: "a".into(), instance: None };
        let asked = [
            (join_classic(""), ErrorCode::InconsistentGroupProtocol),
            (classic::Ask::Heartbeat(caller), ErrorCode::UnknownMemberId),
            (classic::Ask::Leave(vec![leaver]), ErrorCode::UnknownMemberId),
            (classic::Ask::DeleteOffsets(vec![]), ErrorCode::GroupIdNotFound),
        ];
        for (ask, error) in asked {
            assert_eq!(code(site.told(ask.clone())), error, "{ask:?}");
        }
        assert_eq!(site.commit("", -1), ErrorCode::GroupIdNotFound);
        assert_eq!(site.beat(joins("b")), Err(ErrorCode::GroupIdNotFound));
        assert_eq!(site.beat(consumer::Beat { epoch: 1, ..joins("b") }), Err(ErrorCode::GroupIdNotFound));
        let described = site.told(classic::Ask::Describe).into_classic();
        assert_eq!(described, classic::Reply::NotClassic);
        if !emptied {
            assert_eq!(code(site.told(classic::Ask::DeleteGroup)), ErrorCode::NonEmptyGroup);
            site.share_beat(beats("a", LEAVES)).unwrap();
        }
    }
    assert_eq!(code(site.told(classic::Ask::DeleteGroup)), ErrorCode::None);
    assert!(site.state.groups().get(0, "g").is_none());
    // Now it may be anything.
    assert!(site.beat(joins("b")).is_ok());
}

#[test]
fn a_share_group_is_one_before_the_log_knows() {
    let mut site = Site::new(2);
    site.holds = true;
    let joins_share = site.ask(Ask::Beat(Box::new(enters("a"))));
    assert_eq!(code(site.told(join_classic(""))), ErrorCode::InconsistentGroupProtocol);
    let refused = site.ask(beating(joins("b")));
    assert_eq!(site.beaten(refused), Some(Err(ErrorCode::GroupIdNotFound)));
    site.decide(Ok(()));
    assert_eq!(site.share_reply(joins_share).unwrap().unwrap().epoch, 1);
}

#[test]
fn a_group_that_never_got_into_the_log_is_forgotten() {
    let mut site = Site::new(2);
    site.holds = true;
    let waiter = site.ask(Ask::Beat(Box::new(enters("a"))));
    site.decide(Err(ErrorCode::NotCoordinator));
    assert_eq!(site.share_reply(waiter), Some(Err(ErrorCode::NotCoordinator)));
    assert_eq!(site.share_beat(beats("a", 1)), Err(ErrorCode::GroupIdNotFound));
    site.pass(SESSION);
    assert_eq!(site.groups.deadline(), None);
}
