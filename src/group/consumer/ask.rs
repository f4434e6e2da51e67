use std::collections::BTreeSet;
use std::time::Duration;

use crate::protocol::ErrorCode;
use crate::shard::group::{Assignment, Current, Who};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    Beat(Box<Beat>),
    Describe,
    /// May this member, in this epoch, be told what was committed?
    MayFetch {
        member: String,
        epoch: i32,
    },
}

/// A heartbeat. What is `None` is as it was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Beat {
    pub member: String,
    /// 0 to join, [`LEAVES`](super::LEAVES) or [`LEAVES_FOR_NOW`](super::LEAVES_FOR_NOW) to leave.
    pub epoch: i32,
    pub instance: Option<String>,
    pub rack: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub rebalance_timeout_ms: Option<i32>,
    pub topics: Option<BTreeSet<String>>,
    /// Empty for none any more.
    pub pattern: Option<String>,
    pub assignor: Option<String>,
    /// What it has now, when it is time to say so.
    pub owned: Option<Assignment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Done,
    Failed { error: ErrorCode, why: String },
    Beaten(Beaten),
    Described(Box<Described>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beaten {
    pub member: String,
    pub epoch: i32,
    pub interval: Duration,
    /// `None`: as it was.
    pub assignment: Option<Assignment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// Kafka's name of it.
    pub state: &'static str,
    pub epoch: i32,
    pub assignment_epoch: i32,
    pub assignor: &'static str,
    pub members: Vec<MemberDescribed>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberDescribed {
    pub id: String,
    pub who: Who,
    pub current: Current,
    pub target: Assignment,
}

impl Reply {
    pub fn failed(error: ErrorCode, why: String) -> Reply {
        Reply::Failed { error, why }
    }
}
