use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
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
#[derive(Default)]
pub(super) struct Waits {
    waits: Mutex<HashMap<Waiter, Wait>>,
}

/// The producer in a partition.
type Waiter = (ShardId, Slot, i64);

struct Wait {
    since: Instant,
    last: Instant,
    /// What is missing: with the next gap a wait begins anew.
    place: Option<(i16, i32)>,
    /// Comes when every broker has settled what it had when it was asked; is lost when one could not be asked.
    settled: oneshot::Receiver<()>,
}

impl Waits {
    /// The producer's batches were held in vain once more. Has everything been settled since the first time? One that is
    /// not known (`place` is `None`) need not wait for brokers that are silent longer than they can have anything.
    /// Begins with a question to all brokers, as `ask` puts it.
    pub fn is_over(
        &self,
        waiter: Waiter,
        place: Option<(i16, i32)>,
        now: Instant,
        ask: impl Fn() -> oneshot::Receiver<()>,
    ) -> bool {
        let mut waits = self.waits.lock().expect("no holder panics");
        if waits.len() >= WAITS_MAX && !waits.contains_key(&waiter) {
            waits.retain(|_, wait| now - wait.last <= QUIET_MAX);
            if waits.len() >= WAITS_MAX {
                waits.clear();
            }
        }
        let is_same = |wait: &&mut Wait| wait.place == place && now - wait.last <= QUIET_MAX;
        let Some(wait) = waits.get_mut(&waiter).filter(is_same) else {
            waits.insert(waiter, Wait { since: now, last: now, place, settled: ask() });
            return false;
        };
        wait.last = now;
        let settled = wait.settled.try_recv();
        if settled == Err(TryRecvError::Closed) {
            wait.settled = ask();
        }
        let is_over = settled.is_ok() || (place.is_none() && now - wait.since >= PREDECESSORS_MAX);
        if is_over {
            waits.remove(&waiter);
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    const ONE: (ShardId, Slot, i64) = (1, 0, 7);

    /// The questions that were asked.
    #[derive(Default)]
    struct Asked(RefCell<Vec<oneshot::Sender<()>>>);

    impl Asked {
        fn ask(&self) -> oneshot::Receiver<()> {
            let (answer, receiver) = oneshot::channel();
            self.0.borrow_mut().push(answer);
            receiver
        }

        fn take(&self) -> oneshot::Sender<()> {
            self.0.borrow_mut().pop().expect("somebody asked")
        }
    }

    #[test]
    fn a_producer_begins_in_the_middle_when_all_that_was_on_its_way_is_settled() {
        let (waits, asked, start) = (Waits::default(), Asked::default(), Instant::now());
        let is_over = |s| waits.is_over(ONE, None, start + Duration::from_secs(s), || asked.ask());
        assert!(!is_over(0) && !is_over(1));
        // A broker could not be asked: the others are asked again as well.
        drop(asked.take());
        assert!(!is_over(2) && !is_over(3));
        asked.take().send(()).unwrap();
        assert!(is_over(4));
        // Its wait is over and forgotten.
        assert!(!is_over(5));
        asked.take().send(()).unwrap();
        // It was quiet, perhaps because the client gave up: what it sends now may have predecessors again.
        assert!(!is_over(16));
        asked.take().send(()).unwrap();
        assert!(is_over(17) && asked.0.borrow().is_empty());
    }

    #[test]
    fn a_producer_begins_in_the_middle_when_nothing_can_come_before_though_a_broker_is_silent() {
        let (waits, asked, start) = (Waits::default(), Asked::default(), Instant::now());
        let is_over = |of, s| waits.is_over(of, None, start + Duration::from_secs(s), || asked.ask());
        let other = (1, 1, 7);
        assert!((0..45).all(|s| !is_over(ONE, s)));
        assert!(!is_over(other, 45));
        assert!(is_over(ONE, 45) && !is_over(ONE, 46));
        assert!((57..102).all(|s| !is_over(ONE, s)));
        assert!(is_over(ONE, 102));
    }

    #[test]
    fn a_gap_is_one_when_everything_was_settled_since_it_opened_and_never_without() {
        let (waits, asked, start) = (Waits::default(), Asked::default(), Instant::now());
        let is_over = |next, s| waits.is_over(ONE, Some((0, next)), start + Duration::from_secs(s), || asked.ask());
        assert!((0..100).all(|s| !is_over(5, s)));
        // It was filled after all; this is another one, and what was settled before says nothing of it.
        asked.take().send(()).unwrap();
        assert!(!is_over(9, 100) && !is_over(9, 101));
        asked.take().send(()).unwrap();
        assert!(is_over(9, 102));
    }
}
