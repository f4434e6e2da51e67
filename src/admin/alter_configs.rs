//! AlterConfigs and IncrementalAlterConfigs (KIP-339): each resource changes as a whole or not at all.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse as IncrementalResponse;
use kafka_protocol::messages::{
    AlterConfigsRequest, AlterConfigsResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};
use kafka_protocol::protocol::StrBytes;
use tokio::time::Instant;

use crate::admin::configs::{self, Config, Kind, STORAGE_CLASS, Source};
use crate::admin::error::code_and_message;
use crate::admin::{Admin, Context, Error, resource, topics};
use crate::batch::Segments;
use crate::cluster::{self, Configs, Resource, RootEntry, RootRefusal, RootState, STAMPING};
use crate::protocol::{self, decode, encode};
use crate::types::{BrokerId, TopicId};

/// Neither API says how long a client waits.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a change is decided anew when others change the same.
const TRIES_MAX: usize = 16;
/// Things with settings of their own, topics apart.
const RESOURCES_MAX: usize = 100_000;

/// What is to become of one setting. Numbers are Kafka's (`AlterConfigOp.OpType`).
#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    Set(String),
    Delete,
    Append(String),
    Subtract(String),
}

/// Changes of one resource.
struct Asked {
    kind: i8,
    name: StrBytes,
    /// Nothing of what was set before stays.
    replaces: bool,
    changes: Result<Vec<(String, Change)>, Error>,
}

/// # Errors
/// The body does not follow the protocol.
pub async fn alter_configs(
    admin: &Admin,
    _context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: AlterConfigsRequest = decode(version, body)?;
    let asked = request.resources.into_iter().map(|resource| {
        let configs = resource.configs.into_iter().map(|config| (config.name, 0, config.value));
        Asked { kind: resource.resource_type, name: resource.resource_name, replaces: true, changes: changes(configs) }
    });
    let done = alter_all(admin, asked.collect(), request.validate_only).await;
    let responses = done.into_iter().map(|(kind, name, (code, message))| {
        let response = AlterConfigsResourceResponse::default().with_resource_type(kind).with_resource_name(name);
        response.with_error_code(code).with_error_message(message)
    });
    encode(version, &AlterConfigsResponse::default().with_responses(responses.collect()))
}

/// # Errors
/// The body does not follow the protocol.
pub async fn incremental_alter_configs(
    admin: &Admin,
    _context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: IncrementalAlterConfigsRequest = decode(version, body)?;
    let asked = request.resources.into_iter().map(|resource| {
        let configs = resource.configs.into_iter().map(|config| (config.name, config.config_operation, config.value));
        Asked { kind: resource.resource_type, name: resource.resource_name, replaces: false, changes: changes(configs) }
    });
    let done = alter_all(admin, asked.collect(), request.validate_only).await;
    let responses = done.into_iter().map(|(kind, name, (code, message))| {
        let response = IncrementalResponse::default().with_resource_type(kind).with_resource_name(name);
        response.with_error_code(code).with_error_message(message)
    });
    encode(version, &IncrementalAlterConfigsResponse::default().with_responses(responses.collect()))
}

type Done = (i8, StrBytes, (i16, Option<StrBytes>));

async fn alter_all(admin: &Admin, asked: Vec<Asked>, validate_only: bool) -> Vec<Done> {
    let mut seen = HashSet::new();
    let repeated = asked.iter().map(|a| (a.kind, a.name.clone())).filter(|named| !seen.insert(named.clone()));
    let repeated: HashSet<(i8, StrBytes)> = repeated.collect();
    let (repeated, deadline) = (&repeated, Instant::now() + PATIENCE);
    topics::each(asked, async |asked| {
        let (kind, name) = (asked.kind, asked.name.clone());
        let done = match (repeated.contains(&(kind, name.clone())), asked.changes) {
            (true, _) => Err(Error::InvalidRequest("Each resource must appear at most once.".into())),
            (false, Ok(changes)) => alter(admin, kind, &name, asked.replaces, &changes, validate_only, deadline).await,
            (false, Err(e)) => Err(e),
        };
        (kind, name, code_and_message(&done))
    })
    .await
}

fn changes(configs: impl Iterator<Item = (StrBytes, i8, Option<StrBytes>)>) -> Result<Vec<(String, Change)>, Error> {
    let mut seen = HashSet::new();
    let mut changes = Vec::new();
    let mut nulls = Vec::new();
    for (name, operation, value) in configs {
        if !seen.insert(name.clone()) {
            return Err(Error::InvalidRequest("Error due to duplicate config keys".into()));
        }
        let value = value.map(|value| value.to_string());
        let change = match (operation, value) {
            (1, _) => Change::Delete,
            (0, Some(value)) => Change::Set(value),
            (2, Some(value)) => Change::Append(value),
            (3, Some(value)) => Change::Subtract(value),
            (0 | 2 | 3, None) => {
                nulls.push(name.to_string());
                continue;
            }
            (other, _) => return Err(Error::InvalidRequest(format!("Unknown operations type {other}"))),
        };
        changes.push((name.to_string(), change));
    }
    match nulls.is_empty() {
        true => Ok(changes),
        false => Err(Error::InvalidRequest(format!("Null value not supported for : {}", nulls.join(", ")))),
    }
}

