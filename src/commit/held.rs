//! ▲ Batches that wait at a shard for those before them, as its leader sees it.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use futures::stream::{self, StreamExt};
use tokio::time::{Instant, timeout_at};

use crate::cluster::Cluster;
use crate::commit::sequencer::Sequencers;
use crate::commit::waits::PREDECESSORS_MAX;
use crate::commit::wire::encode_outcome;
use crate::index::OpenShard;
use crate::peer::{self, Answer};
use crate::shard::{Append, Entry, Outcome, Release, Slot, Verdict};

/// How long a held batch waits for its predecessor before the producer is told to try again.
const HOLD_MAX: Duration = Duration::from_millis(1000);
/// Waits of one object that are ended at a time.
const RELEASES_MAX: usize = 64;

impl Sequencers {
    /// Answers when none of the object's batches is held any more; ends the wait itself when it has lasted too long.
    pub async fn await_held(&self, shard: &OpenShard, cluster: &Cluster, packed: Bytes) -> Answer {
        let Ok(append) = Append::decode(&packed) else { return Answer::Refused("malformed append".into()) };
        let deadline = Instant::now() + HOLD_MAX;
        let mut applied = shard.group.applied();
        loop {
            let leadership = *shard.group.leadership().borrow();
            if !leadership.ready {
                return Answer::NotLeader { leader: leadership.leader };
            }
            applied.borrow_and_update();
            let verdicts = shard.replica().read(|state| state.verdicts(&append));
            if !verdicts.contains(&Verdict::Held) {
                return Answer::Done(encode_outcome(&Outcome::Taken(verdicts)));
            }
            match timeout_at(deadline, applied.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Answer::NotLeader { leader: None },
                Err(_) => break,
            }
        }
        // One after the other, those of many producers would take longer than their waits are remembered.
        let releases = held_producers(shard, &append).into_iter().map(|(slot, producer_id)| {
            let place = shard.replica().read(|state| state.slot(slot)?.producer(producer_id)?.place());
            let settled = self.waits.is_over((shard.id, slot, producer_id), place, Instant::now());
            self.settle_for_waits(cluster);
            self.entry(shard.id, Entry::Release(Release { slot, producer_id, settled }).encode())
        });
        let mut releases = stream::iter(releases).buffer_unordered(RELEASES_MAX);
        while let Some(answer) = releases.next().await {
            match answer {
                Ok(Answer::Done(_)) => {}
                Ok(other) => return other,
                Err(_) => return Answer::Unknown,
            }
        }
        Answer::Done(encode_outcome(&Outcome::Taken(shard.replica().read(|state| state.verdicts(&append)))))
    }

    /// Asks every broker of the cluster to settle what it has, if somebody waits for that. Brokers that are silent are asked
    /// as well: they may have something, and come back.
    fn settle_for_waits(&self, cluster: &Cluster) {
        if !self.waits.ask() {
            return;
        }
        let (waits, node) = (self.waits.clone(), cluster.node().clone());
        let brokers: Vec<_> = cluster.view().brokers().map(|broker| broker.node).collect();
        tokio::spawn(async move {
            let ask = |broker| node.call(broker, peer::SETTLE, Bytes::new(), PREDECESSORS_MAX);
            let answers = join_all(brokers.into_iter().map(ask)).await;
            let is_settled =
                |answer: Result<Bytes, _>| answer.is_ok_and(|body| matches!(Answer::decode(body), Ok(Answer::Done(_))));
            waits.answered(answers.into_iter().all(is_settled));
        });
    }
}

/// The (slot, producer) pairs among the object's batches that still wait.
fn held_producers(shard: &OpenShard, append: &Append) -> BTreeSet<(Slot, i64)> {
    let mut held = BTreeSet::new();
    shard.replica().read(|state| {
        let mut batch_index = 0;
        for part in &append.parts {
            let partition = state.slot(part.slot);
            for batch in &part.batches {
                let waits = |id| partition.is_some_and(|p| p.is_held(id, append.object, batch_index));
                let producer_id = batch.sequence.map(|claim| claim.producer.id).filter(|id| waits(*id));
                held.extend(producer_id.map(|id| (part.slot, id)));
                batch_index += 1;
            }
        }
    });
    held
}
