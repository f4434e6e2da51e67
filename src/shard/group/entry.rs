//! ▲ The packed form of what coordinators decide. Each change is a kind of entry with a version of its own.

use bytes::{BufMut, BytesMut};

use crate::shard::Slot;
use crate::shard::group::{Classic, Committed, ConsumerChange, Member, ShareChange};
use crate::types::varint::{self, Malformed, Reader};
use crate::types::{Partition, Producer, TopicId};

/// One decision about one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupEntry {
    pub slot: Slot,
    /// The term it was decided in: applied in no other, so that a coordinator that has lost the shard, or lost it and
    /// got it back, commits nothing that it decided before.
    pub term: u64,
    /// The coordinator's clock ([`Groups::clock_ms`](super::Groups::clock_ms) when it began, and what passed since).
    pub clock_ms: u64,
    pub group: String,
    pub change: Change,
}

/// Commits of several members or groups that were decided together: one entry of the log for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupCommits {
    /// As in [`GroupEntry`].
    pub term: u64,
    pub clock_ms: u64,
    pub commits: Vec<GroupCommit>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupCommit {
    pub slot: Slot,
    pub group: String,
    pub retention_ms: Option<u64>,
    pub offsets: Vec<(Partition, Committed)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// `at_ms` and `retention_ms` of the offsets are set when it is applied.
    Commit { retention_ms: Option<u64>, offsets: Vec<(Partition, Committed)> },
    /// As `Commit`, once the transaction is committed.
    TransactionalCommit { producer: Producer, txn_no: u64, offsets: Vec<(Partition, Committed)> },
    /// `since_ms` is set when it is applied.
    Save(Classic),
    /// A step of a group of the consumer protocol; the first makes the group one, whatever it was.
    Consumer(Box<ConsumerChange>),
    /// A step of a share group; the first makes the group one, whatever it was.
    Share(Box<ShareChange>),
    /// With all its offsets.
    Delete,
    /// Unless they were committed later than that.
    DeleteOffsets { partitions: Vec<Partition>, until_ms: u64 },
    /// No members and no offsets.
    DeleteIfUnused,
}

pub(in crate::shard) const COMMIT: u8 = 7;
pub(in crate::shard) const SAVE: u8 = 8;
pub(in crate::shard) const DELETE: u8 = 9;
pub(in crate::shard) const DELETE_OFFSETS: u8 = 10;
pub(in crate::shard) const DELETE_IF_UNUSED: u8 = 11;
pub(in crate::shard) const CONSUMER: u8 = 32;
pub(in crate::shard) const COMMITS: u8 = 33;
pub(in crate::shard) const TRANSACTIONAL_COMMIT: u8 = 41;
pub(in crate::shard) const SHARE: u8 = 47;

impl GroupEntry {
    pub(in crate::shard) fn put(&self, out: &mut BytesMut) {
        let kind = match &self.change {
            Change::Commit { .. } => COMMIT,
            Change::TransactionalCommit { .. } => TRANSACTIONAL_COMMIT,
            Change::Save(_) => SAVE,
            Change::Consumer(_) => CONSUMER,
            Change::Share(_) => SHARE,
            Change::Delete => DELETE,
            Change::DeleteOffsets { .. } => DELETE_OFFSETS,
            Change::DeleteIfUnused => DELETE_IF_UNUSED,
        };
        out.put_slice(&[kind, 1]);
        varint::put(out, self.slot.into());
        varint::put(out, self.term);
        varint::put(out, self.clock_ms);
        varint::put_bytes(out, self.group.as_bytes());
        match &self.change {
            Change::Commit { retention_ms, offsets } => put_commit(out, *retention_ms, offsets),
            Change::TransactionalCommit { producer, txn_no, offsets } => {
                varint::put_signed(out, producer.id);
                varint::put_signed(out, producer.epoch.into());
                varint::put(out, *txn_no);
                put_by_topic(out, offsets, |o| o.0, |out, (_, committed)| put_committed(out, committed));
            }
            Change::Save(classic) => put_classic(out, classic),
            Change::Consumer(change) => change.put(out),
            Change::Share(change) => change.put(out),
            Change::DeleteOffsets { partitions, until_ms } => {
                varint::put(out, *until_ms);
                put_by_topic(out, partitions, |p| *p, |_, _| {});
            }
            Change::Delete | Change::DeleteIfUnused => {}
        }
    }

