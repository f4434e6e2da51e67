//! A store in a local directory. An object is written beside its place, synced, then linked into place: the link
//! fails when the key is taken, so it is the put-if-absent. Nothing is ever renamed over.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use uuid::Uuid;

use super::{Cursor, Error, Head, Key, Listed, OBJECT_BYTES_MAX, PAGE_KEYS_MAX, Page, Prefix, Start, Store};
use crate::types::ByteRange;

/// Where objects are written before they have their name. No key starts with a dot.
const INCOMING: &str = ".incoming";

/// What a crash left in [`INCOMING`] is removed at open once it is this old.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);

/// How often a directory may vanish under a writer (the last object in it was deleted) before it gives up.
const LINK_ATTEMPTS_MAX: u32 = 8;

#[derive(Debug, Clone)]
pub struct Directory {
    root: Arc<Path>,
}

impl Directory {
    /// Opens the directory, making it if need be.
    ///
    /// # Errors
    /// [`Error::Refused`] when it cannot be made or written.
    pub async fn open(root: impl Into<PathBuf>) -> Result<Directory, Error> {
        let directory = Directory { root: Arc::from(root.into()) };
        directory
            .blocking("open", |d| {
                let incoming = d.root.join(INCOMING);
                fs::create_dir_all(&incoming).map_err(|e| Error::refused("open", e))?;
                remove_abandoned(&incoming).map_err(|e| Error::refused("open", e))
            })
            .await?;
        Ok(directory)
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.root.join(key.as_str())
    }

