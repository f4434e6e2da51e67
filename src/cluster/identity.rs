//! Who this data directory is. Written before anything else happens, so that a crash at any moment leaves a directory
//! that either is nobody yet or is the same node again.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use milepost_raft::NodeId;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    pub cluster_id: String,
    /// Raised when a cluster is restored into its bucket; part of every object key.
    pub incarnation: u32,
    /// A random name of this directory: an emptied directory is another one.
    pub directory: String,
    pub node_id: NodeId,
    /// This directory's node was the first of its cluster.
    pub founder: bool,
    /// Its Raft log exists: from now on an empty one has forgotten votes and entries, and must not be used.
    pub started: bool,
    /// How often it was started.
    #[serde(default)]
    pub lives: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is damaged ({why}); restore it, or empty the data directory to come back as a new node", path.display())]
    Damaged { path: PathBuf, why: String },
}

impl Identity {
    pub fn new_directory() -> String {
        Uuid::new_v4().to_string()
    }

    pub fn load(data_dir: &Path) -> Result<Option<Identity>, IdentityError> {
        let path = path_in(data_dir);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|e| IdentityError::Damaged { path, why: e.to_string() }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(IdentityError::Io { path, source }),
        }
    }

    /// Durable when it returns: written aside, synced, renamed, and the directory synced.
    pub fn store(&self, data_dir: &Path) -> Result<(), IdentityError> {
        let path = path_in(data_dir);
        let write = || -> io::Result<()> {
            fs::create_dir_all(data_dir)?;
            let aside = path.with_extension("json.new");
            let mut file = File::create(&aside)?;
            file.write_all(&serde_json::to_vec_pretty(self)?)?;
            file.sync_all()?;
            fs::rename(&aside, &path)?;
            File::open(data_dir)?.sync_all()
        };
        write().map_err(|source| IdentityError::Io { path: path.clone(), source })
    }

    /// Marks it as started, once more. Nothing is registered under a life before it is on disk.
    ///
    /// # Errors
    /// As for [`Identity::store`].
    pub fn begin_life(&mut self, data_dir: &Path) -> Result<(), IdentityError> {
        self.started = true;
        self.lives += 1;
        self.store(data_dir)
    }

    /// Takes back an identity that lost the race for the bucket. Nothing was ever done under it.
    pub fn forget(data_dir: &Path) -> Result<(), IdentityError> {
        let path = path_in(data_dir);
        fs::remove_file(&path).map_err(|source| IdentityError::Io { path, source })
    }
}

fn path_in(data_dir: &Path) -> PathBuf {
    data_dir.join("node.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back_as_stored_and_refuses_damage() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Identity::load(dir.path()).unwrap(), None);
        let mut identity = Identity {
            cluster_id: "c".into(),
            incarnation: 1,
            directory: Identity::new_directory(),
            node_id: 3,
            founder: false,
            started: false,
            lives: 0,
        };
        identity.store(dir.path()).unwrap();
        identity.begin_life(dir.path()).unwrap();
        identity.begin_life(dir.path()).unwrap();
        assert_eq!((identity.started, identity.lives), (true, 2));
        assert_eq!(Identity::load(dir.path()).unwrap(), Some(identity));
        fs::write(path_in(dir.path()), b"{}").unwrap();
        assert!(matches!(Identity::load(dir.path()), Err(IdentityError::Damaged { .. })));
    }
}
