//! What the root's leader does for the cluster. All of it starts from the applied root state and may be repeated:
//! whoever leads next picks up what is unfinished. Nothing that was decided in one reign is done in another.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use futures::future::join_all;
use milepost_raft::NodeId;
use tokio::time::{Instant, timeout};
use tracing::{debug, info, warn};

use crate::admin::CONSUMER_OFFSETS;
use crate::cluster::leading::{Leading, while_leading};
use crate::cluster::placement;
use crate::cluster::{Cluster, LeaderGuess, RootEntry, RootState, Topic};
use crate::index::Shards;
use crate::peer::{self, Answer};
use crate::shard::{Create, Entry};
use crate::types::{ShardId, TopicId, varint};

/// A broker unheard for so long is not named to clients.
const SILENCE_MAX: Duration = Duration::from_millis(1500);
const TICK: Duration = Duration::from_millis(250);
const STEP_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs on every broker, acts on the one that leads the root.
pub async fn control(cluster: Cluster, shards: Arc<Shards>) {
    let mut leadership = cluster.root().leadership();
    let mut applied = cluster.root().applied();
    let in_progress = Arc::new(Mutex::new(HashSet::new()));
    let mut leading = Leading::default();
    loop {
        let now = *leadership.borrow_and_update();
        if let Some(since) = leading.since(now, Instant::now()) {
            let reign = Reign { cluster: cluster.clone(), shards: shards.clone(), term: now.term };
            let view = cluster.view();
            reign.resume_topics(&view, &in_progress);
            reign.watch_brokers(&view, since.elapsed() > SILENCE_MAX).await;
            reign.keep_root_voters().await;
            reign.keep_shards(&view).await;
            // Not notified of every entry: topics that come while one is worked on are seen in the next turn.
            let _ = timeout(TICK, applied.changed()).await;
        } else if leadership.changed().await.is_err() {
            return;
        }
    }
}

/// This node's time as the root's leader, in one term.
#[derive(Clone)]
struct Reign {
    cluster: Cluster,
    shards: Arc<Shards>,
    term: u64,
}

impl Reign {
    /// Never reaches another leader's log: what it was decided from may be old there.
    async fn propose(&self, entry: RootEntry) {
        let decision = Cluster::decide_in(self.cluster.root(), self.term, entry.encode());
        match timeout(STEP_TIMEOUT, decision).await {
            Ok(Answer::Done(_)) => {}
            other => debug!(?other, "a root entry was not taken; the next turn tries again"),
        }
    }

    /// A leader that is new has not listened for long enough to call anyone silent; that a process has ended it may know.
    async fn watch_brokers(&self, view: &RootState, has_listened: bool) {
        let heard = self.cluster.root().heard_within(SILENCE_MAX);
        if heard.is_empty() {
            // It no longer leads.
            return;
        }
        for broker in view.brokers() {
            let heard = if has_listened { heard.get(&broker.node).copied().unwrap_or(false) } else { broker.alive };
            let alive = broker.ready && heard && !self.cluster.node().has_ended(broker.node).await;
            if alive != broker.alive {
                info!(broker = broker.id, alive, "broker changed");
                let (broker, epoch) = (broker.id, broker.epoch);
                self.propose(RootEntry::SetAlive { broker, epoch, alive }).await;
            }
        }
    }

    /// Every broker replicates the root; three of them, in distinct zones if possible, vote.
    async fn keep_root_voters(&self) {
        let root = self.cluster.root();
        // The members first: whoever is let in after this is in the view, and whoever is not in it was replaced.
        let (voters, learners) = (root.voters(), root.learners());
        let view = self.cluster.view();
        let brokers: BTreeSet<NodeId> = view.brokers().map(|b| b.node).collect();
        for node in brokers.iter().filter(|node| !voters.contains(node) && !learners.contains(node)) {
            if let Err(e) = root.add_learner(*node).await {
                debug!(node, error = %e, "learner not added yet");
            }
        }
        let ready = |node: NodeId| node == self.cluster.node_id() || voters.contains(&node) || root.caught_up(node);
        let desired = placement::root_voters(&view, &voters, ready);
        // A change whose leader went half-way is joint: the voters of both sets, which may look like the desired ones.
        if (desired != voters || root.is_joint()) && !desired.is_empty() {
            match timeout(STEP_TIMEOUT, root.change_voters(desired.clone(), true)).await {
                Ok(Ok(())) => info!(?desired, "the root shard's voters changed"),
                other => debug!(?other, "the root shard's voters did not change yet"),
            }
        }
        for node in learners.iter().filter(|node| !brokers.contains(node)) {
            if let Err(e) = root.remove_learner(*node).await {
                debug!(node, error = %e, "replaced node not removed yet");
            }
        }
    }

