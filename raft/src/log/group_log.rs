//! One group's part of the log: openraft's log storage, served from memory.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::{LogState, OptionalSend, RaftLogReader};
use tokio::sync::oneshot;

use super::record::Record;
use super::recover::GroupState;
use super::writer::{Change, Log, Op};
use crate::GroupId;
use crate::apply::ErasedMachine;
use crate::codec::payload_bytes;
use crate::types::{Entry, EntryPayload, LogId, TypeConfig, Vote};

/// One message to a follower carries about this much, or a single entry.
const READ_BYTES_MAX: u64 = 1 << 20;

/// Cheap clones share the state.
#[derive(Clone)]
pub(crate) struct GroupLog {
    group: GroupId,
    log: Log,
    state: Arc<Mutex<State>>,
    /// Payload bytes appended since the start; the snapshot scheduler compares differences.
    appended_bytes: Arc<AtomicU64>,
    /// Hears of every entry that comes.
    machine: Option<Arc<dyn ErasedMachine>>,
}

struct State {
    vote: Option<Vote>,
    purged: Option<LogId>,
    committed: Option<LogId>,
    /// The newest commit in the queue of the writer, or on disk.
    noted: Option<LogId>,
    entries: VecDeque<Entry>,
}

impl GroupLog {
    pub(crate) fn new(group: GroupId, log: Log, recovered: GroupState) -> Self {
        let entries: VecDeque<Entry> = recovered.entries.into();
        let appended = entries.iter().map(payload_bytes).sum();
        let state = State {
            vote: recovered.vote,
            purged: recovered.purged,
            committed: recovered.committed,
            noted: recovered.committed,
            entries,
        };
        let (state, appended_bytes) = (Arc::new(Mutex::new(state)), Arc::new(AtomicU64::new(appended)));
        GroupLog { group, log, state, appended_bytes, machine: None }
    }

    /// The same log, which tells `machine` of every entry that comes.
    pub(crate) fn telling(self, machine: Arc<dyn ErasedMachine>) -> Self {
        GroupLog { machine: Some(machine), ..self }
    }

    pub(crate) fn appended_bytes(&self) -> u64 {
        self.appended_bytes.load(Ordering::Relaxed)
    }

    /// The last index to purge so that no more than `bytes_max` of payload stay up to `snapshot_index`, if there are.
    pub(crate) fn excess(&self, snapshot_index: u64, bytes_max: u64) -> Option<u64> {
        let state = self.state();
        let behind = state.offset(snapshot_index.saturating_add(1));
        let mut bytes = 0;
        let over = |entry: &&Entry| {
            bytes += payload_bytes(entry);
            bytes > bytes_max
        };
        state.entries.range(..behind).rev().find(over).map(|entry| entry.log_id.index)
    }

    pub(crate) fn purged(&self) -> Option<LogId> {
        self.state().purged
    }

    /// What a replica that opens the group again starts from.
    pub(crate) fn recovered(&self) -> GroupState {
        let state = self.state();
        let entries = state.entries.iter().cloned().collect();
        GroupState { vote: state.vote, purged: state.purged, committed: state.committed, entries }
    }

    /// Makes what is known to be committed durable, so that a clean restart starts from there.
    pub(crate) fn note_committed(&self) {
        let mut encoded = Vec::new();
        let commit_bytes = self.state().encode_commit(self.group, &mut encoded);
        if commit_bytes.is_some() {
            self.log.submit_now(Op { group: self.group, change: Change::Note, commit_bytes, encoded, done: None });
        }
    }

    /// Forgets the group on disk.
    pub(crate) async fn remove(&self) -> io::Result<()> {
        *self.state() = State { vote: None, purged: None, committed: None, noted: None, entries: VecDeque::new() };
        self.write_and_wait(Change::Remove, Record::Remove).await
    }

