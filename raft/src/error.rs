use std::io;
use std::path::PathBuf;

use crate::NodeId;

/// What a state machine answers to an entry or snapshot it cannot take. Stops the replica.
#[derive(Clone, Debug, thiserror::Error)]
#[error("state machine refused its input: {0}")]
pub struct Corrupt(pub String);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("setting refused: {0}")]
    Config(String),
    #[error("{what}: {source}")]
    Io {
        what: String,
        #[source]
        source: io::Error,
    },
    #[error("{0} is in use by another process")]
    Locked(PathBuf),
    /// Its votes and entries are lost with it: the node must come back under a new id ([`crate::Config::must_exist`]).
    #[error("{dir} holds no log, but this node has run before and must not start over under its old id", dir = .0.display())]
    LogMissing(PathBuf),
    /// Bytes on disk are not what was written. Nothing was changed; a person has to look.
    #[error("{file} is damaged at byte {position}: {why}", file = file.display())]
    Damaged { file: PathBuf, position: u64, why: String },
    /// The directory belongs to another cluster or node.
    #[error("{dir} belongs to {found}, not to {wanted}", dir = dir.display())]
    WrongIdentity { dir: PathBuf, found: String, wanted: String },
    #[error("group {0} is open already")]
    AlreadyOpen(u32),
    /// This node does not lead the group; ask `leader`.
    #[error("not the leader (leader: {leader:?})")]
    NotLeader { leader: Option<NodeId> },
    /// Refused by the group's rules; nothing happened.
    #[error("refused: {0}")]
    Refused(String),
    #[error("not finished in time: {0}")]
    Timeout(String),
    /// The replica or node no longer runs; restart the process.
    #[error("stopped: {0}")]
    Stopped(String),
}

impl Error {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        move |source| Error::Io { what, source }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Certainly not delivered: may be sent again.
    #[error("peer is unreachable: {0}")]
    Unreachable(String),
    /// The request left this node and no answer came: it may have been handled.
    #[error("no answer: {0}")]
    Unknown(String),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Certainly not in the log.
    #[error("not the leader in that term (leader: {leader:?})")]
    NotLeader { leader: Option<NodeId> },
    /// May still be applied.
    #[error("fate of the proposal is unknown: {why}")]
    Unknown { why: String },
    /// Certainly not in the log, and never will be.
    #[error("payload of {bytes} bytes is above the limit of {bytes_max}")]
    TooLarge { bytes: usize, bytes_max: usize },
    /// The replica no longer runs. A proposal that had been enqueued before may still be applied by the others.
    #[error("replica is stopped")]
    Stopped,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("not the leader (leader: {leader:?})")]
    NotLeader { leader: Option<NodeId> },
    /// Leads, as far as it knows, but no majority confirmed it.
    #[error("no majority answered")]
    NoQuorum,
    #[error("replica is stopped")]
    Stopped,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WaitError {
    #[error("not applied in time")]
    Timeout,
    #[error("replica is stopped")]
    Stopped,
}
