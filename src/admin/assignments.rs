//! Replicas that a request assigns by hand. A partition's replicas are its shard's, and a shard carries many partitions:
//! so what can be had is that all brokers replicate it. Anything else that Kafka would take is refused with the reason;
//! what Kafka would refuse is refused with its code.

use std::collections::BTreeSet;

use kafka_protocol::messages::BrokerId;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsAssignment;
use kafka_protocol::messages::create_topics_request::CreatableTopic;

use crate::admin::Error;
use crate::cluster::RootState;

/// A request for a topic that says how many partitions and replicas are wanted, where this one says which.
///
/// # Errors
/// See the module.
pub(super) fn counted(view: &RootState, asked: &CreatableTopic) -> Result<CreatableTopic, Error> {
    if asked.num_partitions != -1 || asked.replication_factor != -1 {
        let why = "with replicas assigned by hand, the counts of partitions and of replicas must be -1";
        return Err(Error::InvalidRequest(why.into()));
    }
    let indexes: BTreeSet<i32> = asked.assignments.iter().map(|assigned| assigned.partition_index).collect();
    let partitions = i32::try_from(asked.assignments.len()).unwrap_or(i32::MAX);
    if !indexes.into_iter().eq(0..partitions) {
        return Err(refused("the assigned partitions must be 0, 1, 2 and so on, each once"));
    }
    let replicas = asked.assignments.iter().map(|assigned| assigned.broker_ids.as_slice());
    let factor = check(view, replicas)?;
    Ok(asked.clone().with_assignments(Vec::new()).with_num_partitions(partitions).with_replication_factor(factor))
}

/// The replicas of partitions that a topic grows by, of which it has `factor` so far.
///
/// # Errors
/// See the module.
pub(super) fn grown(
    view: &RootState,
    by: usize,
    factor: u16,
    assignments: &[CreatePartitionsAssignment],
) -> Result<(), Error> {
    if assignments.len() != by {
        return Err(refused(&format!("{by} partitions are to be added, and {} are assigned", assignments.len())));
    }
    let assigned = check(view, assignments.iter().map(|assigned| assigned.broker_ids.as_slice()))?;
    match u16::try_from(assigned) == Ok(factor) {
        true => Ok(()),
        false => Err(refused(&format!("the topic's partitions have {factor} replicas, not {assigned}"))),
    }
}

/// How many replicas each of the partitions is assigned.
fn check<'a>(view: &RootState, partitions: impl Iterator<Item = &'a [BrokerId]>) -> Result<i16, Error> {
    let all: BTreeSet<i32> = view.brokers().map(|broker| broker.id).collect();
    let mut factor = None;
    for replicas in partitions {
        if let Some(unknown) = replicas.iter().find(|broker| !all.contains(&broker.0)) {
            return Err(refused(&format!("there is no broker {}", unknown.0)));
        }
        let distinct: BTreeSet<i32> = replicas.iter().map(|broker| broker.0).collect();
        if replicas.is_empty() || distinct.len() != replicas.len() {
            return Err(refused("a partition needs at least one replica, and each on another broker"));
        }
        if *factor.get_or_insert(replicas.len()) != replicas.len() {
            return Err(refused("every partition must have the same number of replicas"));
        }
    }
    match factor {
        Some(factor) if factor == all.len() => Ok(i16::try_from(factor).unwrap_or(i16::MAX)),
        _ => Err(refused(
            "partitions share the replicas of the shard that carries them, so that by hand they can only be given all \
             brokers; leave the assignments empty and say how many replicas are wanted",
        )),
    }
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
    fn all_brokers_in_any_order_are_what_every_partition_gets() {
        let view = sample::cluster(&["a", "b", "c"]);
        let counted = counted(&view, &topic(&[(1, &[2, 0, 1]), (0, &[0, 1, 2])])).unwrap();
        assert_eq!((counted.num_partitions, counted.replication_factor), (2, 3));
        assert!(counted.assignments.is_empty());
        grown(&view, 2, 3, &added(&[&[1, 2, 0], &[0, 1, 2]])).unwrap();
    }

    #[test]
    fn refuses_what_cannot_be_had_and_what_kafka_refuses() {
        let view = sample::cluster(&["a", "b", "c"]);
        let all: &[i32] = &[0, 1, 2];
        for wrong in [
            topic(&[(0, &[0, 1])]),
            topic(&[(0, &[0, 1, 3])]),
            topic(&[(0, &[0, 1, 1])]),
            topic(&[(0, &[])]),
            topic(&[(0, all), (1, &[0, 1])]),
            topic(&[(0, all), (0, all)]),
            topic(&[(1, all)]),
            topic(&[(-1, all)]),
        ] {
            assert_eq!(counted(&view, &wrong).unwrap_err().code(), ErrorCode::InvalidReplicaAssignment, "{wrong:?}");
        }
        for contradicts in [topic(&[(0, all)]).with_num_partitions(1), topic(&[(0, all)]).with_replication_factor(3)] {
            assert_eq!(counted(&view, &contradicts).unwrap_err().code(), ErrorCode::InvalidRequest);
        }
        for (by, factor, wrong) in
            [(2, 3, added(&[all])), (1, 3, added(&[&[0]])), (1, 2, added(&[all])), (1, 3, added(&[]))]
        {
            assert_eq!(grown(&view, by, factor, &wrong).unwrap_err().code(), ErrorCode::InvalidReplicaAssignment);
        }
    }
}
