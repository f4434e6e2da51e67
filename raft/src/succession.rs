//! Leaders whose process has ended: nobody needs to wait for their lease.
//!
//! When a process ends, its machine closes its connections and refuses new ones. Both together say more than silence
//! does: nobody is there who could lead. The voters then campaign at once, one after the other, as if the leader had
//! handed over. A machine that is gone, cut off or frozen refuses nothing, and is replaced when its lease is over. Votes
//! are counted as ever: a wrong guess costs an election, never safety, for nothing here reads by lease.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::NodeId;
use crate::serve::Serve;
use crate::transport::Peers;

/// What one candidate is given before the next tries: a round of votes and the sync of each.
const TURN: Duration = Duration::from_millis(100);

/// Runs until it is aborted.
pub(crate) async fn succeed_the_ended(mut lost: mpsc::Receiver<NodeId>, peers: Peers, serve: Arc<Serve>) {
    let mut successions = JoinSet::new();
    loop {
        tokio::select! {
            Some(node) = lost.recv() => {
                successions.spawn(succeed(node, peers.clone(), serve.clone()));
            }
            Some(_) = successions.join_next() => {}
            else => return,
        }
    }
}

async fn succeed(node: NodeId, peers: Peers, serve: Arc<Serve>) {
    if !peers.probe_ended(node).await {
        return;
    }
    let orphans: Vec<_> = serve.all().into_iter().filter(|replica| replica.is_led_by(node)).collect();
    join_all(orphans.iter().map(|replica| replica.succeed(node, TURN))).await;
}
