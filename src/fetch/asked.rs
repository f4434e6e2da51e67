use std::collections::HashMap;

use futures::future::join_all;

use crate::fetch::locate::{Located, code_of};
use crate::index::{Query, Question, Replicas, Reply};
use crate::protocol::ErrorCode;
use crate::types::{LeaderEpoch, ShardId};

/// One partition of a request that asks something of its leader.
pub(super) struct Asked {
    pub place: Result<Located, ErrorCode>,
    pub client_epoch: LeaderEpoch,
    /// See [`Query::committed`].
    pub committed: bool,
    /// `None` for what no partition knows.
    pub question: Option<Question>,
}

/// Asks every shard once, all at the same time, linearizably. Replies are in the order of `asked`.
pub(super) async fn ask(replicas: &Replicas, asked: &[Asked]) -> Vec<Result<Reply, ErrorCode>> {
    let mut replies: Vec<Result<Reply, ErrorCode>> = Vec::with_capacity(asked.len());
    let mut by_shard: HashMap<ShardId, (Vec<usize>, Vec<Query>)> = HashMap::new();
    for (i, one) in asked.iter().enumerate() {
        replies.push(Err(match (one.place, one.question) {
            (Ok(Located { partition, shard }), Some(question)) => {
                let (places, queries) = by_shard.entry(shard).or_default();
                places.push(i);
                let Asked { client_epoch, committed, .. } = *one;
                queries.push(Query { partition, client_epoch, committed, question });
                ErrorCode::NotLeaderOrFollower
            }
            (Ok(_), None) => ErrorCode::InvalidRequest,
            (Err(e), _) => e,
        }));
    }
    let told = by_shard.iter().map(async |(shard, (places, queries))| (places, replicas.ask(*shard, queries).await));
    for (places, told) in join_all(told).await {
        for (i, reply) in places.iter().zip(told) {
            replies[*i] = reply.map_err(code_of);
        }
    }
    replies
}
