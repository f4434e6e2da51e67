//! The door to the file system, so that tests can pull the plug.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One directory of append-only files.
///
/// What a crash may take: bytes appended since the file's last `sync`, and creations and removals since the last
/// `sync_dir`. What it never takes: anything else.
pub(crate) trait Disk: Send + Sync + 'static {
    fn list(&self) -> io::Result<Vec<String>>;
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;
    /// A new, empty file; an old one of that name is replaced.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Cuts the file and makes its content durable, also what an earlier process left unsynced.
    fn truncate(&self, name: &str, len: u64) -> io::Result<()>;
    fn remove(&self, name: &str) -> io::Result<()>;
    fn sync_dir(&self) -> io::Result<()>;
    /// For messages.
    fn path(&self, name: &str) -> PathBuf;
}

pub(crate) trait DiskFile: Send {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    fn sync(&mut self) -> io::Result<()>;
}

/// The disk a node's log is on.
pub(crate) fn open_disk(dir: &Path) -> io::Result<Arc<dyn Disk>> {
    #[cfg(feature = "simulation")]
    return Ok(Arc::new(crate::simulation::disk(dir)));
    #[cfg(not(feature = "simulation"))]
    Ok(Arc::new(FileDisk::open(dir)?))
}

pub(crate) struct FileDisk {
    dir: PathBuf,
}

impl FileDisk {
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        Ok(FileDisk { dir: dir.to_owned() })
    }
}

impl Disk for FileDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        fs::read_dir(&self.dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.dir.join(name))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(File::create(self.dir.join(name))?))
    }

    fn truncate(&self, name: &str, len: u64) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(self.dir.join(name))?;
        if file.metadata()?.len() != len {
            file.set_len(len)?;
        }
        file.sync_all()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.dir.join(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

impl DiskFile for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}
