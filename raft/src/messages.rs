//! What Raft says to other nodes, in bytes.
//!
//! A request starts with its group. An answer starts with a status: done, no such group here, or failed with a reason.
//! Numbers are varints. Entries carry neither their index (they follow each other) nor their term (the difference to
//! the leader's, mostly 0), so one costs two or three bytes beside its payload.

use bytes::Bytes;
use openraft::raft::{
    AppendEntriesResponse, SnapshotResponse, TransferLeaderError, TransferLeaderRequest, TransferLeaderResponse,
    VoteRequest, VoteResponse,
};

use crate::GroupId;
use crate::codec::{
    Malformed, end, put_bytes, put_log_id_option, put_membership, put_stored_membership, put_varint, put_vote,
    take_log_id_option, take_membership, take_stored_membership, take_string, take_u8, take_u32, take_varint,
    take_vote,
};
use crate::types::{AppendRequest, Entry, EntryPayload, Payload, SnapshotMeta, TypeConfig, Vote, log_id, term_of};

const DONE: u8 = 0;
const NO_GROUP: u8 = 1;
const FAILED: u8 = 2;

/// An answer that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Declined {
    #[error("the peer does not have the group")]
    NoGroup,
    #[error("the peer failed: {0}")]
    Failed(String),
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

pub(crate) fn no_group() -> Bytes {
    Bytes::from_static(&[NO_GROUP])
}

pub(crate) fn failed(why: &str) -> Bytes {
    let mut out = vec![FAILED];
    put_bytes(&mut out, why.as_bytes());
    out.into()
}

fn done(put: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut out = vec![DONE];
    put(&mut out);
    out.into()
}

fn take_done(from: &mut Bytes) -> Result<(), Declined> {
    match take_u8(from)? {
        DONE => Ok(()),
        NO_GROUP => Err(Declined::NoGroup),
        FAILED => Err(Declined::Failed(take_string(from)?)),
        _ => Err(Malformed("status").into()),
    }
}

fn whole<T>(mut from: Bytes, take: impl FnOnce(&mut Bytes) -> Result<T, Malformed>) -> Result<T, Declined> {
    take_done(&mut from)?;
    let value = take(&mut from)?;
    end(&from)?;
    Ok(value)
}

/// The group a request is for; the rest of the request stays in `from`.
pub(crate) fn take_group(from: &mut Bytes) -> Result<GroupId, Malformed> {
    take_u32(from)
}

/// `session` tells the streams of one leader to one follower apart.
pub(crate) fn append(group: GroupId, session: u32, request: &AppendRequest) -> Bytes {
    let payloads: u64 = request.entries.iter().map(crate::codec::payload_bytes).sum();
    let mut out = Vec::with_capacity(64 + 16 * request.entries.len() + payloads as usize);
    put_varint(&mut out, group.into());
    put_varint(&mut out, session.into());
    put_vote(&mut out, &request.vote);
    put_log_id_option(&mut out, &request.prev_log_id);
    put_log_id_option(&mut out, &request.leader_commit);
    put_varint(&mut out, request.entries.len() as u64);
    for entry in &request.entries {
        put_compact_entry(&mut out, entry, request.vote.leader_id.term);
    }
    out.into()
}

/// Behind the group.
pub(crate) fn take_append(mut from: Bytes) -> Result<(u32, AppendRequest), Malformed> {
    let session = take_u32(&mut from)?;
    let vote = take_vote(&mut from)?;
    let prev_log_id = take_log_id_option(&mut from)?;
    let leader_commit = take_log_id_option(&mut from)?;
    let count = take_varint(&mut from)?;
    // An entry takes two bytes at least: a forged count cannot ask for much memory.
    if count > from.len() as u64 / 2 {
        return Err(Malformed("count of entries"));
    }
    let mut index = prev_log_id.map_or(0, |id| id.index.saturating_add(1));
    let mut entries = Vec::with_capacity(count as usize);
    for _ in 0..count {
        entries.push(take_compact_entry(&mut from, index, vote.leader_id.term)?);
        index = index.saturating_add(1);
    }
    end(&from)?;
    Ok((session, AppendRequest { vote, prev_log_id, entries, leader_commit }))
}

