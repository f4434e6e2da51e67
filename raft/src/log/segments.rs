//! Which records are alive, and in which segment.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::GroupId;

/// File name of a segment; the order of names is the order of segments.
pub(crate) fn file_name(sequence: u64) -> String {
    format!("{sequence:016x}.log")
}

pub(super) fn sequence_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log")?;
    if digits.len() == 16 { u64::from_str_radix(digits, 16).ok() } else { None }
}

/// Where one living record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) sequence: u64,
    pub(super) bytes: u64,
}

#[derive(Default)]
struct Alive {
    first_index: u64,
    entries: VecDeque<Place>,
    vote: Option<Place>,
    purge: Option<Place>,
    committed: Option<Place>,
}

#[derive(Default)]
struct Segment {
    bytes: u64,
    alive_bytes: u64,
    alive_records: u64,
}

/// The account of all segments. The newest is the one being written.
#[derive(Default)]
pub(super) struct Segments {
    segments: BTreeMap<u64, Segment>,
    groups: HashMap<GroupId, Alive>,
}

impl Segments {
    pub(super) fn open(&mut self, sequence: u64, bytes: u64) {
        self.segments.insert(sequence, Segment { bytes, ..Segment::default() });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub(super) fn grow(&mut self, sequence: u64, bytes: u64) {
        self.segments.entry(sequence).or_default().bytes += bytes;
    }

    pub(super) fn bytes_of(&self, sequence: u64) -> u64 {
        self.segments.get(&sequence).map_or(0, |segment| segment.bytes)
    }

    pub(super) fn entry(&mut self, group: GroupId, index: u64, place: Place) {
        self.truncate_from(group, index);
        let alive = self.groups.entry(group).or_default();
        if alive.entries.is_empty() {
            alive.first_index = index;
        }
        alive.entries.push_back(place);
        self.born(place);
    }

    /// An entry moves to another place; it must be alive.
    pub(super) fn kept(&mut self, group: GroupId, index: u64, place: Place) {
        let Some(slot) = self.groups.get_mut(&group).and_then(|alive| alive.slot(index)) else {
            return;
        };
        let old = std::mem::replace(slot, place);
        self.died(old);
        self.born(place);
    }

    pub(super) fn vote(&mut self, group: GroupId, place: Place) {
        let old = self.groups.entry(group).or_default().vote.replace(place);
        self.replaced(old, place);
    }

    pub(super) fn committed(&mut self, group: GroupId, place: Place) {
        let alive = self.groups.entry(group).or_default();
        let old = alive.committed.replace(place);
        self.replaced(old, place);
    }

    pub(super) fn truncate_from(&mut self, group: GroupId, index: u64) {
        let Some(alive) = self.groups.get_mut(&group) else {
            return;
        };
        let keep = usize::try_from(index.saturating_sub(alive.first_index)).unwrap_or(usize::MAX);
        let dead: Vec<Place> = alive.entries.drain(keep.min(alive.entries.len())..).collect();
        dead.into_iter().for_each(|place| self.died(place));
    }

    pub(super) fn purge(&mut self, group: GroupId, upto: u64, place: Place) {
        let alive = self.groups.entry(group).or_default();
        let drop = usize::try_from((upto + 1).saturating_sub(alive.first_index)).unwrap_or(usize::MAX);
        let dead: Vec<Place> = alive.entries.drain(..drop.min(alive.entries.len())).collect();
        alive.first_index = alive.first_index.max(upto + 1);
        let old = alive.purge.replace(place);
        dead.into_iter().for_each(|place| self.died(place));
        self.replaced(old, place);
    }

    pub(super) fn remove(&mut self, group: GroupId) {
        let Some(alive) = self.groups.remove(&group) else {
            return;
        };
        alive
            .entries
            .into_iter()
            .chain(alive.vote)
            .chain(alive.purge)
            .chain(alive.committed)
            .for_each(|place| self.died(place));
    }

    /// The oldest segment, if it is not the one being written and nothing in it is alive.
    pub(super) fn dead_oldest(&self) -> Option<u64> {
        let (sequence, segment) = self.segments.first_key_value()?;
        (self.segments.len() > 1 && segment.alive_records == 0).then_some(*sequence)
    }

    /// The oldest segment, when dead bytes outweigh the living so far that copying it forward pays. Dead bytes between
    /// two copies are at least twice what is copied, so every byte is copied a bounded number of times.
    pub(super) fn worth_copying(&self, segment_bytes: u64) -> Option<u64> {
        let (sequence, _) = self.segments.first_key_value()?;
        let total: u64 = self.segments.values().map(|segment| segment.bytes).sum();
        let alive: u64 = self.segments.values().map(|segment| segment.alive_bytes).sum();
        (self.segments.len() > 2 && total > 2 * alive + 2 * segment_bytes).then_some(*sequence)
    }

    pub(super) fn forget(&mut self, sequence: u64) {
        self.segments.remove(&sequence);
    }

    pub(super) fn entry_is_in(&self, group: GroupId, index: u64, sequence: u64) -> bool {
        let Some(alive) = self.groups.get(&group) else {
            return false;
        };
        let Some(at) = index.checked_sub(alive.first_index) else {
            return false;
        };
        usize::try_from(at).ok().and_then(|at| alive.entries.get(at)).is_some_and(|place| place.sequence == sequence)
    }

    pub(super) fn vote_is_in(&self, group: GroupId, sequence: u64) -> bool {
        self.groups.get(&group).and_then(|alive| alive.vote).is_some_and(|place| place.sequence == sequence)
    }

    pub(super) fn purge_is_in(&self, group: GroupId, sequence: u64) -> bool {
        self.groups.get(&group).and_then(|alive| alive.purge).is_some_and(|place| place.sequence == sequence)
    }

    pub(super) fn committed_is_in(&self, group: GroupId, sequence: u64) -> bool {
        self.groups.get(&group).and_then(|alive| alive.committed).is_some_and(|place| place.sequence == sequence)
    }

    fn replaced(&mut self, old: Option<Place>, new: Place) {
        if let Some(old) = old {
            self.died(old);
        }
        self.born(new);
    }

    fn born(&mut self, place: Place) {
        let segment = self.segments.entry(place.sequence).or_default();
        segment.alive_bytes += place.bytes;
        segment.alive_records += 1;
    }

    fn died(&mut self, place: Place) {
        if let Some(segment) = self.segments.get_mut(&place.sequence) {
            segment.alive_bytes -= place.bytes;
            segment.alive_records -= 1;
        }
    }
}

impl Alive {
    fn slot(&mut self, index: u64) -> Option<&mut Place> {
        let at = usize::try_from(index.checked_sub(self.first_index)?).ok()?;
        self.entries.get_mut(at)
    }
}
