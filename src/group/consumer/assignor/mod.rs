//! Who reads what: pure functions from members and topics to targets.
//!
//! - **In**: each member's topics and what it was led to before; each topic's partitions.
//! - **Out**: a target for every member.
//! - **Promises**: every partition of a topic that somebody is subscribed to is given to exactly one member, and that one
//!   is subscribed; equal inputs give equal targets.
//! - **Never does**: look at racks. Every zone reads everything from its own brokers here, so balance alone counts.

mod range;
mod uniform;

#[cfg(test)]
mod assignor_test;

use std::collections::{BTreeMap, BTreeSet};

use crate::config::GroupAssignor;
use crate::shard::group::Assignment;
use crate::types::TopicId;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assignor {
    /// As even as can be, and of what is as even, the fewest moves.
    Uniform,
    /// Of every topic, neighbouring partitions to members in their order: topics with as many partitions are dealt out
    /// alike, so that records with one key meet.
    Range,
}

/// One member, as assignors see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscriber<'a> {
    pub id: &'a str,
    pub instance: Option<&'a str>,
    pub topics: BTreeSet<TopicId>,
    pub before: &'a Assignment,
}

impl From<GroupAssignor> for Assignor {
    fn from(assignor: GroupAssignor) -> Assignor {
        match assignor {
            GroupAssignor::Uniform => Assignor::Uniform,
            GroupAssignor::Range => Assignor::Range,
        }
    }
}

impl Assignor {
    pub const ALL: [Assignor; 2] = [Assignor::Uniform, Assignor::Range];

    pub fn name(self) -> &'static str {
        match self {
            Assignor::Uniform => "uniform",
            Assignor::Range => "range",
        }
    }

    pub fn named(name: &str) -> Option<Assignor> {
        Assignor::ALL.into_iter().find(|assignor| assignor.name() == name)
    }

    /// Members ascend by id. The answer has one target for each, in their order.
    pub fn assign(self, members: &[Subscriber], partitions: &BTreeMap<TopicId, i32>) -> Vec<Assignment> {
        match self {
            Assignor::Uniform => uniform::assign(members, partitions),
            Assignor::Range => range::assign(members, partitions),
        }
    }
}
