//! Leadership of a shard to its preferred voter, when somebody asks for it (Kafka: ElectLeaders). The leader gives it by
//! itself too, a second after the preferred voter is well: this is for those who will not wait.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use milepost_raft::NodeId;
use tokio::time::timeout;
use tracing::{debug, info};

use crate::cluster::{Cluster, LeaderGuess, RootState};
use crate::index::{OpenShard, Shards};
use crate::peer::{self, Answer, LeaderError};
use crate::types::ShardId;
use crate::types::varint;

const HEARD_WITHIN: Duration = Duration::from_secs(1);
/// Below what the asker waits for one attempt.
const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(4);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Elected {
    /// The preferred voter leads now.
    Preferred = 0,
    /// It did before.
    NotNeeded = 1,
    /// It is away, behind, or did not win.
    Unavailable = 2,
}

// What is asked of the leader.
const HAND_OVER: u8 = 0;
const JUST_ANSWER: u8 = 1;

/// Asks the shard's leader to give leadership to the preferred voter.
///
/// # Errors
/// There is no leader, or it was not reached in time; asking again is harmless.
pub async fn elect_preferred(
    cluster: &Cluster,
    shards: &Arc<Shards>,
    shard: ShardId,
    within: Duration,
) -> Result<Elected, LeaderError> {
    match ask(cluster, shards, shard, HAND_OVER, within).await?[..] {
        [0] => Ok(Elected::Preferred),
        [1] => Ok(Elected::NotNeeded),
        [2] => Ok(Elected::Unavailable),
        _ => Err(LeaderError::Unknown),
    }
}

/// Does the shard have a leader?
pub async fn is_led(cluster: &Cluster, shards: &Arc<Shards>, shard: ShardId, within: Duration) -> bool {
    ask(cluster, shards, shard, JUST_ANSWER, within).await.is_ok()
}

async fn ask(
    cluster: &Cluster,
    shards: &Arc<Shards>,
    shard: ShardId,
    what: u8,
    within: Duration,
) -> Result<Bytes, LeaderError> {
    let mut body = bytes::BytesMut::new();
    varint::put(&mut body, shard.into());
    body.extend_from_slice(&[what]);
    let mut guess = LeaderGuess::new(cluster.clone(), shards.clone(), shard);
    peer::call_leader(cluster.node(), || guess.take(), peer::ELECT, body.freeze(), within).await
}

/// The leader's side.
pub async fn answer_election(cluster: &Cluster, shard: &OpenShard, what: &[u8]) -> Answer {
    let leadership = *shard.group.leadership().borrow();
    if !leadership.ready {
        return Answer::NotLeader { leader: leadership.leader };
    }
    let done = |elected: Elected| Answer::Done(Bytes::copy_from_slice(&[elected as u8]));
    let view = cluster.view();
    let Some(preferred) = view.shard(shard.id).map(|record| record.preferred) else {
        return Answer::NotLeader { leader: None };
    };
    match what {
        [HAND_OVER] if preferred == cluster.node_id() => done(Elected::NotNeeded),
        [HAND_OVER] if !may_lead(&view, shard, preferred) => done(Elected::Unavailable),
        [HAND_OVER] => match timeout(HAND_OVER_TIMEOUT, shard.group.transfer_leader(preferred)).await {
            Ok(Ok(())) => {
                info!(shard = shard.id, to = preferred, "leadership handed to the preferred voter, as asked");
                done(Elected::Preferred)
            }
            other => {
                debug!(shard = shard.id, ?other, "leadership was not handed over");
                done(Elected::Unavailable)
            }
        },
        [JUST_ANSWER] => done(Elected::NotNeeded),
        _ => Answer::Refused("malformed election request".into()),
    }
}

/// The node is a voter that could lead without anybody waiting for it.
pub(super) fn may_lead(view: &RootState, shard: &OpenShard, node: NodeId) -> bool {
    view.broker_of(node).is_some_and(|b| b.alive)
        && shard.group.voters().contains(&node)
        && shard.group.caught_up(node)
        && shard.group.heard_within(HEARD_WITHIN).get(&node) == Some(&true)
}
