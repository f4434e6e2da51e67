use crate::protocol::ErrorCode;
use crate::types::{Partition, Producer, ShardId};

/// Whoever waits for a reply. Issued by the shell.
pub type Waiter = u64;

/// What is asked of one transactional id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    Init(Init),
    Add(Add),
    /// Are these partitions part of the ongoing transaction?
    Verify {
        producer: Producer,
        partitions: Vec<Partition>,
    },
    End(End),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Init {
    pub timeout_ms: u32,
    /// What the producer has; for one that goes on after an error (KIP-360).
    pub expected: Option<Producer>,
    /// An id that nobody has, once one was asked for.
    pub fresh_id: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Add {
    pub producer: Producer,
    pub partitions: Vec<(Partition, ShardId)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    pub producer: Producer,
    pub commit: bool,
    /// The client knows that every end raises its epoch (version 2).
    pub bumps: bool,
    /// As for [`Init::fresh_id`].
    pub fresh_id: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Failed(ErrorCode),
    /// The producer that goes on: after Init, and after End.
    Producer(Producer),
    /// All partitions are part of this transaction of the id.
    Added {
        txn_no: u64,
    },
    /// One for each that was named.
    Verified(Vec<Result<u64, ErrorCode>>),
    /// Nothing was done: ask again with a producer id that nobody has.
    NeedsProducerId,
}
