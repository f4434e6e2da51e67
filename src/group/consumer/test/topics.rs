use super::*;

fn matching(member: &str, pattern: &str) -> Beat {
    Beat { topics: None, pattern: Some(pattern.into()), ..joins(member) }
}

#[test]
fn more_partitions_and_topics_that_come_and_go_make_a_new_epoch() {
    let mut site = Site::new(1);
    site.beat(Beat { topics: names(&["t", "u"]), ..joins("a") }).unwrap();
    site.topic("t", 2);
    let told = site.beat(beats("a", 1)).unwrap();
    assert_eq!((told.epoch, told.assignment), (2, Some(of_t(&[0, 1]))));
    site.topic("u", 1);
    let told = site.beat(beats("a", 2)).unwrap();
    assert_eq!((told.epoch, told.assignment.map(|all| all.len())), (3, Some(2)));
    site.topic("other", 1);
    assert_eq!(site.beat(beats("a", 3)).unwrap().epoch, 3, "nobody is subscribed to it");
    site.topic("t", 0);
    // It has to let go of partitions of the topic that is gone.
    let told = site.beat(beats("a", 3)).unwrap();
    assert_eq!((told.epoch, told.assignment.map(|all| all.len())), (3, Some(1)));
    let owned = Some(Assignment::from([(topic("u"), [0].into())]));
    assert_eq!(site.beat(Beat { owned, ..beats("a", 3) }).unwrap().epoch, 4);
}

#[test]
fn a_pattern_is_subscribed_to_all_topics_that_match_it_now_and_later() {
    let mut site = Site::new(1);
    site.topic("logs-1", 1);
    let joined = site.beat(matching("a", "logs-.*")).unwrap();
    assert_eq!(joined.assignment, Some(Assignment::from([(topic("logs-1"), [0].into())])));
    site.topic("logs-2", 2);
    let told = site.beat(beats("a", 1)).unwrap();
    assert_eq!((told.epoch, told.assignment.map(|all| all.len())), (2, Some(2)));
    // Together with names, and until it is taken back.
    let both = Beat { topics: names(&["t"]), ..beats("a", 2) };
    let told = site.beat(both).unwrap();
    assert_eq!((told.epoch, told.assignment.map(|all| all.len())), (3, Some(3)));
    let none = Beat { pattern: Some(String::new()), ..beats("a", 3) };
    assert_eq!(site.beat(none).unwrap().assignment, Some(of_t(&[0])));
}

#[test]
fn a_member_may_be_subscribed_to_nothing() {
    let mut site = Site::new(1);
    let joined = site.beat(Beat { topics: names(&[]), ..joins("a") }).unwrap();
    assert_eq!((joined.epoch, joined.assignment), (1, Some(of_t(&[]))));
    let joined = site.beat(Beat { topics: names(&["none"]), ..joins("b") }).unwrap();
    assert_eq!((joined.epoch, joined.assignment), (2, Some(of_t(&[]))));
    let told = site.beat(Beat { topics: names(&["t"]), ..beats("a", 1) }).unwrap();
    assert_eq!((told.epoch, told.assignment), (3, Some(of_t(&[0]))));
}

#[test]
fn a_topic_made_anew_under_its_name_is_another() {
    let mut site = Site::new(1);
    site.join("a");
    site.view.topics.insert("t".into(), (topic("new"), 1));
    site.view.version += 1;
    assert_eq!(site.beat(beats("a", 1)).unwrap().assignment, Some(Assignment::new()));
    let told = site.owns("a", 1, &[]).unwrap();
    assert_eq!(told.assignment, Some(Assignment::from([(topic("new"), [0].into())])));
}
