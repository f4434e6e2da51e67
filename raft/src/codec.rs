//! Our own encodings of what Raft stores and sends. Integers are LEB128 varints, byte strings carry their length.
//! Every container (log file, snapshot file, handshake) has a format version of its own; a change here bumps them.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Buf, Bytes};
use openraft::EmptyNode;

use crate::types::{Entry, EntryPayload, LogId, Membership, Payload, StoredMembership, Vote, log_id, term_of};

/// Bytes that are not what the encoder writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed {0}")]
pub(crate) struct Malformed(pub &'static str);

/// Nodes in one membership, configurations in one joint membership: far above use, low enough to refuse garbage.
const NODES_MAX: u64 = 4_096;
const CONFIGS_MAX: u64 = 8;

/// Terms stay far below the end of their range, so that the encodings below cannot overflow on a forged one.
const TERM_MAX: u64 = 1 << 62;

/// Payloads up to this size are copied out of the frame they came in, so that an entry kept in the log does not keep
/// the whole receive buffer alive.
const COPIED_PAYLOAD_BYTES_MAX: usize = 16 << 10;

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn take_varint(from: &mut Bytes) -> Result<u64, Malformed> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = take_u8(from)?;
        if shift == 63 && byte > 1 {
            return Err(Malformed("varint"));
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Malformed("varint"))
}

pub(crate) fn take_u8(from: &mut Bytes) -> Result<u8, Malformed> {
    if from.is_empty() { Err(Malformed("end of bytes")) } else { Ok(from.get_u8()) }
}

