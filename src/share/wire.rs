//! ▲ What brokers ask a shard's leader for the members of share groups, and what it answers. MessagePack by position:
//! an acquisition takes a few dozen bytes, and what was acquired a few dozen for each pointer.

use bytes::{BufMut, Bytes, BytesMut};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::protocol::ErrorCode;
use crate::shard::BatchPointer;
use crate::types::{Offset, Partition};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    #[serde(rename = "g")]
    pub group: String,
    #[serde(rename = "w")]
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// → [`Reply::Acquired`], as soon as there is something or the wait is over.
    #[serde(rename = "q")]
    Acquire { member: String, records_max: u32, bytes_max: u64, wait_ms: u64, partitions: Vec<Partition> },
    /// Takes nothing: → [`Reply::Ready`], as soon as there is something, or an error to tell.
    #[serde(rename = "l")]
    Look { wait_ms: u64, partitions: Vec<Partition> },
    /// → [`Reply::Each`]
    #[serde(rename = "a")]
    Acknowledge { member: String, partitions: Vec<(Partition, Vec<Ack>)> },
    /// The member has gone: what it holds is for others. → [`Reply::Each`]
    #[serde(rename = "r")]
    Release { member: String, partitions: Vec<Partition> },
    /// → [`Reply::Described`]; `None` for all that the group has come to.
    #[serde(rename = "d")]
    Describe { partitions: Option<Vec<Partition>> },
    /// Delivery begins anew. → [`Reply::Each`]
    #[serde(rename = "b")]
    Begin { starts: Vec<(Partition, Offset)> },
    /// Nothing is left of the group, in these partitions or in all. → [`Reply::Each`]
    #[serde(rename = "f")]
    Forget { partitions: Option<Vec<Partition>> },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    #[serde(rename = "a")]
    Acquired(Vec<Acquired>),
    #[serde(rename = "r")]
    Ready(bool),
    /// An error code for each partition, in their order.
    #[serde(rename = "e")]
    Each(Vec<i16>),
    #[serde(rename = "d")]
    Described(Vec<Described>),
}

/// What a member has got of one partition, or why nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acquired {
    pub partition: Partition,
    pub error: i16,
    /// In order.
    pub ranges: Vec<Range>,
    /// Those that hold the ranges, in order.
    pub pointers: Vec<BatchPointer>,
    /// For a group that reads what is committed: of these records nobody is to know.
    pub aborted: Vec<Aborted>,
}

impl Acquired {
    pub fn none(partition: Partition) -> Acquired {
        Acquired { partition, error: 0, ranges: Vec::new(), pointers: Vec::new(), aborted: Vec::new() }
    }
}

/// Records that have been delivered as often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    pub first: Offset,
    pub last: Offset,
    pub count: u16,
}

/// A transaction that was aborted: all that its producer wrote between these offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aborted {
    pub producer_id: i64,
    pub first: Offset,
    pub last: Offset,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Described {
    pub partition: Partition,
    /// -1 where the group has not come to the partition.
    pub start: Offset,
    pub leader_epoch: i32,
    pub error: i16,
}

/// What a member makes of records: one kind for all of them, or one for each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    pub first: Offset,
    pub last: Offset,
    pub kinds: Vec<AckKind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AckKind {
    /// There is no record at this offset.
    #[serde(rename = "g")]
    Gap,
    #[serde(rename = "a")]
    Accept,
    #[serde(rename = "r")]
    Release,
    #[serde(rename = "j")]
    Reject,
    /// Held on to: the lock begins anew (KIP-1222).
    #[serde(rename = "n")]
    Renew,
    /// Never reached the member (no client says this): as if it had not been delivered.
    #[serde(rename = "b")]
    GiveBack,
}

impl Ack {
    /// # Errors
    /// Kafka's INVALID_REQUEST: an empty range, or kinds that are unknown or not as many as records; or one that renews
    /// where that was not said of the request.
    pub fn of_client(first: Offset, last: Offset, kinds: &[i8], renews: bool) -> Result<Ack, ErrorCode> {
        let fits = first >= 0 && first <= last && last < Offset::MAX && !kinds.is_empty();
        let each = kinds.len() == 1 || last.checked_sub(first).is_some_and(|len| len + 1 == kinds.len() as Offset);
        if !fits || !each {
            return Err(ErrorCode::InvalidRequest);
        }
        let known = [AckKind::Gap, AckKind::Accept, AckKind::Release, AckKind::Reject, AckKind::Renew];
        let known = if renews { &known[..] } else { &known[..4] };
        let kind = |kind: &i8| usize::try_from(*kind).ok().and_then(|at| known.get(at)).copied();
        let kinds: Option<Vec<AckKind>> = kinds.iter().map(kind).collect();
        Ok(Ack { first, last, kinds: kinds.ok_or(ErrorCode::InvalidRequest)? })
    }

