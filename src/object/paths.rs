//! The one place where keys are made and read.
//!
//! ```text
//! milepost.json                                               who owns this root
//! <cluster id>-<incarnation>/wal/<hash>/<broker>-<broker_epoch>/<sequence>.<attempt>
//! <cluster id>-<incarnation>/zonal/<hash>/<broker>-<broker_epoch>/<sequence>.<attempt>
//! <cluster id>-<incarnation>/data/<hash>/<shard>/<job>-<unique>
//! <cluster id>-<incarnation>/snap/<shard>/<log index>-<unique>
//! probe/<unique>/<n>                                          start-up check, deleted at once
//! ```
//! All below the root the store was opened with. `zonal` is to the buckets of zones what `wal` is to a regional one: the
//! key says where an object is. `<hash>` is two hex digits of what follows it: stores that split
//! their load by key range see the writes of one broker spread over all of it. Numbers are plain decimal, `<unique>`
//! is sixteen hex digits; a key that would be written otherwise is not one of ours.

use std::fmt;
use std::sync::Arc;

use super::{Error, KEY_BYTES_MAX, crc32c};
use crate::types::{ATTEMPT_MAX, ObjectId, ShardId, StorageClass};

/// The key of an object below the root of its store: segments divided by `/`, none empty, none starting with a dot.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl Key {
    /// Takes a key from outside (an operator, a listing).
    ///
    /// # Errors
    /// [`Error::Refused`] when it is too long, or a segment is empty, starts with a dot or holds a control character:
    /// such keys do not survive every store.
    pub fn parse(text: &str) -> Result<Key, Error> {
        if text.len() > KEY_BYTES_MAX || !text.split('/').all(segment_is_plain) {
            return Err(Error::refused("key", format!("{text:?} is no key of an object")));
        }
        Ok(Key(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn segment_is_plain(segment: &str) -> bool {
    (1..=200).contains(&segment.len()) && !segment.starts_with('.') && !segment.chars().any(char::is_control)
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a listing is asked for: nothing (all), or whole segments ending with `/`, as directory buckets want it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix(String);

impl Prefix {
    pub fn all() -> Prefix {
        Prefix(String::new())
    }

    /// Everything below the given key.
    pub fn below(key: &Key) -> Prefix {
        Prefix(format!("{key}/"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a key of a cluster names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Name {
    /// Just produced, of many partitions.
    WriteAhead(ObjectId),
    /// Written by a registered job from other objects.
    Data { shard: ShardId, job: u64, unique: u64 },
    /// The state of a shard at a log index.
    Snapshot { shard: ShardId, log_index: u64, unique: u64 },
}

impl From<ObjectId> for Name {
    fn from(id: ObjectId) -> Self {
        Name::WriteAhead(id)
    }
}

/// Makes and reads the keys of one cluster in one incarnation. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    root: Arc<str>,
}

impl Paths {
    /// # Errors
    /// [`Error::Refused`] when the cluster id is empty, longer than 64 bytes, or holds anything but ASCII letters,
    /// digits, `-` and `_` (Kafka's own ids are base64url).
    pub fn new(cluster_id: &str, incarnation: u32) -> Result<Paths, Error> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if !(1..=64).contains(&cluster_id.len()) || !cluster_id.bytes().all(plain) {
            return Err(Error::refused("paths", format!("{cluster_id:?} is no cluster id")));
        }
        Ok(Paths { root: format!("{cluster_id}-{incarnation}").into() })
    }

    pub fn key(&self, name: impl Into<Name>) -> Key {
        let root = &self.root;
        let hashed = |kind: &str, rest: String| {
            let hash = crc32c(rest.as_bytes()) & 0xff;
            format!("{root}/{kind}/{hash:02x}/{rest}")
        };
        Key(match name.into() {
            Name::WriteAhead(ObjectId { broker, epoch, sequence, attempt, class }) => {
                hashed(kind_of(class), format!("{broker}-{epoch}/{sequence}.{attempt}"))
            }
            Name::Data { shard, job, unique } => hashed("data", format!("{shard}/{job}-{unique:016x}")),
            Name::Snapshot { shard, log_index, unique } => format!("{root}/snap/{shard}/{log_index}-{unique:016x}"),
        }
        .into())
    }

    /// What the key names, or `None` when it is not one of this cluster's in this incarnation.
    pub fn name(&self, key: &Key) -> Option<Name> {
        let name = parse_below(key.as_str().strip_prefix(&*self.root)?.strip_prefix('/')?)?;
        // Written another way (leading zeros, a wrong hash), the same name would have two keys.
        (self.key(name) == *key).then_some(name)
    }

    /// The first segment of every key: cluster and incarnation.
    pub fn root(&self) -> &str {
        &self.root
    }

    pub fn write_ahead_prefix(&self) -> Prefix {
        self.below("wal")
    }

    /// What buckets of zones hold, in ranges that are compared one by one: together all of it but the marker.
    pub fn zonal_ranges(&self) -> impl Iterator<Item = Prefix> + '_ {
        let hashed = (0..=0xff).map(|hash| format!("{ZONAL}/{hash:02x}"));
        // In a cluster that has no regional store these are in the zones' buckets too.
        hashed.chain(["data", "snap"].map(str::to_owned)).map(|range| self.below(&range))
    }

    pub fn data_prefix(&self) -> Prefix {
        self.below("data")
    }

    pub fn snapshot_prefix(&self) -> Prefix {
        self.below("snap")
    }

    fn below(&self, kind: &str) -> Prefix {
        Prefix(format!("{}/{kind}/", self.root))
    }
}

const ZONAL: &str = "zonal";

fn kind_of(class: StorageClass) -> &'static str {
    match class {
        StorageClass::Regional => "wal",
        StorageClass::Zonal => ZONAL,
    }
}

/// The class that the kind of a key asks for.
pub fn class_of(key: &Key) -> StorageClass {
    class_of_text(key.as_str())
}

/// Of what is below a prefix, when the prefix is of one kind.
pub fn class_below(prefix: &Prefix) -> StorageClass {
    class_of_text(prefix.as_str())
}

fn class_of_text(text: &str) -> StorageClass {
    match text.split('/').nth(1) {
        Some(ZONAL) => StorageClass::Zonal,
        _ => StorageClass::Regional,
    }
}

fn parse_below(text: &str) -> Option<Name> {
    let unique = |hex: &str| u64::from_str_radix(hex, 16).ok();
    match *text.split('/').collect::<Vec<_>>() {
        [kind, _, owner, object] if StorageClass::ALL.map(kind_of).contains(&kind) => {
            let class = if kind == ZONAL { StorageClass::Zonal } else { StorageClass::Regional };
            // From the right: nothing forbids a negative broker id.
            let (broker, epoch) = owner.rsplit_once('-')?;
            let (sequence, attempt) = object.split_once('.')?;
            Some(Name::WriteAhead(ObjectId {
                broker: broker.parse().ok()?,
                epoch: epoch.parse().ok()?,
                sequence: sequence.parse().ok()?,
                attempt: attempt.parse().ok().filter(|attempt| *attempt <= ATTEMPT_MAX)?,
                class,
            }))
        }
        ["data", _, shard, object] => {
            let (job, hex) = object.split_once('-')?;
            Some(Name::Data { shard: shard.parse().ok()?, job: job.parse().ok()?, unique: unique(hex)? })
        }
        ["snap", shard, object] => {
            let (index, hex) = object.split_once('-')?;
            Some(Name::Snapshot { shard: shard.parse().ok()?, log_index: index.parse().ok()?, unique: unique(hex)? })
        }
        _ => None,
    }
}

/// Reads a key without knowing the cluster: its id, its incarnation, and what the key names there.
pub fn parse(key: &Key) -> Option<(String, u32, Name)> {
    let (cluster_id, incarnation) = key.as_str().split_once('/')?.0.rsplit_once('-')?;
    let incarnation = incarnation.parse().ok()?;
    let name = Paths::new(cluster_id, incarnation).ok()?.name(key)?;
    Some((cluster_id.to_owned(), incarnation, name))
}

/// The cluster marker.
pub fn marker_key() -> Key {
    Key("milepost.json".into())
}

/// A key that nothing is ever written to: asking for it tells a store's date.
pub(super) fn absent_key() -> Key {
    Key("probe/date".into())
}

/// The directory of one start-up check, and its keys by number.
pub(super) fn probe_directory(unique: u64) -> Key {
    Key(format!("probe/{unique:016x}").into())
}

pub(super) fn probe_key(directory: &Key, number: u32) -> Key {
    Key(format!("{directory}/{number}").into())
}

#[cfg(test)]
#[path = "paths_test.rs"]
mod tests;