async fn alter(
    admin: &Admin,
    kind: i8,
    name: &str,
    replaces: bool,
    changes: &[(String, Change)],
    validate_only: bool,
    deadline: Instant,
) -> Result<(), Error> {
    for _ in 0..TRIES_MAX {
        let view = admin.cluster.view();
        let resource = find(&view, admin.cluster.broker_id(), kind, name, changes)?;
        let before = view.configs(&resource).cloned().unwrap_or_default();
        let after = changed(&resource, if replaces { Configs::new() } else { before.clone() }, changes)?;
        let after = validated(admin, &view, &resource, after)?;
        if validate_only || after == before {
            return Ok(());
        }
        match admin.propose(RootEntry::AlterConfigs { resource, before, after }, deadline).await {
            Err(Error::Cluster(cluster::Error::Refused(RootRefusal::ConfigsChanged))) => {}
            done => return done.map(drop),
        }
    }
    Err(RootRefusal::ConfigsChanged.into())
}

/// What is to change. What no topic could have is said before that there is no such topic.
fn find(view: &RootState, me: BrokerId, kind: i8, name: &str, changes: &[(String, Change)]) -> Result<Resource, Error> {
    if kind == resource::TOPIC && name.is_empty() {
        return Err(Error::InvalidRequest("Default topic resources are not allowed.".into()));
    }
    resource::find(view, me, kind, name).map_err(|e| match e.of_topic(name) {
        Error::UnknownTopic(name) => {
            let set = changed(&Resource::Topic(TopicId::ZERO), Configs::new(), changes);
            let set =
                set.and_then(|set| configs::topic::validate(set.iter().map(|(k, v)| (k.as_str(), Some(v.as_str())))));
            set.err().unwrap_or(Error::UnknownTopic(name))
        }
        other => other,
    })
}

/// The settings after the changes.
fn changed(resource: &Resource, mut configs: Configs, changes: &[(String, Change)]) -> Result<Configs, Error> {
    for (name, change) in changes {
        let value = match change {
            Change::Delete => {
                configs.remove(name);
                continue;
            }
            Change::Set(value) => value.clone(),
            Change::Append(more) => {
                let mut parts = parts(resource, &configs, name, "APPEND")?;
                let new: Vec<&str> = more.split(',').collect();
                for part in new {
                    if !parts.iter().any(|present| present == part) {
                        parts.push(part.to_owned());
                    }
                }
                parts.join(",")
            }
            Change::Subtract(less) => {
                let mut parts = parts(resource, &configs, name, "SUBTRACT")?;
                parts.retain(|part| less.split(',').all(|gone| gone != part));
                parts.join(",")
            }
        };
        configs.insert(name.clone(), value);
    }
    Ok(configs)
}

/// What a list has now, or would have without being set.
fn parts(resource: &Resource, configs: &Configs, name: &str, change: &str) -> Result<Vec<String>, Error> {
    let config = match resource {
        Resource::Topic(_) => Config::of_topic(name),
        Resource::Broker(_) | Resource::AllBrokers => configs::broker::find(name).map(|(config, _)| config),
        Resource::Group(_) => Config::of_group(name),
        // To Kafka's controller these are no lists, whatever they are to its brokers.
        Resource::ClientMetrics(_) => None,
    };
    match config {
        Some(config) if config.kind == Kind::List => {
            let value = configs.get(name).map_or(config.default, String::as_str);
            Ok(configs::list(value).map(str::to_owned).collect())
        }
        _ => Err(Error::InvalidConfig(format!("Can't {change} to key {name} because its type is not LIST."))),
    }
}

/// As they are kept.
fn validated(admin: &Admin, view: &RootState, resource: &Resource, configs: Configs) -> Result<Configs, Error> {
    match resource {
        Resource::Topic(id) => {
            let configs =
                configs::topic::validate(configs.iter().map(|(name, value)| (name.as_str(), Some(value.as_str()))))?;
            let topic = view.topic(*id).ok_or(RootRefusal::UnknownTopic)?;
            let layers = admin.layers(view);
            let now = (layers.topic(&topic.configs, STORAGE_CLASS), layers.topic(&configs, STORAGE_CLASS));
            match now.0 == now.1 || admin.settings.classes.iter().any(|class| class.name() == now.1) {
                true => Ok(configs),
                false => Err(Error::InvalidConfig(format!("{STORAGE_CLASS}: this cluster has no {} store", now.1))),
            }
        }
        other => {
            match other {
                Resource::Broker(_) if configs.contains_key(STAMPING) => {
                    return Err(Error::InvalidRequest(format!("{STAMPING} can be set for all brokers only")));
                }
                Resource::Group(_) => configs::group::validate(&configs)?,
                Resource::ClientMetrics(_) => configs::client_metrics::validate(&configs)?,
                Resource::Topic(_) | Resource::Broker(_) | Resource::AllBrokers => configs::broker::validate(&configs)?,
            }
            if view.configs(other).is_none() && view.configured().count() >= RESOURCES_MAX {
                return Err(Error::InvalidRequest(format!(
                    "{RESOURCES_MAX} things have settings: no more can have any"
                )));
            }
            Ok(configs)
        }
    }
}

