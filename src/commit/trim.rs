//! Moving the start of partitions, at the leader of their shard (Kafka: DeleteRecords).

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};

use crate::cluster::{Cluster, LeaderGuess};
use crate::commit::Sequencers;
use crate::commit::wire::with_shard;
use crate::index::{OpenShard, Shards};
use crate::peer::{self, Answer, LeaderError};
use crate::shard::{Entry, Slot};
use crate::types::varint::{self, Malformed, Reader};
use crate::types::{Offset, Partition, ShardId, TopicId};

/// Stands for the high watermark (Kafka: `DeleteRecordsRequest.HIGH_WATERMARK`).
const HIGH_WATERMARK: Offset = -1;

/// What became of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trimmed {
    /// The log begins here now.
    Start(Offset),
    /// Before 0, or past the high watermark.
    OutOfRange,
    /// Not in its shard: deleted meanwhile.
    Unknown,
}

/// Asks the leader of the shard to let these partitions of it begin at these offsets. One answer each, in their order.
///
/// # Errors
/// The leader was not reached in time; asking again is harmless.
pub async fn trim(
    cluster: &Cluster,
    shards: &std::sync::Arc<Shards>,
    shard: ShardId,
    wanted: &[(Partition, Offset)],
    timeout: Duration,
) -> Result<Vec<Trimmed>, LeaderError> {
    let body = with_shard(shard, &encode_wanted(wanted));
    let mut guess = LeaderGuess::new(cluster.clone(), shards.clone(), shard);
    let answer = peer::call_leader(cluster.node(), || guess.take(), peer::TRIM, body, timeout).await?;
    let trimmed = decode_trimmed(&answer).map_err(|_| LeaderError::Unknown)?;
    if trimmed.len() == wanted.len() { Ok(trimmed) } else { Err(LeaderError::Unknown) }
}

impl Sequencers {
    /// The leader's side. All partitions go into one entry; what they begin at is read from applied state afterwards.
    pub async fn trim(&self, shard: &OpenShard, body: Bytes) -> Answer {
        let Ok(wanted) = decode_wanted(&body) else { return Answer::Refused("malformed trim".into()) };
        let leadership = *shard.group.leadership().borrow();
        if !leadership.ready {
            return Answer::NotLeader { leader: leadership.leader };
        }
        let checked: Vec<Result<(Slot, Offset), Trimmed>> = shard.replica().read(|state| {
            let one = |(partition, offset): &(Partition, Offset)| {
                let partition = state.partition(partition).ok_or(Trimmed::Unknown)?;
                match if *offset == HIGH_WATERMARK { partition.high_watermark } else { *offset } {
                    start if start < 0 || start > partition.high_watermark => Err(Trimmed::OutOfRange),
                    start => Ok((partition.slot, start)),
                }
            };
            wanted.iter().map(one).collect()
        });
        let starts: Vec<(Slot, Offset)> = checked.iter().flatten().copied().collect();
        if !starts.is_empty() {
            match self.entry(shard.id, Entry::Trim { starts }.encode()).await {
                Ok(Answer::Done(_)) => {}
                Ok(other) => return other,
                Err(_) => return Answer::Unknown,
            }
        }
        let trimmed: Vec<Trimmed> = shard.replica().read(|state| {
            let start = |slot| state.slot(slot).map_or(Trimmed::Unknown, |p| Trimmed::Start(p.log_start_offset));
            checked.iter().map(|one| one.map_or_else(|refused| refused, |(slot, _)| start(slot))).collect()
        });
        Answer::Done(encode_trimmed(&trimmed))
    }
}

fn encode_wanted(wanted: &[(Partition, Offset)]) -> Bytes {
    let mut out = BytesMut::new();
    varint::put(&mut out, wanted.len() as u64);
    for (partition, offset) in wanted {
        out.put_slice(partition.topic.as_bytes());
        varint::put(&mut out, partition.index as u64);
        varint::put_signed(&mut out, *offset);
    }
    out.freeze()
}

pub(crate) fn decode_wanted(bytes: &[u8]) -> Result<Vec<(Partition, Offset)>, Malformed> {
    let mut r = Reader::new(bytes);
    let one = |r: &mut Reader| {
        let partition = Partition { topic: TopicId::from_bytes(r.array()?), index: r.int()? };
        Ok((partition, r.signed()?))
    };
    let wanted = (0..r.count(18)?).map(|_| one(&mut r)).collect::<Result<_, Malformed>>()?;
    r.finish()?;
    Ok(wanted)
}

fn encode_trimmed(trimmed: &[Trimmed]) -> Bytes {
    let mut out = BytesMut::new();
    varint::put(&mut out, trimmed.len() as u64);
    for one in trimmed {
        varint::put_signed(
            &mut out,
            match one {
                Trimmed::Start(offset) => *offset,
                Trimmed::OutOfRange => -1,
                Trimmed::Unknown => -2,
            },
        );
    }
    out.freeze()
}

pub(crate) fn decode_trimmed(bytes: &[u8]) -> Result<Vec<Trimmed>, Malformed> {
    let mut r = Reader::new(bytes);
    let one = |number| match number {
        0.. => Ok(Trimmed::Start(number)),
        -1 => Ok(Trimmed::OutOfRange),
        -2 => Ok(Trimmed::Unknown),
        _ => Err(Malformed),
    };
    let trimmed = (0..r.count(1)?).map(|_| one(r.signed()?)).collect::<Result<_, _>>()?;
    r.finish()?;
    Ok(trimmed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_read_back_as_written() {
        let partition = |index| Partition { topic: TopicId::from_bytes([7; 16]), index };
        let wanted = vec![(partition(0), -1), (partition(300), 1 << 40), (partition(2), Offset::MIN)];
        assert_eq!(decode_wanted(&encode_wanted(&wanted)), Ok(wanted));
        let trimmed = vec![Trimmed::Start(1 << 40), Trimmed::OutOfRange, Trimmed::Unknown, Trimmed::Start(0)];
        assert_eq!(decode_trimmed(&encode_trimmed(&trimmed)), Ok(trimmed));
        assert_eq!(decode_trimmed(&[1, 5]), Err(Malformed));
    }
}
