use std::collections::HashMap;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use bytes::Bytes;
use milepost_raft::{Node, NodeId};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::debug;

use crate::cluster::{Cluster, RootState};
use crate::index::question::{self, Error, Query, Replies};
use crate::index::replica::Reader;
use crate::index::wire::{self, How};
use crate::index::{OpenShard, Shards, local};
use crate::peer::{self, Answer};
use crate::types::{BrokerId, ShardId};

/// What a replica elsewhere may take to answer, beside what it is asked to wait.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// Likewise when it has to find the shard's leader first.
const LINEARIZABLE_MAX: Duration = Duration::from_secs(6);
/// A replica is asked to wait for so long at most, so that one that has died is noticed.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// A replica that has not applied what this broker has shown before sends it elsewhere after this.
const FLOOR_WAIT_MAX: Duration = Duration::from_millis(500);
/// One that did not answer is the last to be asked for so long.
const AVOIDED: Duration = Duration::from_secs(5);
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// Questions that wait at other brokers: a quarter of what a broker takes from another at a time.
const WAITING_MAX: usize = 256;

/// Every partition of the cluster, wherever its replicas are: on this broker, else on another, which is asked.
pub struct Replicas {
    cluster: Cluster,
    shards: Arc<Shards>,
    /// The index up to which another broker's replica was shown here, by shard. Nothing older is shown afterwards.
    floors: RwLock<HashMap<ShardId, u64>>,
    /// Nodes that did not answer, and when that was.
    avoided: Mutex<HashMap<NodeId, Instant>>,
    waiting: Semaphore,
}

impl Replicas {
    pub fn new(cluster: Cluster, shards: Arc<Shards>) -> Self {
        let (floors, avoided) = (RwLock::default(), Mutex::default());
        Replicas { cluster, shards, floors, avoided, waiting: Semaphore::new(WAITING_MAX) }
    }

    /// Asks a shard about partitions of it, linearizably: everything that was committed when the call began is seen.
    pub async fn ask(&self, shard: ShardId, queries: &[Query]) -> Replies {
        let replies = match self.here(shard) {
            Some(open) => local::ask(self.cluster.node(), &open, queries).await,
            None => self.elsewhere(shard, queries, How::Linearizable, Duration::ZERO).await,
        };
        replies.unwrap_or_else(|e| failed(queries, e))
    }

    /// What is applied, as soon as there are `bytes_min` of it, an error to tell, or the deadline. Never older than
    /// what this broker has shown before.
    pub async fn news(&self, shard: ShardId, queries: &[Query], bytes_min: usize, deadline: Instant) -> Replies {
        match self.here(shard) {
            Some(open) => local::news(self.cluster.node(), &open, queries, bytes_min, deadline, Reader::Here).await,
            None => {
                let news = self.news_from_elsewhere(shard, queries, bytes_min, deadline).await;
                news.unwrap_or_else(|e| failed(queries, e))
            }
        }
    }

    /// The replica on this broker, while it may answer.
    fn here(&self, shard: ShardId) -> Option<Arc<OpenShard>> {
        let open = self.shards.get(shard).filter(|open| open.serving())?;
        let floor = self.floors.read().expect("no writer panics").get(&shard).copied().unwrap_or(0);
        (floor == 0 || open.group.applied().borrow().index >= floor).then_some(open)
    }

    async fn news_from_elsewhere(
        &self,
        shard: ShardId,
        queries: &[Query],
        bytes_min: usize,
        deadline: Instant,
    ) -> Result<Replies, Error> {
        let mut replies = match self.floor(shard) {
            Some(floor) => {
                let how = How::News { floor, bytes_min, wait_ms: 0 };
                self.elsewhere(shard, queries, how, Duration::ZERO).await?
            }
            // An earlier life of this broker may have shown anything that was committed.
            None => self.elsewhere(shard, queries, How::Linearizable, Duration::ZERO).await?,
        };
        while !question::enough(&replies, bytes_min) && Instant::now() < deadline {
            let permit = timeout_at(deadline, self.waiting.acquire()).await;
            let Ok(_permit) = permit else { break };
            let wait = WAIT_MAX.min(deadline.saturating_duration_since(Instant::now()));
            let floor = self.floor(shard).unwrap_or(0);
            let how = How::News { floor, bytes_min, wait_ms: wait.as_millis() as u64 };
            replies = self.elsewhere(shard, queries, how, wait).await?;
        }
        Ok(replies)
    }

    /// The least that must be applied by whoever answers; `None` before the first answer from elsewhere.
    fn floor(&self, shard: ShardId) -> Option<u64> {
        let shown = self.floors.read().expect("no writer panics").get(&shard).copied();
        // A replica on this broker that has caught up once was shown too, even if it may not answer just now.
        let own = self.shards.get(shard).filter(|open| open.is_caught_up());
        shown.max(own.map(|open| open.group.applied().borrow().index))
    }

