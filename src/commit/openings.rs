use std::collections::HashMap;
use std::collections::hash_map::Entry;
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
const OPENINGS_MAX: usize = 65_536;

/// Producers that a partition does not know and that want to begin in the middle of their sequences, as after their topic
/// was created anew. To tell them from those whose first batches are late through another broker, all brokers are asked
/// to settle what they have: opened too early, the first batches find their place past, which is fatal in librdkafka.
/// Held by the leader alone: a new leader begins the waits anew.
#[derive(Default)]
pub(super) struct Openings {
    waits: Mutex<HashMap<(ShardId, Slot, i64), Wait>>,
}

struct Wait {
    since: Instant,
    last: Instant,
    /// Comes when every broker has settled what it had when it was asked; is lost when one could not be asked.
    settled: oneshot::Receiver<()>,
}

impl Openings {
    /// The producer's lowest batch was held in vain once more. Has everything been settled since the first time, or has it
    /// asked for so long that nothing can come before it? Begins with a question to all brokers, as `ask` puts it.
    pub fn is_ripe(
        &self,
        producer: (ShardId, Slot, i64),
        now: Instant,
        ask: impl Fn() -> oneshot::Receiver<()>,
    ) -> bool {
        let mut waits = self.waits.lock().expect("no holder panics");
        if waits.len() >= OPENINGS_MAX && !waits.contains_key(&producer) {
            waits.retain(|_, wait| now - wait.last <= QUIET_MAX);
            if waits.len() >= OPENINGS_MAX {
                waits.clear();
            }
        }
        let wait = match waits.entry(producer) {
            Entry::Vacant(vacant) => {
                vacant.insert(Wait { since: now, last: now, settled: ask() });
                return false;
            }
            Entry::Occupied(occupied) => occupied.into_mut(),
        };
        if now - wait.last > QUIET_MAX {
            *wait = Wait { since: now, last: now, settled: ask() };
            return false;
        }
        wait.last = now;
        let ripe = match wait.settled.try_recv() {
            Ok(()) => true,
            Err(TryRecvError::Empty) => false,
            Err(TryRecvError::Closed) => {
                wait.settled = ask();
                false
            }
        };
        let ripe = ripe || now - wait.since >= PREDECESSORS_MAX;
        if ripe {
            waits.remove(&producer);
        }
        ripe
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
        let (openings, asked, start) = (Openings::default(), Asked::default(), Instant::now());
        let is_ripe = |s| openings.is_ripe(ONE, start + Duration::from_secs(s), || asked.ask());
        assert!(!is_ripe(0) && !is_ripe(1));
        // A broker could not be asked: the others are asked again as well.
        drop(asked.take());
        assert!(!is_ripe(2) && !is_ripe(3));
        asked.take().send(()).unwrap();
        assert!(is_ripe(4));
        // Its wait is over and forgotten.
        assert!(!is_ripe(5));
        asked.take().send(()).unwrap();
        // It was quiet, perhaps because the client gave up: what it sends now may have predecessors again.
        assert!(!is_ripe(16));
        asked.take().send(()).unwrap();
        assert!(is_ripe(17) && asked.0.borrow().is_empty());
    }

    #[test]
    fn a_producer_begins_in_the_middle_when_nothing_can_come_before_though_a_broker_is_silent() {
        let (openings, asked, start) = (Openings::default(), Asked::default(), Instant::now());
        let is_ripe = |of, s| openings.is_ripe(of, start + Duration::from_secs(s), || asked.ask());
        let other = (1, 1, 7);
        assert!((0..45).all(|s| !is_ripe(ONE, s)));
        assert!(!is_ripe(other, 45));
        assert!(is_ripe(ONE, 45) && !is_ripe(ONE, 46));
        assert!((57..102).all(|s| !is_ripe(ONE, s)));
        assert!(is_ripe(ONE, 102));
    }
}
