use super::*;

#[test]
fn a_new_member_comes_again_with_its_id_and_a_new_group_waits_for_more() {
    let mut site = Site::new();
    let id = site.id("c");
    assert_eq!(id, "c-u");
    assert_eq!(site.state(), "Empty");
    let waiter = site.ask(join("c", &id));
    assert_eq!(site.state(), "PreparingRebalance");
    site.pass(DELAY - Duration::from_millis(1));
    assert_eq!(site.reply(waiter), None);
    site.pass(Duration::from_millis(1));
    let answer = site.joined(waiter);
    assert_eq!((answer.generation, answer.leader.as_str(), answer.members.len()), (1, "c-u", 1));
    assert_eq!(answer.protocol_name.as_deref(), Some("range"));
    assert_eq!(site.state(), "CompletingRebalance");
}

#[test]
fn clients_that_know_no_such_ids_join_at_once() {
    let mut site = Site::new();
    let waiter = site.ask(Ask::Join(Join { id_required: false, ..joins("c", "") }));
    site.pass(DELAY);
    assert_eq!(site.joined(waiter).member, "c-u");
}

#[test]
fn the_first_wait_is_longer_while_members_keep_coming_but_not_for_ever() {
    let mut site = Site::with(|s| s.initial_rebalance_delay = Duration::from_secs(25));
    let first = site.id("a");
    let first = site.ask(join("", &first));
    for n in 0..3 {
        let id = site.id(&format!("more{n}"));
        site.ask(join("", &id));
        site.pass(Duration::from_secs(19));
    }
    // 25 s, then 25 s more, then the last 10 s of the rebalance timeout.
    site.pass(Duration::from_secs(2));
    assert_eq!(site.reply(first), None);
    site.pass(Duration::from_secs(1));
    assert_eq!(site.joined(first).generation, 1);
}

#[test]
fn a_delay_of_zero_does_not_wait() {
    let mut site = Site::with(|s| s.initial_rebalance_delay = Duration::ZERO);
    let id = site.id("c");
    let waiter = site.ask(join("", &id));
    assert_eq!(site.joined(waiter).generation, 1);
}

#[test]
fn an_id_that_does_not_come_back_is_forgotten_and_holds_nobody_up() {
    let mut site = Site::new();
    let ids = site.stable(&["a"]);
    site.id("late");
    let again = site.ask(join("", &ids[0]));
    assert_eq!(site.reply(again), None, "the new one may still come");
    site.pass(SESSION);
    assert_eq!(site.joined(again).generation, 2);
    assert_eq!(code(site.told(join("late", "late-u"))), ErrorCode::UnknownMemberId);
}

#[test]
fn a_known_member_that_nothing_has_changed_for_is_told_the_generation() {
    let mut site = Site::new();
    let ids = site.stable(&["a", "b"]);
    let waiter = site.ask(join("", &ids[1]));
    let answer = site.joined(waiter);
    assert_eq!((answer.generation, answer.members.len()), (1, 0));
    assert_eq!(site.state(), "Stable");
}

#[test]
fn a_leader_that_joins_again_or_a_changed_subscription_makes_the_group_rebalance() {
    for (who, changes) in [(0, false), (1, true)] {
        let mut site = Site::new();
        let ids = site.stable(&["a", "b"]);
        let mut again = joins("", &ids[who]);
        if changes {
            again.protocols = vec![("range".to_owned(), subscription(&["t", "more"]))];
        }
        let first = site.ask(Ask::Join(again));
        assert_eq!(site.state(), "PreparingRebalance");
        assert_eq!(site.heartbeat(&ids[1 - who], 1), ErrorCode::RebalanceInProgress);
        let second = site.ask(join("", &ids[1 - who]));
        assert_eq!(site.joined(first).generation, 2);
        assert_eq!(site.joined(second).generation, 2);
    }
}

