//! AlterPartitionReassignments and ListPartitionReassignments. A partition's replicas are its shard's, and a shard carries
//! many partitions: so a request moves a shard when it names all of its partitions, to the same replicas. Moving one
//! without the others would mean carrying its pointers to another shard, whose producers' order and offsets would have to
//! go on without a gap. No record is copied: a newcomer gets pointers, and reads bytes from the store.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use futures::future::join_all;
use kafka_protocol::messages::alter_partition_reassignments_response::{
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use kafka_protocol::messages::list_partition_reassignments_response::{
    OngoingPartitionReassignment, OngoingTopicReassignment,
};
use kafka_protocol::messages::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
};
use kafka_protocol::protocol::StrBytes;
use milepost_raft::NodeId;

use crate::admin::error::code_and_message;
use crate::admin::{Admin, Context, Error, topics};
use crate::batch::Segments;
use crate::cluster::{RootEntry, RootRefusal, RootState, Shard};
use crate::protocol::{self, decode, encode};
use crate::types::{BrokerId, ShardId};

/// A partition by name, and the brokers it is to be at; `None` cancels.
type Asked = (String, i32, Option<Vec<BrokerId>>);

/// The partition's shard, and the nodes it is to be at.
type Wanted = Result<(ShardId, Option<Vec<NodeId>>), Error>;

/// What a partition's request comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// It is as asked.
    Nothing,
    Move {
        shard: ShardId,
        from: Vec<NodeId>,
        to: Vec<NodeId>,
    },
    Cancel {
        shard: ShardId,
    },
}

/// # Errors
/// The body does not follow the protocol.
pub async fn alter_partition_reassignments(
    admin: &Admin,
    _context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: AlterPartitionReassignmentsRequest = decode(version, body)?;
    let deadline = topics::deadline(request.timeout_ms);
    let each = request.topics.into_iter().flat_map(|topic| {
        let name = topic.name.to_string();
        topic.partitions.into_iter().map(move |partition| {
            let replicas = partition.replicas.map(|all| all.into_iter().map(|id| id.0).collect());
            (name.clone(), partition.partition_index, replicas)
        })
    });
    let asked: Vec<Asked> = each.collect();
    let steps = plan(&admin.cluster.view(), &asked);
    let mut entries: BTreeMap<ShardId, RootEntry> = BTreeMap::new();
    for step in steps.iter().flatten() {
        match step.clone() {
            Step::Nothing => {}
            Step::Move { shard, from, to } => drop(entries.insert(shard, RootEntry::MoveShard { shard, from, to })),
            Step::Cancel { shard } => drop(entries.insert(shard, RootEntry::CancelMove { shard })),
        }
    }
    let decided = entries.into_iter().map(async |(shard, entry)| (shard, admin.propose(entry, deadline).await));
    let decided: BTreeMap<ShardId, _> = join_all(decided).await.into_iter().collect();
    let mut by_topic: BTreeMap<String, Vec<ReassignablePartitionResponse>> = BTreeMap::new();
    for ((name, index, _), step) in asked.into_iter().zip(&steps) {
        let (code, message) = match step {
            Ok(Step::Move { shard, .. } | Step::Cancel { shard }) => code_and_message(&decided[shard]),
            other => code_and_message(other),
        };
        let told = ReassignablePartitionResponse::default().with_partition_index(index);
        by_topic.entry(name).or_default().push(told.with_error_code(code).with_error_message(message));
    }
    let responses = by_topic.into_iter().map(|(name, partitions)| {
        let name = StrBytes::from_string(name).into();
        ReassignableTopicResponse::default().with_name(name).with_partitions(partitions)
    });
    let answer =
        AlterPartitionReassignmentsResponse::default().with_error_message(None).with_responses(responses.collect());
    // The field came with version 1; a shard has as many replicas as the topics in it ask for, for good.
    encode(version, &if version >= 1 { answer.with_allow_replication_factor_change(false) } else { answer })
}

/// One step for each partition, in their order.
fn plan(view: &RootState, asked: &[Asked]) -> Vec<Result<Step, Error>> {
    let mut seen = BTreeSet::new();
    let wanted: Vec<Wanted> = asked
        .iter()
        .map(|(name, index, replicas)| {
            if !seen.insert((name, index)) {
                return Err(Error::InvalidRequest("the request names this partition more than once".into()));
            }
            let topic = view.topic_named(name).filter(|topic| (0..topic.live).contains(index));
            let shard = topic.ok_or(RootRefusal::UnknownTopic)?.placement[*index as usize];
            Ok((shard, replicas.as_ref().map(|replicas| nodes(view, replicas)).transpose()?))
        })
        .collect();
    wanted.iter().map(|one| step(view, one, &wanted)).collect()
}

