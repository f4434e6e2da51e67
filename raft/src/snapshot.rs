//! The newest snapshot of each group on the local disk, so that a restart needs nobody else.
//!
//! A file is written under a temporary name, synced, renamed, and the directory synced; older ones go afterwards.
//! Format version 1: `magic "MPSN" | version u16 | head length u32 | head crc32 u32 | head | state machine's bytes`.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::codec::{self, Malformed};
use crate::types::SnapshotMeta;
use crate::{Error, GroupId};

const MAGIC: &[u8; 4] = b"MPSN";
const VERSION: u16 = 1;
const FIXED_BYTES: usize = 14;

/// A snapshot on disk.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotFile {
    pub(crate) meta: SnapshotMeta,
    pub(crate) path: PathBuf,
    /// Of the state machine's bytes.
    pub(crate) bytes_len: u64,
    pub(crate) crc: u32,
}

/// What openraft hands around as a snapshot. `bytes` are in hand when they have just been fetched.
#[derive(Clone, Debug)]
pub struct SnapshotData {
    pub(crate) file: Arc<SnapshotFile>,
    pub(crate) bytes: Option<Bytes>,
}

/// The newest snapshot of one group; shared by the applier, the scheduler and the network.
#[derive(Clone, Debug, Default)]
pub(crate) struct Newest(Arc<NewestState>);

#[derive(Debug, Default)]
struct NewestState {
    file: Mutex<Option<Arc<SnapshotFile>>>,
    /// Held while the disk is changed, so that those who only look need not wait for it.
    adopting: Mutex<()>,
}

impl Newest {
    pub(crate) fn get(&self) -> Option<Arc<SnapshotFile>> {
        lock(&self.0.file).clone()
    }

    /// What a restart has found.
    pub(crate) fn set(&self, file: Arc<SnapshotFile>) {
        *lock(&self.0.file) = Some(file);
    }

    /// Makes a prepared file the newest, on disk and here, unless there is a newer one by now: a slow writer must not
    /// take the place of what was installed meanwhile. Answers the newest. Blocks.
    pub(crate) fn adopt(
        &self,
        dir: &SnapshotDir,
        group: GroupId,
        prepared: &SnapshotFile,
    ) -> io::Result<Arc<SnapshotFile>> {
        let _one_at_a_time = lock(&self.0.adopting);
        if let Some(newest) = self.get()
            && newest.meta.last_log_id >= prepared.meta.last_log_id
        {
            if newest.path != prepared.path {
                fs::remove_file(&prepared.path)?;
            }
            return Ok(newest);
        }
        let adopted = Arc::new(dir.adopt(group, prepared)?);
        self.set(adopted.clone());
        Ok(adopted)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every update leaves the value whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The directory of all groups' snapshots. Its calls block.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotDir {
    dir: Arc<PathBuf>,
    next_temporary: Arc<AtomicU64>,
}

impl SnapshotDir {
    /// Leftovers of an interrupted write are removed.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "tmp") {
                fs::remove_file(path)?;
            }
        }
        Ok(SnapshotDir { dir: Arc::new(dir.to_owned()), next_temporary: Arc::default() })
    }

    fn final_path(&self, group: GroupId, meta: &SnapshotMeta) -> PathBuf {
        let (index, term) = meta.last_log_id.map_or((0, 0), |id| (id.index, crate::types::term_of(&id)));
        self.dir.join(format!("{group:08x}-{index:016x}-{term:016x}.snap"))
    }

    /// Writes and syncs a file that is not the group's newest yet: [`Newest::adopt`] makes it so.
    pub(crate) fn prepare(&self, group: GroupId, meta: &SnapshotMeta, bytes: &[u8]) -> io::Result<SnapshotFile> {
        let nth = self.next_temporary.fetch_add(1, Ordering::Relaxed);
        let path = self.dir.join(format!("{group:08x}-{nth}.tmp"));
        let crc = crc32fast::hash(bytes);
        let mut head = Vec::new();
        codec::put_varint(&mut head, group.into());
        codec::put_log_id_option(&mut head, &meta.last_log_id);
        codec::put_stored_membership(&mut head, &meta.last_membership);
        codec::put_varint(&mut head, bytes.len() as u64);
        codec::put_varint(&mut head, crc.into());
        let mut front = MAGIC.to_vec();
        front.extend_from_slice(&VERSION.to_le_bytes());
        front.extend_from_slice(&(head.len() as u32).to_le_bytes());
        front.extend_from_slice(&crc32fast::hash(&head).to_le_bytes());
        front.extend_from_slice(&head);
        let write = || {
            let mut file = File::create(&path)?;
            file.write_all(&front)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        if let Err(why) = write() {
            // Nothing refers to the file; if it cannot be removed now, the next start does.
            let _ = fs::remove_file(&path);
            return Err(why);
        }
        Ok(SnapshotFile { meta: meta.clone(), path, bytes_len: bytes.len() as u64, crc })
    }

    /// Makes a prepared file the newest of the group and removes the older ones.
    fn adopt(&self, group: GroupId, prepared: &SnapshotFile) -> io::Result<SnapshotFile> {
        let path = self.final_path(group, &prepared.meta);
        if path != prepared.path {
            fs::rename(&prepared.path, &path)?;
            File::open(&*self.dir)?.sync_all()?;
        }
        for old in self.files_of(group)? {
            if old != path {
                fs::remove_file(old)?;
            }
        }
        Ok(SnapshotFile { path, ..prepared.clone() })
    }

    /// Files of a group, oldest first.
    fn files_of(&self, group: GroupId) -> io::Result<Vec<PathBuf>> {
        let prefix = format!("{group:08x}-");
        let mut files = Vec::new();
        for entry in fs::read_dir(&*self.dir)? {
            let path = entry?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if name.starts_with(&prefix) && name.ends_with(".snap") {
                files.push(path);
            }
        }
        files.sort_unstable();
        Ok(files)
    }

    /// The newest snapshot of a group, fully checked, with its bytes.
    pub(crate) fn newest(&self, group: GroupId) -> Result<Option<(SnapshotFile, Bytes)>, Error> {
        let files = self.files_of(group).map_err(Error::io("listing snapshots"))?;
        let Some(path) = files.into_iter().next_back() else {
            return Ok(None);
        };
        load(&path, Some(group)).map(Some)
    }

    pub(crate) fn remove_group(&self, group: GroupId) -> io::Result<()> {
        for path in self.files_of(group)? {
            fs::remove_file(path)?;
        }
        File::open(&*self.dir)?.sync_all()
    }

    pub(crate) fn contains(&self, file: &SnapshotFile) -> bool {
        file.path.parent() == Some(self.dir.as_path())
    }
}

