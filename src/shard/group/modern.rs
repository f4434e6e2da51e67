//! What groups of the consumer protocol (KIP-848) and share groups (KIP-932) have in common, as a shard keeps them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::shard::group::entry::string;
use crate::types::varint::{self, Malformed, Reader};
use crate::types::{TopicId, arc_map};

/// Partitions by topic; no topic without partitions.
pub type Assignment = BTreeMap<TopicId, BTreeSet<i32>>;

/// All that members may rely on: what they were told of epochs and partitions, and where they are led to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound(deserialize = "M: DeserializeOwned"))]
pub struct Modern<M: Serialize> {
    /// How many changes made the group what it is. A change names the number it makes, so that one that was given up and
    /// came late after all does not mix with those decided without it.
    pub revision: u64,
    /// Grows whenever members, subscriptions or their topics change.
    pub epoch: i32,
    /// The epoch that partitions were assigned for.
    pub assignment_epoch: i32,
    /// Of the topics subscribed to, their ids and partitions, when `epoch` last grew.
    pub topics_digest: u32,
    #[serde(with = "arc_map")]
    pub members: BTreeMap<String, Arc<M>>,
}

/// One step of a group: the parts that have become different, whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModernChange<C> {
    pub revision: u64,
    pub epoch: i32,
    pub assignment_epoch: i32,
    pub topics_digest: u32,
    /// `None`: it is no member any more.
    pub members: Vec<(String, Option<C>)>,
}

/// The parts of a member that have become different.
pub trait Parts: Sized {
    type Member: Serialize + Clone + Default;

    fn apply(self, member: &mut Self::Member);
    /// A bit for each part that is there; never [`GONE`].
    fn flags(&self) -> u8;
    fn put(&self, out: &mut BytesMut);
    /// # Errors
    /// A flag that is not known, or what it announces is not there.
    fn read(flags: u8, r: &mut Reader) -> Result<Self, Malformed>;
}

/// Instead of a member's flags: it has gone.
const GONE: u8 = 8;

impl<M: Serialize> Modern<M> {
    pub(super) fn apply<C: Parts<Member = M>>(&mut self, change: ModernChange<C>)
    where
        M: Clone + Default,
    {
        self.revision = change.revision;
        self.epoch = change.epoch;
        self.assignment_epoch = change.assignment_epoch;
        self.topics_digest = change.topics_digest;
        for (id, parts) in change.members {
            match parts {
                Some(parts) => parts.apply(Arc::make_mut(self.members.entry(id).or_default())),
                None => drop(self.members.remove(&id)),
            }
        }
    }
}

/// ▲ The packed form.
impl<C: Parts> ModernChange<C> {
    pub(super) fn put(&self, out: &mut BytesMut) {
        varint::put(out, self.revision);
        varint::put_signed(out, self.epoch.into());
        varint::put_signed(out, self.assignment_epoch.into());
        out.put_u32(self.topics_digest);
        varint::put(out, self.members.len() as u64);
        for (id, parts) in &self.members {
            varint::put_bytes(out, id.as_bytes());
            out.put_u8(parts.as_ref().map_or(GONE, C::flags));
            parts.iter().for_each(|parts| parts.put(out));
        }
    }

    pub(super) fn read(r: &mut Reader) -> Result<Self, Malformed> {
        let (revision, epoch, assignment_epoch) = (r.u64()?, int(r)?, int(r)?);
        let topics_digest = u32::from_be_bytes(r.array()?);
        let member = |r: &mut Reader| {
            let id = string(r)?;
            Ok(match r.byte()? {
                GONE => (id, None),
                flags => (id, Some(C::read(flags, r)?)),
            })
        };
        let members = (0..r.count(2)?).map(|_| member(r)).collect::<Result<_, _>>()?;
        Ok(ModernChange { revision, epoch, assignment_epoch, topics_digest, members })
    }
}

/// A part of a member, if its flag is among the flags.
pub(super) fn part<T>(
    is_there: bool,
    r: &mut Reader,
    read: impl FnOnce(&mut Reader) -> Result<T, Malformed>,
) -> Result<Option<T>, Malformed> {
    is_there.then(|| read(r)).transpose()
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