#[test]
fn a_member_that_missed_the_answer_to_its_join_gets_it_again() {
    let mut site = Site::new();
    let id = site.id("a");
    let first = site.ask(join("", &id));
    site.pass(DELAY);
    let first = site.joined(first);
    let again = site.ask(join("", &id));
    assert_eq!(site.joined(again), first);
}

#[test]
fn a_second_join_takes_the_place_of_the_first() {
    let mut site = Site::new();
    let ids = site.stable(&["a", "b"]);
    let first = site.ask(join("", &ids[0]));
    let second = site.ask(join("", &ids[0]));
    assert_eq!(code(site.reply(first).unwrap()), ErrorCode::RebalanceInProgress);
    site.ask(leave(&ids[1]));
    assert_eq!(site.joined(second).generation, 2);
}

#[test]
fn members_that_do_not_join_in_time_are_removed_and_the_leader_replaced() {
    let mut site = Site::new();
    let ids = site.stable(&["a", "b"]);
    let again = Join { protocols: vec![("range".to_owned(), subscription(&["x"]))], ..joins("", &ids[1]) };
    let waiter = site.ask(Ask::Join(again));
    for _ in 0..6 {
        assert_eq!(site.heartbeat(&ids[0], 1), ErrorCode::RebalanceInProgress);
        site.pass(SESSION - Duration::from_secs(1));
    }
    assert_eq!(site.heartbeat(&ids[0], 1), ErrorCode::RebalanceInProgress);
    site.pass(Duration::from_secs(6));
    let answer = site.joined(waiter);
    assert_eq!((answer.generation, &answer.leader, answer.members.len()), (2, &ids[1], 1));
    assert_eq!(site.heartbeat(&ids[0], 1), ErrorCode::UnknownMemberId);
}

#[test]
fn silence_removes_a_member() {
    let mut site = Site::new();
    let ids = site.stable(&["a", "b"]);
    site.pass(SESSION / 2);
    assert_eq!(site.heartbeat(&ids[0], 1), ErrorCode::None);
    site.pass(SESSION / 2);
    assert_eq!(site.state(), "PreparingRebalance");
    assert_eq!(site.heartbeat(&ids[1], 1), ErrorCode::UnknownMemberId);
    let waiter = site.ask(join("", &ids[0]));
    assert_eq!(site.joined(waiter).generation, 2);
}

#[test]
fn a_group_that_all_have_left_is_empty_in_the_log_and_forgotten_here() {
    let mut site = Site::new();
    let ids = site.stable(&["a", "b"]);
    let both = ids.iter().map(|id| Leaver { member: id.clone(), instance: None }).collect();
    assert_eq!(site.told(Ask::Leave(both)), Reply::Each(vec![ErrorCode::None; 2]));
    let last = saved(site.log.last().unwrap());
    assert_eq!((last.generation, last.members.len(), last.protocol_name.as_ref()), (2, 0, None));
    assert_eq!((last.protocol_type.as_str(), last.leader.as_ref()), ("consumer", None));
    assert!(site.groups.live("g").is_none());
    assert_eq!(site.state(), "Empty");
    assert_eq!(code(site.told(leave(&ids[0]))), ErrorCode::UnknownMemberId);
    // The generation goes on from there.
    let id = site.id("c");
    let waiter = site.ask(join("", &id));
    site.pass(DELAY);
    assert_eq!(site.joined(waiter).generation, 3);
}

#[test]
fn whoever_waits_to_join_is_told_when_it_is_removed() {
    let mut site = Site::new();
    let ids = site.stable(&["a", "b"]);
    let waiter = site.ask(join("", &ids[0]));
    assert_eq!(code(site.told(leave(&ids[0]))), ErrorCode::None);
    assert_eq!(
        site.reply(waiter),
        Some(Reply::JoinFailed { error: ErrorCode::UnknownMemberId, member: String::new() })
    );
}

