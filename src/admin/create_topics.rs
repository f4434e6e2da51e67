use bytes::Bytes;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::{CreatableTopicConfigs, CreatableTopicResult};
use kafka_protocol::messages::{CreateTopicsRequest, CreateTopicsResponse};
use kafka_protocol::protocol::StrBytes;
use tokio::time::Instant;

use crate::admin::configs::{Layers, Source, TOPIC_CONFIGS};
use crate::admin::error::code_and_message;
use crate::admin::{Admin, Context, Error, PARTITIONS_MAX, names, topics};
use crate::batch::Segments;
use crate::cluster::NewTopic;
use crate::protocol::{self, decode, encode};
use crate::types::TopicId;

/// An answer holds some kilobytes for each topic.
const TOPICS_MAX: usize = 10_000;

/// # Errors
/// The body does not follow the protocol.
pub async fn create_topics(
    admin: &Admin,
    _context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: CreateTopicsRequest = decode(version, body)?;
    let deadline = topics::deadline(request.timeout_ms);
    let repeated = names::repeated(request.topics.iter().map(|topic| topic.name.clone()));
    let counted = |topic: &CreatableTopic| i64::from(topic.num_partitions.max(1)).max(topic.assignments.len() as i64);
    let partitions: i64 = request.topics.iter().map(counted).sum();
    let too_much = request.topics.len() > TOPICS_MAX || partitions > i64::from(PARTITIONS_MAX);
    let (too_much, repeated, validate_only) = (&too_much, &repeated, request.validate_only);
    let view = admin.cluster.view();
    let layers = admin.layers(&view);
    let results = topics::each(request.topics, async |asked| {
        let created = match too_much {
            true => Err(Error::InvalidPartitions(format!(
                "a request creates at most {TOPICS_MAX} topics and {PARTITIONS_MAX} partitions"
            ))),
            false => create(admin, &asked, repeated.contains(&asked.name), validate_only, deadline).await,
        };
        result(layers, asked, created)
    });
    encode(version, &CreateTopicsResponse::default().with_topics(results.await))
}

async fn create(
    admin: &Admin,
    asked: &CreatableTopic,
    repeated: bool,
    validate_only: bool,
    deadline: Instant,
) -> Result<NewTopic, Error> {
    topics::refuse_repeated(repeated)?;
    let new = topics::plan(&admin.cluster.view(), &admin.settings, asked)?;
    if validate_only {
        // Nothing has this id.
        return Ok(NewTopic { id: TopicId::ZERO, ..new });
    }
    admin.create(new.clone(), deadline).await?;
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
