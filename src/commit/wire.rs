//! ▲ What a lane and a sequencer say to each other.

use bytes::{BufMut, Bytes, BytesMut};

use crate::shard::{Outcome, Refusal, Verdict};
use crate::types::ShardId;
use crate::types::varint::{self, Malformed, Reader};

/// Requests of one lane on their way at once; below what a shard remembers.
pub const IN_FLIGHT_MAX: usize = 32;

/// `shard, rest`: how every request that belongs to a shard begins.
pub fn with_shard(shard: ShardId, rest: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(rest.len() + 5);
    varint::put(&mut out, shard.into());
    out.put_slice(rest);
    out.freeze()
}

/// # Errors
/// The request does not begin with a shard.
pub fn split_shard(mut body: Bytes) -> Result<(ShardId, Bytes), Malformed> {
    let mut r = Reader::new(&body);
    let shard = r.int()?;
    let rest = r.remaining();
    Ok((shard, body.split_off(body.len() - rest)))
}

const APPENDED: u8 = 0;
const DUPLICATE: u8 = 1;
const HELD: u8 = 2;
const STAMPED: u8 = 3;
const STAMPED_DUPLICATE: u8 = 4;
const REFUSED: u8 = 16;

pub fn encode_outcome(outcome: &Outcome) -> Bytes {
    let mut out = BytesMut::new();
    match outcome {
        Outcome::Taken(verdicts) => {
            out.put_u8(0);
            varint::put(&mut out, verdicts.len() as u64);
            for verdict in verdicts {
                match verdict {
                    Verdict::Appended { base, append_time: None } => {
                        out.put_u8(APPENDED);
                        varint::put(&mut out, *base as u64);
                    }
                    Verdict::Appended { base, append_time: Some(time) } => {
                        out.put_u8(STAMPED);
                        varint::put(&mut out, *base as u64);
                        varint::put_signed(&mut out, *time);
                    }
                    Verdict::Duplicate { base, append_time: None } => {
                        out.put_u8(DUPLICATE);
                        varint::put(&mut out, *base as u64);
                    }
                    Verdict::Duplicate { base, append_time: Some(time) } => {
                        out.put_u8(STAMPED_DUPLICATE);
                        varint::put(&mut out, *base as u64);
                        varint::put_signed(&mut out, *time);
                    }
                    Verdict::Held => out.put_u8(HELD),
                    Verdict::Refused(refusal) => out.put_u8(REFUSED + code(*refusal)),
                }
            }
        }
        Outcome::OutOfTurn { last } => {
            out.put_u8(1);
            varint::put(&mut out, *last);
        }
        Outcome::Fenced => out.put_u8(2),
        Outcome::Marked(results) => {
            out.put_u8(3);
            varint::put(&mut out, results.len() as u64);
            results.iter().for_each(|result| out.put_u8(result.err().map_or(0, |refusal| REFUSED + code(refusal))));
        }
        Outcome::Refused(refusal) => out.put_slice(&[4, code(*refusal)]),
    }
    out.freeze()
}

pub fn decode_outcome(bytes: &[u8]) -> Result<Outcome, Malformed> {
    let mut r = Reader::new(bytes);
    let outcome = match r.byte()? {
        0 => Outcome::Taken((0..r.count(1)?).map(|_| decode_verdict(&mut r)).collect::<Result<_, _>>()?),
        1 => Outcome::OutOfTurn { last: r.u64()? },
        2 => Outcome::Fenced,
        3 => {
            let result = |r: &mut Reader| match r.byte()? {
                0 => Ok(Ok(())),
                refused => Ok(Err(refusal(refused.wrapping_sub(REFUSED))?)),
            };
            Outcome::Marked((0..r.count(1)?).map(|_| result(&mut r)).collect::<Result<_, _>>()?)
        }
        4 => Outcome::Refused(refusal(r.byte()?)?),
        _ => return Err(Malformed),
    };
    r.finish()?;
    Ok(outcome)
}

fn decode_verdict(r: &mut Reader) -> Result<Verdict, Malformed> {
    Ok(match r.byte()? {
        APPENDED => Verdict::Appended { base: r.int()?, append_time: None },
        STAMPED => Verdict::Appended { base: r.int()?, append_time: Some(r.signed()?) },
        DUPLICATE => Verdict::Duplicate { base: r.int()?, append_time: None },
        STAMPED_DUPLICATE => Verdict::Duplicate { base: r.int()?, append_time: Some(r.signed()?) },
        HELD => Verdict::Held,
        refused => Verdict::Refused(refusal(refused.wrapping_sub(REFUSED))?),
    })
}

fn code(refusal: Refusal) -> u8 {
    match refusal {
        Refusal::UnknownPartition => 0,
        Refusal::StaleProducerEpoch => 1,
        Refusal::OutOfOrderSequence => 2,
        Refusal::DuplicateSequence => 3,
        Refusal::SequenceGap => 4,
        Refusal::Forgotten => 5,
        Refusal::WrongTransaction => 6,
        Refusal::StaleCoordinator => 7,
    }
}

fn refusal(code: u8) -> Result<Refusal, Malformed> {
    let all = [
        Refusal::UnknownPartition,
        Refusal::StaleProducerEpoch,
        Refusal::OutOfOrderSequence,
        Refusal::DuplicateSequence,
        Refusal::SequenceGap,
        Refusal::Forgotten,
        Refusal::WrongTransaction,
        Refusal::StaleCoordinator,
    ];
    all.get(usize::from(code)).copied().ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn appended(base: i64, append_time: Option<i64>) -> Verdict {
        Verdict::Appended { base, append_time }
    }

    #[test]
    fn outcomes_read_back_as_written() {
        let refusals = (0..8).map(|c| Verdict::Refused(refusal(c).unwrap()));
        let verdicts = [
            appended(1 << 40, None),
            appended(3, Some(1_700_000_000_000)),
            Verdict::Duplicate { base: 7, append_time: None },
            Verdict::Duplicate { base: 7, append_time: Some(-1) },
            Verdict::Held,
        ];
        let taken = Outcome::Taken(verdicts.into_iter().chain(refusals).collect());
        let marked = Outcome::Marked(vec![Ok(()), Err(Refusal::StaleCoordinator), Err(Refusal::UnknownPartition)]);
        let refused = Outcome::Refused(Refusal::WrongTransaction);
        for outcome in [taken, Outcome::OutOfTurn { last: 9 }, Outcome::Fenced, marked, refused] {
            assert_eq!(decode_outcome(&encode_outcome(&outcome)), Ok(outcome));
        }
        assert!(decode_outcome(&[0, 200, 1]).is_err());
    }

    #[test]
    fn the_shard_is_split_off() {
        let (shard, rest) = split_shard(with_shard(300, b"rest")).unwrap();
        assert_eq!((shard, &rest[..]), (300, &b"rest"[..]));
        assert!(split_shard(Bytes::new()).is_err());
    }
}
