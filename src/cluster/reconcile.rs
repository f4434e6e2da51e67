//! Makes this broker do what the root state says of it: addresses, shards to replicate, their voters and leaders.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use milepost_raft::NodeId;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};

use crate::cluster::leading::Leading;
use crate::cluster::{Cluster, RootEntry, RootState, Shard, election};
use crate::index::{OpenShard, Replica, Shards, read_index};
use crate::types::ShardId;

const TICK: Duration = Duration::from_millis(500);
const STEP_TIMEOUT: Duration = Duration::from_secs(10);
/// The preferred leader founds the group; the other voters do so only when it has not for this long.
const FOUND_PATIENCE: Duration = Duration::from_secs(3);
/// A leader gives leadership back only after so long. Each move ends the joins of groups that are under way, so elections
/// on a machine short of processors must not be answered by as many moves; and one that has just got leadership from a
/// broker that stops may not have applied yet that the other is leaving.
const SETTLED: Duration = Duration::from_secs(30);
const READY_PATIENCE: Duration = Duration::from_secs(30);
/// A shard that has moved away is closed after so long: a leader that leaves hands over first.
const LEFT_PATIENCE: Duration = Duration::from_secs(2);

/// Follows the root state. `replica` makes a shard's, `opened` starts what a shard needs on this broker, `closed` ends it.
pub async fn reconcile(
    cluster: Cluster,
    shards: Arc<Shards>,
    replica: impl Fn() -> Replica,
    opened: impl Fn(Arc<OpenShard>),
    closed: impl Fn(ShardId),
) {
    let mut applied = cluster.root().applied();
    let mut left = HashMap::new();
    loop {
        let view = cluster.view();
        cluster.addresses().follow(&view);
        let me = cluster.node_id();
        let mine = view.shards().filter(|s| s.members().any(|node| node == me));
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
        for shard in have_left(&view, me, &shards, &mut left, Instant::now()) {
            shards.remove(shard);
            closed(shard);
            cluster.node().close_group(shard).await;
            info!(shard, "the shard has moved away; its replica here is closed");
        }
        // Also without news: what failed is tried again.
        if let Ok(Err(_)) = timeout(TICK, applied.changed()).await {
            return;
        }
    }
}

/// The open shards that this node has not been a member of for a while.
fn have_left(
    view: &RootState,
    me: NodeId,
    shards: &Shards,
    left: &mut HashMap<ShardId, Instant>,
    now: Instant,
) -> Vec<ShardId> {
    let is_left = |id: &ShardId| view.shard(*id).is_some_and(|shard| !shard.members().any(|node| node == me));
    let gone: BTreeSet<ShardId> = shards.all().iter().map(|shard| shard.id).filter(is_left).collect();
    left.retain(|shard, _| gone.contains(shard));
    gone.into_iter().filter(|shard| now.duration_since(*left.entry(*shard).or_insert(now)) >= LEFT_PATIENCE).collect()
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
            // Raft has said so, unless it was to stop.
            debug!(shard = shard.id, why, "the replica has stopped");
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

/// The leader brings the group's voters to what the root says: the newcomers first as learners, then all at once.
async fn keep_voters(cluster: &Cluster, shard: &OpenShard) {
    let view = cluster.view();
    let Some(record) = view.shard(shard.id).cloned() else { return };
    let desired: BTreeSet<_> = record.voters.iter().copied().collect();
    let (actual, learners) = (shard.group.voters(), shard.group.learners());
    if desired == actual && !shard.group.is_joint() {
        return settle(cluster, shard, &record, &learners).await;
    }
    for node in desired.iter().filter(|node| !actual.contains(node) && !learners.contains(node)) {
        if let Err(e) = shard.group.add_learner(*node).await {
            debug!(shard = shard.id, node, error = %e, "learner not added yet");
            return;
        }
    }
    if !desired.iter().all(|node| actual.contains(node) || shard.group.caught_up(*node)) {
        return;
    }
    // A leader that leaves gives leadership to one that stays; that one makes the change.
    let mut heirs = desired.iter().filter(|_| !desired.contains(&cluster.node_id()));
    if let Some(heir) = heirs.find(|node| election::may_lead(&view, shard, **node)) {
        let handed = timeout(STEP_TIMEOUT, shard.group.transfer_leader(*heir)).await;
        debug!(shard = shard.id, heir, ?handed, "leadership before leaving");
        return;
    }
    match timeout(STEP_TIMEOUT, shard.group.change_voters(desired, false)).await {
        Ok(Ok(())) => info!(shard = shard.id, voters = ?record.voters, "the shard's voters changed"),
        other => debug!(shard = shard.id, ?other, "the shard's voters did not change yet"),
    }
}

/// After a change: nobody is fed who is no member, and the root hears that the group has the voters it should have.
async fn settle(cluster: &Cluster, shard: &OpenShard, record: &Shard, learners: &BTreeSet<NodeId>) {
    for node in learners {
        if let Err(e) = shard.group.remove_learner(*node).await {
            debug!(shard = shard.id, node, error = %e, "learner not removed yet");
            return;
        }
    }
    if record.is_unsettled() && shard.group.is_settled() {
        let entry = RootEntry::Moved { shard: shard.id, voters: record.voters.clone() };
        match cluster.propose(entry, STEP_TIMEOUT).await {
            Ok(_) => info!(shard = shard.id, voters = ?record.voters, "the shard has moved"),
            Err(e) => debug!(shard = shard.id, error = %e, "the root does not know yet that the shard has moved"),
        }
    }
}

async fn hand_to_preferred(cluster: &Cluster, shard: &OpenShard) {
    let view = cluster.view();
    let Some(record) = view.shard(shard.id) else { return };
    let preferred = record.preferred;
    if preferred != cluster.node_id() && election::may_lead(&view, shard, preferred) {
        match timeout(STEP_TIMEOUT, shard.group.transfer_leader(preferred)).await {
            Ok(Ok(())) => info!(shard = shard.id, to = preferred, "leadership handed to the preferred voter"),
            other => debug!(shard = shard.id, ?other, "leadership was not handed over"),
        }
    }
}
