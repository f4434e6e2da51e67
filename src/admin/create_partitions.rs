use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::{CreatePartitionsRequest, CreatePartitionsResponse};
use tokio::time::Instant;

use crate::admin::assignments::{self, Assigned};
use crate::admin::error::code_and_message;
use crate::admin::mutations::Mutations;
use crate::admin::{Admin, Context, Error, PARTITIONS_MAX, PARTITIONS_PER_REQUEST_MAX, internal, names, topics};
use crate::batch::Segments;
use crate::cluster::{RootEntry, RootRefusal, RootState};
use crate::protocol::{self, decode, encode};
use crate::types::TopicId;

/// Whose clients know that a quota was exceeded (KIP-599).
const STRICT_SINCE: i16 = 3;

/// Also how long the client is to be left waiting.
///
/// # Errors
/// The body does not follow the protocol.
pub async fn create_partitions(
    admin: &Admin,
    context: &Context,
    version: i16,
    body: Bytes,
) -> Result<(Segments, Duration), protocol::Error> {
    let request: CreatePartitionsRequest = decode(version, body)?;
    let deadline = topics::deadline(request.timeout_ms);
    let validate_only = request.validate_only;
    let mutations = Mutations::of(admin, context, version >= STRICT_SINCE);
    let too_much = added(&admin.cluster.view(), &request.topics) > i64::from(PARTITIONS_PER_REQUEST_MAX);
    let asked = names::counted(request.topics, |topic| topic.name.clone());
    let results = topics::each(asked, async |(asked, repeated)| {
        let grown = match too_much {
            true => Err(Error::PolicyViolation("Excessively large number of additional partitions per request.")),
            false => grow(admin, &mutations, &asked, repeated, validate_only, deadline).await,
        };
        let (code, message) = code_and_message(&grown);
        CreatePartitionsTopicResult::default().with_name(asked.name).with_error_code(code).with_error_message(message)
    });
    let answer = CreatePartitionsResponse::default().with_results(results.await);
    let wait = mutations.wait();
    Ok((encode(version, &answer.with_throttle_time_ms(wait.as_millis() as i32))?, wait))
}

/// The partitions that a request adds, of topics that exist.
fn added(view: &RootState, topics: &[CreatePartitionsTopic]) -> i64 {
    let added = topics.iter().filter_map(|asked| {
        let present = view.topic_named(&asked.name)?.placement.len() as i64;
        Some((i64::from(asked.count) - present).max(0))
    });
    added.sum()
}

async fn grow(
    admin: &Admin,
    mutations: &Mutations,
    asked: &CreatePartitionsTopic,
    repeated: bool,
    validate_only: bool,
    deadline: Instant,
) -> Result<(), Error> {
    topics::refuse_repeated(repeated)?;
    internal::refuse_internal(&asked.name)?;
    let view = admin.cluster.view();
    let (topic, assigned) = check(&view, asked)?;
    mutations.take(asked.count as usize - view.topic(topic).map_or(0, |topic| topic.placement.len()))?;
    if validate_only {
        return Ok(());
    }
    admin.propose(RootEntry::AddPartitions { topic, partitions: asked.count, assigned }, deadline).await?;
    admin.wait_live(topic, asked.count, deadline).await.map(drop)
}

fn check(view: &RootState, asked: &CreatePartitionsTopic) -> Result<(TopicId, Assigned), Error> {
    let topic = view.topic_named(&asked.name).ok_or(RootRefusal::UnknownTopic)?;
    let present = topic.placement.len();
    let by = match usize::try_from(asked.count) {
        Ok(count) if count > present && asked.count <= PARTITIONS_MAX => count - present,
        Ok(count) if count > present => {
            return Err(Error::InvalidPartitions(format!("a topic has at most {PARTITIONS_MAX} partitions")));
        }
        Ok(count) if count == present => {
            return Err(Error::InvalidPartitions(format!("Topic already has {present} partition(s).")));
        }
        _ => {
            let (name, count) = (asked.name.as_str(), asked.count);
            return Err(Error::InvalidPartitions(format!(
                "The topic {name} currently has {present} partition(s); {count} would not be an increase."
            )));
        }
    };
    let assigned = match asked.assignments.as_deref() {
        None => Vec::new(),
        Some(assigned) => assignments::of_growth(view, by, topic.replication_factor, assigned)?,
    };
    Ok((topic.id, assigned))
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::create_partitions_request::CreatePartitionsAssignment;
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::admin::sample;
    use crate::protocol::ErrorCode;

    #[test]
    fn a_topic_only_grows() {
        let mut view = sample::cluster(&["a"]);
        sample::topic(&mut view, "t", 1, 3, 3);
        let asked = |name, count| {
            let name = StrBytes::from_static_str(name).into();
            CreatePartitionsTopic::default().with_name(name).with_count(count).with_assignments(None)
        };
        assert_eq!(check(&view, &asked("t", 4)).unwrap(), (sample::topic_id(1), Vec::new()));
        for count in [3, 0, -1, i32::MIN, PARTITIONS_MAX + 1] {
            assert_eq!(check(&view, &asked("t", count)).unwrap_err().code(), ErrorCode::InvalidPartitions);
        }
        assert_eq!(added(&view, &[asked("t", 5), asked("t", 1), asked("t", -1), asked("u", 9), asked("t", 4)]), 3);
        assert_eq!(added(&view, &[asked("t", i32::MAX), asked("t", i32::MAX)]), 2 * (i64::from(i32::MAX) - 3));
        assert_eq!(check(&view, &asked("u", 4)).unwrap_err().code(), ErrorCode::UnknownTopicOrPartition);
        for by_hand in [vec![], vec![CreatePartitionsAssignment::default()]] {
            let by_hand = asked("t", 4).with_assignments(Some(by_hand));
            assert_eq!(check(&view, &by_hand).unwrap_err().code(), ErrorCode::InvalidReplicaAssignment);
        }
    }
}
