//! What consumers say in the metadata and assignments of the classic protocol.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::consumer_protocol_assignment::TopicPartition;
use kafka_protocol::messages::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};
use kafka_protocol::protocol::{Decodable, Encodable};

use crate::group::View;
use crate::protocol::StrBytes;
use crate::shard::group::Assignment;
use crate::types::TopicId;

/// Both are known up to this version; of later ones, what they have in common with it.
const VERSION_MAX: i16 = 3;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Subscription {
    pub topics: BTreeSet<String>,
    pub owned: Assignment,
    pub rack: Option<String>,
}

pub(super) fn subscription(metadata: &[u8], view: &dyn View) -> Option<Subscription> {
    let (version, mut body) = split(metadata)?;
    let found = ConsumerProtocolSubscription::decode(&mut body, version).ok()?;
    let owned = found.owned_partitions.into_iter().map(|one| (one.topic.to_string(), one.partitions));
    Some(Subscription {
        topics: found.topics.iter().map(|topic| topic.to_string()).collect(),
        owned: by_id(owned, view),
        rack: found.rack_id.map(|rack| rack.to_string()),
    })
}

/// No bytes: nothing is assigned yet.
pub(super) fn assignment(bytes: &[u8], view: &dyn View) -> Option<Assignment> {
    if bytes.is_empty() {
        return Some(Assignment::new());
    }
    let (version, mut body) = split(bytes)?;
    let found = ConsumerProtocolAssignment::decode(&mut body, version).ok()?;
    let assigned = found.assigned_partitions.into_iter().map(|one| (one.topic.to_string(), one.partitions));
    Some(by_id(assigned, view))
}

/// In the version of the member's metadata. A topic that is gone has no name any more.
pub(super) fn to_bytes(assignment: &Assignment, names: &BTreeMap<TopicId, &String>, metadata: &[u8]) -> Bytes {
    let version = split(metadata).map_or(0, |(version, _)| version);
    let named = assignment.iter().filter_map(|(id, partitions)| {
        let topic = StrBytes::from_string(names.get(id)?.to_string());
        let told = TopicPartition::default().with_topic(topic.into());
        Some(told.with_partitions(partitions.iter().copied().collect()))
    });
    let assignment = ConsumerProtocolAssignment::default().with_assigned_partitions(named.collect());
    let mut out = BytesMut::new();
    out.put_i16(version);
    assignment.encode(&mut out, version).expect("every version has these fields");
    out.freeze()
}

fn split(bytes: &[u8]) -> Option<(i16, Bytes)> {
    let (version, body) = bytes.split_first_chunk::<2>()?;
    let version = i16::from_be_bytes(*version);
    (version >= 0).then(|| (version.min(VERSION_MAX), Bytes::copy_from_slice(body)))
}

/// Topics that there are none of are left out.
fn by_id(named: impl Iterator<Item = (String, Vec<i32>)>, view: &dyn View) -> Assignment {
    let mut all = Assignment::new();
    for (name, partitions) in named.filter(|(_, partitions)| !partitions.is_empty()) {
        if let Some((id, _)) = view.topic(&name) {
            all.entry(id).or_default().extend(partitions);
        }
    }
    all
}