    /// Nodes that were replaced leave their shards; then, one shard per broker for each replication factor in use.
    async fn keep_shards(&self, view: &RootState) {
        for entry in placement::shard_changes(view) {
            info!(?entry, "shards change");
            self.propose(entry).await;
        }
    }

    /// Continues every topic that is between two states, one task each, for as long as this reign lasts.
    fn resume_topics(&self, view: &RootState, in_progress: &Arc<Mutex<HashSet<TopicId>>>) {
        for topic in view.topics().filter(|t| t.is_unfinished()) {
            if !in_progress.lock().expect("no holder panics").insert(topic.id) {
                continue;
            }
            let stamped = view.is_stamped(topic);
            let (reign, topic, in_progress) = (self.clone(), topic.clone(), in_progress.clone());
            tokio::spawn(async move {
                let leadership = reign.cluster.root().leadership();
                if let Some(Err(e)) = while_leading(leadership, reign.term, reign.finish(&topic, stamped)).await {
                    warn!(topic = topic.name, error = %e, "topic is unfinished; trying again");
                }
                in_progress.lock().expect("no holder panics").remove(&topic.id);
            });
        }
    }

    /// creating → entries in every shard → live; deleting → entries in every shard → gone. What was changed about stamping
    /// is told once all partitions are live, those included that were created from what was before.
    async fn finish(&self, topic: &Topic, stamped: bool) -> Result<(), peer::LeaderError> {
        let shards: BTreeSet<ShardId> = topic.placement.iter().copied().collect();
        if topic.deleting {
            // Groups may have committed offsets of it.
            let view = self.cluster.view();
            let offsets = view.topic_named(CONSUMER_OFFSETS).into_iter().flat_map(|topic| topic.placement.clone());
            let shards = shards.into_iter().chain(offsets).collect();
            self.send_entries(shards, |_| Entry::Delete { topic: topic.id }).await?;
            self.propose(RootEntry::Gone { topic: topic.id }).await;
            return Ok(());
        }
        if topic.is_live() {
            let (change, live) = (topic.stamping_changes, topic.live);
            let topic = topic.id;
            self.send_entries(shards, |_| Entry::Stamping { topic, stamped, change }).await?;
            self.propose(RootEntry::StampingTold { topic, change, partitions: live }).await;
            return Ok(());
        }
        let create = |shard| {
            let new = (topic.live as usize..topic.placement.len()).filter(|i| topic.placement[*i] == shard);
            Entry::Create(Create {
                topic: topic.id,
                partitions: new.map(|i| i as i32).collect(),
                epoch_base: topic.epoch_base,
                append_time: stamped,
                fences: Vec::new(),
            })
        };
        self.send_entries(shards, create).await?;
        let partitions = topic.placement.len() as i32;
        self.propose(RootEntry::SetLive { topic: topic.id, partitions }).await;
        Ok(())
    }

    /// Tries every shard, also when one of them fails.
    async fn send_entries(
        &self,
        shards: BTreeSet<ShardId>,
        entry: impl Fn(ShardId) -> Entry,
    ) -> Result<(), peer::LeaderError> {
        let sent = join_all(shards.into_iter().map(|shard| self.send_entry(shard, entry(shard)))).await;
        sent.into_iter().collect()
    }

    async fn send_entry(&self, shard: ShardId, entry: Entry) -> Result<(), peer::LeaderError> {
        let mut body = BytesMut::new();
        varint::put(&mut body, shard.into());
        body.put_slice(&entry.encode());
        let mut guess = LeaderGuess::new(self.cluster.clone(), self.shards.clone(), shard);
        let node = self.cluster.node();
        let sent = peer::call_leader(node, || guess.take(), peer::SHARD_ENTRY, body.freeze(), STEP_TIMEOUT);
        sent.await.map(drop)
    }
}

impl Cluster {
    /// Shards of this replication factor exist, if there are brokers enough, when this returns.
    pub async fn ensure_shards(&self, replication_factor: u16) {
        let entries = placement::missing_shards(&self.view(), replication_factor);
        join_all(entries.into_iter().map(async |entry| {
            if let Err(e) = self.propose(entry, STEP_TIMEOUT).await {
                debug!(error = %e, "a shard is not created yet");
            }
        }))
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::testing::broker;

    #[tokio::test]
    async fn what_was_decided_in_an_earlier_reign_is_not_proposed() {
        let (node, _client, _dir) = broker().await;
        let cluster = node.cluster().clone();
        let term = cluster.root().leadership().borrow().term;
        let (broker, epoch) = (cluster.broker_id(), cluster.epoch());
        let entry = RootEntry::Leave { broker, epoch };
        let reign = |term| Reign { cluster: cluster.clone(), shards: Arc::default(), term };
        reign(term - 1).propose(entry.clone()).await;
        assert!(cluster.view().broker(broker).unwrap().alive);
        reign(term).propose(entry).await;
        assert!(!cluster.view().broker(broker).unwrap().alive);
        node.shut_down().await;
    }
}
