//! Groups of the consumer protocol (KIP-848) as a shard keeps them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::types::{TopicId, arc_map};

/// Partitions by topic; no topic without partitions.
pub type Assignment = BTreeMap<TopicId, BTreeSet<i32>>;

/// All that members may rely on: what they were told of epochs and partitions, and where they are led to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consumer {
    /// How many changes made the group what it is. A change names the number it makes, so that one that was given up and
    /// came late after all does not mix with those decided without it.
    pub revision: u64,
    /// Grows whenever members, subscriptions or their topics change.
    pub epoch: i32,
    /// The epoch that the targets were computed for.
    pub assignment_epoch: i32,
    /// Of the topics subscribed to, their ids and partitions, when `epoch` last grew.
    pub topics_digest: u32,
    #[serde(with = "arc_map")]
    pub members: BTreeMap<String, Arc<ConsumerMember>>,
}

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

/// One step of a group: the parts that have become different, whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConsumerChange {
    pub revision: u64,
    pub epoch: i32,
    pub assignment_epoch: i32,
    pub topics_digest: u32,
    /// `None`: it is no member any more.
    pub members: Vec<(String, Option<MemberChange>)>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemberChange {
    pub who: Option<Who>,
    pub target: Option<Assignment>,
    pub current: Option<Current>,
}

impl Consumer {
    pub(super) fn apply(&mut self, change: ConsumerChange) {
        self.revision = change.revision;
        self.epoch = change.epoch;
        self.assignment_epoch = change.assignment_epoch;
        self.topics_digest = change.topics_digest;
        for (id, change) in change.members {
            let Some(change) = change else {
                self.members.remove(&id);
                continue;
            };
            let member = Arc::make_mut(self.members.entry(id).or_default());
            change.who.into_iter().for_each(|who| member.who = who);
            change.target.into_iter().for_each(|target| member.target = target);
            change.current.into_iter().for_each(|current| member.current = current);
        }
    }
}
