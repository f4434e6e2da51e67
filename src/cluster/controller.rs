//! What the root's leader does for the cluster. All of it starts from the applied root state and may be repeated:
//! whoever leads next picks up what is unfinished.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::{BufMut, BytesMut};
use futures::future::{join_all, try_join_all};
use milepost_raft::NodeId;
use tokio::time::timeout;
use tracing::{debug, info, warn};

use crate::cluster::placement;
use crate::cluster::{Cluster, LeaderGuess, RootEntry, RootState, Topic};
use crate::index::Shards;
use crate::peer;
use crate::shard::{Create, Entry};
use crate::types::{ShardId, TopicId, varint};

/// A broker unheard for so long is not named to clients.
const SILENCE_MAX: Duration = Duration::from_millis(1500);
const TICK: Duration = Duration::from_millis(500);
const STEP_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs on every broker, acts on the one that leads the root.
pub async fn control(cluster: Cluster, shards: Arc<Shards>) {
    let mut leadership = cluster.root().leadership();
    let mut applied = cluster.root().applied();
    let in_progress = Arc::new(Mutex::new(HashSet::new()));
    let mut leading_since = None;
    loop {
        if leadership.borrow_and_update().ready {
            let since = *leading_since.get_or_insert_with(Instant::now);
            let view = cluster.view();
            resume_topics(&cluster, &shards, &view, &in_progress);
            if since.elapsed() > SILENCE_MAX {
                watch_brokers(&cluster, &view).await;
            }
            keep_root_voters(&cluster, &view).await;
            keep_shards(&cluster, &view).await;
            // Not notified of every entry: topics that come while one is worked on are seen in the next turn.
            let _ = timeout(TICK, applied.changed()).await;
        } else {
            leading_since = None;
            if leadership.changed().await.is_err() {
                return;
            }
        }
    }
}

async fn propose(cluster: &Cluster, entry: RootEntry) {
    if let Err(e) = cluster.propose(entry, STEP_TIMEOUT).await {
        debug!(error = %e, "a root entry was not taken; the next turn tries again");
    }
}

async fn watch_brokers(cluster: &Cluster, view: &RootState) {
    let heard = cluster.root().heard_within(SILENCE_MAX);
    for broker in view.brokers() {
        let alive = broker.ready && heard.get(&broker.node).copied().unwrap_or(false);
        if alive != broker.alive && !heard.is_empty() {
            info!(broker = broker.id, alive, "broker changed");
            let (broker, epoch) = (broker.id, broker.epoch);
            propose(cluster, RootEntry::SetAlive { broker, epoch, alive }).await;
        }
    }
}

/// Every broker replicates the root; three of them, in distinct zones if possible, vote.
async fn keep_root_voters(cluster: &Cluster, view: &RootState) {
    let root = cluster.root();
    let (voters, learners) = (root.voters(), root.learners());
    let members: BTreeSet<NodeId> = view.brokers().map(|b| b.node).collect();
    for node in members.iter().filter(|node| !voters.contains(node) && !learners.contains(node)) {
        if let Err(e) = root.add_learner(*node).await {
            debug!(node, error = %e, "learner not added yet");
        }
    }
    let ready = |node: NodeId| node == cluster.node_id() || voters.contains(&node) || root.caught_up(node);
    let desired = placement::root_voters(view, &voters, ready);
    if desired != voters && !desired.is_empty() {
        match timeout(STEP_TIMEOUT, root.change_voters(desired.clone(), true)).await {
            Ok(Ok(())) => info!(?desired, "the root shard's voters changed"),
            other => debug!(?other, "the root shard's voters did not change yet"),
        }
    }
    for node in learners.iter().filter(|node| !members.contains(node)) {
        if let Err(e) = root.remove_learner(*node).await {
            debug!(node, error = %e, "replaced node not removed yet");
        }
    }
}

/// One shard per broker for each replication factor in use; nodes that were replaced leave their shards.
async fn keep_shards(cluster: &Cluster, view: &RootState) {
    let factors: BTreeSet<u16> = view.shards().map(|s| s.replication_factor).collect();
    for factor in factors {
        for entry in placement::missing_shards(view, factor) {
            propose(cluster, entry).await;
        }
    }
    for shard in view.shards() {
        if let Some(voters) = placement::replaced_voters(view, shard) {
            info!(shard = shard.id, ?voters, "a replaced node leaves the shard");
            propose(cluster, RootEntry::SetVoters { shard: shard.id, voters }).await;
        }
    }
}

/// Continues every topic that is between two states, one task each.
fn resume_topics(
    cluster: &Cluster,
    shards: &Arc<Shards>,
    view: &Arc<RootState>,
    in_progress: &Arc<Mutex<HashSet<TopicId>>>,
) {
    for topic in view.topics().filter(|t| !t.is_live()) {
        if !in_progress.lock().expect("no holder panics").insert(topic.id) {
            continue;
        }
        let (cluster, shards, topic) = (cluster.clone(), shards.clone(), topic.clone());
        let in_progress = in_progress.clone();
        tokio::spawn(async move {
            if let Err(e) = finish(&cluster, &shards, &topic).await {
                warn!(topic = topic.name, error = %e, "topic is unfinished; trying again");
            }
            in_progress.lock().expect("no holder panics").remove(&topic.id);
        });
    }
}

/// creating → entries in every shard → live; deleting → entries in every shard → gone.
async fn finish(cluster: &Cluster, open: &Arc<Shards>, topic: &Topic) -> Result<(), peer::LeaderError> {
    let shards: BTreeSet<ShardId> = topic.placement.iter().copied().collect();
    if topic.deleting {
        let deletes = shards.iter().map(|shard| {
            send_entry(cluster, open, *shard, Entry::Delete { topic: topic.id })
        });
        try_join_all(deletes).await?;
        propose(cluster, RootEntry::Gone { topic: topic.id }).await;
        return Ok(());
    }
    let creates = shards.iter().map(|shard| {
        let new = (topic.live as usize..topic.placement.len()).filter(|i| topic.placement[*i] == *shard);
        let create = Create {
            topic: topic.id,
            partitions: new.map(|i| i as i32).collect(),
            epoch_base: 0,
            producer_id_next: topic.producer_id_next,
            append_time: topic.append_time(),
            fences: Vec::new(),
        };
        send_entry(cluster, open, *shard, Entry::Create(create))
    });
    try_join_all(creates).await?;
    let partitions = topic.placement.len() as i32;
    propose(cluster, RootEntry::SetLive { topic: topic.id, partitions }).await;
    Ok(())
}

async fn send_entry(
    cluster: &Cluster,
    open: &Arc<Shards>,
    shard: ShardId,
    entry: Entry,
) -> Result<(), peer::LeaderError> {
    let mut body = BytesMut::new();
    varint::put(&mut body, shard.into());
    body.put_slice(&entry.encode());
    let mut guess = LeaderGuess::new(cluster.clone(), open.clone(), shard);
    let sent = peer::call_leader(cluster.node(), || guess.take(), peer::SHARD_ENTRY, body.freeze(), STEP_TIMEOUT);
    sent.await.map(drop)
}

/// Makes sure that topics of this replication factor have shards to live on.
pub(super) async fn ensure_shards(cluster: &Cluster, factor: u16) {
    let entries = placement::missing_shards(&cluster.view(), factor);
    join_all(entries.into_iter().map(|entry| propose(cluster, entry))).await;
}

impl Cluster {
    /// Shards of this replication factor exist, if there are brokers enough, when this returns.
    pub async fn ensure_shards(&self, replication_factor: u16) {
        ensure_shards(self, replication_factor).await;
    }
}
