use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};
use kafka_protocol::protocol::StrBytes;

use crate::admin::configs::{Kind, Source, TOPIC_CONFIGS};
use crate::admin::error::code_and_message;
use crate::admin::{Admin, Context, Error, Settings, names};
use crate::batch::Segments;
use crate::cluster::{Broker, RootRefusal, RootState};
use crate::protocol::{self, decode, encode};
use crate::types::BrokerId;

/// Kafka's `ConfigResource.Type`.
const TOPIC: i8 = 2;
const BROKER: i8 = 4;

/// One setting of a topic or broker.
struct Described {
    name: &'static str,
    kind: Kind,
    about: &'static str,
    read_only: bool,
    /// (name it is set under, value, source), the one in force first; never empty.
    values: Vec<(&'static str, String, Source)>,
}

/// # Errors
/// The body does not follow the protocol.
pub async fn describe_configs(
    admin: &Admin,
    _context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: DescribeConfigsRequest = decode(version, body)?;
    let view = admin.cluster.view();
    let mut seen = HashSet::new();
    // An answer is much larger than a question: what is asked twice is answered once.
    let asked = request.resources.iter().filter(|r| seen.insert((r.resource_type, r.resource_name.clone())));
    let results = asked.map(|resource| {
        let described = describe(&view, &admin.settings, admin.cluster.broker_id(), resource);
        let (code, message) = code_and_message(&described);
        let keys = resource.configuration_keys.as_deref().filter(|keys| !keys.is_empty());
        let wanted = |d: &Described| keys.is_none_or(|keys| keys.iter().any(|key| key.as_str() == d.name));
        let described = described.unwrap_or_default().into_iter().filter(wanted);
        DescribeConfigsResult::default()
            .with_error_code(code)
            .with_error_message(message)
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name.clone())
            .with_configs(described.map(|d| d.told(request.include_synonyms, request.include_documentation)).collect())
    });
    encode(version, &DescribeConfigsResponse::default().with_results(results.collect()))
}

fn describe(
    view: &RootState,
    settings: &Settings,
    me: BrokerId,
    resource: &DescribeConfigsResource,
) -> Result<Vec<Described>, Error> {
    let name = resource.resource_name.as_str();
    match resource.resource_type {
        TOPIC => {
            names::validate(name)?;
            let topic = view.topic_named(name).ok_or(RootRefusal::UnknownTopic)?;
            Ok(of_topic(settings, &topic.configs))
        }
        // The settings that all brokers share; they can't be set yet.
        BROKER if name.is_empty() => Ok(Vec::new()),
        BROKER if name == me.to_string() => Ok(view.broker(me).map(|me| of_broker(settings, me)).unwrap_or_default()),
        BROKER => Err(Error::InvalidRequest(format!("this is broker {me}: ask broker {name:?} for its own settings"))),
        other => Err(Error::InvalidRequest(format!("resource type {other} has no settings here"))),
    }
}

/// `own` are the values that the topic was given.
fn of_topic(settings: &Settings, own: &BTreeMap<String, String>) -> Vec<Described> {
    let described = TOPIC_CONFIGS.iter().map(|config| {
        let named = |source| match source {
            Source::Topic => config.name,
            Source::Broker | Source::Default => config.broker_name,
        };
        let values = settings.topic_defaults.values(own, config);
        let values = values.map(|(value, source)| (named(source), value.to_string(), source)).collect();
        Described { name: config.name, kind: config.kind, about: config.about, read_only: false, values }
    });
    described.collect()
}

fn of_broker(settings: &Settings, me: &Broker) -> Vec<Described> {
    let listener = format!("PLAINTEXT://{}:{}", me.host, me.port);
    let replication_factor = settings.default_replication_factor.to_string();
    let set = [
        ("advertised.listeners", Kind::String, listener.clone(), "Where clients reach this broker."),
        (
            "auto.create.topics.enable",
            Kind::Boolean,
            settings.auto_create_topics.to_string(),
            "Metadata creates topics.",
        ),
        ("broker.id", Kind::Int, me.id.to_string(), "This broker's id."),
        ("broker.rack", Kind::String, me.zone.clone(), "This broker's zone."),
        (
            "default.replication.factor",
            Kind::Int,
            replication_factor,
            "For topics that do not say; -1 for three if possible.",
        ),
        ("delete.topic.enable", Kind::Boolean, "true".into(), "Topics can be deleted."),
        ("listeners", Kind::List, listener, "Where clients reach this broker."),
        (
            "milepost.internal.listener",
            Kind::String,
            me.internal.clone(),
            "Where other brokers, and the audit, reach it.",
        ),
        ("milepost.store", Kind::String, settings.store.clone(), "The cluster's object store."),
        ("node.id", Kind::Int, me.id.to_string(), "This broker's id."),
        ("num.partitions", Kind::Int, settings.num_partitions.to_string(), "For topics that do not say."),
    ];
    let read_only = true;
    let own = set.into_iter().map(|(name, kind, value, about)| {
        let values = vec![(name, value, Source::Broker)];
        Described { name, kind, about, read_only, values }
    });
    let inherited = TOPIC_CONFIGS.iter().zip(of_topic(settings, &BTreeMap::new()));
    let inherited = inherited.filter(|(config, _)| !config.broker_name.is_empty());
    own.chain(inherited.map(|(config, d)| Described { name: config.broker_name, read_only, ..d })).collect()
}

