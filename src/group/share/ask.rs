use std::collections::BTreeSet;

use crate::group::consumer::Beaten;
use crate::protocol::ErrorCode;
use crate::shard::group::ShareMember;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    Beat(Box<Beat>),
    Describe,
    /// As [`Ask::Describe`], where a group that is not there has no members.
    Look,
    /// There is to be such a group, if without members: its offsets are altered before anybody has joined.
    Create,
}

/// A heartbeat. What is `None` is as it was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Beat {
    pub member: String,
    /// 0 to join, [`LEAVES`](super::LEAVES) to leave.
    pub epoch: i32,
    pub rack: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub topics: Option<BTreeSet<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Failed { error: ErrorCode, why: String },
    Beaten(Beaten),
    Described(Box<Described>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// Kafka's name of it.
    pub state: &'static str,
    pub epoch: i32,
    pub assignment_epoch: i32,
    pub members: Vec<MemberDescribed>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberDescribed {
    pub id: String,
    pub member: ShareMember,
}

impl Reply {
    pub fn failed(error: ErrorCode, why: String) -> Reply {
        Reply::Failed { error, why }
    }
}