    /// What follows the kind and its version.
    pub(in crate::shard) fn read(kind: u8, r: &mut Reader) -> Result<GroupEntry, Malformed> {
        let (slot, term, clock_ms, group) = (r.int()?, r.u64()?, r.u64()?, string(r)?);
        let change = match kind {
            COMMIT => {
                let (retention_ms, offsets) = read_commit(r)?;
                Change::Commit { retention_ms, offsets }
            }
            TRANSACTIONAL_COMMIT => {
                let (id, epoch) = (r.signed()?, i16::try_from(r.signed()?).map_err(|_| Malformed)?);
                let txn_no = r.u64()?;
                let offsets = read_by_topic(r, |r, partition| Ok((partition, read_committed(r)?)))?;
                Change::TransactionalCommit { producer: Producer { id, epoch }, txn_no, offsets }
            }
            SAVE => Change::Save(read_classic(r)?),
            CONSUMER => Change::Consumer(Box::new(ConsumerChange::read(r)?)),
            SHARE => Change::Share(Box::new(ShareChange::read(r)?)),
            DELETE => Change::Delete,
            DELETE_OFFSETS => {
                let until_ms = r.u64()?;
                Change::DeleteOffsets { until_ms, partitions: read_by_topic(r, |_, partition| Ok(partition))? }
            }
            DELETE_IF_UNUSED => Change::DeleteIfUnused,
            _ => return Err(Malformed),
        };
        Ok(GroupEntry { slot, term, clock_ms, group, change })
    }
}

impl GroupCommits {
    pub(in crate::shard) fn put(&self, out: &mut BytesMut) {
        out.put_slice(&[COMMITS, 1]);
        varint::put(out, self.term);
        varint::put(out, self.clock_ms);
        varint::put(out, self.commits.len() as u64);
        for commit in &self.commits {
            varint::put(out, commit.slot.into());
            varint::put_bytes(out, commit.group.as_bytes());
            put_commit(out, commit.retention_ms, &commit.offsets);
        }
    }

    /// What follows the kind and its version.
    pub(in crate::shard) fn read(r: &mut Reader) -> Result<GroupCommits, Malformed> {
        let (term, clock_ms) = (r.u64()?, r.u64()?);
        let commit = |r: &mut Reader| {
            let (slot, group, (retention_ms, offsets)) = (r.int()?, string(r)?, read_commit(r)?);
            Ok(GroupCommit { slot, group, retention_ms, offsets })
        };
        let commits = (0..r.count(4)?).map(|_| commit(r)).collect::<Result<_, _>>()?;
        Ok(GroupCommits { term, clock_ms, commits })
    }
}

fn put_commit(out: &mut BytesMut, retention_ms: Option<u64>, offsets: &[(Partition, Committed)]) {
    varint::put(out, retention_ms.map_or(0, |ms| ms.saturating_add(1)));
    put_by_topic(out, offsets, |o| o.0, |out, (_, committed)| put_committed(out, committed));
}

type ReadCommit = (Option<u64>, Vec<(Partition, Committed)>);

fn read_commit(r: &mut Reader) -> Result<ReadCommit, Malformed> {
    let retention_ms = r.u64()?.checked_sub(1);
    Ok((retention_ms, read_by_topic(r, |r, partition| Ok((partition, read_committed(r)?)))?))
}

