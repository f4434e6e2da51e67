use kafka_protocol::messages::ConsumerProtocolSubscription;
use kafka_protocol::messages::consumer_protocol_subscription::TopicPartition;
use kafka_protocol::protocol::{Encodable, StrBytes};

use super::*;
use crate::group::classic::{Join, JoinAnswer, Leaver, Sync};
use crate::group::consumer::embedded;

/// A consumer's metadata: subscribed to `t`, of which it has these partitions.
fn metadata(owned: &[i32]) -> Bytes {
    let name = || StrBytes::from_static_str("t");
    let owned = TopicPartition::default().with_topic(name().into()).with_partitions(owned.to_vec());
    let subscription = ConsumerProtocolSubscription::default().with_topics(vec![name()]);
    let subscription = subscription.with_owned_partitions(vec![owned]);
    let mut out = bytes::BytesMut::from(&[0, 1][..]);
    subscription.encode(&mut out, 1).unwrap();
    out.freeze()
}

fn join_with(member: &str, owned: &[i32]) -> Join {
    let classic::Ask::Join(join) = join_classic(member) else { unreachable!() };
    Join { protocols: vec![("range".into(), metadata(owned))], ..join }
}

fn caller(member: &str, generation: i32) -> Caller {
    Caller { member: member.into(), instance: None, generation }
}

impl Site {
    fn join_classic(&mut self, join: Join) -> Result<JoinAnswer, ErrorCode> {
        match self.told(classic::Ask::Join(join)).into_classic() {
            classic::Reply::Joined(answer) => Ok(answer),
            classic::Reply::JoinFailed { error, .. } | classic::Reply::Failed(error) => Err(error),
            other => panic!("{other:?}"),
        }
    }

    fn sync_bytes(
        &mut self,
        member: &str,
        generation: i32,
        assignments: Vec<(String, Bytes)>,
    ) -> Result<Bytes, ErrorCode> {
        let (caller, protocol_type, protocol_name) = (caller(member, generation), None, None);
        let sync = Sync { caller, protocol_type, protocol_name, assignments };
        match self.told(classic::Ask::Sync(sync)).into_classic() {
            classic::Reply::Synced { assignment, .. } => Ok(assignment),
            classic::Reply::Failed(error) => Err(error),
            other => panic!("{other:?}"),
        }
    }

    /// What a member of the classic protocol is assigned.
    fn sync(&mut self, member: &str, generation: i32) -> Result<Assignment, ErrorCode> {
        let bytes = self.sync_bytes(member, generation, Vec::new())?;
        Ok(embedded::assignment(&bytes, &self.view).expect("an assignment"))
    }

    fn heartbeat(&mut self, member: &str, generation: i32) -> ErrorCode {
        code(self.told(classic::Ask::Heartbeat(caller(member, generation))))
    }

    fn leave(&mut self, member: &str) -> ErrorCode {
        code(self.told(classic::Ask::Leave(vec![Leaver { member: member.into(), instance: None }])))
    }

    /// A classic group of one member, which is assigned all of `t`'s two partitions in generation 1. Its id.
    fn classic(&mut self) -> String {
        let joined = self.join_classic(join_with("", &[])).unwrap();
        assert_eq!((joined.generation, &joined.leader), (1, &joined.member));
        let all = embedded::to_bytes(&of_t(&[0, 1]), &BTreeMap::from([(topic("t"), &"t".to_owned())]), &[0, 1]);
        self.sync_bytes(&joined.member, 1, vec![(joined.member.clone(), all)]).unwrap();
        joined.member
    }

    fn kind(&self) -> (&'static str, &'static str) {
        let all: Vec<_> = self.state.groups().all().map(|(slot, id, group)| (slot, id, group.as_ref())).collect();
        let listed = self.groups.list(&all);
        (listed[0].group_type, listed[0].state)
    }
}

