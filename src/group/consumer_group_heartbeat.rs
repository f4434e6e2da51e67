use std::collections::BTreeSet;

use bytes::Bytes;
use kafka_protocol::messages::consumer_group_heartbeat_response::{Assignment as ToldAssignment, TopicPartitions};
use kafka_protocol::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use uuid::Uuid;

use crate::batch::Segments;
use crate::group::consumer::{self, Assignor, Beat, LEAVES, LEAVES_FOR_NOW, Pattern, Reply};
use crate::group::{Context, Groups};
use crate::protocol::{self, ErrorCode, StrBytes, decode, encode};
use crate::shard::group::Assignment;
use crate::types::TopicId;

/// Since this version members choose their ids themselves.
const OWN_ID_SINCE: i16 = 1;

/// # Errors
/// The body does not follow the protocol.
pub async fn consumer_group_heartbeat(
    groups: &Groups,
    context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: ConsumerGroupHeartbeatRequest = decode(version, body)?;
    let group = request.group_id.0.clone();
    let reply = match check(&request, version, &groups.settings.consumer.assignors) {
        Ok(()) => groups.ask_consumer(&group, consumer::Ask::Beat(Box::new(beat(request, context)))).await,
        Err((error, why)) => Reply::failed(error, why),
    };
    let answer = ConsumerGroupHeartbeatResponse::default();
    let answer = match reply {
        Reply::Beaten(beaten) => answer
            .with_member_id(Some(StrBytes::from_string(beaten.member)))
            .with_member_epoch(beaten.epoch)
            .with_heartbeat_interval_ms(i32::try_from(beaten.interval.as_millis()).unwrap_or(i32::MAX))
            .with_assignment(beaten.assignment.map(told)),
        Reply::Failed { error, why } => {
            let why = (!why.is_empty()).then(|| StrBytes::from_string(why));
            answer.with_error_code(error.code()).with_error_message(why)
        }
        Reply::Done | Reply::Described(_) => answer.with_error_code(ErrorCode::UnknownServerError.code()),
    };
    encode(version, &answer)
}

/// What a request may say (Kafka: `throwIfConsumerGroupHeartbeatRequestIsInvalid`).
fn check(request: &ConsumerGroupHeartbeatRequest, version: i16, known: &[Assignor]) -> Result<(), (ErrorCode, String)> {
    let invalid = |why: &str| Err((ErrorCode::InvalidRequest, why.to_owned()));
    let is_blank = |text: &Option<StrBytes>| text.as_ref().is_some_and(|text| text.trim().is_empty());
    let member_is_blank = request.member_id.trim().is_empty();
    if request.group_id.trim().is_empty() {
        return invalid("GroupId can't be empty.");
    }
    if is_blank(&request.instance_id) {
        return invalid("InstanceId can't be empty.");
    }
    if is_blank(&request.rack_id) {
        return invalid("RackId can't be empty.");
    }
    if member_is_blank && (version >= OWN_ID_SINCE || request.member_epoch != 0) {
        return invalid("MemberId can't be empty.");
    }
    match request.member_epoch {
        0 if request.rebalance_timeout_ms == -1 => {
            return invalid("RebalanceTimeoutMs must be provided in first request.");
        }
        0 if request.topic_partitions.as_ref().is_none_or(|owned| !owned.is_empty()) => {
            return invalid("TopicPartitions must be empty when (re-)joining.");
        }
        0 if request.subscribed_topic_names.is_none() && request.subscribed_topic_regex.is_none() => {
            return invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.");
        }
        LEAVES_FOR_NOW if request.instance_id.is_none() => return invalid("InstanceId can't be null."),
        0.. | LEAVES | LEAVES_FOR_NOW => {}
        _ => return invalid("MemberEpoch is invalid."),
    }
    if let Some(asked) = &request.server_assignor
        && !known.iter().any(|assignor| assignor.name() == asked.as_str())
    {
        let names: Vec<&str> = known.iter().map(|assignor| assignor.name()).collect();
        let names = names.join(", ");
        let why = format!("ServerAssignor {} is not supported. Supported assignors: {names}.", asked.as_str());
        return Err((ErrorCode::UnsupportedAssignor, why));
    }
    if let Some(pattern) = &request.subscribed_topic_regex
        && let Err(reason) = Pattern::parse(pattern)
    {
        let why = format!("SubscribedTopicRegex `{}` is not a valid regular expression: {reason}.", pattern.as_str());
        return Err((ErrorCode::InvalidRegularExpression, why));
    }
    Ok(())
}

fn beat(request: ConsumerGroupHeartbeatRequest, context: &Context) -> Beat {
    let text = |text: StrBytes| text.to_string();
    let owned = request.topic_partitions.map(|owned| {
        let mut all = Assignment::new();
        for topic in owned.into_iter().filter(|topic| !topic.partitions.is_empty()) {
            all.entry(TopicId::from(topic.topic_id)).or_default().extend(topic.partitions);
        }
        all
    });
    let topics = request.subscribed_topic_names;
    Beat {
        member: match request.member_id.is_empty() {
            true => Uuid::new_v4().to_string(),
            false => request.member_id.to_string(),
        },
        epoch: request.member_epoch,
        instance: request.instance_id.map(text),
        rack: request.rack_id.map(text),
        client_id: context.client_id.as_deref().unwrap_or_default().to_owned(),
        // As Java writes an address.
        client_host: format!("/{}", context.address.ip()),
        rebalance_timeout_ms: Some(request.rebalance_timeout_ms).filter(|ms| *ms != -1),
        topics: topics.map(|names| names.iter().map(|name| name.to_string()).collect::<BTreeSet<_>>()),
        pattern: request.subscribed_topic_regex.map(text),
        assignor: request.server_assignor.map(text),
        owned,
    }
}

fn told(assignment: Assignment) -> ToldAssignment {
    let topics = assignment.into_iter().map(|(topic, partitions)| {
        let told = TopicPartitions::default().with_topic_id(topic.into());
        told.with_partitions(partitions.into_iter().collect())
    });
    ToldAssignment::default().with_topic_partitions(topics.collect())
}
