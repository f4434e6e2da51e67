//! The beats of all groups that this node leads, at one moment: what goes to a peer then goes in one packet. A packet
//! costs three times the bytes of a beat, and another packet acknowledges it.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::serve::Serve;

/// Runs until it is aborted. openraft leaves out the followers that have just acknowledged entries.
pub(crate) async fn beat(serve: Arc<Serve>, every: Duration) {
    let mut clock = interval(every);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        clock.tick().await;
        let leaders = serve.all().into_iter().filter(|replica| replica.is_leader());
        let beats = leaders.map(|replica| async move {
            // An error says that the replica has ended, which whoever watches it will hear.
            let _ = replica.raft().trigger().heartbeat().await;
        });
        // A group too busy to take the request does not hold up the others, and has no need of beats.
        let _ = timeout(every, join_all(beats)).await;
    }
}
