use super::*;

/// Two members that know generation 1 and have not synced.
fn completing(site: &mut Site) -> Vec<String> {
    let ids: Vec<String> = ["a", "b"].iter().map(|client| site.id(client)).collect();
    for id in &ids {
        site.ask(join("", id));
    }
    site.pass(DELAY);
    site.pass(DELAY);
    assert_eq!(site.state(), "CompletingRebalance");
    ids
}

#[test]
fn nobody_is_told_an_assignment_before_the_log_has_it() {
    let mut site = Site::new();
    let ids = completing(&mut site);
    site.holds = true;
    let follower = site.ask(sync(&ids[1], 1, &[]));
    let leader = site.ask(sync(&ids[0], 1, &ids));
    assert_eq!((site.reply(follower), site.reply(leader), site.state()), (None, None, "CompletingRebalance"));
    site.decide(Ok(()));
    let synced = |id: &str| Reply::Synced {
        protocol_type: Some("consumer".into()),
        protocol_name: Some("range".into()),
        assignment: Bytes::from(id.to_owned()),
    };
    assert_eq!((site.reply(follower), site.reply(leader)), (Some(synced(&ids[1])), Some(synced(&ids[0]))));
    assert_eq!(site.state(), "Stable");
    assert_eq!(site.told(sync(&ids[1], 1, &[])), synced(&ids[1]), "again, for one that missed it");
}

#[test]
fn what_is_saved_is_the_whole_group() {
    let mut site = Site::new();
    let ids = site.stable(&["a", "b"]);
    let classic = saved(&site.log[0]);
    assert_eq!((classic.generation, classic.leader.as_ref()), (1, Some(&ids[0])));
    assert_eq!((classic.protocol_type.as_str(), classic.protocol_name.as_deref()), ("consumer", Some("range")));
    let member = &classic.members[1];
    assert_eq!((&member.id, member.client_id.as_str(), member.client_host.as_str()), (&ids[1], "", "/10.0.0.1"));
    assert_eq!((member.session_timeout_ms, member.rebalance_timeout_ms), (10_000, 60_000));
    assert_eq!((&member.metadata[..], &member.assignment[..]), (&subscription(&["t"])[..], ids[1].as_bytes()));
}

#[test]
fn a_leader_that_forgets_a_member_gives_it_nothing() {
    let mut site = Site::new();
    let ids = completing(&mut site);
    let follower = site.ask(sync(&ids[1], 1, &[]));
    site.ask(sync(&ids[0], 1, &ids[..1]));
    assert!(matches!(site.reply(follower), Some(Reply::Synced { assignment, .. }) if assignment.is_empty()));
}

#[test]
fn an_assignment_that_could_not_be_saved_makes_everybody_join_again() {
    let mut site = Site::new();
    let ids = completing(&mut site);
    site.holds = true;
    let follower = site.ask(sync(&ids[1], 1, &[]));
    let leader = site.ask(sync(&ids[0], 1, &ids));
    site.decide(Err(ErrorCode::CoordinatorNotAvailable));
    for waiter in [follower, leader] {
        assert_eq!(code(site.reply(waiter).unwrap()), ErrorCode::CoordinatorNotAvailable);
    }
    assert_eq!(site.state(), "PreparingRebalance");
}

#[test]
fn a_save_that_a_rebalance_overtook_assigns_nothing() {
    let mut site = Site::new();
    let ids = completing(&mut site);
    site.holds = true;
    let leader = site.ask(sync(&ids[0], 1, &ids));
    assert_eq!(code(site.told(leave(&ids[1]))), ErrorCode::None);
    assert_eq!(code(site.reply(leader).unwrap()), ErrorCode::RebalanceInProgress);
    site.decide(Ok(()));
    assert_eq!(site.state(), "PreparingRebalance");
    let waiter = site.ask(join("", &ids[0]));
    assert_eq!(site.joined(waiter).generation, 2);
}

#[test]
fn whoever_does_not_sync_in_time_is_removed() {
    let mut site = Site::new();
    let ids = completing(&mut site);
    site.ask(sync(&ids[0], 1, &ids));
    assert_eq!(site.state(), "Stable");
    for _ in 0..9 {
        site.pass(Duration::from_secs(6));
        assert_eq!((site.heartbeat(&ids[0], 1), site.heartbeat(&ids[1], 1)), (ErrorCode::None, ErrorCode::None));
    }
    site.pass(Duration::from_secs(6));
    assert_eq!(site.state(), "PreparingRebalance");
    assert_eq!(site.heartbeat(&ids[1], 1), ErrorCode::UnknownMemberId);
}

#[test]
fn followers_wait_for_a_silent_leader_until_it_is_removed() {
    let mut site = Site::new();
    let ids = completing(&mut site);
    let follower = site.ask(sync(&ids[1], 1, &[]));
    site.pass(SESSION - Duration::from_millis(1));
    assert_eq!(site.reply(follower), None);
    site.pass(Duration::from_millis(1));
    assert_eq!(code(site.reply(follower).unwrap()), ErrorCode::RebalanceInProgress);
    let waiter = site.ask(join("", &ids[1]));
    assert_eq!(site.joined(waiter).leader, ids[1]);
}

#[test]
fn a_member_has_a_whole_session_after_it_got_its_assignment() {
    let mut site = Site::with(|s| s.initial_rebalance_delay = Duration::ZERO);
    let id = site.id("a");
    site.ask(join("", &id));
    site.holds = true;
    site.ask(sync(&id, 1, std::slice::from_ref(&id)));
    site.pass(SESSION * 2);
    site.decide(Ok(()));
    site.pass(SESSION - Duration::from_millis(1));
    assert_eq!(site.state(), "Stable");
}

#[test]
fn each_request_is_checked_for_its_member_generation_and_protocol() {
    let mut site = Site::new();
    let ids = completing(&mut site);
    for (member, generation, error) in [
        ("nobody", 1, ErrorCode::UnknownMemberId),
        ("", 1, ErrorCode::UnknownMemberId),
        (&ids[0], 0, ErrorCode::IllegalGeneration),
        (&ids[0], 2, ErrorCode::IllegalGeneration),
    ] {
        assert_eq!(code(site.told(sync(member, generation, &[]))), error);
        assert_eq!(site.heartbeat(member, generation), error);
    }
    let named = |protocol_type: &str, protocol_name: &str| {
        Ask::Sync(Sync {
            caller: caller(&ids[1], 1),
            protocol_type: Some(protocol_type.into()),
            protocol_name: Some(protocol_name.into()),
            assignments: Vec::new(),
        })
    };
    for (kind, name) in [("connect", "range"), ("consumer", "sticky")] {
        assert_eq!(code(site.told(named(kind, name))), ErrorCode::InconsistentGroupProtocol);
    }
    let waiter = site.ask(named("consumer", "range"));
    assert_eq!(site.reply(waiter), None);
    assert_eq!(site.heartbeat(&ids[0], 1), ErrorCode::None);
    site.ask(leave(&ids[0]));
    assert_eq!(code(site.told(sync(&ids[1], 1, &[]))), ErrorCode::RebalanceInProgress);
}

#[test]
fn a_second_sync_takes_the_place_of_the_first() {
    let mut site = Site::new();
    let ids = completing(&mut site);
    let first = site.ask(sync(&ids[1], 1, &[]));
    let second = site.ask(sync(&ids[1], 1, &[]));
    assert_eq!(code(site.reply(first).unwrap()), ErrorCode::RebalanceInProgress);
    site.ask(sync(&ids[0], 1, &ids));
    assert_eq!(code(site.reply(second).unwrap()), ErrorCode::None);
}