const BLANK: u64 = 0;
const NORMAL: u64 = 1;
const MEMBERSHIP: u64 = 2;

fn put_compact_entry(out: &mut Vec<u8>, entry: &Entry, leader_term: u64) {
    // A leader's log holds no term above its own.
    put_varint(out, leader_term.saturating_sub(term_of(&entry.log_id)));
    match &entry.payload {
        EntryPayload::Blank => put_varint(out, BLANK),
        EntryPayload::Normal(payload) => {
            put_varint(out, (payload.0.len() as u64) << 2 | NORMAL);
            out.extend_from_slice(&payload.0);
        }
        EntryPayload::Membership(membership) => {
            let mut bytes = Vec::new();
            put_membership(&mut bytes, membership);
            put_varint(out, (bytes.len() as u64) << 2 | MEMBERSHIP);
            out.extend_from_slice(&bytes);
        }
    }
}

fn take_compact_entry(from: &mut Bytes, index: u64, leader_term: u64) -> Result<Entry, Malformed> {
    let behind = take_varint(from)?;
    let term = leader_term.checked_sub(behind).ok_or(Malformed("term of an entry"))?;
    let length_and_kind = take_varint(from)?;
    let length = length_and_kind >> 2;
    if length > from.len() as u64 {
        return Err(Malformed("length of an entry"));
    }
    let mut bytes = from.split_to(length as usize);
    let payload = match length_and_kind & 3 {
        BLANK if length == 0 => EntryPayload::Blank,
        NORMAL => EntryPayload::Normal(Payload(crate::codec::own_if_small(bytes))),
        MEMBERSHIP => {
            let membership = take_membership(&mut bytes)?;
            end(&bytes)?;
            EntryPayload::Membership(membership)
        }
        _ => return Err(Malformed("kind of an entry")),
    };
    Ok(Entry { log_id: log_id(term, index), payload })
}

pub(crate) fn append_answer(answer: &AppendEntriesResponse<TypeConfig>) -> Bytes {
    done(|out| match answer {
        AppendEntriesResponse::Success => out.push(0),
        AppendEntriesResponse::PartialSuccess(upto) => {
            out.push(1);
            put_log_id_option(out, upto);
        }
        AppendEntriesResponse::Conflict => out.push(2),
        AppendEntriesResponse::HigherVote(vote) => {
            out.push(3);
            put_vote(out, vote);
        }
    })
}

pub(crate) fn take_append_answer(from: Bytes) -> Result<AppendEntriesResponse<TypeConfig>, Declined> {
    whole(from, |from| {
        Ok(match take_u8(from)? {
            0 => AppendEntriesResponse::Success,
            1 => AppendEntriesResponse::PartialSuccess(take_log_id_option(from)?),
            2 => AppendEntriesResponse::Conflict,
            3 => AppendEntriesResponse::HigherVote(take_vote(from)?),
            _ => return Err(Malformed("answer to an append")),
        })
    })
}

pub(crate) fn vote(group: GroupId, request: &VoteRequest<TypeConfig>) -> Bytes {
    let mut out = Vec::new();
    put_varint(&mut out, group.into());
    put_vote(&mut out, &request.vote);
    put_log_id_option(&mut out, &request.last_log_id);
    out.push(request.leadership_transfer.into());
    out.into()
}

pub(crate) fn take_vote_request(mut from: Bytes) -> Result<VoteRequest<TypeConfig>, Malformed> {
    let mut request = VoteRequest::new(take_vote(&mut from)?, take_log_id_option(&mut from)?);
    request.leadership_transfer = take_u8(&mut from)? != 0;
    end(&from)?;
    Ok(request)
}

pub(crate) fn vote_answer(answer: &VoteResponse<TypeConfig>) -> Bytes {
    done(|out| {
        put_vote(out, &answer.vote);
        out.push(answer.vote_granted.into());
        put_log_id_option(out, &answer.last_log_id);
    })
}