/// Whose settings they are, in [`crate::admin::describe_configs`].
pub(super) fn own_source(resource: &Resource) -> Source {
    match resource {
        Resource::Topic(_) => Source::Topic,
        Resource::Broker(_) => Source::DynamicBroker,
        Resource::AllBrokers => Source::DynamicAllBrokers,
        Resource::Group(_) => Source::Group,
        Resource::ClientMetrics(_) => Source::ClientMetrics,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::ErrorCode;

    fn text(text: &'static str) -> StrBytes {
        StrBytes::from_static_str(text)
    }

    fn after(
        resource: &Resource,
        before: &[(&str, &str)],
        change: Change,
        name: &str,
    ) -> Result<Option<String>, Error> {
        let before: Configs = before.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        changed(resource, before, &[(name.to_owned(), change)]).map(|configs| configs.get(name).cloned())
    }

    #[test]
    fn lists_grow_and_shrink_from_what_they_are() {
        let topic = Resource::Topic(crate::types::TopicId::ZERO);
        let policy =
            |before: &[(&str, &str)], change| after(&topic, before, change, "cleanup.policy").unwrap().unwrap();
        // Not set: Kafka begins with the default.
        assert_eq!(policy(&[], Change::Append("compact".into())), "delete,compact");
        assert_eq!(policy(&[("cleanup.policy", "compact")], Change::Append("compact,delete".into())), "compact,delete");
        assert_eq!(policy(&[("cleanup.policy", "compact,delete")], Change::Subtract("delete".into())), "compact");
        assert_eq!(policy(&[], Change::Subtract("delete".into())), "");
        let refused = after(&topic, &[], Change::Append("1".into()), "retention.ms").unwrap_err();
        assert_eq!(refused.to_string(), "Can't APPEND to key retention.ms because its type is not LIST.");
        let subscription = Resource::ClientMetrics("s".into());
        let refused = after(&subscription, &[], Change::Append("a".into()), "metrics").unwrap_err();
        assert_eq!(refused.code(), ErrorCode::InvalidConfig);
        let group = Resource::Group("g".into());
        assert!(after(&group, &[], Change::Subtract("1".into()), "no.such").is_err());
    }

    #[test]
    fn set_and_delete() {
        let broker = Resource::AllBrokers;
        assert_eq!(after(&broker, &[], Change::Set("5".into()), "a").unwrap(), Some("5".to_owned()));
        assert_eq!(after(&broker, &[("a", "5")], Change::Delete, "a").unwrap(), None);
        assert_eq!(after(&broker, &[], Change::Delete, "a").unwrap(), None);
    }

    #[test]
    fn what_no_topic_could_have_is_said_first() {
        let view = crate::admin::sample::cluster(&["a"]);
        let code =
            |name, changes: &[(String, Change)]| find(&view, 0, resource::TOPIC, name, changes).unwrap_err().code();
        let set = |name: &str, value: &str| [(name.to_owned(), Change::Set(value.to_owned()))];
        assert_eq!(code("t", &[]), ErrorCode::UnknownTopicOrPartition);
        assert_eq!(code("t", &set("retention.ms", "5")), ErrorCode::UnknownTopicOrPartition);
        assert_eq!(code("t", &set("retention.ms", "x")), ErrorCode::InvalidConfig);
        assert_eq!(code("t", &set("no.such", "5")), ErrorCode::InvalidConfig);
        assert_eq!(code("a b", &set("no.such", "5")), ErrorCode::InvalidTopic);
        assert_eq!(code("", &set("no.such", "5")), ErrorCode::InvalidRequest);
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let set = |name, operation, value: Option<&'static str>| (text(name), operation, value.map(text));
        let why = |configs: Vec<(StrBytes, i8, Option<StrBytes>)>| {
            let refused = changes(configs.into_iter()).unwrap_err();
            assert_eq!(refused.code(), ErrorCode::InvalidRequest);
            refused.to_string()
        };
        assert_eq!(why(vec![set("a", 0, Some("1")), set("a", 1, None)]), "Error due to duplicate config keys");
        assert_eq!(why(vec![set("a", 0, None), set("b", 2, None)]), "Null value not supported for : a, b");
        assert_eq!(why(vec![set("a", 4, Some("1"))]), "Unknown operations type 4");
    }
}
