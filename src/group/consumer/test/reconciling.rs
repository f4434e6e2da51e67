use proptest::prelude::*;

use super::*;

#[test]
fn a_partition_is_given_only_when_its_owner_has_let_go() {
    let mut site = Site::new(2);
    site.join("a");
    let joined = site.join("b");
    assert_eq!((joined.epoch, joined.assignment), (2, Some(of_t(&[]))));
    assert_eq!(site.member("b").current.state, MemberState::Unreleased);
    assert_eq!(site.state(), "Reconciling");
    // A is told to let go; until it says that it has, it keeps its epoch and b gets nothing.
    let told = site.beat(beats("a", 1)).unwrap();
    assert_eq!((told.epoch, told.assignment), (1, Some(of_t(&[0]))));
    assert_eq!(site.member("a").current.revoking, of_t(&[1]));
    assert_eq!(site.beat(beats("b", 2)).unwrap().assignment, None);
    assert_eq!(site.owns("a", 1, &[0, 1]).unwrap().epoch, 1);
    assert_eq!(site.beat(beats("b", 2)).unwrap().assignment, None);
    let written = site.log.len();
    site.beat(beats("a", 1)).unwrap();
    site.beat(beats("b", 2)).unwrap();
    assert_eq!(site.log.len(), written, "waiting writes nothing");
    let told = site.owns("a", 1, &[0]).unwrap();
    assert_eq!((told.epoch, told.assignment), (2, None));
    assert_eq!(site.beat(beats("b", 2)).unwrap().assignment, Some(of_t(&[1])));
    assert_eq!(site.state(), "Stable");
}

#[test]
fn a_member_that_does_not_let_go_in_time_is_out() {
    let mut site = Site::new(2);
    site.join("a");
    site.join("b");
    site.beat(beats("a", 1)).unwrap();
    for _ in 0..12 {
        site.pass(Duration::from_millis(REBALANCE_MS as u64 / 12));
        let _ = site.beat(beats("a", 1));
        site.beat(beats("b", 2)).unwrap();
    }
    assert_eq!(site.beat(beats("a", 1)), Err(ErrorCode::UnknownMemberId));
    assert_eq!(site.member("b").current.assigned, of_t(&[0, 1]));
}

#[test]
fn letting_go_in_time_is_enough() {
    let mut site = Site::new(2);
    site.join("a");
    site.join("b");
    site.beat(beats("a", 1)).unwrap();
    site.pass(SESSION / 2);
    site.owns("a", 1, &[0]).unwrap();
    for _ in 0..3 {
        site.beat(beats("b", 2)).unwrap();
        site.beat(beats("a", 2)).unwrap();
        site.pass(SESSION / 2);
    }
    assert_eq!(site.described().members.len(), 2);
}

#[test]
fn a_target_that_changes_on_the_way_is_the_one_that_counts() {
    let mut site = Site::new(3);
    site.join("a");
    site.join("b");
    assert_eq!(site.beat(beats("a", 1)).unwrap().assignment, Some(of_t(&[0, 1])));
    // Before a has let go of 2, b is gone and a is to have it again.
    site.beat(leaves("b")).unwrap();
    assert_eq!(site.beat(beats("a", 1)).unwrap().epoch, 1);
    let told = site.owns("a", 1, &[0, 1]).unwrap();
    assert_eq!(told.epoch, 3);
    let told = site.owns("a", 3, &[0, 1]).unwrap();
    assert_eq!((told.epoch, site.member("a").current.assigned), (3, of_t(&[0, 1, 2])));
}

#[test]
fn a_member_whose_target_is_not_free_yet_gets_what_is() {
    let mut site = Site::new(4);
    site.join("a");
    site.join("b");
    site.beat(beats("a", 1)).unwrap();
    site.owns("a", 1, &[0, 1]).unwrap();
    site.beat(beats("b", 2)).unwrap();
    // Now c is to get one of a's and one of b's... and takes each when it comes.
    site.topic("t", 6);
    let joined = site.join("c");
    assert_eq!(joined.assignment, Some(of_t(&[4, 5])), "new partitions are free");
    assert_eq!(site.state(), "Reconciling");
    site.beat(beats("a", 2)).unwrap();
    site.beat(beats("b", 2)).unwrap();
    assert_eq!(site.state(), "Stable");
}