    async fn write_and_wait(&self, change: Change, record: Record) -> io::Result<()> {
        let mut encoded = Vec::new();
        record.encode(self.group, &mut encoded);
        let (done, durable) = oneshot::channel();
        // The caller may be gone; the record is durable all the same.
        let done = Box::new(move |result| drop(done.send(result)));
        self.log.submit(Op { group: self.group, change, commit_bytes: None, encoded, done: Some(done) }).await;
        durable.await.map_err(|_| io::Error::other("log writer is gone"))?
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every update leaves the state whole, so a panic elsewhere while holding the lock does not matter.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn last(&self) -> Option<LogId> {
        self.entries.back().map(|entry| entry.log_id).or(self.purged)
    }

    /// Position in `entries` of the first entry at or behind `index`.
    fn offset(&self, index: u64) -> usize {
        let first = self.entries.front().map_or(0, |entry| entry.log_id.index);
        usize::try_from(index.saturating_sub(first)).unwrap_or(usize::MAX).min(self.entries.len())
    }

    /// Commits ride along with appends: they need no sync of their own.
    fn encode_commit(&mut self, group: GroupId, out: &mut Vec<u8>) -> Option<u64> {
        let committed = self.committed.filter(|_| self.committed != self.noted)?;
        self.noted = self.committed;
        Some(Record::Committed(committed).encode(group, out))
    }
}

impl RaftLogReader<TypeConfig> for GroupLog {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<Entry>> {
        let state = self.state();
        let start = match range.start_bound() {
            Bound::Included(index) => *index,
            Bound::Excluded(index) => index.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(index) => index.saturating_add(1),
            Bound::Excluded(index) => *index,
            Bound::Unbounded => u64::MAX,
        };
        let (start, end) = (state.offset(start), state.offset(end.max(start)));
        Ok(state.entries.range(start..end).cloned().collect())
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        let state = self.state();
        let (start, end) = (state.offset(start), state.offset(end.max(start)));
        let mut bytes = 0;
        let within = |entry: &&Entry| {
            let first = bytes == 0;
            bytes += payload_bytes(entry) + 1;
            first || bytes <= READ_BYTES_MAX
        };
        Ok(state.entries.range(start..end).take_while(within).cloned().collect())
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.state().vote)
    }
}

impl RaftLogStorage<TypeConfig> for GroupLog {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<TypeConfig>> {
        let state = self.state();
        Ok(LogState { last_purged_log_id: state.purged, last_log_id: state.last() })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        self.state().vote = Some(*vote);
        self.write_and_wait(Change::Vote, Record::Vote(*vote)).await
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        self.state().committed = committed;
        Ok(())
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        Ok(self.state().committed)
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut encoded = Vec::new();
        let mut places = Vec::new();
        let mut payloads = Vec::new();
        let commit_bytes = {
            let mut state = self.state();
            for entry in entries {
                let index = entry.log_id.index;
                if state.last().is_some_and(|last| index > last.index + 1) {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidInput,
                        format!("append leaves a hole at {index}"),
                    ));
                }
                let keep = state.offset(index);
                state.entries.truncate(keep);
                self.appended_bytes.fetch_add(payload_bytes(&entry), Ordering::Relaxed);
                let record = Record::Entry(entry);
                places.push((index, record.encode(self.group, &mut encoded)));
                if let Record::Entry(entry) = record {
                    if let EntryPayload::Normal(payload) = &entry.payload {
                        payloads.push(payload.0.clone());
                    }
                    state.entries.push_back(entry);
                }
            }
            state.encode_commit(self.group, &mut encoded)
        };
        let done = Box::new(move |result| callback.io_completed(result));
        self.log
            .submit(Op { group: self.group, change: Change::Entries(places), commit_bytes, encoded, done: Some(done) })
            .await;
        // The entries are on their way to the disk by now: what the machine does takes no time from them.
        if let Some(machine) = &self.machine {
            payloads.iter().for_each(|payload| machine.appended(payload));
        }
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let from = last.map_or(0, |id| id.index + 1);
        {
            let mut state = self.state();
            let keep = state.offset(from);
            state.entries.truncate(keep);
        }
        let mut encoded = Vec::new();
        Record::TruncateAfter(last).encode(self.group, &mut encoded);
        self.log.submit_now(Op {
            group: self.group,
            change: Change::TruncateFrom(from),
            commit_bytes: None,
            encoded,
            done: None,
        });
        Ok(())
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        {
            let mut state = self.state();
            let drop = state.offset(upto.index + 1);
            state.entries.drain(..drop);
            state.purged = Some(upto);
        }
        let mut encoded = Vec::new();
        Record::Purge(upto).encode(self.group, &mut encoded);
        self.log.submit_now(Op {
            group: self.group,
            change: Change::Purge(upto.index),
            commit_bytes: None,
            encoded,
            done: None,
        });
        Ok(())
    }
}
