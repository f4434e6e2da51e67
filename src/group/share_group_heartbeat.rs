use bytes::Bytes;
use kafka_protocol::messages::share_group_heartbeat_response::{Assignment as ToldAssignment, TopicPartitions};
use kafka_protocol::messages::{ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse};

use crate::admin::features::SHARE_VERSION;
use crate::batch::Segments;
use crate::group::share::{Ask, Beat, LEAVES, Reply};
use crate::group::{Context, Groups};
use crate::protocol::{self, ErrorCode, StrBytes, decode, encode};
use crate::shard::group::Assignment;

/// Names of topics that one member may be subscribed to.
const SUBSCRIPTION_BYTES_MAX: usize = 1 << 20;

/// # Errors
/// The body does not follow the protocol.
pub async fn share_group_heartbeat(
    groups: &Groups,
    context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: ShareGroupHeartbeatRequest = decode(version, body)?;
    let group = request.group_id.0.clone();
    let reply = match groups.check_shares().and_then(|()| check(&request)) {
        Ok(()) => groups.ask_share(&group, Ask::Beat(Box::new(beat(request, context)))).await,
        Err((error, why)) => Reply::failed(error, why),
    };
    let answer = ShareGroupHeartbeatResponse::default();
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
        Reply::Described(_) => answer.with_error_code(ErrorCode::UnknownServerError.code()),
    };
    encode(version, &answer)
}

impl Groups {
    /// # Errors
    /// The cluster has them turned off (`share.version` 0).
    pub(super) fn check_shares(&self) -> Result<(), (ErrorCode, String)> {
        match SHARE_VERSION.level(&self.cluster.view()) {
            0 => Err((ErrorCode::UnsupportedVersion, String::new())),
            _ => Ok(()),
        }
    }
}

/// What a request may say (Kafka: `throwIfShareGroupHeartbeatRequestIsInvalid`).
fn check(request: &ShareGroupHeartbeatRequest) -> Result<(), (ErrorCode, String)> {
    let invalid = |why: &str| Err((ErrorCode::InvalidRequest, why.to_owned()));
    if request.member_id.trim().is_empty() {
        return invalid("MemberId can't be empty.");
    }
    if request.group_id.trim().is_empty() {
        return invalid("GroupId can't be empty.");
    }
    if request.rack_id.as_ref().is_some_and(|rack| rack.trim().is_empty()) {
        return invalid("RackId can't be empty.");
    }
    let names = request.subscribed_topic_names.as_deref().unwrap_or_default();
    match request.member_epoch {
        0 if names.is_empty() => invalid("SubscribedTopicNames must be set in first request."),
        epoch if epoch < LEAVES => invalid("MemberEpoch is invalid."),
        _ if names.iter().map(|name| name.len()).sum::<usize>() > SUBSCRIPTION_BYTES_MAX => {
            invalid("SubscribedTopicNames are too many.")
        }
        _ => Ok(()),
    }
}

fn beat(request: ShareGroupHeartbeatRequest, context: &Context) -> Beat {
    Beat {
        member: request.member_id.to_string(),
        epoch: request.member_epoch,
        rack: request.rack_id.map(|rack| rack.to_string()),
        client_id: context.client_id.as_deref().unwrap_or_default().to_owned(),
        // As Java writes an address.
        client_host: format!("/{}", context.address.ip()),
        topics: request.subscribed_topic_names.map(|names| names.iter().map(|name| name.to_string()).collect()),
    }
}

fn told(assignment: Assignment) -> ToldAssignment {
    let topics = assignment.into_iter().map(|(topic, partitions)| {
        let told = TopicPartitions::default().with_topic_id(topic.into());
        told.with_partitions(partitions.into_iter().collect())
    });
    ToldAssignment::default().with_topic_partitions(topics.collect())
}
