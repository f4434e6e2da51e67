//! Share groups (KIP-932) as a shard keeps them: their members. What becomes of records is kept where the records'
//! partitions are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use serde::{Deserialize, Serialize};

use crate::shard::group::Assignment;
use crate::shard::group::consumer_entry::{int, put_assignment, read_assignment};
use crate::shard::group::entry::{optional, put_optional, string};
use crate::types::arc_map;
use crate::types::varint::{self, Malformed, Reader};

/// All that members may rely on. Partitions have no owner here, so what a member is led to is its own at once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// How many changes made the group what it is; see [`Consumer::revision`](super::Consumer::revision).
    pub revision: u64,
    /// Grows whenever members, subscriptions or their topics change.
    pub epoch: i32,
    /// The epoch that partitions were assigned for.
    pub assignment_epoch: i32,
    /// Of the topics subscribed to, their ids and partitions, when `epoch` last grew.
    pub topics_digest: u32,
    #[serde(with = "arc_map")]
    pub members: BTreeMap<String, Arc<ShareMember>>,
}

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

/// One step of a group: the parts that have become different, whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShareChange {
    pub revision: u64,
    pub epoch: i32,
    pub assignment_epoch: i32,
    pub topics_digest: u32,
    /// `None`: it is no member any more.
    pub members: Vec<(String, Option<ShareMemberChange>)>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShareMemberChange {
    pub who: Option<ShareWho>,
    pub epochs: Option<Epochs>,
    pub assigned: Option<Assignment>,
}

impl Share {
    pub(super) fn apply(&mut self, change: ShareChange) {
        self.revision = change.revision;
        self.epoch = change.epoch;
        self.assignment_epoch = change.assignment_epoch;
        self.topics_digest = change.topics_digest;
        for (id, change) in change.members {
            let Some(change) = change else {
                self.members.remove(&id);
                continue;
            };
            let member = Arc::make_mut(self.members.entry(id).or_default());
            change.who.into_iter().for_each(|who| member.who = who);
            change.epochs.into_iter().for_each(|epochs| member.epochs = epochs);
            change.assigned.into_iter().for_each(|assigned| member.assigned = assigned);
        }
    }
}

// What of a member follows.
const WHO: u8 = 1;
const EPOCHS: u8 = 2;
const ASSIGNED: u8 = 4;
/// Nothing: it has gone.
const GONE: u8 = 8;

/// ▲ The packed form.
impl ShareChange {
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
            let parts = flag(change.who.is_some(), WHO) | flag(change.epochs.is_some(), EPOCHS);
            out.put_u8(parts | flag(change.assigned.is_some(), ASSIGNED));
            change.who.iter().for_each(|who| put_who(out, who));
            change.epochs.iter().for_each(|epochs| {
                varint::put_signed(out, epochs.now.into());
                varint::put_signed(out, epochs.before.into());
            });
            change.assigned.iter().for_each(|assigned| put_assignment(out, assigned));
        }
    }

    pub(super) fn read(r: &mut Reader) -> Result<ShareChange, Malformed> {
        let (revision, epoch, assignment_epoch) = (r.u64()?, int(r)?, int(r)?);
        let topics_digest = u32::from_be_bytes(r.array()?);
        let mut members = Vec::new();
        for _ in 0..r.count(2)? {
            let id = string(r)?;
            let parts = r.byte()?;
            let change = match parts {
                GONE => None,
                _ if parts & !(WHO | EPOCHS | ASSIGNED) != 0 => return Err(Malformed),
                _ => Some(ShareMemberChange {
                    who: (parts & WHO != 0).then(|| read_who(r)).transpose()?,
                    epochs: (parts & EPOCHS != 0).then(|| Ok(Epochs { now: int(r)?, before: int(r)? })).transpose()?,
                    assigned: (parts & ASSIGNED != 0).then(|| read_assignment(r)).transpose()?,
                }),
            };
            members.push((id, change));
        }
        Ok(ShareChange { revision, epoch, assignment_epoch, topics_digest, members })
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
