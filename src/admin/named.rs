use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::{Broker, RootState};
use crate::types::BrokerId;

/// How long Kafka names a broker that is silent (`broker.session.timeout.ms`).
const NAMED_SILENT: Duration = Duration::from_secs(9);

/// The brokers that Metadata names. Here one that has ended is known to be away at once, and leads nothing any more; but a
/// client that is no longer told of it forgets it, and librdkafka with it whatever it was about to ask there:
/// `send_offsets_to_transaction` has never returned. One that is back in time was never forgotten.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// Those that were alive when last looked at, and since when they are not.
    seen: Mutex<HashMap<BrokerId, Option<Instant>>>,
}

impl Named {
    pub fn brokers<'v>(&self, view: &'v RootState, now: Instant) -> Vec<&'v Arc<Broker>> {
        let mut seen = self.seen.lock().expect("no holder panics");
        seen.retain(|id, _| view.broker(*id).is_some());
        let named = view.brokers().filter(|broker| match seen.get_mut(&broker.id) {
            _ if broker.alive => {
                seen.insert(broker.id, None);
                true
            }
            Some(away) => now.duration_since(*away.get_or_insert(now)) < NAMED_SILENT,
            None => false,
        });
        named.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::sample;
    use crate::cluster::RootEntry;

    #[test]
    fn a_broker_that_was_named_is_named_for_a_while_after_its_end() {
        let (named, start) = (Named::default(), Instant::now());
        let mut view = sample::cluster(&["a", "b", "c"]);
        let ids = |view: &RootState, seconds| -> Vec<BrokerId> {
            named.brokers(view, start + Duration::from_secs(seconds)).iter().map(|broker| broker.id).collect()
        };
        sample::set_dead(&mut view, 0);
        assert_eq!(ids(&view, 0), [1, 2], "it was never named");
        sample::set_dead(&mut view, 1);
        // However long ago it was alive: what counts is when it was found to be away.
        assert_eq!(ids(&view, 100), [1, 2]);
        assert_eq!(ids(&view, 108), [1, 2]);
        assert_eq!(ids(&view, 109), [2]);
        let epoch = view.broker(1).unwrap().epoch;
        view.apply(RootEntry::SetAlive { broker: 1, epoch, alive: true });
        assert_eq!(ids(&view, 110), [1, 2]);
        sample::set_dead(&mut view, 1);
        assert_eq!(ids(&view, 111), [1, 2], "each time anew");
        view.apply(RootEntry::RemoveBroker { broker: 1, epoch });
        assert_eq!(ids(&view, 112), [2]);
    }
}
