//! ▲ The packed form of what is new of a member.

use bytes::{BufMut, BytesMut};
use serde_bytes::ByteBuf;

use crate::shard::group::consumer::{ClassicMember, ConsumerMember, Current, MemberChange, MemberState, Who};
use crate::shard::group::entry::{optional, put_optional, string};
use crate::shard::group::modern::{Parts, int, part, put_assignment, read_assignment};
use crate::types::varint::{self, Malformed, Reader};

// What of a member follows.
const WHO: u8 = 1;
const TARGET: u8 = 2;
const CURRENT: u8 = 4;

impl Parts for MemberChange {
    type Member = ConsumerMember;

    fn apply(self, member: &mut ConsumerMember) {
        self.who.into_iter().for_each(|who| member.who = who);
        self.target.into_iter().for_each(|target| member.target = target);
        self.current.into_iter().for_each(|current| member.current = current);
    }

    fn flags(&self) -> u8 {
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        flag(self.who.is_some(), WHO) | flag(self.target.is_some(), TARGET) | flag(self.current.is_some(), CURRENT)
    }

    fn put(&self, out: &mut BytesMut) {
        self.who.iter().for_each(|who| put_who(out, who));
        self.target.iter().for_each(|target| put_assignment(out, target));
        self.current.iter().for_each(|current| put_current(out, current));
    }

    fn read(flags: u8, r: &mut Reader) -> Result<MemberChange, Malformed> {
        if flags & !(WHO | TARGET | CURRENT) != 0 {
            return Err(Malformed);
        }
        let who = part(flags & WHO != 0, r, read_who)?;
        let target = part(flags & TARGET != 0, r, read_assignment)?;
        Ok(MemberChange { who, target, current: part(flags & CURRENT != 0, r, read_current)? })
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