    /// Of what never reached the member.
    pub fn give_back(range: Range) -> Ack {
        Ack { first: range.first, last: range.last, kinds: vec![AckKind::GiveBack] }
    }

    /// Of what is to be delivered to nobody.
    pub fn gap(range: Range) -> Ack {
        Ack { first: range.first, last: range.last, kinds: vec![AckKind::Gap] }
    }

    /// Runs of one kind.
    pub fn parts(&self) -> impl Iterator<Item = (Offset, Offset, AckKind)> {
        let mut first = self.first;
        self.kinds.chunk_by(|a, b| a == b).map(move |same| {
            let last = if self.kinds.len() == 1 { self.last } else { first + same.len() as Offset - 1 };
            let part = (first, last, same[0]);
            first = last + 1;
            part
        })
    }
}

/// Bytes that no broker of this build writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed words about share groups")]
pub struct Malformed;

pub fn pack(what: &impl Serialize) -> Bytes {
    let mut out = BytesMut::new().writer();
    rmp_serde::encode::write(&mut out, what).expect("writing to memory does not fail");
    out.into_inner().freeze()
}

/// # Errors
/// Other bytes than those of [`pack`].
pub fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Malformed> {
    rmp_serde::from_slice(bytes).map_err(|_| Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::TopicId;

    #[test]
    fn asks_read_back_as_written() {
        let at = Partition { topic: TopicId::from_bytes([7; 16]), index: 3 };
        let ack = Ack::of_client(5, 7, &[1, 2, 3], false).unwrap();
        let member = || "m".to_owned();
        let whats = [
            What::Acquire {
                member: member(),
                records_max: 500,
                bytes_max: 1 << 20,
                wait_ms: 500,
                partitions: vec![at],
            },
            What::Look { wait_ms: 1, partitions: vec![at, at] },
            What::Acknowledge { member: member(), partitions: vec![(at, vec![ack])] },
            What::Release { member: member(), partitions: vec![at] },
            What::Describe { partitions: None },
            What::Begin { starts: vec![(at, 7)] },
            What::Forget { partitions: Some(vec![at]) },
        ];
        for what in whats {
            let ask = Ask { group: "g".into(), what };
            let bytes = pack(&ask);
            assert!(unpack::<Ask>(&bytes[..bytes.len() - 1]).is_err());
            assert_eq!(unpack::<Ask>(&bytes), Ok(ask));
        }
    }

    #[test]
    fn acknowledgements_that_say_nothing_clear_are_refused() {
        for (first, last, kinds) in [
            (5, 4, &[1][..]),
            (-1, 4, &[1]),
            (5, 7, &[]),
            (5, 7, &[1, 1]),
            (5, 7, &[4]),
            (5, 7, &[-1]),
            (5, i64::MAX, &[1]),
            (5, 5, &[1, 1]),
        ] {
            assert_eq!(
                Ack::of_client(first, last, kinds, false),
                Err(ErrorCode::InvalidRequest),
                "{first} {last} {kinds:?}"
            );
        }
        // Renewing is to be said of the request, too.
        assert_eq!(Ack::of_client(5, 7, &[4], false), Err(ErrorCode::InvalidRequest));
        assert_eq!(Ack::of_client(5, 7, &[4], true).unwrap().kinds, [AckKind::Renew]);
        let parts: Vec<_> = Ack::of_client(5, 8, &[1, 1, 0, 2], false).unwrap().parts().collect();
        assert_eq!(parts, [(5, 6, AckKind::Accept), (7, 7, AckKind::Gap), (8, 8, AckKind::Release)]);
        let whole: Vec<_> = Ack::of_client(0, i64::MAX - 1, &[1], false).unwrap().parts().collect();
        assert_eq!(whole, [(0, i64::MAX - 1, AckKind::Accept)]);
    }
}
