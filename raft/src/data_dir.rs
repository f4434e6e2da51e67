//! A node's directory: `lock`, `log/` and `snapshots/`.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::path::Path;

use crate::log::disk::open_disk;
use crate::log::{GroupState, Log, LogConfig, recover};
use crate::snapshot::SnapshotDir;
use crate::{Config, Error, GroupId, Identity};

type Opened = (Log, SnapshotDir, BTreeMap<GroupId, GroupState>);

pub(crate) fn open_data_dir(config: &Config, identity: &Identity) -> Result<Opened, Error> {
    let lock = lock_dir(&config.data_dir)?;
    let log_dir = config.data_dir.join("log");
    let disk = open_disk(&log_dir).map_err(Error::io(format!("opening {}", log_dir.display())))?;
    let recovered = recover(&*disk, identity)?;
    if config.must_exist && recovered.is_new() {
        return Err(Error::LogMissing(log_dir));
    }
    let groups = recovered.groups.clone();
    let log_config = LogConfig {
        identity: identity.clone(),
        segment_bytes: config.segment_bytes,
        queue_bytes_max: config.log_queue_bytes_max,
    };
    let log = Log::start(disk, log_config, recovered, Box::new(lock))?;
    let snapshot_dir = config.data_dir.join("snapshots");
    let what = format!("opening {}", snapshot_dir.display());
    let snapshots = SnapshotDir::open(&snapshot_dir).map_err(Error::io(what))?;
    Ok((log, snapshots, groups))
}

/// The file is locked for as long as it is open.
fn lock_dir(dir: &Path) -> Result<File, Error> {
    let what = || format!("locking {}", dir.display());
    std::fs::create_dir_all(dir).map_err(Error::io(what()))?;
    let file = File::options().create(true).truncate(false).write(true).open(dir.join("lock"));
    let file = file.map_err(Error::io(what()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Locked(dir.to_owned())),
        Err(TryLockError::Error(why)) => Err(Error::io(what())(why)),
    }
}