/// Runs of one topic name it once.
fn put_by_topic<T>(
    out: &mut BytesMut,
    items: &[T],
    partition: impl Fn(&T) -> Partition,
    put: impl Fn(&mut BytesMut, &T),
) {
    let runs: Vec<&[T]> = items.chunk_by(|a, b| partition(a).topic == partition(b).topic).collect();
    varint::put(out, runs.len() as u64);
    for run in runs {
        out.put_slice(partition(&run[0]).topic.as_bytes());
        varint::put(out, run.len() as u64);
        for item in run {
            varint::put(out, partition(item).index as u64);
            put(out, item);
        }
    }
}

fn read_by_topic<T>(
    r: &mut Reader,
    read: impl Fn(&mut Reader, Partition) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let mut items = Vec::new();
    for _ in 0..r.count(17)? {
        let topic = TopicId::from_bytes(r.array()?);
        for _ in 0..r.count(1)? {
            let index = r.int()?;
            items.push(read(r, Partition { topic, index })?);
        }
    }
    Ok(items)
}

fn put_committed(out: &mut BytesMut, committed: &Committed) {
    varint::put_signed(out, committed.offset);
    varint::put_signed(out, committed.leader_epoch.into());
    varint::put_bytes(out, committed.metadata.as_bytes());
}

fn read_committed(r: &mut Reader) -> Result<Committed, Malformed> {
    let offset = r.signed()?;
    let leader_epoch = i32::try_from(r.signed()?).map_err(|_| Malformed)?;
    Ok(Committed { offset, leader_epoch, metadata: string(r)?, ..Committed::default() })
}

fn put_classic(out: &mut BytesMut, classic: &Classic) {
    varint::put_signed(out, classic.generation.into());
    varint::put_bytes(out, classic.protocol_type.as_bytes());
    put_optional(out, classic.protocol_name.as_deref());
    put_optional(out, classic.leader.as_deref());
    varint::put(out, classic.members.len() as u64);
    for member in &classic.members {
        varint::put_bytes(out, member.id.as_bytes());
        put_optional(out, member.instance.as_deref());
        varint::put_bytes(out, member.client_id.as_bytes());
        varint::put_bytes(out, member.client_host.as_bytes());
        varint::put_signed(out, member.rebalance_timeout_ms.into());
        varint::put_signed(out, member.session_timeout_ms.into());
        varint::put_bytes(out, &member.metadata);
        varint::put_bytes(out, &member.assignment);
    }
}

fn read_classic(r: &mut Reader) -> Result<Classic, Malformed> {
    let generation = i32::try_from(r.signed()?).map_err(|_| Malformed)?;
    let (protocol_type, protocol_name, leader) = (string(r)?, optional(r)?, optional(r)?);
    let member = |r: &mut Reader| {
        Ok(Member {
            id: string(r)?,
            instance: optional(r)?,
            client_id: string(r)?,
            client_host: string(r)?,
            rebalance_timeout_ms: i32::try_from(r.signed()?).map_err(|_| Malformed)?,
            session_timeout_ms: i32::try_from(r.signed()?).map_err(|_| Malformed)?,
            metadata: r.bytes()?.to_vec(),
            assignment: r.bytes()?.to_vec(),
        })
    };
    let members = (0..r.count(8)?).map(|_| member(r)).collect::<Result<_, _>>()?;
    Ok(Classic { generation, protocol_type, protocol_name, leader, members, since_ms: 0 })
}

pub(super) fn string(r: &mut Reader) -> Result<String, Malformed> {
    String::from_utf8(r.bytes()?.to_vec()).map_err(|_| Malformed)
}

pub(super) fn put_optional(out: &mut BytesMut, value: Option<&str>) {
    out.put_u8(value.is_some().into());
    value.inspect(|value| varint::put_bytes(out, value.as_bytes()));
}

pub(super) fn optional(r: &mut Reader) -> Result<Option<String>, Malformed> {
    match r.byte()? {
        0 => Ok(None),
        1 => string(r).map(Some),
        _ => Err(Malformed),
    }
}
