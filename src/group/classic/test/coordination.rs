use super::*;

#[test]
fn a_new_coordinator_knows_generation_members_and_assignments() {
    let mut old = Site::new();
    let ids = old.stable(&["a", "b"]);
    let mut new = Site::new();
    new.applied = old.applied.clone();
    let classic = new.applied.as_ref().and_then(Group::classic).cloned().unwrap();
    new.groups.load(new.now, 0, "g", &classic);
    assert_eq!(new.state(), "Stable");
    assert_eq!(new.heartbeat(&ids[1], 1), ErrorCode::None);
    assert!(
        matches!(new.told(sync(&ids[1], 1, &[])), Reply::Synced { assignment, .. } if assignment == ids[1].as_bytes())
    );
    // A whole session from now, whenever they were heard last.
    new.pass(SESSION - Duration::from_millis(1));
    assert_eq!(new.state(), "Stable");
    new.pass(SESSION);
    assert_eq!(new.state(), "Empty");
    assert_eq!(saved(new.log.last().unwrap()).generation, 2);
}

#[test]
fn members_of_a_generation_that_the_log_does_not_have_join_again() {
    let mut old = Site::new();
    let ids = old.stable(&["a", "b"]);
    old.holds = true;
    let waiters = [old.ask(join("", &ids[0])), old.ask(join("", &ids[1]))];
    waiters.into_iter().for_each(|waiter| assert_eq!(old.joined(waiter).generation, 2));
    old.ask(sync(&ids[0], 2, &ids));
    // The coordinator is lost with the assignment of generation 2 on its way.
    let mut new = Site::new();
    new.applied = old.applied.clone();
    assert_eq!(new.heartbeat(&ids[0], 2), ErrorCode::IllegalGeneration);
    assert_eq!(code(new.told(sync(&ids[1], 2, &[]))), ErrorCode::IllegalGeneration);
    let waiters = [new.ask(join("", &ids[0])), new.ask(join("", &ids[1]))];
    waiters.into_iter().for_each(|waiter| assert_eq!(new.joined(waiter).generation, 2));
}

#[test]
fn groups_are_listed_as_this_coordinator_knows_them() {
    let mut site = Site::new();
    site.stable(&["a"]);
    let empty = Classic { protocol_type: "connect".into(), ..Classic::default() };
    let (g, empty_id, simple) = ("g".to_owned(), "empty".to_owned(), "simple".to_owned());
    let group = |kind| Group { kind, ..Group::default() };
    let applied =
        [(&g, group(Kind::Simple)), (&empty_id, group(Kind::Classic(Box::new(empty)))), (&simple, group(Kind::Simple))];
    let mut listed = site.groups.list(applied.iter().map(|(id, group)| (*id, group)));
    listed.sort_by(|a, b| a.id.cmp(&b.id));
    let told: Vec<_> = listed.iter().map(|l| (l.id.as_str(), l.state, l.protocol_type.as_str())).collect();
    assert_eq!(told, [("empty", "Empty", "connect"), ("g", "Stable", "consumer"), ("simple", "Empty", "")]);
}

#[test]
fn metadata_is_described_of_stable_groups_only_and_the_last_assignment_of_any() {
    let mut site = Site::new();
    let ids = site.stable(&["a", "b"]);
    let described = |site: &mut Site| match site.told(Ask::Describe) {
        Reply::Described(Some(described)) => described,
        other => panic!("{other:?}"),
    };
    let stable = described(&mut site);
    assert_eq!(
        (stable.state, stable.protocol_type.as_str(), stable.protocol_name.as_str()),
        ("Stable", "consumer", "range")
    );
    assert_eq!(
        (&stable.members[0].metadata, &stable.members[0].assignment[..]),
        (&subscription(&["t"]), ids[0].as_bytes())
    );
    site.ask(join("", &ids[0]));
    let rebalancing = described(&mut site);
    assert_eq!((rebalancing.state, rebalancing.protocol_name.as_str()), ("PreparingRebalance", ""));
    assert!(rebalancing.members.iter().all(|m| m.metadata.is_empty() && m.assignment == m.id.as_bytes()));
    site.ask(join("", &ids[1]));
    let completing = described(&mut site);
    assert_eq!((completing.state, completing.protocol_name.as_str()), ("CompletingRebalance", ""));
    assert!(completing.members.iter().all(|m| m.metadata.is_empty() && m.assignment == m.id.as_bytes()));
    // Whoever never got the assignment of its generation has none.
    site.ask(leave(&ids[1]));
    let again = described(&mut site);
    assert_eq!(again.state, "PreparingRebalance");
    assert!(again.members.iter().all(|m| m.assignment.is_empty()));
}

#[test]
fn timers_that_groups_no_longer_need_are_not_kept() {
    let mut site = Site::new();
    for n in 0..5000 {
        site.pass(Duration::from_millis(1));
        let id = site.id(&format!("c{n}"));
        assert_eq!(code(site.told(leave(&id))), ErrorCode::None);
    }
    assert!(site.groups.live("g").is_none());
    assert!(site.groups.timers() < 2000, "{}", site.groups.timers());
}
