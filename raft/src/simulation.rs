//! What a simulated cluster runs on instead of files and threads. One process simulates one cluster.
//!
//! Only the log's disk is simulated: it alone is written without being synced at once. Everything else in a data
//! directory is synced before anybody relies on it, and lies in real files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::log::disk_memory::MemoryDisk;

/// What a sync of the log takes.
pub(crate) const SYNC_TIME: Duration = Duration::from_millis(4);

static DISKS: Mutex<BTreeMap<PathBuf, MemoryDisk>> = Mutex::new(BTreeMap::new());

fn disks() -> MutexGuard<'static, BTreeMap<PathBuf, MemoryDisk>> {
    // Every update leaves the map whole.
    DISKS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn disk(dir: &Path) -> MemoryDisk {
    disks().entry(dir.to_owned()).or_default().clone()
}

/// Cuts the power of every disk below `dir`: `keep(bytes)` says how many of the unsynced bytes at the end of a file
/// survive. What still runs on the old disk writes into the void.
pub fn cut_power(dir: &Path, mut keep: impl FnMut(usize) -> usize) {
    for (_, disk) in disks().iter_mut().filter(|(path, _)| path.starts_with(dir)) {
        *disk = disk.crash(&mut keep);
    }
}

/// Replaces every disk below `dir` by an empty one.
pub fn empty(dir: &Path) {
    disks().retain(|path, _| !path.starts_with(dir));
}
