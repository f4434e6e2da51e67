//! Makes this broker do what the root state says of it: addresses, shards to replicate, their voters and leaders.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};

use crate::cluster::leading::Leading;
use crate::cluster::{Cluster, RootEntry, RootState};
use crate::index::{OpenShard, Replica, Shards, read_index};

const TICK: Duration = Duration::from_millis(500);
const STEP_TIMEOUT: Duration = Duration::from_secs(10);
/// The preferred leader founds the group; the other voters do so only when it has not for this long.
const FOUND_PATIENCE: Duration = Duration::from_secs(3);
/// A leader gives leadership away only after so long: one that has just got it from a broker that stops may not have
/// applied yet that the other is leaving.
const SETTLED: Duration = Duration::from_secs(1);
const READY_PATIENCE: Duration = Duration::from_secs(30);

/// Follows the root state. `replica` makes a shard's, `opened` starts what a shard needs on this broker.
pub async fn reconcile(
    cluster: Cluster,
    shards: Arc<Shards>,
    replica: impl Fn() -> Replica,
    opened: impl Fn(Arc<OpenShard>),
) {
    let mut applied = cluster.root().applied();
    loop {
        let view = cluster.view();
        cluster.addresses().follow(&view);
        let mine = view.shards().filter(|s| s.voters.contains(&cluster.node_id()));
        for record in mine.filter(|s| shards.get(s.id).is_none()) {
            match cluster.node().open_group(record.id, Arc::new(replica())).await {
                Ok(group) => {
                    let shard = Arc::new(OpenShard::new(record.id, group));
                    shards.insert(shard.clone());
                    opened(shard.clone());
                    tokio::spawn(keep(cluster.clone(), shard));
                }
                Err(e) => warn!(shard = record.id, error = %e, "the shard cannot be opened"),
            }
        }
        // Also without news: what failed is tried again.
        if let Ok(Err(_)) = timeout(TICK, applied.changed()).await {
            return;
        }
    }
}

/// Says once, after a start, that clients may be sent here: when what this broker replicates has caught up, or when
/// waiting longer would only keep its healthy shards from its zone.
pub async fn announce(cluster: Cluster, shards: Arc<Shards>) {
    let started = Instant::now();
    let caught_up = |view: &RootState| {
        let mut mine = view.shards().filter(|s| s.voters.contains(&cluster.node_id()));
        mine.all(|s| shards.get(s.id).is_some_and(|open| open.is_caught_up()))
    };
    while !caught_up(&cluster.view()) && started.elapsed() < READY_PATIENCE {
        sleep(TICK / 10).await;
    }
    let entry = RootEntry::SetReady { broker: cluster.broker_id(), epoch: cluster.epoch() };
    while let Err(e) = cluster.propose(entry.clone(), STEP_TIMEOUT).await {
        debug!(error = %e, "not announced yet");
    }
}

/// One shard's housekeeping on this broker.
async fn keep(cluster: Cluster, shard: Arc<OpenShard>) {
    let mut leadership = shard.group.leadership();
    let opened = Instant::now();
    let mut leading = Leading::default();
    loop {
        found(&cluster, &shard, opened).await;
        catch_up(&cluster, &shard).await;
        let now = *leadership.borrow_and_update();
        if let Some(since) = leading.since(now, Instant::now()) {
            keep_voters(&cluster, &shard).await;
            if since.elapsed() > SETTLED {
                hand_to_preferred(&cluster, &shard).await;
            }
        }
        if let Some(why) = shard.group.stopped() {
            warn!(shard = shard.id, why, "the replica has stopped");
            return;
        }
        let pause = if shard.is_caught_up() { TICK } else { TICK / 10 };
        if let Ok(Err(_)) = timeout(pause, leadership.changed()).await {
            return;
        }
    }
}

async fn catch_up(cluster: &Cluster, shard: &OpenShard) {
    // A group that is not founded has no leader to ask: waiting for one would put off founding it.
    let pending = !shard.is_caught_up() && !shard.group.voters().is_empty();
    if pending && read_index(cluster.node(), shard, STEP_TIMEOUT).await.is_ok() {
        shard.mark_caught_up();
        debug!(shard = shard.id, "readers are served");
    }
}

async fn found(cluster: &Cluster, shard: &OpenShard, opened: Instant) {
    let Some(record) = cluster.view().shard(shard.id).cloned() else { return };
    let founds = record.preferred == cluster.node_id() || opened.elapsed() > FOUND_PATIENCE;
    // A node that took another's place joins as a learner: it must never found what exists elsewhere.
    if shard.group.voters().is_empty()
        && founds
        && record.founders.contains(&cluster.node_id())
        && let Err(e) = shard.group.initialize(record.founders.iter().copied().collect()).await
    {
        debug!(shard = shard.id, error = %e, "not founded");
    }
}

/// The leader brings the group's voters to what the root says: the newcomer first as a learner, then all at once.
async fn keep_voters(cluster: &Cluster, shard: &OpenShard) {
    let Some(record) = cluster.view().shard(shard.id).cloned() else { return };
    let desired: BTreeSet<_> = record.voters.iter().copied().collect();
    let (actual, learners) = (shard.group.voters(), shard.group.learners());
    if desired == actual && !shard.group.is_joint() {
        return;
    }
    for node in desired.iter().filter(|node| !actual.contains(node) && !learners.contains(node)) {
        if let Err(e) = shard.group.add_learner(*node).await {
            debug!(shard = shard.id, node, error = %e, "learner not added yet");
            return;
        }
    }
    if desired.iter().all(|node| actual.contains(node) || shard.group.caught_up(*node)) {
        match timeout(STEP_TIMEOUT, shard.group.change_voters(desired, false)).await {
            Ok(Ok(())) => info!(shard = shard.id, voters = ?record.voters, "the shard's voters changed"),
            other => debug!(shard = shard.id, ?other, "the shard's voters did not change yet"),
        }
    }
}

async fn hand_to_preferred(cluster: &Cluster, shard: &OpenShard) {
    let view = cluster.view();
    let Some(record) = view.shard(shard.id) else { return };
    let preferred = record.preferred;
    let well = view.broker_of(preferred).is_some_and(|b| b.alive)
        && shard.group.voters().contains(&preferred)
        && shard.group.caught_up(preferred)
        && shard.group.heard_within(Duration::from_secs(1)).get(&preferred) == Some(&true);
    if preferred != cluster.node_id() && well {
        match timeout(STEP_TIMEOUT, shard.group.transfer_leader(preferred)).await {
            Ok(Ok(())) => info!(shard = shard.id, to = preferred, "leadership handed to the preferred voter"),
            other => debug!(shard = shard.id, ?other, "leadership was not handed over"),
        }
    }
}