pub(crate) fn take_u32(from: &mut Bytes) -> Result<u32, Malformed> {
    u32::try_from(take_varint(from)?).map_err(|_| Malformed("32-bit number"))
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(crate) fn take_bytes(from: &mut Bytes) -> Result<Bytes, Malformed> {
    let len = take_varint(from)?;
    if len > from.len() as u64 {
        return Err(Malformed("length of bytes"));
    }
    Ok(from.split_to(len as usize))
}

pub(crate) fn take_string(from: &mut Bytes) -> Result<String, Malformed> {
    String::from_utf8(take_bytes(from)?.to_vec()).map_err(|_| Malformed("text"))
}

pub(crate) fn end(from: &Bytes) -> Result<(), Malformed> {
    if from.is_empty() { Ok(()) } else { Err(Malformed("trailing bytes")) }
}

pub(crate) fn put_log_id(out: &mut Vec<u8>, id: &LogId) {
    put_varint(out, term_of(id));
    put_varint(out, id.index);
}

pub(crate) fn take_log_id(from: &mut Bytes) -> Result<LogId, Malformed> {
    let term = take_varint(from)?;
    Ok(log_id(checked_term(term)?, take_varint(from)?))
}

fn checked_term(term: u64) -> Result<u64, Malformed> {
    if term < TERM_MAX { Ok(term) } else { Err(Malformed("term")) }
}

/// Absent is a single 0; present is term + 1, then the index.
pub(crate) fn put_log_id_option(out: &mut Vec<u8>, id: &Option<LogId>) {
    match id {
        None => out.push(0),
        Some(id) => {
            put_varint(out, term_of(id) + 1);
            put_varint(out, id.index);
        }
    }
}

pub(crate) fn take_log_id_option(from: &mut Bytes) -> Result<Option<LogId>, Malformed> {
    match take_varint(from)? {
        0 => Ok(None),
        term_and_one => Ok(Some(log_id(checked_term(term_and_one - 1)?, take_varint(from)?))),
    }
}

/// The committed flag is the lowest bit of the first number.
pub(crate) fn put_vote(out: &mut Vec<u8>, vote: &Vote) {
    put_varint(out, vote.leader_id.term << 1 | u64::from(vote.committed));
    put_varint(out, vote.leader_id.voted_for);
}

pub(crate) fn take_vote(from: &mut Bytes) -> Result<Vote, Malformed> {
    let term_and_flag = take_varint(from)?;
    let node = take_varint(from)?;
    let term = checked_term(term_and_flag >> 1)?;
    Ok(if term_and_flag & 1 == 1 { Vote::new_committed(term, node) } else { Vote::new(term, node) })
}

pub(crate) fn put_membership(out: &mut Vec<u8>, membership: &Membership) {
    let configs = membership.get_joint_config();
    put_varint(out, configs.len() as u64);
    for config in configs {
        put_varint(out, config.len() as u64);
        for node in config {
            put_varint(out, *node);
        }
    }
    let learners: Vec<_> = membership.learner_ids().collect();
    put_varint(out, learners.len() as u64);
    for node in learners {
        put_varint(out, node);
    }
}

pub(crate) fn take_membership(from: &mut Bytes) -> Result<Membership, Malformed> {
    let configs = take_varint(from)?;
    if configs > CONFIGS_MAX {
        return Err(Malformed("membership"));
    }
    let configs: Vec<BTreeSet<u64>> = (0..configs).map(|_| take_nodes(from)).collect::<Result<_, _>>()?;
    let learners = take_nodes(from)?;
    let nodes: BTreeMap<u64, EmptyNode> =
        configs.iter().flatten().chain(&learners).map(|node| (*node, EmptyNode {})).collect();
    Membership::new(configs, nodes).map_err(|_| Malformed("membership"))
}

fn take_nodes(from: &mut Bytes) -> Result<BTreeSet<u64>, Malformed> {
    let count = take_varint(from)?;
    if count > NODES_MAX {
        return Err(Malformed("membership"));
    }
    (0..count).map(|_| take_varint(from)).collect()
}

pub(crate) fn put_stored_membership(out: &mut Vec<u8>, stored: &StoredMembership) {
    put_log_id_option(out, stored.log_id());
    put_membership(out, stored.membership());
}

pub(crate) fn take_stored_membership(from: &mut Bytes) -> Result<StoredMembership, Malformed> {
    let at = take_log_id_option(from)?;
    Ok(StoredMembership::new(at, take_membership(from)?))
}

const BLANK: u8 = 0;
const NORMAL: u8 = 1;
const MEMBERSHIP: u8 = 2;

/// The payload goes last and runs to the end: its container knows the length.
pub(crate) fn put_entry(out: &mut Vec<u8>, entry: &Entry) {
    put_log_id(out, &entry.log_id);
    match &entry.payload {
        EntryPayload::Blank => out.push(BLANK),
        EntryPayload::Normal(payload) => {
            out.push(NORMAL);
            out.extend_from_slice(&payload.0);
        }
        EntryPayload::Membership(membership) => {
            out.push(MEMBERSHIP);
            put_membership(out, membership);
        }
    }
}

/// `from` holds exactly one entry.
pub(crate) fn take_entry(mut from: Bytes) -> Result<Entry, Malformed> {
    let log_id = take_log_id(&mut from)?;
    let payload = match take_u8(&mut from)? {
        BLANK => EntryPayload::Blank,
        NORMAL => EntryPayload::Normal(Payload(own_if_small(std::mem::take(&mut from)))),
        MEMBERSHIP => EntryPayload::Membership(take_membership(&mut from)?),
        _ => return Err(Malformed("entry kind")),
    };
    end(&from)?;
    Ok(Entry { log_id, payload })
}

pub(crate) fn own_if_small(bytes: Bytes) -> Bytes {
    if bytes.len() <= COPIED_PAYLOAD_BYTES_MAX { Bytes::copy_from_slice(&bytes) } else { bytes }
}

pub(crate) fn payload_bytes(entry: &Entry) -> u64 {
    match &entry.payload {
        EntryPayload::Normal(payload) => payload.0.len() as u64,
        _ => 0,
    }
}

#[cfg(test)]
#[path = "codec_test.rs"]
mod tests;
