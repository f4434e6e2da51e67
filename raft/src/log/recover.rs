//! Reads back what a directory holds, and cuts what a crash tore.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::disk::Disk;
use super::record::{self, Record, SegmentHead, Step};
use super::segments::{Place, Segments, file_name, sequence_of};
use crate::types::{Entry, LogId, Vote};
use crate::{Error, GroupId, Identity};

/// A file system may write the pages of one unsynced append in any order. What is left then looks like damage, and
/// nothing tells the two apart, so a person has to.
const MAY_BE_UNSYNCED: &str = "this is the last segment, so after a power loss it may be the end of a write that was \
     never synced and that nobody was told of; if it is not, entries or votes this node has acknowledged are lost";

/// What the log holds of one group.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GroupState {
    pub(crate) vote: Option<Vote>,
    pub(crate) purged: Option<LogId>,
    pub(crate) committed: Option<LogId>,
    pub(crate) entries: Vec<Entry>,
}

pub(crate) struct Recovered {
    pub(crate) groups: BTreeMap<GroupId, GroupState>,
    pub(super) segments: Segments,
    pub(super) next_sequence: u64,
}

impl Recovered {
    /// There was no log, not even one without records.
    pub(crate) fn is_new(&self) -> bool {
        self.segments.is_empty()
    }
}

#[derive(Default)]
struct Replay {
    vote: Option<(Vote, Place)>,
    purged: Option<(LogId, Place)>,
    committed: Option<(LogId, Place)>,
    entries: BTreeMap<u64, (Entry, Place)>,
}

/// # Errors
/// [`Error::Damaged`] names the file and the byte; [`Error::WrongIdentity`] when the log is another node's. The
/// directory is unchanged then.
pub(crate) fn recover(disk: &dyn Disk, identity: &Identity) -> Result<Recovered, Error> {
    let sequences = list(disk)?;
    let mut segments = Segments::default();
    let mut groups: BTreeMap<GroupId, Replay> = BTreeMap::new();
    let mut cut = Cut::Nothing;
    let mut next_sequence = sequences.last().map_or(1, |sequence| sequence + 1);
    for (nth, sequence) in sequences.iter().copied().enumerate() {
        let name = file_name(sequence);
        let damaged =
            |position: u64, why: &str| Error::Damaged { file: disk.path(&name), position, why: why.to_owned() };
        let last = nth + 1 == sequences.len();
        if nth > 0 && sequences[nth - 1] + 1 != sequence {
            return Err(damaged(0, "the segment before this one is missing"));
        }
        let file = Bytes::from(disk.read(&name).map_err(Error::io(format!("reading {}", disk.path(&name).display())))?);
        let mut at = match record::decode_segment_head(&file) {
            SegmentHead::Valid { sequence: inside, node_id, cluster_id, bytes } => {
                check_identity(disk, identity, node_id, cluster_id)?;
                if inside != sequence {
                    return Err(damaged(6, "the segment carries another sequence number than its name"));
                }
                bytes
            }
            // The head is synced before anything follows it.
            SegmentHead::Torn if last && file.len() <= record::encode_segment_head(sequence, identity).len() => {
                cut = Cut::Remove(sequence);
                next_sequence = sequence;
                continue;
            }
            SegmentHead::Torn => return Err(damaged(0, "the head of the segment is torn")),
            SegmentHead::Damaged(why) => return Err(damaged(0, why)),
        };
        segments.open(sequence, 0);
        loop {
            match record::step(&file, at as usize) {
                Step::Record { group, record, bytes } => {
                    let place = Place { sequence, bytes };
                    replay(&mut groups, group, record, place).map_err(|why| damaged(at, why))?;
                    at += bytes;
                }
                Step::End => break,
                Step::Torn if last => break,
                Step::Torn => {
                    return Err(damaged(at, "a closed segment ends in the middle of a record"));
                }
                Step::Damaged(why) if last => {
                    return Err(damaged(at, &format!("{why}; {MAY_BE_UNSYNCED}")));
                }
                Step::Damaged(why) => return Err(damaged(at, why)),
            }
        }
        segments.grow(sequence, at);
        if last {
            cut = Cut::After(sequence, at);
        }
    }
    let recovered = finish(disk, groups, segments, next_sequence)?;
    apply_cut(disk, cut)?;
    Ok(recovered)
}

