//! ▲ The packed form of a [`ConsumerChange`].

use bytes::{BufMut, BytesMut};
use serde_bytes::ByteBuf;

use crate::shard::group::consumer::{
    Assignment, ClassicMember, ConsumerChange, Current, MemberChange, MemberState, Who,
};
use crate::shard::group::entry::{optional, put_optional, string};
use crate::types::TopicId;
use crate::types::varint::{self, Malformed, Reader};

// What of a member follows.
const WHO: u8 = 1;
const TARGET: u8 = 2;
const CURRENT: u8 = 4;
/// Nothing: it has gone.
const GONE: u8 = 8;

impl ConsumerChange {
    pub(super) fn put(&self, out: &mut BytesMut) {
        varint::put(out, self.revision);
        varint::put_signed(out, self.epoch.into());
        varint::put_signed(out, self.assignment_epoch.into());
        out.put_u32(self.topics_digest);
        varint::put(out, self.members.len() as u64);
        for (id, change) in &self.members {
            varint::put_bytes(out, id.as_bytes());
            let Some(change) = change else {
                out.put_u8(GONE);
                continue;
            };
            let flag = |is: bool, flag: u8| if is { flag } else { 0 };
            let parts = flag(change.who.is_some(), WHO) | flag(change.target.is_some(), TARGET);
            out.put_u8(parts | flag(change.current.is_some(), CURRENT));
            change.who.iter().for_each(|who| put_who(out, who));
            change.target.iter().for_each(|target| put_assignment(out, target));
            change.current.iter().for_each(|current| put_current(out, current));
        }
    }

    pub(super) fn read(r: &mut Reader) -> Result<ConsumerChange, Malformed> {
        let (revision, epoch, assignment_epoch) = (r.u64()?, int(r)?, int(r)?);
        let topics_digest = u32::from_be_bytes(r.array()?);
        let mut members = Vec::new();
        for _ in 0..r.count(2)? {
            let id = string(r)?;
            let parts = r.byte()?;
            if parts & !(WHO | TARGET | CURRENT) != 0 {
                if parts != GONE {
                    return Err(Malformed);
                }
                members.push((id, None));
                continue;
            }
            let who = (parts & WHO != 0).then(|| read_who(r)).transpose()?;
            let target = (parts & TARGET != 0).then(|| read_assignment(r)).transpose()?;
            let current = (parts & CURRENT != 0).then(|| read_current(r)).transpose()?;
            members.push((id, Some(MemberChange { who, target, current })));
        }
        Ok(ConsumerChange { revision, epoch, assignment_epoch, topics_digest, members })
    }
}

fn put_who(out: &mut BytesMut, who: &Who) {
    put_optional(out, who.instance.as_deref());
    put_optional(out, who.rack.as_deref());
    varint::put_bytes(out, who.client_id.as_bytes());
    varint::put_bytes(out, who.client_host.as_bytes());
    varint::put_signed(out, who.rebalance_timeout_ms.into());
    varint::put(out, who.topics.len() as u64);
    who.topics.iter().for_each(|topic| varint::put_bytes(out, topic.as_bytes()));
    put_optional(out, who.pattern.as_deref());
    put_optional(out, who.assignor.as_deref());
    out.put_u8(who.classic.is_some().into());
    if let Some(classic) = &who.classic {
        varint::put_signed(out, classic.session_timeout_ms.into());
        varint::put(out, classic.protocols.len() as u64);
        for (name, metadata) in &classic.protocols {
            varint::put_bytes(out, name.as_bytes());
            varint::put_bytes(out, metadata);
        }
    }
}

fn read_who(r: &mut Reader) -> Result<Who, Malformed> {
    Ok(Who {
        instance: optional(r)?,
        rack: optional(r)?,
        client_id: string(r)?,
        client_host: string(r)?,
        rebalance_timeout_ms: int(r)?,
        topics: (0..r.count(1)?).map(|_| string(r)).collect::<Result<_, _>>()?,
        pattern: optional(r)?,
        assignor: optional(r)?,
        classic: match r.byte()? {
            0 => None,
            1 => Some(read_classic(r)?),
            _ => return Err(Malformed),
        },
    })
}

fn read_classic(r: &mut Reader) -> Result<ClassicMember, Malformed> {
    let session_timeout_ms = int(r)?;
    let protocol = |r: &mut Reader| Ok((string(r)?, ByteBuf::from(r.bytes()?.to_vec())));
    let protocols = (0..r.count(2)?).map(|_| protocol(r)).collect::<Result<_, _>>()?;
    Ok(ClassicMember { session_timeout_ms, protocols })
}

fn put_current(out: &mut BytesMut, current: &Current) {
    varint::put_signed(out, current.epoch.into());
    varint::put_signed(out, current.previous_epoch.into());
    out.put_u8(match current.state {
        MemberState::Stable => 0,
        MemberState::Unrevoked => 1,
        MemberState::Unreleased => 2,
    });
    put_assignment(out, &current.assigned);
    put_assignment(out, &current.revoking);
}

fn read_current(r: &mut Reader) -> Result<Current, Malformed> {
    let (epoch, previous_epoch) = (int(r)?, int(r)?);
    let state = match r.byte()? {
        0 => MemberState::Stable,
        1 => MemberState::Unrevoked,
        2 => MemberState::Unreleased,
        _ => return Err(Malformed),
    };
    Ok(Current { epoch, previous_epoch, state, assigned: read_assignment(r)?, revoking: read_assignment(r)? })
}

/// Partitions ascend: each is written as its distance from the one before.
pub(super) fn put_assignment(out: &mut BytesMut, assignment: &Assignment) {
    varint::put(out, assignment.len() as u64);
    for (topic, partitions) in assignment {
        out.put_slice(topic.as_bytes());
        varint::put(out, partitions.len() as u64);
        let mut before = 0;
        for partition in partitions {
            varint::put(out, (partition - before) as u64);
            before = *partition;
        }
    }
}

pub(super) fn read_assignment(r: &mut Reader) -> Result<Assignment, Malformed> {
    let mut assignment = Assignment::new();
    for _ in 0..r.count(17)? {
        let topic = TopicId::from_bytes(r.array()?);
        let mut before = 0i32;
        let partitions = assignment.entry(topic).or_default();
        for _ in 0..r.count(1)? {
            before = before.checked_add(r.int()?).ok_or(Malformed)?;
            partitions.insert(before);
        }
    }
    Ok(assignment)
}

pub(super) fn int(r: &mut Reader) -> Result<i32, Malformed> {
    i32::try_from(r.signed()?).map_err(|_| Malformed)
}
