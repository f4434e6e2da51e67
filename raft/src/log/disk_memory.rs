//! A disk that forgets what was not synced.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::disk::{Disk, DiskFile};

#[derive(Clone, Default, Debug)]
struct FileState {
    content: Vec<u8>,
    synced: usize,
}

#[derive(Default)]
struct DiskState {
    files: BTreeMap<String, FileState>,
    /// The directory as of its last sync.
    durable: BTreeMap<String, FileState>,
    /// Bytes that may still be written before the disk is full.
    room: Option<usize>,
    syncs_fail: bool,
    syncs_wait: bool,
}

#[derive(Clone, Default)]
pub(crate) struct MemoryDisk(Arc<Mutex<DiskState>>);

impl MemoryDisk {
    /// The disk after a power cut. Of every file, `keep(unsynced bytes)` bytes of the unsynced end survive; files
    /// whose creation or removal was not synced are as before it.
    pub(crate) fn crash(&self, mut keep: impl FnMut(usize) -> usize) -> MemoryDisk {
        let state = self.0.lock().unwrap();
        let mut files = BTreeMap::new();
        for (name, before) in &state.durable {
            let mut file = state.files.get(name).unwrap_or(before).clone();
            let unsynced = file.content.len() - file.synced;
            file.content.truncate(file.synced + keep(unsynced).min(unsynced));
            file.synced = file.content.len();
            files.insert(name.clone(), file);
        }
        MemoryDisk(Arc::new(Mutex::new(DiskState { durable: files.clone(), files, ..DiskState::default() })))
    }
}

#[cfg(test)]
impl MemoryDisk {
    pub(crate) fn fill_after(&self, bytes: usize) {
        self.0.lock().unwrap().room = Some(bytes);
    }

    pub(crate) fn fail_syncs(&self) {
        self.0.lock().unwrap().syncs_fail = true;
    }

    /// While they wait, a sync that was asked for does not end.
    pub(crate) fn hold_syncs(&self, wait: bool) {
        self.0.lock().unwrap().syncs_wait = wait;
    }

    pub(crate) fn total_bytes(&self) -> usize {
        self.0.lock().unwrap().files.values().map(|file| file.content.len()).sum()
    }

    pub(crate) fn newest(&self) -> String {
        self.0.lock().unwrap().files.keys().next_back().expect("a log has a segment").clone()
    }

    pub(crate) fn edit(&self, name: &str, edit: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.0.lock().unwrap();
        let file = state.files.get_mut(name).expect("an existing file");
        edit(&mut file.content);
        file.synced = file.content.len();
        let file = file.clone();
        state.durable.insert(name.to_owned(), file);
    }
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Disk for MemoryDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.0.lock().unwrap().files.keys().cloned().collect())
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.0.lock().unwrap().files.get(name).map(|file| file.content.clone()).ok_or_else(missing)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.0.lock().unwrap().files.insert(name.to_owned(), FileState::default());
        Ok(Box::new(MemoryFile { disk: self.clone(), name: name.to_owned() }))
    }

    fn truncate(&self, name: &str, len: u64) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        let file = state.files.get_mut(name).ok_or_else(missing)?;
        file.content.truncate(len as usize);
        file.synced = file.content.len();
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.lock().unwrap().files.remove(name).map(drop).ok_or_else(missing)
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        state.durable = state.files.clone();
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from("memory").join(name)
    }
}

struct MemoryFile {
    disk: MemoryDisk,
    name: String,
}

impl DiskFile for MemoryFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.0.lock().unwrap();
        let written = bytes.len().min(state.room.unwrap_or(usize::MAX));
        if let Some(room) = &mut state.room {
            *room -= written;
        }
        let file = state.files.get_mut(&self.name).ok_or_else(missing)?;
        file.content.extend_from_slice(&bytes[..written]);
        if written < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync(&mut self) -> io::Result<()> {
        while self.disk.0.lock().unwrap().syncs_wait {
            std::thread::yield_now();
        }
        let mut state = self.disk.0.lock().unwrap();
        if state.syncs_fail {
            return Err(io::Error::other("the disk does not sync"));
        }
        let file = state.files.get_mut(&self.name).ok_or_else(missing)?;
        file.synced = file.content.len();
        Ok(())
    }
}