pub(crate) fn list(disk: &dyn Disk) -> Result<Vec<u64>, Error> {
    let names = disk.list().map_err(Error::io(format!("listing {}", disk.path("").display())))?;
    let mut sequences: Vec<u64> = names.iter().filter_map(|name| sequence_of(name)).collect();
    sequences.sort_unstable();
    Ok(sequences)
}

fn check_identity(disk: &dyn Disk, wanted: &Identity, node_id: u64, cluster_id: String) -> Result<(), Error> {
    if node_id == wanted.node_id && cluster_id == wanted.cluster_id {
        return Ok(());
    }
    Err(Error::WrongIdentity {
        dir: disk.path(""),
        found: format!("node {node_id} of cluster {cluster_id}"),
        wanted: format!("node {} of cluster {}", wanted.node_id, wanted.cluster_id),
    })
}

fn replay(
    groups: &mut BTreeMap<GroupId, Replay>,
    group: GroupId,
    record: Record,
    place: Place,
) -> Result<(), &'static str> {
    if record == Record::Remove {
        groups.remove(&group);
        return Ok(());
    }
    let state = groups.entry(group).or_default();
    match record {
        Record::Entry(entry) => {
            let index = entry.log_id.index;
            state.entries.split_off(&index);
            state.entries.insert(index, (entry, place));
        }
        Record::Kept(entry) => {
            let index = entry.log_id.index;
            if state.entries.get(&index).is_some_and(|(old, _)| old.log_id != entry.log_id) {
                return Err("a copied entry differs from the one it copies");
            }
            state.entries.insert(index, (entry, place));
        }
        Record::Vote(vote) => state.vote = Some((vote, place)),
        Record::TruncateAfter(after) => {
            state.entries.split_off(&after.map_or(0, |id| id.index + 1));
        }
        Record::Purge(id) => {
            state.entries = state.entries.split_off(&(id.index + 1));
            state.purged = Some((id, place));
        }
        Record::Committed(id) => state.committed = Some((id, place)),
        Record::Remove => {}
    }
    Ok(())
}

fn finish(
    disk: &dyn Disk,
    replayed: BTreeMap<GroupId, Replay>,
    mut segments: Segments,
    next_sequence: u64,
) -> Result<Recovered, Error> {
    let mut groups = BTreeMap::new();
    for (group, replay) in replayed {
        let mut expected = replay.purged.as_ref().map_or(0, |(id, _)| id.index + 1);
        let mut entries = Vec::with_capacity(replay.entries.len());
        for (index, (entry, place)) in replay.entries {
            if index != expected {
                return Err(Error::Damaged {
                    file: disk.path(&file_name(place.sequence)),
                    position: 0,
                    why: format!("group {group} has no entry {expected}, but entry {index}"),
                });
            }
            segments.entry(group, index, place);
            entries.push(entry);
            expected += 1;
        }
        if let Some((_, place)) = &replay.vote {
            segments.vote(group, *place);
        }
        if let Some((id, place)) = &replay.purged {
            segments.purge(group, id.index, *place);
        }
        let committed = replay.committed.filter(|(id, _)| id.index < expected);
        if let Some((_, place)) = &committed {
            segments.committed(group, *place);
        }
        let state = GroupState {
            vote: replay.vote.map(|(vote, _)| vote),
            purged: replay.purged.map(|(id, _)| id),
            committed: committed.map(|(id, _)| id),
            entries,
        };
        groups.insert(group, state);
    }
    Ok(Recovered { groups, segments, next_sequence })
}

/// What is left to do on disk once everything was read without objection.
enum Cut {
    Nothing,
    /// The last segment is cut to its whole records and synced: what an earlier process wrote without syncing counts
    /// from here on.
    After(u64, u64),
    /// The last segment has no whole head, so it holds nothing; its sequence number is used again.
    Remove(u64),
}

fn apply_cut(disk: &dyn Disk, cut: Cut) -> Result<(), Error> {
    let (sequence, cut_to) = match cut {
        Cut::Nothing => return Ok(()),
        Cut::After(sequence, bytes) => (sequence, Some(bytes)),
        Cut::Remove(sequence) => (sequence, None),
    };
    let name = file_name(sequence);
    let done = match cut_to {
        Some(bytes) => disk.truncate(&name, bytes),
        None => disk.remove(&name),
    };
    let what = format!("cutting {}", disk.path(&name).display());
    done.and_then(|()| disk.sync_dir()).map_err(Error::io(what))
}