pub(crate) fn take_vote_answer(from: Bytes) -> Result<VoteResponse<TypeConfig>, Declined> {
    whole(from, |from| {
        let vote = take_vote(from)?;
        let granted = take_u8(from)? != 0;
        Ok(VoteResponse::new(vote, take_log_id_option(from)?, granted))
    })
}

/// Where a follower finds a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SnapshotOffer {
    pub(crate) vote: Vote,
    pub(crate) meta: SnapshotMeta,
    pub(crate) key: String,
    pub(crate) bytes_len: u64,
    pub(crate) crc: u32,
}

pub(crate) fn snapshot(group: GroupId, offer: &SnapshotOffer) -> Bytes {
    let mut out = Vec::new();
    put_varint(&mut out, group.into());
    put_vote(&mut out, &offer.vote);
    put_log_id_option(&mut out, &offer.meta.last_log_id);
    put_stored_membership(&mut out, &offer.meta.last_membership);
    put_bytes(&mut out, offer.key.as_bytes());
    put_varint(&mut out, offer.bytes_len);
    put_varint(&mut out, offer.crc.into());
    out.into()
}

pub(crate) fn take_snapshot(mut from: Bytes) -> Result<SnapshotOffer, Malformed> {
    let from = &mut from;
    let vote = take_vote(from)?;
    let meta = SnapshotMeta { last_log_id: take_log_id_option(from)?, last_membership: take_stored_membership(from)? };
    let (key, bytes_len, crc) = (take_string(from)?, take_varint(from)?, take_u32(from)?);
    end(from)?;
    Ok(SnapshotOffer { vote, meta, key, bytes_len, crc })
}

pub(crate) fn snapshot_answer(answer: &SnapshotResponse<TypeConfig>) -> Bytes {
    done(|out| put_vote(out, &answer.vote))
}

pub(crate) fn take_snapshot_answer(from: Bytes) -> Result<SnapshotResponse<TypeConfig>, Declined> {
    Ok(SnapshotResponse::new(whole(from, take_vote)?))
}

pub(crate) fn transfer(group: GroupId, request: &TransferLeaderRequest<TypeConfig>) -> Bytes {
    let mut out = Vec::new();
    put_varint(&mut out, group.into());
    put_vote(&mut out, request.from_leader());
    put_varint(&mut out, *request.to_node_id());
    put_log_id_option(&mut out, &request.last_log_id().copied());
    out.into()
}

pub(crate) fn take_transfer(mut from: Bytes) -> Result<TransferLeaderRequest<TypeConfig>, Malformed> {
    let from = &mut from;
    let request = TransferLeaderRequest::new(take_vote(from)?, take_varint(from)?, take_log_id_option(from)?);
    end(from)?;
    Ok(request)
}

pub(crate) fn transfer_answer(answer: &TransferLeaderResponse<TypeConfig>) -> Bytes {
    done(|out| match answer {
        Ok(()) => out.push(0),
        Err(TransferLeaderError::VoteChanged { expected, actual }) => {
            out.push(1);
            put_vote(out, expected);
            put_vote(out, actual);
        }
        Err(TransferLeaderError::LogNotFlushed { expected, actual }) => {
            out.push(2);
            put_log_id_option(out, expected);
            put_log_id_option(out, actual);
        }
    })
}

pub(crate) fn take_transfer_answer(from: Bytes) -> Result<TransferLeaderResponse<TypeConfig>, Declined> {
    whole(from, |from| {
        Ok(match take_u8(from)? {
            0 => Ok(()),
            1 => Err(TransferLeaderError::VoteChanged { expected: take_vote(from)?, actual: take_vote(from)? }),
            2 => Err(TransferLeaderError::LogNotFlushed {
                expected: take_log_id_option(from)?,
                actual: take_log_id_option(from)?,
            }),
            _ => return Err(Malformed("answer to a transfer")),
        })
    })
}

#[cfg(test)]
#[path = "messages_test.rs"]
mod tests;