#[test]
fn a_new_member_that_waits_too_long_is_taken_for_gone() {
    let mut site = Site::with(|s| s.initial_rebalance_delay = Duration::from_secs(1000));
    let id = site.id("a");
    let waiter = site.ask(join("", &id));
    site.pass(Duration::from_secs(299));
    assert_eq!(site.reply(waiter), None);
    site.pass(Duration::from_secs(1));
    assert_eq!(code(site.reply(waiter).unwrap()), ErrorCode::UnknownMemberId);
}

#[test]
fn members_must_have_a_protocol_in_common() {
    let mut site = Site::new();
    let refused = |site: &mut Site, join: Join| code(site.told(Ask::Join(join)));
    let inconsistent = ErrorCode::InconsistentGroupProtocol;
    assert_eq!(refused(&mut site, Join { protocols: Vec::new(), ..joins("a", "") }), inconsistent);
    assert_eq!(refused(&mut site, Join { protocol_type: String::new(), ..joins("a", "") }), inconsistent);
    site.stable(&["a"]);
    assert_eq!(refused(&mut site, Join { protocol_type: "connect".into(), ..joins("b", "") }), inconsistent);
    let other = vec![("roundrobin".to_owned(), Bytes::new())];
    assert_eq!(refused(&mut site, Join { protocols: other, ..joins("b", "") }), inconsistent);
}

#[test]
fn the_protocol_is_the_one_that_most_prefer_of_those_all_know() {
    let mut site = Site::new();
    let lists = [["x", "range", "sticky"], ["sticky", "range", "y"], ["sticky", "z", "range"]];
    let mut waiters = Vec::new();
    for (n, names) in lists.iter().enumerate() {
        let id = site.id(&format!("c{n}"));
        let protocols = names.iter().map(|name| (name.to_string(), Bytes::from(format!("{name}{n}")))).collect();
        waiters.push(site.ask(Ask::Join(Join { protocols, ..joins("", &id) })));
    }
    site.pass(DELAY);
    site.pass(DELAY);
    let answer = site.joined(waiters[0]);
    assert_eq!(answer.protocol_name.as_deref(), Some("sticky"));
    let metadata: Vec<&[u8]> = answer.members.iter().map(|(_, _, metadata)| &metadata[..]).collect();
    assert_eq!(metadata, [b"sticky0", b"sticky1", b"sticky2"]);
}

#[test]
fn a_full_group_takes_nobody_else() {
    let mut site = Site::with(|s| s.members_max = 2);
    let ids = site.stable(&["a", "b"]);
    assert_eq!(code(site.told(join("c", ""))), ErrorCode::GroupMaxSizeReached);
    let waiter = site.ask(join("", &ids[1]));
    assert_eq!(site.joined(waiter).generation, 1);
    let mut site = Site::with(|s| s.members_max = 2);
    site.id("a");
    site.id("b");
    assert_eq!(code(site.told(join("c", ""))), ErrorCode::GroupMaxSizeReached, "ids given out count");
    let mut site = Site::with(|s| s.metadata_bytes_max = 100);
    let large = vec![("range".to_owned(), Bytes::from(vec![0; 101]))];
    assert_eq!(code(site.told(Ask::Join(Join { protocols: large, ..joins("a", "") }))), ErrorCode::GroupMaxSizeReached);
}

#[test]
fn there_are_only_so_many_groups() {
    let mut site = Site::with(|s| s.groups_max = 1);
    site.id("a");
    site.groups.ask(site.now, 0, "other", None, join("b", ""), 1000);
    site.obey();
    assert_eq!(code(site.reply(1000).unwrap()), ErrorCode::CoordinatorNotAvailable);
}

#[test]
fn a_group_that_is_not_there_has_no_members() {
    let mut site = Site::new();
    let asks = [join("a", "a-u"), Ask::Heartbeat(caller("a", 1)), sync("a", 1, &[]), leave("a")];
    for ask in asks {
        assert_eq!(code(site.told(ask)), ErrorCode::UnknownMemberId);
    }
    assert_eq!(site.told(Ask::Describe), Reply::Described(None));
    assert!(site.groups.live("g").is_none());
}
