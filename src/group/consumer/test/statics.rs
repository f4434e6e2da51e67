use super::*;

fn away(instance: &str, member: &str) -> Beat {
    Beat { instance: Some(instance.into()), ..beats(member, LEAVES_FOR_NOW) }
}

#[test]
fn a_static_member_that_comes_back_goes_on_where_it_was() {
    let mut site = Site::new(4);
    site.beat(joins_as("i", "a")).unwrap();
    site.join("b");
    site.beat(Beat { instance: Some("i".into()), owned: Some(of_t(&[0, 1])), ..beats("a", 1) }).unwrap();
    site.beat(Beat { instance: Some("i".into()), owned: Some(of_t(&[0, 1])), ..beats("a", 1) }).unwrap();
    site.beat(beats("b", 2)).unwrap();
    assert_eq!(site.beat(away("i", "a")).unwrap().epoch, LEAVES_FOR_NOW);
    assert_eq!(site.member("a").current.epoch, LEAVES_FOR_NOW);
    assert_eq!(site.beat(beats("b", 2)).unwrap().assignment, None, "its partitions are kept for it");
    let back = site.beat(joins_as("i", "a2")).unwrap();
    assert_eq!((back.epoch, back.assignment), (2, Some(of_t(&[0, 1]))), "without a rebalance");
    assert_eq!(site.beat(beats("a", 2)), Err(ErrorCode::UnknownMemberId));
    let former = Beat { instance: Some("i".into()), ..beats("a", 2) };
    assert_eq!(site.beat(former), Err(ErrorCode::FencedInstanceId));
    assert_eq!(site.state(), "Stable");
}

#[test]
fn an_instance_in_use_is_not_given_away() {
    let mut site = Site::new(2);
    site.beat(joins_as("i", "a")).unwrap();
    assert_eq!(site.beat(joins_as("i", "b")), Err(ErrorCode::UnreleasedInstanceId));
    assert_eq!(site.beat(Beat { instance: Some("i".into()), ..leaves("b") }), Err(ErrorCode::FencedInstanceId));
    assert_eq!(site.beat(Beat { instance: Some("j".into()), ..leaves("a") }), Err(ErrorCode::UnknownMemberId));
    assert_eq!(site.beat(Beat { instance: Some("j".into()), ..beats("a", 1) }), Err(ErrorCode::UnknownMemberId));
    assert_eq!(site.beat(Beat { instance: Some("i".into()), ..beats("a", 1) }).unwrap().epoch, 1);
}

#[test]
fn a_static_member_that_stays_away_is_out() {
    let mut site = Site::new(2);
    site.beat(joins_as("i", "a")).unwrap();
    site.join("b");
    site.beat(away("i", "a")).unwrap();
    site.pass(SESSION / 2);
    site.beat(beats("b", 2)).unwrap();
    site.pass(SESSION / 2);
    assert_eq!(site.beat(beats("b", 2)).unwrap().assignment, Some(of_t(&[0, 1])));
}

#[test]
fn a_static_member_can_leave_for_good() {
    let mut site = Site::new(2);
    site.beat(joins_as("i", "a")).unwrap();
    let left = Beat { instance: Some("i".into()), ..leaves("a") };
    assert_eq!(site.beat(left).unwrap().epoch, LEAVES);
    assert_eq!(site.state(), "Empty");
    assert_eq!(site.beat(joins_as("i", "b")).unwrap().assignment, Some(of_t(&[0, 1])));
}

#[test]
fn what_an_absent_member_was_letting_go_of_is_free() {
    let mut site = Site::new(2);
    site.beat(joins_as("i", "a")).unwrap();
    site.join("b");
    site.beat(Beat { instance: Some("i".into()), ..beats("a", 1) }).unwrap();
    assert_eq!(site.member("a").current.revoking, of_t(&[1]));
    site.beat(away("i", "a")).unwrap();
    assert_eq!(site.beat(beats("b", 2)).unwrap().assignment, Some(of_t(&[1])));
    let back = site.beat(joins_as("i", "a2")).unwrap();
    assert_eq!((back.epoch, back.assignment), (2, Some(of_t(&[0]))));
}
