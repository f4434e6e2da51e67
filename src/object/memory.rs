use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;

use super::{Cursor, Error, Head, Key, Listed, PAGE_KEYS_MAX, Page, Prefix, Start, Store, crc32c};
use crate::door;
use crate::types::ByteRange;

/// A store in this process: for tests, and for trying the broker out. Its date can be moved.
#[derive(Debug, Default)]
pub struct Memory {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, Stored>,
    ahead: Duration,
}

#[derive(Debug, Clone)]
struct Stored {
    bytes: Bytes,
    crc32c: u32,
    last_modified: SystemTime,
}

impl State {
    fn now(&self) -> SystemTime {
        door::now() + self.ahead
    }
}

impl Memory {
    pub fn new() -> Self {
        Memory::default()
    }

    /// Lets the store's date jump forward, so that what is stored grows old.
    pub fn advance(&self, by: Duration) {
        self.locked(|state| state.ahead += by);
    }

    fn locked<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().expect("nothing panics under this lock"))
    }

    fn stored(&self, key: &Key) -> Result<Stored, Error> {
        self.locked(|state| state.objects.get(key.as_str()).cloned())
            .ok_or_else(|| Error::NotFound { key: key.clone() })
    }
}

#[async_trait]
impl Store for Memory {
    async fn put_if_absent(&self, key: &Key, bytes: Bytes) -> Result<(), Error> {
        let crc32c = crc32c(&bytes);
        self.locked(|state| {
            if state.objects.contains_key(key.as_str()) {
                return Err(Error::AlreadyExists { key: key.clone() });
            }
            let last_modified = state.now();
            state.objects.insert(key.to_string(), Stored { bytes, crc32c, last_modified });
            Ok(())
        })
    }

    async fn get(&self, key: &Key) -> Result<Bytes, Error> {
        Ok(self.stored(key)?.bytes)
    }

    async fn get_range(&self, key: &Key, range: ByteRange) -> Result<Bytes, Error> {
        if range.len == 0 {
            return Ok(Bytes::new());
        }
        let bytes = self.stored(key)?.bytes;
        let len = bytes.len() as u64;
        if range.start >= len {
            return Err(Error::OutOfRange { key: key.clone(), start: range.start });
        }
        Ok(bytes.slice(range.start as usize..range.end().min(len) as usize))
    }

    async fn head(&self, key: &Key) -> Result<Head, Error> {
        let Stored { bytes, crc32c, last_modified } = self.stored(key)?;
        Ok(Head { len: bytes.len() as u64, last_modified, crc32c: Some(crc32c) })
    }

    async fn list(&self, prefix: &Prefix, start: Start) -> Result<Page, Error> {
        let after = match &start {
            Start::Beginning => "",
            Start::After(key) => key.as_str(),
            Start::Next(Cursor(key)) => key,
        };
        let from = if after < prefix.as_str() { Bound::Included(prefix.as_str()) } else { Bound::Excluded(after) };
        self.locked(|state| {
            let below = state.objects.range::<str, _>((from, Bound::Unbounded));
            let mut below = below.take_while(|(key, _)| key.starts_with(prefix.as_str())).peekable();
            let mut objects = Vec::new();
            for (key, stored) in below.by_ref().take(PAGE_KEYS_MAX) {
                let (key, len) = (Key::parse(key)?, stored.bytes.len() as u64);
                objects.push(Listed { key, len, last_modified: stored.last_modified });
            }
            let next = below.peek().and(objects.last()).map(|last| Cursor(last.key.to_string()));
            Ok(Page { objects, next })
        })
    }

    async fn delete(&self, keys: &[Key]) -> Result<(), Error> {
        self.locked(|state| keys.iter().for_each(|key| drop(state.objects.remove(key.as_str()))));
        Ok(())
    }

    async fn now(&self) -> Result<SystemTime, Error> {
        Ok(self.locked(|state| state.now()))
    }
}
