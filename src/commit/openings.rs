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
const OPENINGS_MAX: usize = 65_536;

/// Producers that a partition does not know and that want to begin in the middle of their sequences, as after their topic
/// was created anew. To tell them from those whose first batches are late through another broker takes time: opened
/// too early, the first batches find their place past, which is fatal in librdkafka. Held by the leader alone: a new
/// leader begins the waits anew.
#[derive(Default)]
pub(super) struct Openings {
    waits: Mutex<HashMap<(ShardId, Slot, i64), Wait>>,
}

struct Wait {
    since: Instant,
    last: Instant,
}

impl Openings {
    /// The producer's lowest batch was held in vain once more. Has it asked for so long that nothing can come before it?
    pub fn is_ripe(&self, producer: (ShardId, Slot, i64), now: Instant) -> bool {
        let mut waits = self.waits.lock().expect("no holder panics");
        if waits.len() >= OPENINGS_MAX && !waits.contains_key(&producer) {
            waits.retain(|_, wait| now - wait.last <= QUIET_MAX);
            if waits.len() >= OPENINGS_MAX {
                waits.clear();
            }
        }
        let wait = waits.entry(producer).or_insert(Wait { since: now, last: now });
        if now - wait.last > QUIET_MAX {
            wait.since = now;
        }
        wait.last = now;
        let ripe = now - wait.since >= PREDECESSORS_MAX;
        if ripe {
            waits.remove(&producer);
        }
        ripe
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_producer_begins_in_the_middle_only_when_nothing_can_come_before() {
        let openings = Openings::default();
        let start = Instant::now();
        let seconds = |s| start + Duration::from_secs(s);
        let (one, other) = ((1, 0, 7), (1, 1, 7));
        assert!((0..45).all(|s| !openings.is_ripe(one, seconds(s))));
        assert!(!openings.is_ripe(other, seconds(45)));
        assert!(openings.is_ripe(one, seconds(45)));
        // Its wait is over and forgotten.
        assert!(!openings.is_ripe(one, seconds(46)));
        // It was quiet, perhaps because the client gave up: what it sends now may have predecessors again.
        assert!((57..102).all(|s| !openings.is_ripe(one, seconds(s))));
        assert!(openings.is_ripe(one, seconds(102)));
    }
}
