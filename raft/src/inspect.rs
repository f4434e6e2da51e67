//! Reads the log of a stopped or running node without writing, for people.

use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::codec;
use crate::log::disk::{Disk, FileDisk};
use crate::log::record::{self, Record, SegmentHead, Step};
use crate::log::{file_name, list};
use crate::types::{Entry, EntryPayload, term_of};
use crate::{Error, GroupId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    Blank,
    Membership,
    Normal,
}

/// One entry as it is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectedEntry {
    pub group: GroupId,
    pub index: u64,
    pub term: u64,
    pub kind: EntryKind,
    /// The application's payload; of a membership, its encoding.
    pub payload: Bytes,
    /// Record head and end included.
    pub bytes_on_disk: u64,
}

/// Every entry on disk in file order: also those that were truncated or purged later and whose file is still there, and
/// those copied forward a second time. Ends quietly at the torn end a crash leaves, or where a running node writes.
///
/// # Errors
/// [`Error::Io`]; an item [`Error::Damaged`] names file and byte and is the last of its file.
pub fn entries(data_dir: &Path) -> Result<impl Iterator<Item = Result<InspectedEntry, Error>>, Error> {
    let dir = data_dir.join("log");
    if !dir.is_dir() {
        let source = std::io::ErrorKind::NotFound.into();
        return Err(Error::Io { what: format!("reading {}", dir.display()), source });
    }
    let disk = FileDisk::open(&dir).map_err(Error::io(format!("reading {}", dir.display())))?;
    let sequences = list(&disk)?;
    let newest = sequences.last().copied();
    Ok(sequences.into_iter().flat_map(move |sequence| {
        let name = file_name(sequence);
        let path = disk.path(&name);
        match disk.read(&name) {
            Ok(bytes) => Segment::open(path, bytes.into(), Some(sequence) == newest),
            // A running node has deleted it in between.
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => Segment::over(path),
            Err(why) => Segment::failed(path.clone(), Error::io(format!("reading {}", path.display()))(why)),
        }
    }))
}

/// The entries of one segment.
struct Segment {
    path: PathBuf,
    bytes: Bytes,
    at: usize,
    last: bool,
    /// Given out next, and last.
    error: Option<Error>,
}

impl Segment {
    fn over(path: PathBuf) -> Self {
        Segment { path, bytes: Bytes::new(), at: 0, last: true, error: None }
    }

    fn failed(path: PathBuf, error: Error) -> Self {
        Segment { error: Some(error), ..Segment::over(path) }
    }

    fn open(path: PathBuf, bytes: Bytes, last: bool) -> Self {
        match record::decode_segment_head(&bytes) {
            SegmentHead::Valid { bytes: head, .. } => Segment { path, bytes, at: head as usize, last, error: None },
            SegmentHead::Torn if last => Segment::over(path),
            SegmentHead::Torn => Segment::failed(path.clone(), damaged(path, 0, "the head of the segment is torn")),
            SegmentHead::Damaged(why) => Segment::failed(path.clone(), damaged(path, 0, why)),
        }
    }

    fn fail(&mut self, why: &str) -> Option<Result<InspectedEntry, Error>> {
        let error = damaged(self.path.clone(), self.at as u64, why);
        self.at = self.bytes.len();
        Some(Err(error))
    }
}

fn damaged(file: PathBuf, position: u64, why: &str) -> Error {
    Error::Damaged { file, position, why: why.to_owned() }
}

impl Iterator for Segment {
    type Item = Result<InspectedEntry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.error.take() {
            return Some(Err(error));
        }
        loop {
            match record::step(&self.bytes, self.at) {
                Step::Record { group, record, bytes } => {
                    self.at += bytes as usize;
                    if let Record::Entry(entry) | Record::Kept(entry) = record {
                        return Some(Ok(describe(group, entry, bytes)));
                    }
                }
                Step::End => return None,
                Step::Torn if self.last => return None,
                Step::Torn => return self.fail("a closed segment ends in the middle of a record"),
                Step::Damaged(why) => return self.fail(why),
            }
        }
    }
}

fn describe(group: GroupId, entry: Entry, bytes_on_disk: u64) -> InspectedEntry {
    let (kind, payload) = match &entry.payload {
        EntryPayload::Blank => (EntryKind::Blank, Bytes::new()),
        EntryPayload::Normal(payload) => (EntryKind::Normal, payload.0.clone()),
        EntryPayload::Membership(membership) => {
            let mut bytes = Vec::new();
            codec::put_membership(&mut bytes, membership);
            (EntryKind::Membership, bytes.into())
        }
    };
    InspectedEntry { group, index: entry.log_id.index, term: term_of(&entry.log_id), kind, payload, bytes_on_disk }
}
