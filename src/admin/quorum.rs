//! The root shard, as Kafka's tools see a cluster's metadata quorum: DescribeQuorum, AddRaftVoter, RemoveRaftVoter.

use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::describe_quorum_response::{Listener, Node, PartitionData, ReplicaState, TopicData};
use kafka_protocol::messages::{
    AddRaftVoterRequest, AddRaftVoterResponse, DescribeQuorumRequest, DescribeQuorumResponse, RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
};
use kafka_protocol::protocol::StrBytes;
use milepost_raft::NodeId;
use uuid::Uuid;

use crate::admin::error::code_and_message;
use crate::admin::internal::CLUSTER_METADATA;
use crate::admin::{Admin, Context, Error};
use crate::batch::Segments;
use crate::cluster::{Quorum, QuorumMember, RootState, now_ms};
use crate::config::HostPort;
use crate::protocol::{self, ErrorCode, decode, encode};
use crate::types::{BrokerId, Timestamp};

const LEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// Listeners have names in Kafka; what brokers reach each other by has this one here.
const LISTENER: &str = "INTERNAL";
/// Kafka: the time is not known.
const NO_TIME: Timestamp = -1;

/// DescribeQuorum (API 55): any broker asks the root's leader.
///
/// # Errors
/// The body does not follow the protocol.
pub async fn describe_quorum(
    admin: &Admin,
    _context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: DescribeQuorumRequest = decode(version, body)?;
    let only = |topic: &kafka_protocol::messages::describe_quorum_request::TopicData| {
        topic.topic_name.as_str() == CLUSTER_METADATA
            && topic.partitions.iter().map(|partition| partition.partition_index).eq([0])
    };
    if request.topics.len() != 1 || !request.topics.iter().all(only) {
        return encode(version, &DescribeQuorumResponse::default().with_topics(unknown(request)));
    }
    let told = admin.cluster.quorum(LEADER_TIMEOUT).await.map_err(Error::from);
    let (code, message) = code_and_message(&told);
    let answer = DescribeQuorumResponse::default().with_error_code(code);
    // Messages and nodes came with version 2.
    let answer = if version >= 2 { answer.with_error_message(message) } else { answer };
    let Ok(quorum) = told else { return encode(version, &answer) };
    let view = admin.cluster.view();
    let partition = partition(version, &view, &quorum, now_ms());
    let topic = TopicData::default()
        .with_topic_name(StrBytes::from_static_str(CLUSTER_METADATA).into())
        .with_partitions(vec![partition]);
    let answer = answer.with_topics(vec![topic]);
    encode(version, &if version >= 2 { answer.with_nodes(nodes(&view)) } else { answer })
}

/// Nothing else has a quorum, and each partition is told so.
fn unknown(request: DescribeQuorumRequest) -> Vec<TopicData> {
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|asked| {
            let told = PartitionData::default().with_partition_index(asked.partition_index);
            told.with_error_code(ErrorCode::UnknownTopicOrPartition.code())
        });
        TopicData::default().with_topic_name(topic.topic_name).with_partitions(partitions.collect())
    });
    topics.collect()
}

fn partition(version: i16, view: &RootState, quorum: &Quorum, now: Timestamp) -> PartitionData {
    let leader = view.broker_of(quorum.leader).map_or(-1, |broker| broker.id);
    let states = |voter: bool| {
        let members = quorum.members.iter().filter(move |member| member.voter == voter);
        members.filter_map(|member| replica(version, view, quorum, member, now)).collect()
    };
    PartitionData::default()
        .with_leader_id(leader.into())
        .with_leader_epoch(i32::try_from(quorum.term).unwrap_or(i32::MAX))
        .with_high_watermark(quorum.committed as i64 + 1)
        .with_current_voters(states(true))
        .with_observers(states(false))
}

/// A node that no broker has any more has no id either: it is on its way out.
fn replica(
    version: i16,
    view: &RootState,
    quorum: &Quorum,
    member: &QuorumMember,
    now: Timestamp,
) -> Option<ReplicaState> {
    let broker = view.broker_of(member.node)?;
    let heard = member.silent_ms.map_or(NO_TIME, |silent| now - silent as i64);
    let caught_up = member.matched.is_some_and(|matched| matched >= quorum.last());
    let state = ReplicaState::default()
        .with_replica_id(broker.id.into())
        .with_log_end_offset(member.matched.map_or(0, |matched| matched as i64 + 1));
    // Times came with version 1, directories with 2.
    let state = match version {
        0 => state,
        _ => state.with_last_fetch_timestamp(heard).with_last_caught_up_timestamp(if caught_up {
            heard
        } else {
            NO_TIME
        }),
    };
    Some(if version >= 2 { state.with_replica_directory_id(directory(view, member.node)) } else { state })
}