fn step(view: &RootState, one: &Wanted, all: &[Wanted]) -> Result<Step, Error> {
    let (id, to) = one.as_ref().map_err(Error::clone)?;
    let shard = view.shard(*id).ok_or(RootRefusal::NoShard)?;
    match to {
        Some(to) if *to == shard.voters => return Ok(Step::Nothing),
        Some(to) if to.len() != shard.voters.len() => {
            let (asked, has) = (to.len(), shard.voters.len());
            let why = format!("{asked} replicas, but the partition has {has}, and a shard's number does not change");
            return Err(Error::InvalidReplicationFactor(why));
        }
        None if !shard.is_moving() => return Err(RootRefusal::NotMoving.into()),
        _ => {}
    }
    let alike = all.iter().flatten().filter(|other| *other == &(*id, to.clone())).count();
    let carries = view.partitions_in(*id);
    if alike < carries {
        let has: Vec<BrokerId> = brokers(view, &shard.voters);
        let others = carries - 1;
        return Err(Error::InvalidReplicaAssignment(format!(
            "the partition's replicas are those of shard {id}, {has:?}, which carries {others} more: they move together, \
             so a request names all of them, alike"
        )));
    }
    Ok(match to {
        Some(to) => Step::Move { shard: *id, from: shard.voters.clone(), to: to.clone() },
        None => Step::Cancel { shard: *id },
    })
}

fn nodes(view: &RootState, replicas: &[BrokerId]) -> Result<Vec<NodeId>, Error> {
    if replicas.is_empty() || replicas.iter().collect::<BTreeSet<_>>().len() != replicas.len() {
        return Err(Error::InvalidReplicaAssignment(format!("replicas {replicas:?}: none, or one named twice")));
    }
    let node = |id: &BrokerId| {
        let unknown = || {
            Error::InvalidReplicaAssignment(format!(
                "The manual partition assignment includes broker {id}, but no such broker is registered."
            ))
        };
        view.broker(*id).map(|broker| broker.node).ok_or_else(unknown)
    };
    replicas.iter().map(node).collect()
}

fn brokers(view: &RootState, nodes: &[NodeId]) -> Vec<BrokerId> {
    nodes.iter().filter_map(|node| view.broker_of(*node)).map(|broker| broker.id).collect()
}

/// # Errors
/// The body does not follow the protocol.
pub async fn list_partition_reassignments(
    admin: &Admin,
    _context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: ListPartitionReassignmentsRequest = decode(version, body)?;
    let asked = request.topics.map(|topics| {
        let mut asked: BTreeMap<String, Vec<i32>> = BTreeMap::new();
        for topic in topics {
            asked.entry(topic.name.to_string()).or_default().extend(topic.partition_indexes);
        }
        asked
    });
    let topics = ongoing(&admin.cluster.view(), asked.as_ref());
    encode(version, &ListPartitionReassignmentsResponse::default().with_error_message(None).with_topics(topics))
}

/// All that move when none is asked for; what does not move, or is not there, is left out.
fn ongoing(view: &RootState, asked: Option<&BTreeMap<String, Vec<i32>>>) -> Vec<OngoingTopicReassignment> {
    let moving: BTreeMap<ShardId, &Shard> =
        view.shards().filter(|shard| shard.is_moving()).map(|shard| (shard.id, shard.as_ref())).collect();
    let topics = view.live_topics().filter_map(|topic| {
        let wanted = match asked {
            None => None,
            Some(asked) => Some(asked.get(&topic.name)?),
        };
        let placed = (0..topic.live).zip(&topic.placement);
        let placed = placed.filter(|(index, _)| wanted.is_none_or(|wanted| wanted.contains(index)));
        let partitions = placed.filter_map(|(index, shard)| Some(told(view, index, moving.get(shard)?)));
        let partitions: Vec<_> = partitions.collect();
        let name = StrBytes::from_string(topic.name.clone()).into();
        (!partitions.is_empty())
            .then(|| OngoingTopicReassignment::default().with_name(name).with_partitions(partitions))
    });
    topics.collect()
}

