//! Groups of the consumer protocol (KIP-848) as a shard keeps them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::shard::group::modern::{Assignment, Modern, ModernChange};

pub type Consumer = Modern<ConsumerMember>;
pub type ConsumerChange = ModernChange<MemberChange>;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumerMember {
    pub who: Who,
    /// Where the member is led to.
    pub target: Assignment,
    pub current: Current,
}

/// What a member says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Who {
    /// Static membership (KIP-345).
    pub instance: Option<String>,
    pub rack: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub rebalance_timeout_ms: i32,
    pub topics: BTreeSet<String>,
    /// Topics whose whole name matches are subscribed to as well.
    pub pattern: Option<String>,
    /// The assignor it prefers.
    pub assignor: Option<String>,
    /// It speaks the classic protocol, in a group that is on its way from one to the other.
    pub classic: Option<ClassicMember>,
}

/// What a member says in the classic protocol only.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassicMember {
    pub session_timeout_ms: i32,
    /// In the order of preference, with the member's metadata for each.
    pub protocols: Vec<(String, ByteBuf)>,
}

/// How far a member has come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Current {
    /// -2 while a static member is away.
    pub epoch: i32,
    pub previous_epoch: i32,
    pub state: MemberState,
    pub assigned: Assignment,
    /// Still its own until it says that it has let go of them.
    pub revoking: Assignment,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberState {
    #[default]
    #[serde(rename = "s")]
    Stable,
    /// It has to let go of partitions before it gets others.
    #[serde(rename = "v")]
    Unrevoked,
    /// Other members still own some of its target.
    #[serde(rename = "l")]
    Unreleased,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemberChange {
    pub who: Option<Who>,
    pub target: Option<Assignment>,
    pub current: Option<Current>,
}