/// Reads a snapshot file back and checks everything in it.
pub(crate) fn load(path: &Path, group: Option<GroupId>) -> Result<(SnapshotFile, Bytes), Error> {
    let file = fs::read(path).map(Bytes::from).map_err(Error::io(format!("reading {}", path.display())))?;
    let damaged = |position: usize, why: &str| Error::Damaged {
        file: path.to_owned(),
        position: position as u64,
        why: why.to_owned(),
    };
    if file.len() < FIXED_BYTES || &file[..4] != MAGIC {
        return Err(damaged(0, "not a snapshot"));
    }
    if file[4..6] != VERSION.to_le_bytes() {
        return Err(damaged(4, "unknown format version"));
    }
    let number = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four bytes"));
    let body_at = FIXED_BYTES + number(6) as usize;
    if body_at > file.len() {
        return Err(damaged(6, "shorter than its head"));
    }
    let head = file.slice(FIXED_BYTES..body_at);
    if crc32fast::hash(&head) != number(10) {
        return Err(damaged(FIXED_BYTES, "wrong checksum of the head"));
    }
    let parsed = parse_head(head).map_err(|_| damaged(FIXED_BYTES, "malformed head"))?;
    let bytes = file.slice(body_at..);
    if group.is_some_and(|group| group != parsed.group) {
        return Err(damaged(FIXED_BYTES, "snapshot of another group"));
    }
    if bytes.len() as u64 != parsed.bytes_len || crc32fast::hash(&bytes) != parsed.crc {
        return Err(damaged(body_at, "wrong length or checksum of the state"));
    }
    let file = SnapshotFile { meta: parsed.meta, path: path.to_owned(), bytes_len: parsed.bytes_len, crc: parsed.crc };
    Ok((file, bytes))
}

pub(crate) struct Head {
    group: GroupId,
    meta: SnapshotMeta,
    bytes_len: u64,
    crc: u32,
}

pub(crate) fn parse_head(mut head: Bytes) -> Result<Head, Malformed> {
    let group = codec::take_u32(&mut head)?;
    let last_log_id = codec::take_log_id_option(&mut head)?;
    let last_membership = codec::take_stored_membership(&mut head)?;
    let meta = SnapshotMeta { last_log_id, last_membership };
    let parsed = Head { group, meta, bytes_len: codec::take_varint(&mut head)?, crc: codec::take_u32(&mut head)? };
    codec::end(&head)?;
    Ok(parsed)
}

#[cfg(test)]
#[path = "snapshot_test.rs"]
mod tests;
