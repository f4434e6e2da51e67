//! Answers from a replica on this broker.

use std::sync::Arc;
use std::time::Duration;

use milepost_raft::Node;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::index::question::{self, Error, Query, Replies, Reply};
use crate::index::replica::{Reader, Waiter};
use crate::index::wire::POINTERS_MAX;
use crate::index::{OpenShard, read_index};

const READ_INDEX_TIMEOUT: Duration = Duration::from_secs(5);

/// Linearizable: everything that was committed when the call began is seen.
pub(super) async fn ask(node: &Node, shard: &OpenShard, queries: &[Query]) -> Result<Replies, Error> {
    read_index(node, shard, READ_INDEX_TIMEOUT).await.map_err(|_| Error::Unavailable)?;
    Ok(refuse_ahead(read(shard, queries)))
}

/// Reads until there are `bytes_min`, an error, or no time left.
pub(super) async fn news(
    node: &Node,
    shard: &OpenShard,
    queries: &[Query],
    bytes_min: usize,
    deadline: Instant,
    reader: Reader,
) -> Replies {
    let mut replies = read(shard, queries);
    if replies.iter().any(is_ahead) {
        // Past the end here may be the leader's or nobody's: only what is past everything that is committed is refused.
        replies = ask(node, shard, queries).await.unwrap_or(replies);
    }
    let waiter: Waiter = Arc::new(Notify::new());
    while !question::enough(&replies, bytes_min) && Instant::now() < deadline {
        for query in queries {
            let replica = shard.replica();
            if let Some(slot) = replica.read(|state| state.partition(&query.partition).map(|p| p.slot)) {
                replica.wake_on_change(slot, &waiter, reader);
            }
        }
        replies = read(shard, queries);
        if !question::enough(&replies, bytes_min) {
            let _ = timeout_at(deadline, waiter.notified()).await;
            replies = read(shard, queries);
        }
    }
    replies
}

/// One short look for each, so that applying is never held up for long. All together have no more pointers than another
/// broker would be told: partitions behind them show only that they have more.
fn read(shard: &OpenShard, queries: &[Query]) -> Replies {
    let term = shard.group.leadership().borrow().term;
    let mut left = POINTERS_MAX;
    let one = |query: &Query| {
        shard.replica().read(|state| {
            // A live topic whose partition is not here yet: this replica has not applied its creation.
            let partition = state.partition(&query.partition).ok_or(Error::Unavailable)?;
            question::reply(partition, term, query)
        })
    };
    let bounded = |mut reply: Result<Reply, Error>| {
        if let Ok(Reply::Found(found)) = &mut reply {
            found.keep(left);
            left -= found.pointers.len();
        }
        reply
    };
    queries.iter().map(one).map(bounded).collect()
}

fn is_ahead(reply: &Result<Reply, Error>) -> bool {
    matches!(reply, Ok(Reply::Found(found)) if found.ahead)
}

fn refuse_ahead(replies: Replies) -> Replies {
    let one = |reply| if is_ahead(&reply) { Err(Error::OutOfRange) } else { reply };
    replies.into_iter().map(one).collect()
}