#[test]
fn a_classic_group_goes_over_with_the_first_who_speaks_the_protocol() {
    let mut site = Site::new(2);
    let x = site.classic();
    let joined = site.join("a");
    assert_eq!((joined.epoch, joined.assignment), (2, Some(of_t(&[]))), "x has everything");
    assert_eq!(site.kind(), ("consumer", "Reconciling"));
    // X learns of it as of any rebalance, keeps what it can and lets go of the rest before it comes to the epoch.
    assert_eq!(site.heartbeat(&x, 1), ErrorCode::RebalanceInProgress);
    let joined = site.join_classic(join_with(&x, &[0, 1])).unwrap();
    assert_eq!((joined.generation, joined.leader.as_str()), (1, ""));
    let kept = site.sync(&x, 1).unwrap();
    assert_eq!(kept.values().map(BTreeSet::len).sum::<usize>(), 1);
    assert_eq!(site.beat(beats("a", 2)).unwrap().assignment, None);
    let owned: Vec<i32> = kept[&topic("t")].iter().copied().collect();
    assert_eq!(site.heartbeat(&x, 1), ErrorCode::RebalanceInProgress);
    assert_eq!(site.join_classic(join_with(&x, &owned)).unwrap().generation, 2);
    assert_eq!(site.sync(&x, 2).unwrap(), kept);
    assert_eq!(site.heartbeat(&x, 2), ErrorCode::None);
    assert_eq!(site.beat(beats("a", 2)).unwrap().assignment.map(|all| all.len()), Some(1));
    assert_eq!(site.kind(), ("consumer", "Stable"));
    assert_eq!(site.commit(&x, 2), ErrorCode::None);
    assert_eq!(site.commit(&x, 1), ErrorCode::IllegalGeneration);
    assert_eq!(site.heartbeat("a", 2), ErrorCode::UnknownMemberId, "it does not speak that protocol");
    assert_eq!(site.heartbeat(&x, 1), ErrorCode::IllegalGeneration);
}

#[test]
fn whoever_has_let_go_before_it_joins_needs_no_second_round() {
    let mut site = Site::new(2);
    let x = site.classic();
    site.join("a");
    assert_eq!(site.join_classic(join_with(&x, &[])).unwrap().generation, 2);
    assert_eq!(site.sync(&x, 2).unwrap().values().map(BTreeSet::len).sum::<usize>(), 1);
    assert_eq!(site.beat(beats("a", 2)).unwrap().assignment.map(|all| all.len()), Some(1));
}

#[test]
fn members_that_wait_for_their_classic_group_are_told_to_join_again() {
    let mut site = Site::new(2);
    let x = site.classic();
    let other = Join { client_id: "d".into(), ..join_with("", &[]) };
    let waits = site.ask(classic::Ask::Join(other));
    assert!(!site.replies.contains_key(&waits));
    site.join("a");
    assert_eq!(code(site.replies.remove(&waits).unwrap()), ErrorCode::RebalanceInProgress);
    assert_eq!(site.described().members.len(), 3);
    assert_eq!(site.heartbeat(&x, 1), ErrorCode::RebalanceInProgress);
}

#[test]
fn a_group_is_classic_again_when_the_last_has_gone_who_speaks_the_protocol() {
    let mut site = Site::new(2);
    let x = site.classic();
    site.join("a");
    site.join_classic(join_with(&x, &[])).unwrap();
    site.sync(&x, 2).unwrap();
    site.beat(leaves("a")).unwrap();
    assert_eq!(site.kind(), ("classic", "PreparingRebalance"));
    assert_eq!(site.heartbeat(&x, 2), ErrorCode::RebalanceInProgress, "its generation goes on");
    let joined = site.join_classic(join_with(&x, &[])).unwrap();
    assert_eq!((joined.generation, &joined.leader, joined.members.len()), (3, &x, 1));
    site.sync_bytes(&x, 3, vec![(x.clone(), Bytes::new())]).unwrap();
    assert_eq!((site.kind(), site.heartbeat(&x, 3)), (("classic", "Stable"), ErrorCode::None));
    // And once more.
    assert_eq!(site.join("a").epoch, 4);
    assert_eq!(site.kind().0, "consumer");
}

#[test]
fn a_group_goes_over_again_before_it_has_written_that_it_was_classic() {
    let mut site = Site::new(2);
    let x = site.classic();
    site.join("a");
    let y = site.join_classic(Join { client_id: "d".into(), ..join_with("", &[]) }).unwrap().member;
    site.beat(leaves("a")).unwrap();
    assert_eq!(site.kind(), ("classic", "PreparingRebalance"));
    assert_eq!((site.leave(&y), site.logged().members.len()), (ErrorCode::None, 2));
    let (revision, epoch) = (site.logged().revision, site.logged().epoch);
    assert!(site.join("b").epoch > epoch);
    assert_eq!((site.logged().revision, site.kind().0), (revision + 1, "consumer"));
    let logged: Vec<&str> = site.logged().members.keys().map(String::as_str).collect();
    assert_eq!(logged, ["b", x.as_str()]);
    site.succeed();
    assert_eq!(site.described().members.len(), 2);
}

