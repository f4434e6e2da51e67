use super::*;

#[test]
fn the_first_member_gets_everything_at_once() {
    let mut site = Site::new(3);
    let joined = site.join("a");
    assert_eq!((joined.epoch, joined.assignment), (1, Some(of_t(&[0, 1, 2]))));
    assert_eq!(site.log.len(), 1, "one entry");
    let again = site.beat(beats("a", 1)).unwrap();
    assert_eq!((again.epoch, again.assignment), (1, None), "nothing is new");
    assert_eq!(site.log.len(), 1, "and nothing is written");
    let full = Beat { epoch: 1, owned: Some(of_t(&[0, 1, 2])), ..joins("a") };
    assert_eq!(site.beat(full).unwrap().assignment, Some(of_t(&[0, 1, 2])), "who says all is told all");
    assert_eq!((site.log.len(), site.state()), (1, "Stable"));
}

#[test]
fn nothing_is_told_before_the_log_has_it() {
    let mut site = Site::new(2);
    site.holds = true;
    let first = site.ask(beating(joins("a")));
    let second = site.ask(beating(joins("b")));
    let third = site.ask(beating(joins("c")));
    assert_eq!((site.replies.len(), site.held.len()), (0, 1), "one entry of a group is on its way at a time");
    site.decide(Ok(()));
    assert_eq!(site.beaten(first).unwrap().unwrap().epoch, 1);
    assert_eq!((site.replies.len(), site.held.len()), (0, 1), "what came meanwhile goes together");
    site.decide(Ok(()));
    assert_eq!(site.beaten(second).unwrap().unwrap().epoch, 2);
    assert_eq!(site.beaten(third).unwrap().unwrap().epoch, 3);
    assert_eq!((site.held.len(), site.logged().members.len()), (0, 3));
}

#[test]
fn strangers_and_wrong_epochs_are_refused() {
    let mut site = Site::new(2);
    assert_eq!(site.beat(beats("a", 1)), Err(ErrorCode::GroupIdNotFound));
    assert_eq!(site.beat(leaves("a")), Err(ErrorCode::GroupIdNotFound));
    site.join("a");
    assert_eq!(site.beat(beats("b", 1)), Err(ErrorCode::UnknownMemberId));
    assert_eq!(site.beat(leaves("b")), Err(ErrorCode::UnknownMemberId));
    assert_eq!(site.beat(beats("a", 2)), Err(ErrorCode::FencedMemberEpoch));
    assert_eq!(site.join("b").epoch, 2);
    assert_eq!(site.beat(beats("b", 1)), Err(ErrorCode::FencedMemberEpoch));
    assert_eq!(site.beat(beats("a", 1)).unwrap().epoch, 1);
}

#[test]
fn whoever_missed_the_answer_may_ask_again() {
    let mut site = Site::new(2);
    assert_eq!(site.join("a").epoch, 1);
    assert_eq!(site.join("a").assignment, Some(of_t(&[0, 1])), "its first answer was lost");
    assert_eq!(site.logged().epoch, 1);
    site.join("b");
    assert_eq!(site.owns("a", 1, &[0, 1]).unwrap().assignment, Some(of_t(&[0])));
    assert_eq!(site.owns("a", 1, &[0]).unwrap().epoch, 2);
    // In the epoch before, with nothing that is not its own.
    assert_eq!(site.owns("a", 1, &[0]).unwrap().epoch, 2);
    assert_eq!(site.owns("a", 1, &[0, 1]), Err(ErrorCode::FencedMemberEpoch));
    assert_eq!(site.beat(beats("a", 1)), Err(ErrorCode::FencedMemberEpoch));
}

#[test]
fn a_group_is_full_at_its_limit() {
    let mut site = Site::with(4, |settings| settings.consumer.members_max = 2);
    site.join("a");
    site.join("b");
    assert_eq!(site.beat(joins("c")), Err(ErrorCode::GroupMaxSizeReached));
    assert!(site.beat(beats("a", 1)).is_ok());
    site.beat(leaves("b")).unwrap();
    assert!(site.beat(joins("c")).is_ok());
}

#[test]
fn who_leaves_gives_back_all_and_the_group_stays() {
    let mut site = Site::new(2);
    site.join("a");
    site.join("b");
    assert_eq!(site.beat(leaves("a")).unwrap().epoch, LEAVES);
    assert_eq!(site.state(), "Assigning");
    assert_eq!(site.beat(beats("b", 2)).unwrap().assignment, Some(of_t(&[0, 1])));
    site.beat(leaves("b")).unwrap();
    assert_eq!((site.state(), site.logged().members.len()), ("Empty", 0));
    site.pass(SESSION);
    assert_eq!(site.groups.deadline(), None, "nobody is waited for");
    assert_eq!(site.join("c").epoch, 5, "epochs go on");
}

#[test]
fn a_silent_member_is_out() {
    let mut site = Site::new(2);
    site.join("a");
    site.join("b");
    site.pass(SESSION / 2);
    site.beat(beats("b", 2)).unwrap();
    site.pass(SESSION / 2);
    assert_eq!(site.beat(beats("a", 1)), Err(ErrorCode::UnknownMemberId));
    assert_eq!(site.beat(beats("b", 2)).unwrap().assignment, Some(of_t(&[0, 1])));
    site.pass(SESSION);
    assert_eq!(site.state(), "Empty");
}

#[test]
fn the_assignor_that_most_members_prefer_is_used() {
    let mut site = Site::new(4);
    assert_eq!(site.described_or_none(), None);
    site.join("a");
    assert_eq!(site.described().assignor, "uniform");
    site.beat(Beat { assignor: Some("range".into()), ..joins("b") }).unwrap();
    assert_eq!(site.described().assignor, "range");
    assert_eq!((site.member("a").target, site.member("b").target), (of_t(&[0, 1]), of_t(&[2, 3])));
}

#[test]
fn another_assignor_is_a_new_epoch() {
    let mut site = Site::new(2);
    assert_eq!(site.join("a").epoch, 1);
    let wants = |epoch, name: &str| Beat { assignor: Some(name.into()), ..beats("a", epoch) };
    assert_eq!(site.beat(wants(1, "range")).unwrap().epoch, 2);
    assert_eq!(site.beat(wants(2, "range")).unwrap().epoch, 2);
    assert_eq!(site.described().assignor, "range");
    assert_eq!(site.beat(leaves("a")).unwrap().interval, Duration::ZERO, "it need not come again");
}

impl Site {
    fn described_or_none(&mut self) -> Option<Described> {
        match self.told(Ask::Describe).into_consumer() {
            Reply::Described(described) => Some(*described),
            Reply::Failed { error: ErrorCode::GroupIdNotFound, .. } => None,
            other => panic!("{other:?}"),
        }
    }
}
