//! Share groups (KIP-932) as a shard keeps them: their members. What becomes of records is kept where the records'
//! partitions are.

use std::collections::BTreeSet;

use bytes::BytesMut;
use serde::{Deserialize, Serialize};

use crate::shard::group::entry::{optional, put_optional, string};
use crate::shard::group::modern::{
    Assignment, Modern, ModernChange, Parts, int, part, put_assignment, read_assignment,
};
use crate::types::varint::{self, Malformed, Reader};

/// Partitions have no owner here, so what a member is led to is its own at once.
pub type Share = Modern<ShareMember>;
pub type ShareChange = ModernChange<ShareMemberChange>;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareMember {
    pub who: ShareWho,
    pub epochs: Epochs,
    pub assigned: Assignment,
}

/// What a member says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareWho {
    pub rack: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub topics: BTreeSet<String>,
}

/// The epochs that a member was told last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epochs {
    pub now: i32,
    pub before: i32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShareMemberChange {
    pub who: Option<ShareWho>,
    pub epochs: Option<Epochs>,
    pub assigned: Option<Assignment>,
}

// What of a member follows.
const WHO: u8 = 1;
const EPOCHS: u8 = 2;
const ASSIGNED: u8 = 4;

impl Parts for ShareMemberChange {
    type Member = ShareMember;

    fn apply(self, member: &mut ShareMember) {
        self.who.into_iter().for_each(|who| member.who = who);
        self.epochs.into_iter().for_each(|epochs| member.epochs = epochs);
        self.assigned.into_iter().for_each(|assigned| member.assigned = assigned);
    }

    fn flags(&self) -> u8 {
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        flag(self.who.is_some(), WHO) | flag(self.epochs.is_some(), EPOCHS) | flag(self.assigned.is_some(), ASSIGNED)
    }

    fn put(&self, out: &mut BytesMut) {
        self.who.iter().for_each(|who| put_who(out, who));
        self.epochs.iter().for_each(|epochs| {
            varint::put_signed(out, epochs.now.into());
            varint::put_signed(out, epochs.before.into());
        });
        self.assigned.iter().for_each(|assigned| put_assignment(out, assigned));
    }

    fn read(flags: u8, r: &mut Reader) -> Result<ShareMemberChange, Malformed> {
        if flags & !(WHO | EPOCHS | ASSIGNED) != 0 {
            return Err(Malformed);
        }
        let who = part(flags & WHO != 0, r, read_who)?;
        let epochs = part(flags & EPOCHS != 0, r, |r| Ok(Epochs { now: int(r)?, before: int(r)? }))?;
        Ok(ShareMemberChange { who, epochs, assigned: part(flags & ASSIGNED != 0, r, read_assignment)? })
    }
}

fn put_who(out: &mut BytesMut, who: &ShareWho) {
    put_optional(out, who.rack.as_deref());
    varint::put_bytes(out, who.client_id.as_bytes());
    varint::put_bytes(out, who.client_host.as_bytes());
    varint::put(out, who.topics.len() as u64);
    who.topics.iter().for_each(|topic| varint::put_bytes(out, topic.as_bytes()));
}

fn read_who(r: &mut Reader) -> Result<ShareWho, Malformed> {
    Ok(ShareWho {
        rack: optional(r)?,
        client_id: string(r)?,
        client_host: string(r)?,
        topics: (0..r.count(1)?).map(|_| string(r)).collect::<Result<_, _>>()?,
    })
}