    /// Asks one replica after another until one answers.
    async fn elsewhere(&self, shard: ShardId, queries: &[Query], how: How, wait: Duration) -> Result<Replies, Error> {
        let body = wire::encode_queries(shard, how, queries);
        let attempt = wait + if how == How::Linearizable { LINEARIZABLE_MAX } else { ANSWER_MAX };
        let deadline = Instant::now() + attempt + ANSWER_MAX;
        loop {
            let nodes = self.nodes(shard);
            for node in &nodes {
                let within = attempt.min(deadline.saturating_duration_since(Instant::now()));
                if within.is_zero() {
                    return Err(Error::Unavailable);
                }
                match self.call(*node, queries, body.clone(), within).await {
                    Ok((applied, replies)) => {
                        self.raise_floor(shard, applied);
                        return Ok(replies);
                    }
                    Err(why) => {
                        debug!(shard, node, why, "a replica does not answer readers");
                        self.avoided.lock().expect("no holder panics").insert(*node, Instant::now());
                    }
                }
            }
            if nodes.is_empty() {
                return Err(Error::Unavailable);
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    async fn call(
        &self,
        node: NodeId,
        queries: &[Query],
        body: Bytes,
        within: Duration,
    ) -> Result<(u64, Replies), String> {
        let answer = self.cluster.node().call(node, peer::QUESTIONS, body, within).await.map_err(|e| e.to_string())?;
        match Answer::decode(answer).map_err(|e| e.to_string())? {
            Answer::Done(body) => wire::decode_replies(queries, &body).map_err(|e| e.to_string()),
            other => Err(format!("{other:?}")),
        }
    }

    fn raise_floor(&self, shard: ShardId, applied: u64) {
        let known = self.floors.read().expect("no writer panics").get(&shard).is_some_and(|floor| *floor >= applied);
        if !known {
            let mut floors = self.floors.write().expect("no writer panics");
            let floor = floors.entry(shard).or_default();
            *floor = (*floor).max(applied);
        }
    }

    fn nodes(&self, shard: ShardId) -> Vec<NodeId> {
        let mut avoided = self.avoided.lock().expect("no holder panics");
        avoided.retain(|_, since| since.elapsed() < AVOIDED);
        candidates(&self.cluster.view(), shard, self.cluster.broker_id(), |node| avoided.contains_key(&node))
    }
}

/// The shard's members on other brokers: live ones first, then those that answered lately, then those in this broker's
/// zone. Brokers begin at different ones of equal standing, each always at the same.
fn candidates(view: &RootState, shard: ShardId, me: BrokerId, avoided: impl Fn(NodeId) -> bool) -> Vec<NodeId> {
    let Some(shard) = view.shard(shard) else { return Vec::new() };
    let zone = view.broker(me).map(|broker| broker.zone.as_str());
    let others = shard.members().filter_map(|node| view.broker_of(node)).filter(|broker| broker.id != me);
    let mut others: Vec<_> = others.collect();
    if !others.is_empty() {
        let turn = me as usize % others.len();
        others.rotate_left(turn);
    }
    others.sort_by_key(|broker| (!broker.alive, avoided(broker.node), Some(broker.zone.as_str()) != zone));
    others.into_iter().map(|broker| broker.node).collect()
}

fn failed(queries: &[Query], e: Error) -> Replies {
    queries.iter().map(|_| Err(e)).collect()
}

/// The side of the replica that another broker asks.
pub async fn answer_questions(node: &Node, shard: &OpenShard, body: Bytes) -> Answer {
    const ELSEWHERE: Answer = Answer::NotLeader { leader: None };
    let (how, queries) = match wire::decode_queries(&body) {
        Ok(decoded) => decoded,
        Err(e) => return Answer::Refused(e.to_string()),
    };
    if !shard.serving() {
        return ELSEWHERE;
    }
    let replies = match how {
        How::Linearizable => match local::ask(node, shard, &queries).await {
            Ok(replies) => replies,
            Err(_) => return ELSEWHERE,
        },
        How::News { floor, bytes_min, wait_ms } => {
            if shard.group.wait_applied(floor, FLOOR_WAIT_MAX).await.is_err() {
                return ELSEWHERE;
            }
            let deadline = Instant::now() + Duration::from_millis(wait_ms).min(WAIT_MAX);
            local::news(node, shard, &queries, bytes_min, deadline, Reader::AtAnotherBroker).await
        }
    };
    // Read after the replies: what they show is not newer.
    let applied = shard.group.applied().borrow().index;
    Answer::Done(wire::encode_replies(applied, &replies))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Registration, RootAnswer, RootEntry};

    fn cluster(zones: &[&str]) -> RootState {
        let mut view = RootState::default();
        for (broker, zone) in (0..).zip(zones) {
            let RootAnswer::Node(node) = view.apply(RootEntry::IssueNode { directory: broker.to_string() }) else {
                unreachable!("a node id is always issued")
            };
            let (zone, host, internal, listeners) = ((*zone).into(), "h".into(), "h:1".into(), Vec::new());
            let registration = Registration { broker, node, zone, host, port: 1, internal, listeners, life: 0 };
            let RootAnswer::Epoch(epoch) = view.apply(RootEntry::RegisterBroker(registration)) else {
                unreachable!("the node was issued above")
            };
            view.apply(RootEntry::SetReady { broker, epoch });
        }
        view
    }

    #[test]
    fn near_replicas_that_answer_are_asked_first_and_never_this_broker() {
        let mut view = cluster(&["a", "b", "c", "c", "d"]);
        view.apply(RootEntry::CreateShard { replication_factor: 3, voters: vec![1, 2, 3], preferred: 1 });
        let ask = |view: &RootState, me, avoided: &[NodeId]| candidates(view, 1, me, |node| avoided.contains(&node));
        assert_eq!(ask(&view, 3, &[])[0], 3, "in its own zone");
        assert_eq!(ask(&view, 3, &[3])[2], 3, "but not while it does not answer");
        assert_eq!(ask(&view, 0, &[]), [2, 3]);
        assert_eq!(ask(&view, 4, &[]).len(), 3);
        let epoch = view.broker(2).unwrap().epoch;
        view.apply(RootEntry::SetAlive { broker: 2, epoch, alive: false });
        assert_eq!(ask(&view, 3, &[1, 2])[2], 3, "one that is away comes last");
        assert!(candidates(&view, 9, 0, |_| false).is_empty());
    }
}
