use super::*;

#[test]
fn a_new_coordinator_goes_on_without_a_rebalance() {
    let mut site = Site::new(2);
    site.join("a");
    site.join("b");
    site.beat(beats("a", 1)).unwrap();
    site.succeed();
    let written = site.log.len();
    assert_eq!(site.beat(beats("b", 2)).unwrap().assignment, None, "a has not let go");
    assert_eq!(site.beat(beats("a", 1)).unwrap().epoch, 1);
    assert_eq!(site.log.len(), written, "nothing is new");
    assert_eq!(site.owns("a", 1, &[0]).unwrap().epoch, 2);
    site.succeed();
    assert_eq!(site.beat(beats("b", 2)).unwrap().assignment, Some(of_t(&[1])));
    assert_eq!((site.state(), site.described().epoch), ("Stable", 2));
}

#[test]
fn members_get_a_whole_session_from_a_new_coordinator() {
    let mut site = Site::new(2);
    site.join("a");
    site.pass(SESSION - Duration::from_millis(1));
    site.succeed();
    site.pass(SESSION - Duration::from_millis(1));
    assert_eq!(site.state(), "Stable");
    site.pass(Duration::from_millis(1));
    assert_eq!(site.state(), "Empty");
}

#[test]
fn what_the_log_did_not_take_was_never_so() {
    let mut site = Site::new(2);
    site.join("a");
    site.holds = true;
    let failed = site.ask(beating(joins("b")));
    let waits = site.ask(beating(beats("a", 1)));
    site.decide(Err(ErrorCode::CoordinatorNotAvailable));
    assert_eq!(site.beaten(failed), Some(Err(ErrorCode::CoordinatorNotAvailable)));
    assert_eq!(site.beaten(waits), Some(Err(ErrorCode::CoordinatorNotAvailable)));
    site.holds = false;
    assert_eq!(site.described().members.len(), 1);
    assert_eq!(site.beat(beats("a", 1)).unwrap().assignment, None);
    assert_eq!(site.join("b").epoch, 2);
}

#[test]
fn a_change_that_was_given_up_and_came_late_does_not_mix_with_later_ones() {
    let mut site = Site::new(2);
    site.join("a");
    site.holds = true;
    site.ask(beating(joins("b")));
    let late = site.held[0].0.clone();
    site.decide(Err(ErrorCode::CoordinatorNotAvailable));
    assert!(site.apply(late), "it is in the log after all");
    // The coordinator does not know, and its next change is refused; then it does.
    let waiter = site.ask(beating(joins("c")));
    site.decide(Ok(()));
    assert_eq!(site.beaten(waiter), Some(Err(ErrorCode::NotCoordinator)));
    site.holds = false;
    assert_eq!(site.described().members.len(), 2);
    assert_eq!(site.join("c").epoch, 3);
}

#[test]
fn a_group_that_never_got_into_the_log_is_forgotten() {
    let mut site = Site::new(2);
    site.holds = true;
    let waiter = site.ask(beating(joins("a")));
    site.decide(Err(ErrorCode::NotCoordinator));
    assert_eq!(site.beaten(waiter), Some(Err(ErrorCode::NotCoordinator)));
    assert_eq!(site.beat(beats("a", 1)), Err(ErrorCode::GroupIdNotFound));
    site.pass(SESSION);
    assert_eq!(site.groups.deadline(), None);
}

#[test]
fn an_empty_group_becomes_what_its_first_member_speaks() {
    let mut site = Site::new(2);
    site.join("a");
    assert_eq!(code(site.told(join_classic(""))), ErrorCode::InconsistentGroupProtocol);
    assert_eq!(site.groups_listed(), [("consumer", "Stable")]);
    site.beat(leaves("a")).unwrap();
    assert_eq!(site.groups_listed(), [("consumer", "Empty")]);
    let waiter = site.ask(join_classic(""));
    let classic::Reply::Joined(joined) = site.replies.remove(&waiter).unwrap().into_classic() else { panic!() };
    assert_eq!(site.groups_listed(), [("classic", "CompletingRebalance")]);
    let caller = Caller { member: joined.member.clone(), instance: None, generation: joined.generation };
    let assignments = vec![(joined.member.clone(), Bytes::from_static(b"all"))];
    let sync = classic::Sync { caller, protocol_type: None, protocol_name: None, assignments };
    site.ask(classic::Ask::Sync(sync));
    assert_eq!(site.beat(joins("a")), Err(ErrorCode::GroupIdNotFound), "it has members of another kind");
    assert_eq!(site.described_as_consumer(), Err(ErrorCode::GroupIdNotFound));
    site.ask(classic::Ask::Leave(vec![classic::Leaver { member: joined.member, instance: None }]));
    assert_eq!(site.groups_listed(), [("classic", "Empty")]);
    assert_eq!(site.join("a").epoch, 1);
    assert_eq!(site.groups_listed(), [("consumer", "Stable")]);
}

impl Site {
    fn groups_listed(&self) -> Vec<(&'static str, &'static str)> {
        let all: Vec<_> = self.state.groups().all().map(|(slot, id, group)| (slot, id, group.as_ref())).collect();
        self.groups.list(&all).into_iter().map(|listed| (listed.group_type, listed.state)).collect()
    }

    fn described_as_consumer(&mut self) -> Result<(), ErrorCode> {
        match self.told(Ask::Describe).into_consumer() {
            Reply::Failed { error, .. } => Err(error),
            _ => Ok(()),
        }
    }
}

#[test]
fn a_hundred_members_that_join_at_once_cost_two_entries() {
    let mut site = Site::new(200);
    site.holds = true;
    let waiters: Vec<Waiter> = (0..100).map(|n| site.ask(beating(joins(&format!("m{n}"))))).collect();
    site.decide(Ok(()));
    site.decide(Ok(()));
    let epochs: Vec<i32> = waiters.iter().map(|waiter| site.beaten(*waiter).unwrap().unwrap().epoch).collect();
    assert_eq!((epochs.first(), epochs.last()), (Some(&1), Some(&100)));
    assert_eq!((site.log.len(), site.held.len()), (2, 0));
    assert!(site.logged().members.values().all(|member| member.target.values().all(|all| all.len() == 2)));
}

#[test]
fn a_groups_own_times_come_before_the_brokers() {
    let mut site = Site::new(2);
    let (session, interval) = (Duration::from_secs(60), Duration::from_secs(7));
    site.view.times = [("consumer.session.timeout.ms", session), ("consumer.heartbeat.interval.ms", interval)].into();
    assert_eq!(site.join("a").interval, interval);
    site.pass(session - Duration::from_millis(1));
    assert_eq!(site.state(), "Stable");
    site.succeed();
    site.pass(session - Duration::from_millis(1));
    assert_eq!(site.state(), "Stable");
    site.pass(Duration::from_millis(1));
    assert_eq!(site.state(), "Empty");
}