fn directory(view: &RootState, node: NodeId) -> Uuid {
    view.directory_of(node).and_then(|name| name.parse().ok()).unwrap_or_default()
}

fn nodes(view: &RootState) -> Vec<Node> {
    let told = view.brokers().map(|broker| {
        let address = broker.internal.parse::<HostPort>().ok();
        let listener = address.map(|at| {
            Listener::default()
                .with_name(StrBytes::from_static_str(LISTENER))
                .with_host(StrBytes::from_string(at.host))
                .with_port(at.port)
        });
        Node::default().with_node_id(broker.id.into()).with_listeners(listener.into_iter().collect())
    });
    told.collect()
}

/// AddRaftVoter (API 80), refused with the reason.
///
/// # Errors
/// The body does not follow the protocol.
pub async fn add_raft_voter(
    admin: &Admin,
    _context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: AddRaftVoterRequest = decode(version, body)?;
    let answer = refusal(admin, request.cluster_id.as_deref(), |votes| match votes(request.voter_id, None) {
        true => Error::DuplicateVoter(request.voter_id),
        false => Error::VotersChooseThemselves,
    });
    let (code, message) = code_and_message::<()>(&Err(answer));
    encode(version, &AddRaftVoterResponse::default().with_error_code(code).with_error_message(message))
}

/// RemoveRaftVoter (API 81), refused with the reason.
///
/// # Errors
/// The body does not follow the protocol.
pub async fn remove_raft_voter(
    admin: &Admin,
    _context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: RemoveRaftVoterRequest = decode(version, body)?;
    let answer = refusal(admin, request.cluster_id.as_deref(), |votes| {
        match votes(request.voter_id, Some(request.voter_directory_id)) {
            true => Error::VotersChooseThemselves,
            false => Error::VoterNotFound(request.voter_id),
        }
    });
    let (code, message) = code_and_message::<()>(&Err(answer));
    encode(version, &RemoveRaftVoterResponse::default().with_error_code(code).with_error_message(message))
}

/// The root's voters follow from which brokers are alive and where; the next look would undo what is done by hand.
fn refusal(
    admin: &Admin,
    cluster_id: Option<&str>,
    why: impl FnOnce(&dyn Fn(BrokerId, Option<Uuid>) -> bool) -> Error,
) -> Error {
    if cluster_id.is_some_and(|id| id != admin.cluster.cluster_id()) {
        return Error::OtherCluster(admin.cluster.cluster_id().to_owned());
    }
    let (view, voters) = (admin.cluster.view(), admin.cluster.root().voters());
    why(&|broker, asked| {
        view.broker(broker).is_some_and(|broker| {
            voters.contains(&broker.node) && asked.is_none_or(|asked| asked == directory(&view, broker.node))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::sample;

    #[test]
    fn what_has_no_quorum_is_said_of_each_partition() {
        use kafka_protocol::messages::describe_quorum_request as asked;
        let partition = |index| asked::PartitionData::default().with_partition_index(index);
        let topic = asked::TopicData::default().with_topic_name(StrBytes::from_static_str("t").into());
        let topic = topic.with_partitions(vec![partition(0), partition(7)]);
        let told = unknown(DescribeQuorumRequest::default().with_topics(vec![topic]));
        assert_eq!(told[0].topic_name.as_str(), "t");
        let told: Vec<_> = told[0].partitions.iter().map(|told| (told.partition_index, told.error_code)).collect();
        assert_eq!(told, [(0, 3), (7, 3)]);
    }

    #[test]
    fn voters_and_observers_are_told_apart_with_what_is_known_of_each() {
        let view = sample::cluster(&["a", "b", "c"]);
        let member = |node, voter, matched, silent_ms| QuorumMember { node, voter, matched, silent_ms };
        let members = vec![
            member(2, true, Some(9), Some(0)),
            member(1, true, Some(7), Some(40)),
            member(3, false, None, None),
            member(77, true, None, None),
        ];
        let quorum = Quorum { term: 5, leader: 2, committed: 8, members };
        let told = partition(2, &view, &quorum, 1000);
        assert_eq!((told.leader_id.0, told.leader_epoch, told.high_watermark), (1, 5, 9));
        let of = |states: &[ReplicaState]| -> Vec<_> {
            let one = |s: &ReplicaState| {
                (s.replica_id.0, s.log_end_offset, s.last_fetch_timestamp, s.last_caught_up_timestamp)
            };
            states.iter().map(one).collect()
        };
        assert_eq!(of(&told.current_voters), [(1, 10, 1000, 1000), (0, 8, 960, -1)]);
        assert_eq!(of(&told.observers), [(2, 0, -1, -1)]);
    }
}
