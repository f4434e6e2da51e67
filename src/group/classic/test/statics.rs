use super::*;

/// A stable group of static members `i0`, `i1`… Returns their ids.
fn stable(site: &mut Site, count: usize) -> Vec<String> {
    let joins: Vec<Waiter> = (0..count).map(|n| site.ask(Ask::Join(join_static(&format!("i{n}"), "")))).collect();
    site.pass(DELAY);
    site.pass(DELAY);
    let ids: Vec<String> = joins.into_iter().map(|waiter| site.joined(waiter).member).collect();
    assert!(ids.iter().enumerate().all(|(n, id)| *id == format!("i{n}-u")));
    site.sync_all(&ids, 1);
    ids
}

fn back(instance: &str) -> Join {
    Join { unique: "again".into(), ..join_static(instance, "") }
}

#[test]
fn a_static_member_that_comes_back_takes_its_place_without_a_rebalance() {
    let mut site = Site::new();
    let ids = stable(&mut site, 2);
    site.holds = true;
    let waiter = site.ask(Ask::Join(back("i1")));
    assert_eq!(site.reply(waiter), None, "not before the log knows of it");
    site.decide(Ok(()));
    let answer = site.joined(waiter);
    assert_eq!((answer.generation, answer.member.as_str(), &answer.leader), (1, "i1-again", &ids[0]));
    assert!(!answer.skip_assignment && answer.members.is_empty());
    assert_eq!(site.state(), "Stable");
    let kept = site.told(sync("i1-again", 1, &[]));
    assert!(matches!(kept, Reply::Synced { assignment, .. } if assignment == ids[1].as_bytes()));
    // Its former self is fenced, by its instance, and unknown without.
    let fenced = Caller { instance: Some("i1".into()), ..caller(&ids[1], 1) };
    assert_eq!(code(site.told(Ask::Heartbeat(fenced))), ErrorCode::FencedInstanceId);
    assert_eq!(site.heartbeat(&ids[1], 1), ErrorCode::UnknownMemberId);
    assert_eq!(code(site.told(Ask::Join(join_static("i1", &ids[1])))), ErrorCode::FencedInstanceId);
    assert_eq!(code(site.told(Ask::Join(join_static("nobody", &ids[1])))), ErrorCode::UnknownMemberId);
}

#[test]
fn a_leader_that_comes_back_is_told_to_skip_the_assignment_or_that_another_leads() {
    let mut site = Site::new();
    let ids = stable(&mut site, 2);
    let waiter = site.ask(Ask::Join(back("i0")));
    let answer = site.joined(waiter);
    assert!(answer.skip_assignment);
    assert_eq!((answer.leader.as_str(), answer.members.len()), ("i0-again", 2));
    let old = Join { can_skip_assignment: false, unique: "third".into(), ..back("i0") };
    let waiter = site.ask(Ask::Join(old));
    let answer = site.joined(waiter);
    assert!(!answer.skip_assignment);
    assert_eq!((answer.leader.as_str(), answer.members.len()), ("i0-again", 0));
    assert_eq!(saved(site.log.last().unwrap()).leader.as_deref(), Some("i0-third"));
    assert_eq!(ids.len(), 2);
}

#[test]
fn a_return_that_could_not_be_saved_is_undone() {
    let mut site = Site::new();
    let ids = stable(&mut site, 2);
    site.holds = true;
    let waiter = site.ask(Ask::Join(back("i0")));
    site.decide(Err(ErrorCode::NotCoordinator));
    assert_eq!(code(site.reply(waiter).unwrap()), ErrorCode::NotCoordinator);
    let still = Caller { instance: Some("i0".into()), ..caller(&ids[0], 1) };
    assert_eq!(code(site.told(Ask::Heartbeat(still))), ErrorCode::None);
}

#[test]
fn a_return_with_another_protocol_rebalances() {
    let mut site = Site::new();
    stable(&mut site, 1);
    let waiter = site.ask(Ask::Join(Join { protocols: vec![("range".into(), Bytes::new())], ..back("i0") }));
    assert_eq!(site.joined(waiter).generation, 1, "the same protocol: its metadata alone does not");
    let protocols = vec![("sticky".into(), Bytes::new()), ("range".into(), Bytes::new())];
    let waiter = site.ask(Ask::Join(Join { protocols, unique: "x".into(), ..back("i0") }));
    assert_eq!(site.joined(waiter).generation, 2);
}

#[test]
fn whoever_waits_in_its_place_is_fenced() {
    let mut site = Site::new();
    let ids = stable(&mut site, 2);
    let old = site.ask(Ask::Join(join_static("i0", &ids[0])));
    assert_eq!(site.state(), "PreparingRebalance");
    let new = site.ask(Ask::Join(back("i0")));
    assert_eq!(code(site.reply(old).unwrap()), ErrorCode::FencedInstanceId);
    let other = site.ask(Ask::Join(join_static("i1", &ids[1])));
    assert_eq!((site.joined(new).generation, site.joined(other).generation), (2, 2));
    // While the assignment is awaited, the leader may have the old id in it.
    let syncing = site.ask(sync("i1-u", 2, &[]));
    let third = site.ask(Ask::Join(Join { unique: "third".into(), ..back("i0") }));
    assert_eq!(code(site.reply(syncing).unwrap()), ErrorCode::RebalanceInProgress);
    let other = site.ask(Ask::Join(join_static("i1", &ids[1])));
    assert_eq!((site.joined(third).generation, site.joined(other).generation), (3, 3));
}

#[test]
fn static_members_stay_through_a_rebalance_that_they_miss() {
    let mut site = Site::new();
    let ids = stable(&mut site, 2);
    let waiter = site.ask(Ask::Join(join_static("i0", &ids[0])));
    for _ in 0..7 {
        let here = Caller { instance: Some("i1".into()), ..caller(&ids[1], 1) };
        assert_eq!(code(site.told(Ask::Heartbeat(here))), ErrorCode::RebalanceInProgress);
        site.pass(SESSION - Duration::from_secs(1));
    }
    assert_eq!(site.joined(waiter).members.len(), 2);
}

#[test]
fn tools_remove_static_members_by_instance() {
    let mut site = Site::new();
    stable(&mut site, 2);
    let by =
        |member: &str, instance: Option<&str>| Leaver { member: member.into(), instance: instance.map(str::to_owned) };
    let leavers = vec![
        by("", Some("i1")),
        by("", Some("nobody")),
        by("", None),
        by("i0-old", Some("i0")),
        by("i0-u", Some("i1")),
    ];
    let due = [
        ErrorCode::None,
        ErrorCode::UnknownMemberId,
        ErrorCode::UnknownMemberId,
        ErrorCode::FencedInstanceId,
        ErrorCode::UnknownMemberId,
    ];
    assert_eq!(site.told(Ask::Leave(leavers)), Reply::Each(due.to_vec()));
    assert_eq!(site.state(), "PreparingRebalance");
}
