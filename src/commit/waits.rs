use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::shard::Slot;
use crate::types::ShardId;

/// A broker gives an object up after this at the latest (upload and commit): what has not come by then through any
/// broker comes no more, unless its producer sends it again.
pub const PREDECESSORS_MAX: Duration = Duration::from_secs(45);

/// A producer that was quiet for longer than any client waits between two tries begins its wait anew.
const QUIET_MAX: Duration = Duration::from_secs(10);

/// Waits remembered at once. Forgetting one makes it longer, never shorter.
const WAITS_MAX: usize = 65_536;

/// Waits of producers whose batches are held because others are missing before them: the first batches of one that goes on
/// in a topic created anew, or one batch that was refused for good. To tell them from batches that are late through another
/// broker, all brokers are asked to settle what they have. Too early an end is fatal in librdkafka: the late batches find
/// their place past. Held by the leader alone: a new leader begins the waits anew.
///
/// A question may be answered late, and holds a place among the requests of every broker, its beats and votes: so there is
/// one at a time for all waits, and whoever comes while it is on its way is served by the next.
#[derive(Default)]
pub(super) struct Waits(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    waits: HashMap<Waiter, Wait>,
    /// Questions so far; the last is on its way while `asking`.
    questions: u64,
    asking: bool,
    /// The last question that all brokers have answered, and the last that somebody waits for.
    settled: u64,
    wanted: u64,
}

/// The producer in a partition.
type Waiter = (ShardId, Slot, i64);

struct Wait {
    since: Instant,
    last: Instant,
    /// What is missing: with the next gap a wait begins anew.
    place: Option<(i16, i32)>,
    /// The first question that was put after it began.
    question: u64,
}

impl Waits {
    /// The producer's batches were held in vain once more. Has everything been settled since the first time? One that is
    /// not known (`place` is `None`) need not wait for brokers that are silent longer than they can have anything.
    pub fn is_over(&self, waiter: Waiter, place: Option<(i16, i32)>, now: Instant) -> bool {
        let mut inner = self.0.lock().expect("no holder panics");
        let Inner { waits, questions, settled, wanted, .. } = &mut *inner;
        if waits.len() >= WAITS_MAX && !waits.contains_key(&waiter) {
            waits.retain(|_, wait| now - wait.last <= QUIET_MAX);
            if waits.len() >= WAITS_MAX {
                waits.clear();
            }
        }
        let is_same = |wait: &&mut Wait| wait.place == place && now - wait.last <= QUIET_MAX;
        let Some(wait) = waits.get_mut(&waiter).filter(is_same) else {
            *wanted = *questions + 1;
            waits.insert(waiter, Wait { since: now, last: now, place, question: *wanted });
            return false;
        };
        wait.last = now;
        let is_over = *settled >= wait.question || (place.is_none() && now - wait.since >= PREDECESSORS_MAX);
        if is_over {
            waits.remove(&waiter);
        }
        is_over
    }

    /// Whether a question is to be put now: somebody waits for it, and none is on its way.
    pub fn ask(&self) -> bool {
        let mut inner = self.0.lock().expect("no holder panics");
        if inner.asking || inner.wanted <= inner.settled {
            return false;
        }
        inner.questions += 1;
        inner.asking = true;
        true
    }

    /// Every broker has settled what it had when it was asked, or one could not be asked.
    pub fn answered(&self, settled: bool) {
        let mut inner = self.0.lock().expect("no holder panics");
        inner.asking = false;
        if settled {
            inner.settled = inner.questions;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: (ShardId, Slot, i64) = (1, 0, 7);
    const OTHER: (ShardId, Slot, i64) = (1, 1, 7);

    #[test]
    fn a_producer_begins_in_the_middle_when_all_that_was_on_its_way_is_settled() {
        let (waits, start) = (Waits::default(), Instant::now());
        let is_over = |s| waits.is_over(ONE, None, start + Duration::from_secs(s));
        assert!(!waits.ask(), "nobody waits");
        assert!(!is_over(0));
        assert!(waits.ask());
        assert!(!is_over(1));
        // A broker could not be asked: all are asked again.
        waits.answered(false);
        assert!(!is_over(2));
        assert!(waits.ask());
        waits.answered(true);
        assert!(is_over(3));
        // Its wait is over and forgotten.
        assert!(!is_over(4));
        assert!(waits.ask());
        waits.answered(true);
        // It was quiet, perhaps because the client gave up: what it sends now may have predecessors again.
        assert!(!is_over(15));
        assert!(waits.ask());
        waits.answered(true);
        assert!(is_over(16));
        assert!(!waits.ask());
    }

    #[test]
    fn one_question_is_on_its_way_and_says_nothing_of_who_came_after_it_was_put() {
        let (waits, start) = (Waits::default(), Instant::now());
        let is_over = |of, s| waits.is_over(of, None, start + Duration::from_secs(s));
        assert!(!is_over(ONE, 0));
        assert!(waits.ask());
        let others = |s| (0..1000).filter(|id| is_over((2, 0, *id), s)).count();
        assert_eq!((others(1), waits.ask()), (0, false));
        waits.answered(true);
        assert!(is_over(ONE, 2));
        assert_eq!((others(2), waits.ask(), waits.ask()), (0, true, false), "one for all of them");
        waits.answered(true);
        assert_eq!((others(3), waits.ask()), (1000, false));
    }

    #[test]
    fn a_producer_begins_in_the_middle_when_nothing_can_come_before_though_a_broker_is_silent() {
        let (waits, start) = (Waits::default(), Instant::now());
        let is_over = |of, s| waits.is_over(of, None, start + Duration::from_secs(s));
        assert!((0..45).all(|s| !is_over(ONE, s)));
        assert!(!is_over(OTHER, 45));
        assert!(is_over(ONE, 45) && !is_over(ONE, 46));
        assert!((57..102).all(|s| !is_over(ONE, s)));
        assert!(is_over(ONE, 102));
    }

    #[test]
    fn a_gap_is_one_when_everything_was_settled_since_it_opened_and_never_without() {
        let (waits, start) = (Waits::default(), Instant::now());
        let is_over = |next, s| waits.is_over(ONE, Some((0, next)), start + Duration::from_secs(s));
        assert!((0..100).all(|s| !is_over(5, s)));
        assert!(waits.ask());
        // It was filled after all; this is another one, and what is settled since before says nothing of it.
        assert!(!is_over(9, 100));
        waits.answered(true);
        assert!(!is_over(9, 101));
        assert!(waits.ask());
        waits.answered(true);
        assert!(is_over(9, 102));
    }
}