fn told(view: &RootState, index: i32, shard: &Shard) -> OngoingPartitionReassignment {
    let without = |nodes: &[NodeId], others: &[NodeId]| -> Vec<NodeId> {
        nodes.iter().copied().filter(|node| !others.contains(node)).collect()
    };
    let ids = |nodes: Vec<NodeId>| brokers(view, &nodes).into_iter().map(Into::into).collect::<Vec<_>>();
    OngoingPartitionReassignment::default()
        .with_partition_index(index)
        .with_replicas(ids(shard.members().collect()))
        .with_adding_replicas(ids(without(&shard.voters, &shard.moving_from)))
        .with_removing_replicas(ids(without(&shard.moving_from, &shard.voters)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::sample;
    use crate::protocol::ErrorCode;

    /// Brokers 0 to 3 on nodes 1 to 4; shard 1 of brokers 0 to 2 carries t-0, t-1 and u-0.
    fn view() -> RootState {
        let mut view = RootState::default();
        for (id, zone) in (0..).zip(["a", "b", "c", "d"]) {
            sample::join(&mut view, id, zone);
        }
        view.apply(RootEntry::CreateShard { replication_factor: 3, voters: vec![1, 2, 3], preferred: 1 });
        sample::topic(&mut view, "t", 1, 2, 2);
        sample::topic(&mut view, "u", 2, 1, 1);
        view
    }

    fn asked(all: &[(&str, i32, Option<&[BrokerId]>)]) -> Vec<Asked> {
        all.iter().map(|(name, index, to)| ((*name).to_owned(), *index, to.map(<[_]>::to_vec))).collect()
    }

    fn codes(steps: &[Result<Step, Error>]) -> Vec<Option<ErrorCode>> {
        steps.iter().map(|step| step.as_ref().err().map(Error::code)).collect()
    }

    const TO: Option<&[BrokerId]> = Some(&[3, 1, 2]);
    const ALL: [(&str, i32, Option<&[BrokerId]>); 3] = [("t", 0, TO), ("t", 1, TO), ("u", 0, TO)];

    #[test]
    fn a_shard_moves_when_all_its_partitions_are_asked_to() {
        let view = view();
        let due = Step::Move { shard: 1, from: vec![1, 2, 3], to: vec![4, 2, 3] };
        assert!(plan(&view, &asked(&ALL)).into_iter().all(|step| step.unwrap() == due));
        let invalid = Some(ErrorCode::InvalidReplicaAssignment);
        assert_eq!(codes(&plan(&view, &asked(&ALL[..2]))), [invalid, invalid]);
        let other: Option<&[BrokerId]> = Some(&[3, 2, 1]);
        let apart = plan(&view, &asked(&[ALL[0], ALL[1], ("u", 0, other)]));
        assert_eq!(codes(&apart), [invalid; 3], "not alike");
        assert!(apart[0].as_ref().unwrap_err().to_string().contains("shard 1, [0, 1, 2], which carries 2 more"));
    }

    #[test]
    fn what_is_as_asked_is_done_and_the_rest_has_kafkas_code() {
        let view = view();
        let same: Option<&[BrokerId]> = Some(&[0, 1, 2]);
        assert_eq!(plan(&view, &asked(&[("t", 1, same)]))[0].as_ref().unwrap(), &Step::Nothing);
        for (one, code) in [
            (("v", 0, same), ErrorCode::UnknownTopicOrPartition),
            (("t", 2, same), ErrorCode::UnknownTopicOrPartition),
            (("t", 0, Some(&[][..])), ErrorCode::InvalidReplicaAssignment),
            (("t", 0, Some(&[1, 1, 2][..])), ErrorCode::InvalidReplicaAssignment),
            (("t", 0, Some(&[0, 1, 9][..])), ErrorCode::InvalidReplicaAssignment),
            (("t", 0, Some(&[0, 1][..])), ErrorCode::InvalidReplicationFactor),
            (("t", 0, None), ErrorCode::NoReassignmentInProgress),
        ] {
            assert_eq!(codes(&plan(&view, &asked(&[one]))), [Some(code)], "{one:?}");
        }
        assert_eq!(codes(&plan(&view, &asked(&[ALL[0], ALL[0]])))[1], Some(ErrorCode::InvalidRequest));
    }

    #[test]
    fn a_move_is_listed_and_cancelled_partition_by_partition() {
        let mut view = view();
        assert!(ongoing(&view, None).is_empty());
        view.apply(RootEntry::MoveShard { shard: 1, from: vec![1, 2, 3], to: vec![4, 2, 3] });
        let told = ongoing(&view, None);
        assert_eq!(
            told.iter().map(|t| (t.name.as_str(), t.partitions.len())).collect::<Vec<_>>(),
            [("t", 2), ("u", 1)]
        );
        let one = &told[0].partitions[1];
        let ids = |all: &[kafka_protocol::messages::BrokerId]| all.iter().map(|id| id.0).collect::<Vec<_>>();
        assert_eq!((ids(&one.replicas), ids(&one.adding_replicas)), (vec![3, 1, 2, 0], vec![3]));
        assert_eq!(ids(&one.removing_replicas), [0]);
        let only = BTreeMap::from([("t".to_owned(), vec![1, 7]), ("v".to_owned(), vec![0])]);
        assert_eq!(ongoing(&view, Some(&only)).iter().map(|t| t.partitions.len()).sum::<usize>(), 1);

        let cancel = asked(&[("t", 0, None), ("t", 1, None), ("u", 0, None)]);
        assert!(plan(&view, &cancel).into_iter().all(|step| step.unwrap() == Step::Cancel { shard: 1 }));
        assert_eq!(codes(&plan(&view, &cancel[..1])), [Some(ErrorCode::InvalidReplicaAssignment)]);
        view.apply(RootEntry::CancelMove { shard: 1 });
        assert!(ongoing(&view, None).is_empty());
        assert_eq!(codes(&plan(&view, &cancel)), [Some(ErrorCode::NoReassignmentInProgress); 3]);
    }
}