#[test]
fn an_empty_group_goes_over_while_somebody_begins_a_classic_one() {
    for id_required in [true, false] {
        let mut site = Site::with(2, |settings| settings.classic.initial_rebalance_delay = Duration::from_secs(3));
        site.join("a");
        site.beat(leaves("a")).unwrap();
        let epoch = site.logged().epoch;
        let begins = site.ask(classic::Ask::Join(Join { id_required, ..join_with("", &[]) }));
        let joined = site.join("b");
        assert!(joined.epoch > epoch || !id_required);
        let told = match id_required {
            true => ErrorCode::MemberIdRequired,
            false => ErrorCode::RebalanceInProgress,
        };
        assert_eq!(code(site.replies.remove(&begins).unwrap()), told);
        assert_eq!(site.logged().members.len(), if id_required { 1 } else { 2 });
    }
}

#[test]
fn a_group_goes_over_again_while_its_classic_assignment_is_on_its_way() {
    let mut site = Site::new(2);
    let x = site.classic();
    site.join("a");
    site.join_classic(join_with(&x, &[])).unwrap();
    site.sync(&x, 2).unwrap();
    site.beat(leaves("a")).unwrap();
    site.join_classic(join_with(&x, &[])).unwrap();
    site.holds = true;
    let caller = caller(&x, 3);
    let syncs = Sync { caller, protocol_type: None, protocol_name: None, assignments: Vec::new() };
    site.ask(classic::Ask::Sync(syncs));
    let joins = site.ask(beating(joins("b")));
    site.decide(Ok(()));
    site.decide(Ok(()));
    assert_eq!(site.beaten(joins).map(|told| told.is_ok()), Some(true));
    assert_eq!(site.logged().members.len(), 2);
}

#[test]
fn a_new_coordinator_takes_a_group_that_is_on_its_way() {
    let mut site = Site::new(2);
    let x = site.classic();
    site.join("a");
    site.succeed();
    assert_eq!(site.heartbeat(&x, 1), ErrorCode::RebalanceInProgress);
    site.join_classic(join_with(&x, &[])).unwrap();
    site.sync(&x, 2).unwrap();
    site.holds = true;
    site.ask(beating(leaves("a")));
    let (change, _) = site.held.remove(0);
    site.holds = false;
    assert!(site.apply(change));
    site.succeed();
    assert_eq!(site.heartbeat(&x, 2), ErrorCode::None);
    assert_eq!(site.heartbeat(&x, 2), ErrorCode::RebalanceInProgress, "it is a classic group by now");
    assert_eq!(site.join_classic(join_with(&x, &[])).unwrap().leader, x);
}

#[test]
fn a_group_that_cannot_go_over_stays() {
    let mut site = Site::with(2, |settings| settings.consumer.upgrades = false);
    let x = site.classic();
    assert_eq!(site.beat(joins("a")), Err(ErrorCode::GroupIdNotFound));
    assert_eq!((site.kind().0, site.heartbeat(&x, 1)), ("classic", ErrorCode::None));
    let mut site = Site::new(2);
    let x = site.classic();
    site.holds = true;
    let waiter = site.ask(beating(joins("a")));
    site.decide(Err(ErrorCode::CoordinatorNotAvailable));
    assert_eq!(site.beaten(waiter), Some(Err(ErrorCode::CoordinatorNotAvailable)));
    site.holds = false;
    assert_eq!((site.kind(), site.heartbeat(&x, 1)), (("classic", "Stable"), ErrorCode::None));
    let mut site = Site::with(2, |settings| settings.consumer.downgrades = false);
    let x = site.classic();
    site.join("a");
    site.beat(leaves("a")).unwrap();
    assert_eq!(site.heartbeat(&x, 1), ErrorCode::RebalanceInProgress);
    assert_eq!(site.join_classic(join_with(&x, &[0, 1])).unwrap().generation, 3);
    assert_eq!((site.sync(&x, 3).unwrap(), site.kind()), (of_t(&[0, 1]), ("consumer", "Stable")));
}

