//! What is still alive in the oldest segment is written again into the newest.

use std::collections::{BTreeMap, HashMap};
use std::io;

use bytes::Bytes;

use super::record::{self, Record, SegmentHead, Step};
use super::segments::{Place, file_name};
use super::writer::{WRITE_BYTES_MAX, Writer};
use crate::GroupId;

impl Writer {
    pub(super) fn copy_forward(&mut self, sequence: u64) -> io::Result<()> {
        let alive = self.alive_records(sequence)?;
        let mut chunk = Vec::new();
        let mut moved: Vec<(GroupId, Record, u64)> = Vec::new();
        for (group, record) in alive {
            let bytes = record.encode(group, &mut chunk);
            moved.push((group, record, bytes));
            if chunk.len() >= WRITE_BYTES_MAX {
                self.write_copies(&mut chunk, &mut moved)?;
            }
        }
        self.write_copies(&mut chunk, &mut moved)
    }

    fn write_copies(&mut self, chunk: &mut Vec<u8>, moved: &mut Vec<(GroupId, Record, u64)>) -> io::Result<()> {
        self.roll_before(chunk.len() as u64)?;
        self.file.append(chunk)?;
        self.unsynced = true;
        self.sync()?;
        self.segments.grow(self.sequence, chunk.len() as u64);
        chunk.clear();
        for (group, record, bytes) in moved.drain(..) {
            let place = Place { sequence: self.sequence, bytes };
            match record {
                Record::Kept(entry) => self.segments.kept(group, entry.log_id.index, place),
                Record::Vote(_) => self.segments.vote(group, place),
                Record::Purge(id) => self.segments.purge(group, id.index, place),
                Record::Committed(_) => self.segments.committed(group, place),
                _ => {}
            }
        }
        Ok(())
    }

    /// The living records of a closed segment, ready to be written again. Of several records for the same thing the
    /// last one counts.
    fn alive_records(&self, sequence: u64) -> io::Result<Vec<(GroupId, Record)>> {
        let name = file_name(sequence);
        let file = Bytes::from(self.disk.read(&name)?);
        let damaged = |at: u64| {
            let path = self.disk.path(&name);
            io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged at byte {at}", path.display()))
        };
        let SegmentHead::Valid { bytes: mut at, .. } = record::decode_segment_head(&file) else {
            return Err(damaged(0));
        };
        let mut entries = BTreeMap::new();
        let mut votes = HashMap::new();
        let mut purges = HashMap::new();
        let mut commits = HashMap::new();
        loop {
            match record::step(&file, at as usize) {
                Step::Record { group, record, bytes } => {
                    at += bytes;
                    match record {
                        Record::Entry(entry) | Record::Kept(entry)
                            if self.segments.entry_is_in(group, entry.log_id.index, sequence) =>
                        {
                            entries.insert((group, entry.log_id.index), Record::Kept(entry));
                        }
                        Record::Vote(_) if self.segments.vote_is_in(group, sequence) => {
                            votes.insert(group, record);
                        }
                        Record::Purge(_) if self.segments.purge_is_in(group, sequence) => {
                            purges.insert(group, record);
                        }
                        Record::Committed(_) if self.segments.committed_is_in(group, sequence) => {
                            commits.insert(group, record);
                        }
                        _ => {}
                    }
                }
                Step::End => break,
                Step::Torn | Step::Damaged(_) => return Err(damaged(at)),
            }
        }
        let entries = entries.into_iter().map(|((group, _), record)| (group, record));
        let alive = purges.into_iter().chain(votes).chain(entries);
        // Behind the entries they speak of, as everywhere in the log.
        Ok(alive.chain(commits).collect())
    }
}
