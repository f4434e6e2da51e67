//! What settings belong to, as requests name it.

use crate::admin::{Error, names};
use crate::cluster::{Resource, RootRefusal, RootState};
use crate::types::BrokerId;

/// Kafka's `ConfigResource.Type`.
pub(super) const TOPIC: i8 = 2;
pub(super) const BROKER: i8 = 4;
/// Known to Kafka: its brokers let their log levels be changed one by one. Here they have none that could be.
pub(super) const BROKER_LOGGER: i8 = 8;
pub(super) const CLIENT_METRICS: i8 = 16;
pub(super) const GROUP: i8 = 32;

/// # Errors
/// There is no such thing, or it is not this broker's to tell of.
pub(super) fn find(view: &RootState, me: BrokerId, kind: i8, name: &str) -> Result<Resource, Error> {
    match kind {
        TOPIC => {
            names::validate(name)?;
            Ok(Resource::Topic(view.topic_named(name).ok_or(RootRefusal::UnknownTopic)?.id))
        }
        BROKER if name.is_empty() => Ok(Resource::AllBrokers),
        BROKER => match name.parse::<BrokerId>() {
            Ok(id) if id == me => Ok(Resource::Broker(id)),
            Ok(_) => Err(Error::InvalidRequest(format!(
                "Unexpected broker id, expected {me} or empty string, but received {name}"
            ))),
            Err(_) => Err(Error::InvalidRequest(format!("Broker id must be an integer, but it is: {name}"))),
        },
        BROKER_LOGGER => match name.parse::<BrokerId>() {
            Ok(id) if id == me => Err(Error::InvalidRequest("brokers have no loggers that can be set".into())),
            Ok(_) => Err(Error::InvalidRequest(format!("Unexpected broker id, expected {me} but received {name}"))),
            Err(_) => Err(Error::InvalidRequest(format!("Broker id must be an integer, but it is: {name}"))),
        },
        CLIENT_METRICS if name.is_empty() => Err(Error::InvalidRequest("Subscription name can't be empty".into())),
        CLIENT_METRICS => bounded(name).map(|name| Resource::ClientMetrics(name.to_owned())),
        GROUP if name.is_empty() => Err(Error::InvalidRequest("Default group resources are not allowed.".into())),
        GROUP => bounded(name).map(|name| Resource::Group(name.to_owned())),
        other => Err(Error::InvalidRequest(format!("Unknown resource type {other}"))),
    }
}

/// Names are kept by the root: a client must not fill it with them.
fn bounded(name: &str) -> Result<&str, Error> {
    const NAME_BYTES_MAX: usize = 1024;
    match name.len() <= NAME_BYTES_MAX {
        true => Ok(name),
        false => Err(Error::InvalidRequest(format!("a name has at most {NAME_BYTES_MAX} bytes"))),
    }
}