    /// File calls may block for as long as the disk likes, so they run beside the async threads.
    async fn blocking<T: Send + 'static>(
        &self,
        operation: &'static str,
        f: impl FnOnce(&Directory) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let directory = self.clone();
        let done = tokio::task::spawn_blocking(move || f(&directory)).await;
        done.unwrap_or_else(|lost| Err(Error::unknown(operation, lost)))
    }

    fn write_incoming(&self, bytes: &[u8]) -> io::Result<Incoming> {
        let incoming = Incoming(self.root.join(INCOMING).join(Uuid::new_v4().to_string()));
        let mut file = File::create_new(&incoming.0)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(incoming)
    }

    fn put(&self, key: &Key, bytes: &[u8]) -> Result<(), Error> {
        let path = self.path(key);
        let parent = path.parent().expect("the root is above every key");
        let incoming = self.write_incoming(bytes).map_err(|e| classify("put", key, e))?;
        for attempt in 1.. {
            fs::create_dir_all(parent).map_err(|e| classify("put", key, e))?;
            match fs::hard_link(&incoming.0, &path) {
                Ok(()) => break,
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                    return Err(Error::AlreadyExists { key: key.clone() });
                }
                // The last object of that directory was deleted meanwhile, and the directory with it.
                Err(e) if e.kind() == ErrorKind::NotFound && attempt < LINK_ATTEMPTS_MAX => {}
                Err(e) => return Err(classify("put", key, e)),
            }
        }
        // Every directory up to the root, since another writer may have made one and not have synced it yet.
        for directory in parent.ancestors().take_while(|directory| directory.starts_with(&self.root)) {
            sync_directory(directory).map_err(|e| Error::unknown("put", e))?;
        }
        Ok(())
    }

    /// The bytes of the range that exist; none when it starts at or after the end.
    fn read(&self, key: &Key, range: ByteRange) -> Result<Bytes, Error> {
        let read = || {
            let mut file = File::open(self.path(key))?;
            let metadata = file.metadata()?;
            if metadata.is_dir() {
                return Err(ErrorKind::NotFound.into());
            }
            let start = range.start.min(metadata.len());
            let len = range.end().min(metadata.len()) - start;
            if len > OBJECT_BYTES_MAX {
                return Err(ErrorKind::FileTooLarge.into());
            }
            file.seek(SeekFrom::Start(start))?;
            let mut bytes = Vec::with_capacity(len as usize);
            file.take(len).read_to_end(&mut bytes)?;
            Ok(Bytes::from(bytes))
        };
        read().map_err(|e| classify_read("get", key, e))
    }

    fn delete(&self, key: &Key) -> io::Result<()> {
        let path = self.path(key);
        match fs::remove_file(&path) {
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(()),
            done => done?,
        }
        // Directories go with their last object; one that is not empty stops it.
        for directory in path.ancestors().skip(1).take_while(|directory| **directory != *self.root) {
            if fs::remove_dir(directory).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn list(&self, prefix: &Prefix, after: &str) -> io::Result<Page> {
        let mut objects = Vec::new();
        walk(&self.root.join(prefix.as_str()), prefix.as_str(), after, &mut objects)?;
        let next = (objects.len() > PAGE_KEYS_MAX).then(|| {
            objects.truncate(PAGE_KEYS_MAX);
            Cursor(objects[PAGE_KEYS_MAX - 1].key.to_string())
        });
        Ok(Page { objects, next })
    }
}

#[async_trait]
impl Store for Directory {
    async fn put_if_absent(&self, key: &Key, bytes: Bytes) -> Result<(), Error> {
        let key = key.clone();
        self.blocking("put", move |d| d.put(&key, &bytes)).await
    }

    async fn get(&self, key: &Key) -> Result<Bytes, Error> {
        let key = key.clone();
        self.blocking("get", move |d| d.read(&key, ByteRange::new(0, u64::MAX))).await
    }

    async fn get_range(&self, key: &Key, range: ByteRange) -> Result<Bytes, Error> {
        if range.len == 0 {
            return Ok(Bytes::new());
        }
        let key = key.clone();
        self.blocking("get", move |d| {
            let bytes = d.read(&key, range)?;
            if bytes.is_empty() { Err(Error::OutOfRange { key, start: range.start }) } else { Ok(bytes) }
        })
        .await
    }

    async fn head(&self, key: &Key) -> Result<Head, Error> {
        let key = key.clone();
        self.blocking("head", move |d| {
            let metadata = fs::metadata(d.path(&key)).map_err(|e| classify_read("head", &key, e))?;
            let last_modified = metadata.modified().map_err(|e| classify_read("head", &key, e))?;
            if metadata.is_dir() {
                return Err(Error::NotFound { key });
            }
            Ok(Head { len: metadata.len(), last_modified, crc32c: None })
        })
        .await
    }

    async fn list(&self, prefix: &Prefix, start: Start) -> Result<Page, Error> {
        let prefix = prefix.clone();
        let after = match start {
            Start::Beginning => String::new(),
            Start::After(key) => key.to_string(),
            Start::Next(Cursor(key)) => key,
        };
        self.blocking("list", move |d| d.list(&prefix, &after).map_err(|e| Error::retryable("list", e))).await
    }

    async fn delete(&self, keys: &[Key]) -> Result<(), Error> {
        let keys = keys.to_vec();
        self.blocking("delete", move |d| {
            keys.iter().try_for_each(|key| d.delete(key).map_err(|e| classify("delete", key, e)))
        })
        .await
    }

    /// The file system's date, which a network mount takes from its server.
    async fn now(&self) -> Result<SystemTime, Error> {
        self.blocking("now", |d| {
            let touched = d.write_incoming(&[]).and_then(|incoming| fs::metadata(&incoming.0)?.modified());
            touched.map_err(|e| Error::retryable("now", e))
        })
        .await
    }
}

/// A file without a name of its own yet; gone when dropped.
struct Incoming(PathBuf);

impl Drop for Incoming {
    fn drop(&mut self) {
        // What cannot be removed now is removed at a later open.
        let _ = fs::remove_file(&self.0);
    }
}

fn remove_abandoned(incoming: &Path) -> io::Result<()> {
    for entry in fs::read_dir(incoming)? {
        let entry = entry?;
        let age = entry.metadata()?.modified()?.elapsed().unwrap_or_default();
        if age > ABANDONED_AFTER {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    match File::open(directory) {
        // Deleted meanwhile, together with the object: then there is nothing left to be kept.
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        opened => opened?.sync_all(),
    }
}

/// Collects the objects below `directory`, whose keys start with `at`, in the order of their keys, skipping all up
/// to `after`; stops at one more than a page.
fn walk(directory: &Path, at: &str, after: &str, objects: &mut Vec<Listed>) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(()),
        entries => entries?,
    };
    let mut keys = Vec::new();
    for entry in entries {
        let entry = entry?;
        let Some(key) = entry.file_name().to_str().map(|name| format!("{at}{name}")) else { continue };
        if Key::parse(&key).is_err() {
            continue;
        }
        // The slash is part of what is sorted: "a.b" comes before what is below "a".
        keys.push(if entry.file_type()?.is_dir() { key + "/" } else { key });
    }
    keys.sort_unstable();
    for key in keys {
        if objects.len() > PAGE_KEYS_MAX {
            break;
        }
        let path = directory.join(&key[at.len()..]);
        if key.ends_with('/') {
            if key.as_str() >= after || after.starts_with(&key) {
                walk(&path, &key, after, objects)?;
            }
        } else if key.as_str() > after
            && let Ok(metadata) = fs::metadata(&path)
        {
            let key = Key::parse(&key).expect("parsed above");
            objects.push(Listed { key, len: metadata.len(), last_modified: metadata.modified()? });
        }
    }
    Ok(())
}

fn classify_read(operation: &'static str, key: &Key, error: io::Error) -> Error {
    match error.kind() {
        // Below a file there is nothing either.
        ErrorKind::NotFound | ErrorKind::NotADirectory => Error::NotFound { key: key.clone() },
        _ => classify(operation, key, error),
    }
}

/// Before the link nothing has taken effect, so whatever time may cure may be repeated.
fn classify(operation: &'static str, key: &Key, error: io::Error) -> Error {
    match error.kind() {
        ErrorKind::PermissionDenied
        | ErrorKind::ReadOnlyFilesystem
        | ErrorKind::NotADirectory
        | ErrorKind::AlreadyExists
        | ErrorKind::IsADirectory
        | ErrorKind::InvalidFilename
        | ErrorKind::FileTooLarge
        | ErrorKind::Unsupported => Error::refused(operation, format!("{key}: {error}")),
        _ => Error::retryable(operation, format!("{key}: {error}")),
    }
}

#[cfg(test)]
#[path = "directory_test.rs"]
mod tests;
