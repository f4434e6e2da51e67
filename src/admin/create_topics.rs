use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::{CreatableTopicConfigs, CreatableTopicResult};
use kafka_protocol::messages::{CreateTopicsRequest, CreateTopicsResponse};
use kafka_protocol::protocol::StrBytes;
use tokio::time::Instant;

use crate::admin::configs::{Layers, Source, TOPIC_CONFIGS};
use crate::admin::error::code_and_message;
use crate::admin::mutations::Mutations;
use crate::admin::{Admin, Context, Error, PARTITIONS_PER_REQUEST_MAX, names, topics};
use crate::batch::Segments;
use crate::cluster::NewTopic;
use crate::protocol::{self, decode, encode};
use crate::types::TopicId;

/// Whose clients know that a quota was exceeded (KIP-599).
const STRICT_SINCE: i16 = 6;

/// Also how long the client is to be left waiting.
///
/// # Errors
/// The body does not follow the protocol.
pub async fn create_topics(
    admin: &Admin,
    context: &Context,
    version: i16,
    body: Bytes,
) -> Result<(Segments, Duration), protocol::Error> {
    let request: CreateTopicsRequest = decode(version, body)?;
    let deadline = topics::deadline(request.timeout_ms);
    let too_much = partitions(&request.topics, admin.settings.num_partitions) > i64::from(PARTITIONS_PER_REQUEST_MAX);
    let validate_only = request.validate_only;
    let mutations = Mutations::of(admin, context, version >= STRICT_SINCE);
    let view = admin.cluster.view();
    let layers = admin.layers(&view);
    let asked = names::counted(request.topics, |topic| topic.name.clone());
    let results = topics::each(asked, async |(asked, repeated)| {
        let created = match too_much {
            true => Err(Error::PolicyViolation("Excessively large number of partitions per request.")),
            false => create(admin, &mutations, &asked, repeated, validate_only, deadline).await,
        };
        result(layers, asked, created)
    });
    let answer = CreateTopicsResponse::default().with_topics(results.await);
    let wait = mutations.wait();
    Ok((encode(version, &answer.with_throttle_time_ms(wait.as_millis() as i32))?, wait))
}

/// What a request creates. An answer holds some kilobytes for each topic: one that cannot be made counts too.
fn partitions(topics: &[CreatableTopic], by_default: i32) -> i64 {
    let of = |topic: &CreatableTopic| match topic.num_partitions {
        _ if !topic.assignments.is_empty() => topic.assignments.len() as i64,
        -1 => by_default.into(),
        asked => asked.max(1).into(),
    };
    topics.iter().map(of).sum()
}

async fn create(
    admin: &Admin,
    mutations: &Mutations,
    asked: &CreatableTopic,
    repeated: bool,
    validate_only: bool,
    deadline: Instant,
) -> Result<NewTopic, Error> {
    topics::refuse_repeated(repeated)?;
    let new = topics::plan(&admin.cluster.view(), &admin.settings, asked).map_err(|e| e.of_topic(&asked.name))?;
    mutations.take(new.partitions as usize)?;
    if validate_only {
        // Nothing has this id.
        return Ok(NewTopic { id: TopicId::ZERO, ..new });
    }
    admin.create(new.clone(), deadline).await.map_err(|e| e.of_topic(&asked.name))?;
    Ok(new)
}

fn result(layers: Layers<'_>, asked: CreatableTopic, created: Result<NewTopic, Error>) -> CreatableTopicResult {
    let (code, message) = code_and_message(&created);
    let result = CreatableTopicResult::default()
        .with_name(asked.name)
        .with_error_code(code)
        .with_error_message(message)
        .with_configs(None);
    let Ok(new) = created else { return result };
    let configs = TOPIC_CONFIGS.iter().filter_map(|config| {
        let (_, value, source) = layers.values(Some((&new.configs, Source::Topic)), config).next()?;
        let described = CreatableTopicConfigs::default()
            .with_name(StrBytes::from_static_str(config.name))
            .with_value(Some(StrBytes::from_string(value.to_string())))
            .with_config_source(source as i8);
        Some(described)
    });
    result
        .with_topic_id(new.id.into())
        .with_num_partitions(new.partitions)
        .with_replication_factor(new.replication_factor as i16)
        .with_configs(Some(configs.collect()))
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::create_topics_request::CreatableReplicaAssignment;

    use super::*;

    #[test]
    fn what_a_request_creates_is_counted() {
        let topic = |partitions| CreatableTopic::default().with_num_partitions(partitions);
        let assigned = topic(-1).with_assignments(vec![CreatableReplicaAssignment::default(); 3]);
        assert_eq!(partitions(&[topic(5), topic(-1), topic(-7), assigned], 4), 5 + 4 + 1 + 3);
        assert_eq!(partitions(&[topic(i32::MAX), topic(i32::MAX)], 1), 2 * i64::from(i32::MAX));
    }
}