#[derive(Debug, Clone)]
enum Step {
    Join(usize),
    Leave(usize),
    Beat(usize),
    /// Says what it has, having let go of what it was told to.
    Obey(usize),
    Partitions(i32),
    Pass,
    Succeed,
    /// What is on its way does not get into the log.
    Fail(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    let who = 0..4usize;
    prop_oneof![
        2 => who.clone().prop_map(Step::Join),
        1 => who.clone().prop_map(Step::Leave),
        3 => who.clone().prop_map(Step::Beat),
        6 => who.clone().prop_map(Step::Obey),
        1 => (1..9i32).prop_map(Step::Partitions),
        1 => Just(Step::Pass),
        1 => Just(Step::Succeed),
        1 => who.prop_map(Step::Fail),
    ]
}

/// What members believe: their epoch, and partitions until they let go of them.
#[derive(Default, Clone)]
struct Believes {
    epoch: i32,
    owned: Assignment,
}

/// A member obeys: it lets go first and takes then.
fn hear(site: &mut Site, all: &mut BTreeMap<usize, Believes>, who: usize, beat: Beat) {
    match site.beat(beat) {
        Ok(beaten) => {
            let one = all.entry(who).or_default();
            one.epoch = beaten.epoch;
            beaten.assignment.into_iter().for_each(|assignment| one.owned = assignment);
        }
        Err(ErrorCode::NotCoordinator) => {}
        // Fenced or unknown: it has let go of everything.
        Err(_) => drop(all.remove(&who)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Whatever comes in whichever order, through failures and changes of the coordinator.
    #[test]
    fn no_partition_is_believed_to_be_their_own_by_two(steps in proptest::collection::vec(any_step(), 1..60)) {
        let mut site = Site::new(4);
        let mut all: BTreeMap<usize, Believes> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Join(who) => {
                    all.remove(&who);
                    hear(&mut site, &mut all, who, joins(&format!("m{who}")));
                }
                Step::Leave(who) => {
                    all.remove(&who);
                    let _ = site.beat(leaves(&format!("m{who}")));
                }
                Step::Beat(who) | Step::Obey(who) => {
                    let Some(one) = all.get(&who).cloned() else { continue };
                    let owned = matches!(step, Step::Obey(_)).then_some(one.owned);
                    hear(&mut site, &mut all, who, Beat { owned, ..beats(&format!("m{who}"), one.epoch) });
                }
                Step::Partitions(count) => site.topic("t", count),
                Step::Pass => {
                    // Members hear of it in time that they are out: their own session ends first.
                    all.clear();
                    site.pass(SESSION);
                }
                Step::Succeed => site.succeed(),
                Step::Fail(who) => {
                    let Some(one) = all.get(&who).cloned() else { continue };
                    site.holds = true;
                    let asked = Beat { owned: Some(one.owned), ..beats(&format!("m{who}"), one.epoch) };
                    let waiter = site.ask(beating(asked));
                    if !site.held.is_empty() {
                        site.decide(Err(ErrorCode::NotCoordinator));
                    }
                    site.holds = false;
                    site.replies.remove(&waiter);
                }
            }
            let mut owners: BTreeMap<(TopicId, i32), usize> = BTreeMap::new();
            for (who, one) in &all {
                for (topic, partitions) in &one.owned {
                    for partition in partitions {
                        let other = owners.insert((*topic, *partition), *who);
                        prop_assert_eq!(other, None, "{} of {} too", partition, who);
                    }
                }
            }
        }
        // Left in peace, everybody comes to the target, and every partition is somebody's.
        for _ in 0..8 {
            for (who, one) in all.clone() {
                let owned = Some(one.owned);
                hear(&mut site, &mut all, who, Beat { owned, ..beats(&format!("m{who}"), one.epoch) });
            }
            site.pass(SESSION / 8);
        }
        if !all.is_empty() {
            let total: usize = all.values().flat_map(|one| one.owned.values()).map(BTreeSet::len).sum();
            prop_assert_eq!(site.state(), "Stable");
            prop_assert_eq!(total, site.view.topics["t"].1 as usize);
        }
    }
}