#[test]
fn classic_members_join_a_group_of_the_consumer_protocol() {
    let mut site = Site::new(2);
    site.join("a");
    let named = Join { id_required: true, ..join_with("", &[]) };
    assert_eq!(site.join_classic(named), Err(ErrorCode::MemberIdRequired));
    let other = Join { protocol_type: "connect".into(), ..join_with("x", &[]) };
    assert_eq!(site.join_classic(other), Err(ErrorCode::InconsistentGroupProtocol));
    assert_eq!(site.join_classic(join_with("x", &[])).unwrap().generation, 2);
    let unlike = Join { protocols: vec![("mine".into(), metadata(&[]))], ..join_with("y", &[]) };
    assert_eq!(site.join_classic(unlike), Err(ErrorCode::InconsistentGroupProtocol));
    assert_eq!(site.sync("x", 2).unwrap(), of_t(&[]));
    assert_eq!(site.heartbeat("x", 2), ErrorCode::None, "its partition is not free yet");
    site.beat(beats("a", 1)).unwrap();
    site.owns("a", 1, &[0]).unwrap();
    assert_eq!(site.heartbeat("x", 2), ErrorCode::RebalanceInProgress, "now it is");
    assert_eq!(site.join_classic(join_with("x", &[])).unwrap().generation, 2);
    assert_eq!(site.sync("x", 2).unwrap(), of_t(&[1]));
    assert_eq!(site.leave("nobody"), ErrorCode::UnknownMemberId);
    assert_eq!(site.leave("x"), ErrorCode::None);
    assert_eq!(site.beat(beats("a", 2)).unwrap().assignment, Some(of_t(&[0, 1])));
}

#[test]
fn tools_remove_members_of_both_protocols() {
    let mut site = Site::new(2);
    site.join("a");
    site.beat(joins_as("i", "b")).unwrap();
    assert_eq!(site.leave("a"), ErrorCode::None);
    assert_eq!(site.beat(beats("a", 1)), Err(ErrorCode::UnknownMemberId));
    assert_eq!(site.described().epoch, 3);
    let by_instance = |id: &str| classic::Ask::Leave(vec![Leaver { member: id.into(), instance: Some("i".into()) }]);
    assert_eq!(code(site.told(by_instance("c"))), ErrorCode::FencedInstanceId);
    assert_eq!(code(site.told(by_instance(""))), ErrorCode::None);
    assert_eq!((site.state(), site.described().epoch), ("Empty", 4));
    // The last who speaks the new protocol leaves a classic group behind.
    let mut site = Site::new(2);
    let x = site.classic();
    site.join("a");
    site.join_classic(join_with(&x, &[])).unwrap();
    site.sync(&x, 2).unwrap();
    assert_eq!(site.leave("a"), ErrorCode::None);
    assert_eq!(site.kind(), ("classic", "PreparingRebalance"));
    assert_eq!(site.heartbeat(&x, 2), ErrorCode::RebalanceInProgress, "its generation goes on");
}

#[test]
fn classic_members_that_are_late_are_out() {
    let is_out = |act: fn(&mut Site)| {
        let mut site = Site::new(2);
        site.join("a");
        let join = Join { session_timeout: Duration::from_secs(3600), ..join_with("x", &[]) };
        site.join_classic(join).unwrap();
        act(&mut site);
        for _ in 0..3 {
            let epoch = site.member("a").current.epoch;
            site.beat(beats("a", epoch)).unwrap();
            site.pass(Duration::from_secs(20));
        }
        site.heartbeat("x", 2) == ErrorCode::UnknownMemberId
    };
    assert!(is_out(|_| {}), "it never syncs");
    assert!(!is_out(|site| drop(site.sync("x", 2))));
    let joins_late = |site: &mut Site| {
        site.sync("x", 2).unwrap();
        site.topic("t", 3);
        site.beat(beats("a", 1)).unwrap();
        assert_eq!(site.heartbeat("x", 2), ErrorCode::RebalanceInProgress);
    };
    assert!(is_out(joins_late), "it does not join again");
}

#[test]
fn a_static_member_may_come_back_with_the_other_protocol() {
    let mut site = Site::new(2);
    let classic = |member: &str| Join { instance: Some("i".into()), ..join_with(member, &[]) };
    site.join("b");
    let x = site.join_classic(classic("")).unwrap().member;
    site.sync_bytes(&x, 2, Vec::new()).unwrap();
    let back = site.beat(joins_as("i", "a")).unwrap();
    assert_eq!(back.epoch, 2, "in the same place");
    let stale = Caller { instance: Some("i".into()), ..caller(&x, 2) };
    assert_eq!(code(site.told(classic::Ask::Heartbeat(stale))), ErrorCode::FencedInstanceId);
    let y = site.join_classic(classic("")).unwrap();
    assert_eq!((y.generation, site.described().members.len()), (2, 2));
    let former = Beat { instance: Some("i".into()), ..beats("a", 2) };
    assert_eq!(site.beat(former), Err(ErrorCode::FencedInstanceId));
}
