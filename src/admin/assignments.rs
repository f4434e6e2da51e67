//! Replicas that a request assigns by hand. A partition's replicas are its shard's, so each list of brokers, in its order,
//! is a shard (`cluster/topics.rs`): one that has just these replicas, or one made for them. What Kafka would refuse is
//! refused with its code.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::BrokerId;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsAssignment;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use milepost_raft::NodeId;

use crate::admin::Error;
use crate::cluster::RootState;

/// The nodes of each partition's replicas, the preferred one first.
pub(super) type Assigned = Vec<Vec<NodeId>>;

/// What a request for a topic assigns.
///
/// # Errors
/// See the module.
pub(super) fn of_topic(view: &RootState, asked: &CreatableTopic) -> Result<Assigned, Error> {
    for (what, count) in
        [("replication factor", i32::from(asked.replication_factor)), ("numPartitions", asked.num_partitions)]
    {
        if count != -1 {
            let why = format!("A manual partition assignment was specified, but {what} was not set to -1.");
            return Err(Error::InvalidRequest(why));
        }
    }
    let mut by_index: BTreeMap<i32, &[BrokerId]> = BTreeMap::new();
    for assigned in &asked.assignments {
        let index = assigned.partition_index;
        if by_index.insert(index, &assigned.broker_ids).is_some() {
            return Err(refused(&format!("Found multiple manual partition assignments for partition {index}")));
        }
    }
    let partitions = i32::try_from(asked.assignments.len()).unwrap_or(i32::MAX);
    if !by_index.keys().copied().eq(0..partitions) {
        return Err(refused("partitions should be a consecutive 0-based integer sequence"));
    }
    check(view, by_index.into_values(), None)
}

/// What is assigned to partitions that a topic of `factor` replicas grows by.
///
/// # Errors
/// See the module.
pub(super) fn of_growth(
    view: &RootState,
    by: usize,
    factor: u16,
    assignments: &[CreatePartitionsAssignment],
) -> Result<Assigned, Error> {
    if assignments.len() != by {
        return Err(refused(&format!(
            "Attempted to add {by} additional partition(s), but only {} assignment(s) were specified.",
            assignments.len()
        )));
    }
    check(view, assignments.iter().map(|assigned| assigned.broker_ids.as_slice()), Some(factor.into()))
}

fn check<'a>(
    view: &RootState,
    partitions: impl Iterator<Item = &'a [BrokerId]>,
    mut factor: Option<usize>,
) -> Result<Assigned, Error> {
    let node = |broker: &BrokerId| {
        let known = view.broker(broker.0).map(|known| known.node);
        known.ok_or_else(|| {
            refused(&format!(
                "The manual partition assignment includes broker {}, but no such broker is registered.",
                broker.0
            ))
        })
    };
    let replicas = |brokers: &[BrokerId]| {
        let nodes = brokers.iter().map(node).collect::<Result<Vec<NodeId>, Error>>()?;
        if nodes.is_empty() {
            return Err(refused("The manual partition assignment includes an empty replica list."));
        }
        let mut seen = BTreeSet::new();
        if let Some(twice) = brokers.iter().find(|broker| !seen.insert(broker.0)) {
            let why = format!("The manual partition assignment includes the broker {} more than once.", twice.0);
            return Err(refused(&why));
        }
        if *factor.get_or_insert(nodes.len()) != nodes.len() {
            return Err(refused("every partition of a topic must have the same number of replicas"));
        }
        Ok(nodes)
    };
    partitions.map(replicas).collect()
}

fn refused(why: &str) -> Error {
    Error::InvalidReplicaAssignment(why.into())
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::create_topics_request::CreatableReplicaAssignment;

    use super::*;
    use crate::admin::sample;
    use crate::protocol::ErrorCode;

    fn topic(assigned: &[(i32, &[i32])]) -> CreatableTopic {
        let assigned = assigned.iter().map(|(index, replicas)| {
            let replicas = replicas.iter().copied().map(BrokerId).collect();
            CreatableReplicaAssignment::default().with_partition_index(*index).with_broker_ids(replicas)
        });
        CreatableTopic::default()
            .with_num_partitions(-1)
            .with_replication_factor(-1)
            .with_assignments(assigned.collect())
    }

    fn added(assigned: &[&[i32]]) -> Vec<CreatePartitionsAssignment> {
        let replicas = |all: &&[i32]| all.iter().copied().map(BrokerId).collect();
        assigned.iter().map(|all| CreatePartitionsAssignment::default().with_broker_ids(replicas(all))).collect()
    }

    #[test]
    fn replicas_are_the_nodes_of_the_brokers_in_their_order() {
        let view = sample::cluster(&["a", "b", "c"]);
        let node = |broker| view.broker(broker).unwrap().node;
        let nodes = |lists: &[&[i32]]| -> Assigned {
            lists.iter().map(|list| list.iter().map(|broker| node(*broker)).collect()).collect()
        };
        let assigned = of_topic(&view, &topic(&[(1, &[2, 0]), (0, &[0, 1])])).unwrap();
        assert_eq!(assigned, nodes(&[&[0, 1], &[2, 0]]));
        assert_eq!(of_growth(&view, 2, 1, &added(&[&[1], &[0]])).unwrap(), nodes(&[&[1], &[0]]));
    }

    #[test]
    fn refuses_what_cannot_be_had_and_what_kafka_refuses() {
        let view = sample::cluster(&["a", "b", "c"]);
        let all: &[i32] = &[0, 1, 2];
        for wrong in [
            topic(&[(0, &[0, 1, 3])]),
            topic(&[(0, &[0, 1, 1])]),
            topic(&[(0, &[])]),
            topic(&[(0, all), (1, &[0, 1])]),
            topic(&[(0, all), (0, all)]),
            topic(&[(1, all)]),
            topic(&[(-1, all)]),
        ] {
            assert_eq!(of_topic(&view, &wrong).unwrap_err().code(), ErrorCode::InvalidReplicaAssignment, "{wrong:?}");
        }
        for contradicts in [topic(&[(0, all)]).with_num_partitions(1), topic(&[(0, all)]).with_replication_factor(3)] {
            assert_eq!(of_topic(&view, &contradicts).unwrap_err().code(), ErrorCode::InvalidRequest);
        }
        for (by, factor, wrong) in
            [(2, 3, added(&[all])), (1, 3, added(&[&[0]])), (1, 2, added(&[all])), (1, 3, added(&[]))]
        {
            assert_eq!(of_growth(&view, by, factor, &wrong).unwrap_err().code(), ErrorCode::InvalidReplicaAssignment);
        }
    }
}
