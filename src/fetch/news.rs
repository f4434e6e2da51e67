use std::collections::HashMap;

use futures::future::join_all;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, sleep_until};

use crate::fetch::locate::{Located, code_of};
use crate::fetch::request::{Want, Wanted};
use crate::index::{Found, Query, Question, Replicas, Replies, Reply, bytes_of};
use crate::protocol::ErrorCode;
use crate::types::{Partition, ShardId};

/// A wanted partition with where it is, or why there is no such.
pub(super) type Place = Result<Located, ErrorCode>;
pub(super) type Look = Result<Found, ErrorCode>;

/// What a request wants of one shard.
struct Group {
    shard: ShardId,
    /// Positions in the request.
    places: Vec<usize>,
    queries: Vec<Query>,
    replies: Replies,
}

/// Looks at every partition until there are `bytes_min`, an error, or no patience left.
pub(super) async fn wait_for_news(
    replicas: &Replicas,
    wanted: &Wanted,
    places: &[Place],
    deadline: Instant,
) -> Vec<Look> {
    let mut groups = by_shard(wanted, places);
    // First what is there in every shard: one that always has something must not starve the others.
    let now = Instant::now();
    let first = groups.iter().map(|group| replicas.news(group.shard, &group.queries, wanted.bytes_min, now));
    for (replies, group) in join_all(first).await.into_iter().zip(&mut groups) {
        group.replies = replies;
    }
    let refused = places.iter().any(Result::is_err);
    while !refused && !enough(&groups, wanted.bytes_min) && Instant::now() < deadline {
        let Some((i, replies)) = first_news(replicas, &groups, wanted.bytes_min, deadline).await else {
            sleep_until(deadline).await;
            break;
        };
        groups[i].replies = replies;
    }
    looks(groups, places)
}

/// The shard that has news first. With several, any more bytes are news: together they may be enough.
async fn first_news(
    replicas: &Replicas,
    groups: &[Group],
    bytes_min: usize,
    deadline: Instant,
) -> Option<(usize, Replies)> {
    let waiting = groups.iter().enumerate().map(async |(i, group)| {
        let more = bytes_of(&group.replies).saturating_add(1);
        let bytes_min = if groups.len() == 1 { bytes_min } else { more };
        (i, replicas.news(group.shard, &group.queries, bytes_min, deadline).await)
    });
    waiting.collect::<FuturesUnordered<_>>().next().await
}

fn by_shard(wanted: &Wanted, places: &[Place]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut at: HashMap<ShardId, usize> = HashMap::new();
    for (i, (want, place)) in wanted.partitions.iter().zip(places).enumerate() {
        let Ok(Located { partition, shard }) = *place else { continue };
        let group = *at.entry(shard).or_insert_with(|| {
            groups.push(Group { shard, places: Vec::new(), queries: Vec::new(), replies: Vec::new() });
            groups.len() - 1
        });
        groups[group].places.push(i);
        groups[group].queries.push(query(wanted, want, partition, want.bytes_max));
    }
    groups
}

pub(super) fn query(wanted: &Wanted, want: &Want, partition: Partition, bytes_max: usize) -> Query {
    let question = Question::Look { offset: want.offset, bytes_max };
    Query { partition, client_epoch: want.client_epoch, committed: wanted.read_committed, question }
}

fn enough(groups: &[Group], bytes_min: usize) -> bool {
    let bytes = groups.iter().fold(0, |sum: usize, group| sum.saturating_add(bytes_of(&group.replies)));
    bytes >= bytes_min || groups.iter().flat_map(|group| &group.replies).any(Result::is_err)
}

fn looks(groups: Vec<Group>, places: &[Place]) -> Vec<Look> {
    let mut looks: Vec<Look> =
        places.iter().map(|place| Err(place.err().unwrap_or(ErrorCode::NotLeaderOrFollower))).collect();
    for group in groups {
        for (i, reply) in group.places.into_iter().zip(group.replies) {
            looks[i] = match reply {
                Ok(Reply::Found(found)) => Ok(found),
                Ok(_) => Err(ErrorCode::NotLeaderOrFollower),
                Err(e) => Err(code_of(e)),
            };
        }
    }
    looks
}
