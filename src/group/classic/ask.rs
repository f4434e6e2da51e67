use std::time::Duration;

use bytes::Bytes;

use crate::protocol::ErrorCode;
use crate::shard::group::Committed;
use crate::types::{Partition, Producer};

/// Whoever waits for a reply. Issued by the shell.
pub type Waiter = u64;

/// A member, as it names itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller {
    /// Empty when it has none.
    pub member: String,
    /// Static membership (KIP-345).
    pub instance: Option<String>,
    pub generation: i32,
}

/// What is asked of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    Join(Join),
    Sync(Sync),
    Heartbeat(Caller),
    Leave(Vec<Leaver>),
    Commit(Commit),
    Describe,
    DeleteGroup,
    /// Topics by name, for what members are subscribed to.
    DeleteOffsets(Vec<(String, Partition)>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Join {
    pub member: String,
    pub instance: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub session_timeout: Duration,
    pub rebalance_timeout: Duration,
    pub protocol_type: String,
    /// In the order of preference, with the member's metadata for each.
    pub protocols: Vec<(String, Bytes)>,
    /// The end of the id of a member that has none.
    pub unique: String,
    /// A new member shall come again with its id (KIP-394).
    pub id_required: bool,
    /// The client understands that a leader need not assign (KIP-814).
    pub can_skip_assignment: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sync {
    pub caller: Caller,
    pub protocol_type: Option<String>,
    pub protocol_name: Option<String>,
    /// From the leader only.
    pub assignments: Vec<(String, Bytes)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaver {
    pub member: String,
    pub instance: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    pub caller: Caller,
    pub retention_ms: Option<u64>,
    pub offsets: Vec<(Partition, Committed)>,
    /// The client knows that word (OffsetCommit 9); earlier ones are told of an illegal generation.
    pub knows_group_id_not_found: bool,
    /// The offsets count once it is committed.
    pub transaction: Option<InTransaction>,
}

/// Whose transaction, and which of its transactions: its coordinator has said so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InTransaction {
    pub producer: Producer,
    pub txn_no: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Done,
    Failed(ErrorCode),
    Joined(JoinAnswer),
    /// The member's id is part of the answer.
    JoinFailed {
        error: ErrorCode,
        member: String,
    },
    Synced {
        protocol_type: Option<String>,
        protocol_name: Option<String>,
        assignment: Bytes,
    },
    /// One for each that was named.
    Each(Vec<ErrorCode>),
    /// None: there is no such group.
    Described(Option<Described>),
    /// There is a group, which is not for this protocol's tools to describe.
    NotClassic,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinAnswer {
    pub generation: i32,
    pub protocol_type: Option<String>,
    pub protocol_name: Option<String>,
    pub leader: String,
    pub member: String,
    pub skip_assignment: bool,
    /// (id, instance, metadata), for the leader only.
    pub members: Vec<(String, Option<String>, Bytes)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// Kafka's name of it.
    pub state: &'static str,
    pub protocol_type: String,
    pub protocol_name: String,
    pub members: Vec<MemberDescribed>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberDescribed {
    pub id: String,
    pub instance: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub metadata: Bytes,
    pub assignment: Bytes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub id: String,
    pub state: &'static str,
    pub protocol_type: String,
    /// Kafka's name of the protocol that its members speak.
    pub group_type: &'static str,
}