impl Described {
    fn told(self, with_synonyms: bool, with_documentation: bool) -> DescribeConfigsResourceResult {
        let text = |value: &str| Some(StrBytes::from_string(value.to_string()));
        let synonyms = self.values.iter().filter(|(name, ..)| with_synonyms && !name.is_empty());
        let synonyms = synonyms.map(|(name, value, source)| {
            DescribeConfigsSynonym::default()
                .with_name(StrBytes::from_static_str(name))
                .with_value(text(value))
                .with_source(*source as i8)
        });
        let (_, value, source) = &self.values[0];
        DescribeConfigsResourceResult::default()
            .with_name(StrBytes::from_static_str(self.name))
            .with_value(text(value))
            .with_read_only(self.read_only)
            .with_config_source(*source as i8)
            .with_synonyms(synonyms.collect())
            .with_config_type(self.kind as i8)
            .with_documentation(with_documentation.then(|| StrBytes::from_static_str(self.about)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::{Defaults, sample};
    use crate::protocol::ErrorCode;
    use crate::types::StorageClass;

    fn ask(resource_type: i8, name: &'static str) -> Result<Vec<Described>, Error> {
        let mut view = sample::cluster(&["a", "b"]);
        sample::topic(&mut view, "t", 1, 1, 1);
        let settings = Settings { topic_defaults: Defaults::new(5000, StorageClass::Regional), ..sample::settings() };
        let resource = DescribeConfigsResource::default().with_resource_type(resource_type);
        describe(&view, &settings, 1, &resource.with_resource_name(StrBytes::from_static_str(name)))
    }

    fn told(described: Vec<Described>, name: &str) -> DescribeConfigsResourceResult {
        described.into_iter().find(|d| d.name == name).expect(name).told(true, true)
    }

    #[test]
    fn a_topics_value_comes_with_where_it_is_from() {
        let retention = told(ask(TOPIC, "t").unwrap(), "retention.ms");
        assert_eq!((retention.value.as_deref(), retention.config_source), (Some("604800000"), 5));
        assert_eq!((retention.synonyms.len(), retention.synonyms[0].name.as_str()), (1, "log.retention.ms"));
        let size = told(ask(TOPIC, "t").unwrap(), "max.message.bytes");
        assert_eq!((size.value.as_deref(), size.config_source, size.config_type), (Some("5000"), 4, 3));
        let sources: Vec<i8> = size.synonyms.iter().map(|synonym| synonym.source).collect();
        assert_eq!((sources, size.read_only), (vec![4, 5], false));
        assert!(size.documentation.is_some());
    }

    #[test]
    fn a_broker_tells_of_itself_only() {
        let size = told(ask(BROKER, "1").unwrap(), "message.max.bytes");
        assert_eq!((size.value.as_deref(), size.read_only), (Some("5000"), true));
        assert_eq!(told(ask(BROKER, "1").unwrap(), "broker.rack").value.as_deref(), Some("b"));
        assert_eq!(ask(BROKER, "").unwrap().len(), 0);
        for name in ["0", "01", "+1", "x"] {
            assert_eq!(ask(BROKER, name).err().unwrap().code(), ErrorCode::InvalidRequest);
        }
    }

    #[test]
    fn unknown_things_have_kafkas_codes() {
        assert_eq!(ask(TOPIC, "u").err().unwrap().code(), ErrorCode::UnknownTopicOrPartition);
        assert_eq!(ask(TOPIC, "a b").err().unwrap().code(), ErrorCode::InvalidTopic);
        assert_eq!(ask(8, "1").err().unwrap().code(), ErrorCode::InvalidRequest);
    }
}
