//! What brokers ask each other, apart from Raft itself: the kinds, and how a leader answers.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use milepost_raft::{CallError, Node, NodeId};
use tokio::time::{Instant, sleep};

use crate::types::varint::{self, Malformed, Reader};

/// One object's batches for one shard → verdicts.
pub const COMMIT: u8 = 1;
/// As `COMMIT`, for an object that was taken with held batches: answered when they are decided.
pub const AWAIT_HELD: u8 = 2;
/// An entry for a shard's log (create, delete) → done.
pub const SHARD_ENTRY: u8 = 3;
/// → an index that makes a local read linearizable once applied.
pub const READ_INDEX: u8 = 4;
/// A topic's slots in a shard, for a broker that has no replica of it.
pub const SLOTS: u8 = 5;
/// A root entry → the root's answer.
pub const ROOT: u8 = 6;
/// A data directory without a node id asks to be let in.
pub const JOIN: u8 = 7;
/// This broker's replica of a shard: (applied index, snapshot). For the audit; asks no leader.
pub const STATE: u8 = 8;
/// What readers ask of partitions, by a broker that has no replica of the shard. Any replica that serves answers.
pub const QUESTIONS: u8 = 9;
/// A part of an object → its bytes. Asked of brokers of the same zone only; answers are large.
pub const READ: u8 = 10;
/// Partitions of a shard and where they are to begin → where they begin.
pub const TRIM: u8 = 11;
/// → the members of the root shard and how far they are.
pub const QUORUM: u8 = 12;
/// The leader of a shard gives leadership to the preferred voter.
pub const ELECT: u8 = 13;
/// → what a broker says of itself: its shards and its requests to the store. Asks no leader.
pub const STATUS: u8 = 14;
/// → the partitions of a topic in a shard, as this replica has them. Asks no leader.
pub const TOPIC: u8 = 15;
/// → when everything that this broker had taken from producers when it was asked has its verdict. Asks no leader.
pub const SETTLE: u8 = 16;

/// A transaction's end in partitions of a shard → per partition, whether it is over there.
pub const MARKERS: u8 = 30;

/// Which transaction partitions are part of, or shall be → per partition, its number. Asked of the coordinator.
pub const VERIFY: u8 = 31;

/// What members of share groups want of partitions of a shard. Asked of the leader.
pub const SHARE: u8 = 46;

/// Names for metrics.
pub fn kind_name(kind: u8) -> &'static str {
    match kind {
        COMMIT => "forward",
        AWAIT_HELD => "await_held",
        SHARD_ENTRY => "shard_entry",
        READ_INDEX => "read_index",
        SLOTS => "slots",
        ROOT => "root",
        JOIN => "join",
        STATE => "state",
        QUESTIONS => "proxy",
        READ => "read",
        TRIM => "trim",
        QUORUM => "quorum",
        ELECT => "elect",
        STATUS => "status",
        TOPIC => "topic",
        SETTLE => "settle",
        MARKERS => "markers",
        VERIFY => "verify",
        SHARE => "share",
        _ => milepost_raft::raft_kind_name(kind).unwrap_or("unknown"),
    }
}

/// An answer to a request that only a leader can fulfil.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Done(Bytes),
    /// Certainly not done. Ask the one named, or anybody else a little later.
    NotLeader {
        leader: Option<NodeId>,
    },
    /// May have been done: ask again.
    Unknown,
    /// Will never be done.
    Refused(String),
}

impl Answer {
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        match self {
            Answer::Done(body) => {
                out.reserve(1 + body.len());
                out.put_u8(0);
                out.put_slice(body);
            }
            Answer::NotLeader { leader } => {
                out.put_u8(1);
                varint::put(&mut out, leader.unwrap_or(0));
            }
            Answer::Unknown => out.put_u8(2),
            Answer::Refused(why) => {
                out.put_u8(3);
                out.put_slice(why.as_bytes());
            }
        }
        out.freeze()
    }

    pub fn decode(mut bytes: Bytes) -> Result<Answer, Malformed> {
        let mut r = Reader::new(&bytes);
        Ok(match r.byte()? {
            0 => Answer::Done(bytes.split_off(1)),
            1 => Answer::NotLeader { leader: Some(r.u64()?).filter(|node| *node != 0) },
            2 => Answer::Unknown,
            3 => Answer::Refused(String::from_utf8_lossy(&bytes[1..]).into_owned()),
            _ => return Err(Malformed),
        })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum LeaderError {
    /// Nobody took it before the deadline; it was certainly not done.
    #[error("no leader was reached in time")]
    NoLeader,
    /// At least one attempt may have been done.
    #[error("the outcome is unknown")]
    Unknown,
    #[error("refused: {0}")]
    Refused(String),
}

/// Time between two attempts to find a leader.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

/// Asks the leader, wherever it is by now. The request must be harmless to repeat.
/// `guess` is asked anew before each attempt that has no better hint.
pub async fn call_leader(
    node: &Node,
    mut guess: impl FnMut() -> Option<NodeId>,
    kind: u8,
    body: Bytes,
    timeout: Duration,
) -> Result<Bytes, LeaderError> {
    let deadline = Instant::now() + timeout;
    let (mut hint, mut unknown) = (None, false);
    while Instant::now() < deadline {
        if let Some(target) = hint.take().or_else(&mut guess) {
            let attempt = ATTEMPT_TIMEOUT.min(deadline - Instant::now());
            match node.call(target, kind, body.clone(), attempt).await.map(Answer::decode) {
                Ok(Ok(Answer::Done(body))) => return Ok(body),
                Ok(Ok(Answer::NotLeader { leader })) => hint = leader.filter(|leader| *leader != target),
                Ok(Ok(Answer::Refused(why))) => return Err(LeaderError::Refused(why)),
                Ok(Ok(Answer::Unknown) | Err(Malformed)) | Err(CallError::Unknown(_)) => unknown = true,
                Err(CallError::Unreachable(_)) => {}
            }
            if hint.is_some() {
                continue;
            }
        }
        sleep(RETRY_PAUSE).await;
    }
    Err(if unknown { LeaderError::Unknown } else { LeaderError::NoLeader })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_read_back_as_written() {
        let answers = [
            Answer::Done(Bytes::from_static(b"body")),
            Answer::NotLeader { leader: Some(7) },
            Answer::NotLeader { leader: None },
            Answer::Unknown,
            Answer::Refused("why".into()),
        ];
        for answer in answers {
            assert_eq!(Answer::decode(answer.encode()), Ok(answer));
        }
        assert_eq!(Answer::decode(Bytes::new()), Err(Malformed));
        assert_eq!(Answer::decode(Bytes::from_static(&[9])), Err(Malformed));
    }
}
