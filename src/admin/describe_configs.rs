use std::collections::HashSet;

use bytes::Bytes;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};
use kafka_protocol::protocol::StrBytes;

use crate::admin::alter_configs::own_source;
use crate::admin::configs::client_metrics::CLIENT_METRICS_CONFIGS;
use crate::admin::configs::group::GROUP_CONFIGS;
use crate::admin::configs::{Config, Kind, Source, TOPIC_CONFIGS, broker};
use crate::admin::error::code_and_message;
use crate::admin::{Admin, Context, Error, Settings, resource};
use crate::batch::Segments;
use crate::cluster::{Configs, Resource, RootState};
use crate::protocol::{self, decode, encode};
use crate::types::BrokerId;

/// One setting of something.
struct Described {
    name: String,
    kind: Kind,
    about: &'static str,
    read_only: bool,
    /// Nobody knows what it is: its value may be a secret.
    sensitive: bool,
    /// (name it is set under, value, source), the one in force first; never empty. A setting may be without a value.
    values: Vec<(String, Option<String>, Source)>,
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
    asked: &DescribeConfigsResource,
) -> Result<Vec<Described>, Error> {
    let resource = resource::find(view, me, asked.resource_type, &asked.resource_name)?;
    let none = Configs::new();
    let own = view.configs(&resource).unwrap_or(&none);
    let layers = settings.defaults.layers(view, me);
    let inheriting = |table: &'static [Config]| {
        table
            .iter()
            .map(|config| Described::of(config, layers.values(Some((own, own_source(&resource))), config)))
            .collect()
    };
    Ok(match &resource {
        Resource::Topic(_) => inheriting(&TOPIC_CONFIGS),
        Resource::Group(_) => inheriting(&GROUP_CONFIGS),
        Resource::ClientMetrics(_) => inheriting(&CLIENT_METRICS_CONFIGS),
        // Only what was set for all.
        Resource::AllBrokers => {
            own.iter().map(|(name, value)| dynamic(name, value, Source::DynamicAllBrokers)).collect()
        }
        Resource::Broker(_) => {
            let known = broker::all().map(|(name, config, dynamic)| {
                let default = (!config.broker_unset).then_some((name, config.default, Source::Default));
                let values = layers.of_brokers(name).chain(default);
                Described { name: name.to_owned(), read_only: !dynamic, ..Described::of(config, values) }
            });
            let unknown = own.iter().filter(|(name, _)| broker::find(name).is_none());
            known.chain(unknown.map(|(name, value)| dynamic(name, value, Source::DynamicBroker))).collect()
        }
    })
}

/// A broker's setting that may be one that only a plugin of Kafka's knows.
fn dynamic(name: &str, value: &str, source: Source) -> Described {
    let known = broker::find(name).map(|(config, _)| config);
    Described {
        name: name.to_owned(),
        kind: known.map_or(Kind::Unknown, |config| config.kind),
        about: known.map_or("", |config| config.about),
        read_only: false,
        sensitive: known.is_none(),
        values: vec![(name.to_owned(), Some(value.to_owned()), source)],
    }
}

impl Described {
    fn of<'a>(config: &'static Config, values: impl Iterator<Item = (&'static str, &'a str, Source)>) -> Described {
        let values = values.map(|(name, value, source)| (name.to_owned(), Some(value.to_owned()), source));
        let mut values: Vec<_> = values.collect();
        if values.is_empty() {
            values.push((String::new(), None, Source::Default));
        }
        Described {
            name: config.name.to_owned(),
            kind: config.kind,
            about: config.about,
            read_only: false,
            sensitive: false,
            values,
        }
    }

    fn told(self, with_synonyms: bool, with_documentation: bool) -> DescribeConfigsResourceResult {
        let text = |value: &Option<String>| {
            value.as_deref().filter(|_| !self.sensitive).map(|value| StrBytes::from_string(value.to_string()))
        };
        let synonyms = self.values.iter().filter(|(name, ..)| with_synonyms && !name.is_empty());
        let synonyms = synonyms.map(|(name, value, source)| {
            DescribeConfigsSynonym::default()
                .with_name(StrBytes::from_string(name.clone()))
                .with_value(text(value))
                .with_source(*source as i8)
        });
        let (_, value, source) = &self.values[0];
        DescribeConfigsResourceResult::default()
            .with_value(text(value))
            .with_read_only(self.read_only)
            .with_is_sensitive(self.sensitive)
            .with_config_source(*source as i8)
            .with_synonyms(synonyms.collect())
            .with_config_type(self.kind as i8)
            .with_documentation(with_documentation.then(|| StrBytes::from_static_str(self.about)))
            .with_name(StrBytes::from_string(self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::{Defaults, sample};
    use crate::cluster::RootEntry;
    use crate::protocol::ErrorCode;

    const TOPIC: i8 = resource::TOPIC;
    const BROKER: i8 = resource::BROKER;

    fn view() -> RootState {
        let mut view = sample::cluster(&["a", "b"]);
        sample::topic(&mut view, "t", 1, 1, 1);
        view
    }

    fn ask_of(view: &RootState, resource_type: i8, name: &'static str) -> Result<Vec<Described>, Error> {
        let defaults = Defaults::new([("message.max.bytes", "5000".to_owned()), ("broker.rack", "b".to_owned())]);
        let settings = Settings { defaults, ..sample::settings() };
        let resource = DescribeConfigsResource::default().with_resource_type(resource_type);
        describe(view, &settings, 1, &resource.with_resource_name(StrBytes::from_static_str(name)))
    }

    fn ask(resource_type: i8, name: &'static str) -> Result<Vec<Described>, Error> {
        ask_of(&view(), resource_type, name)
    }

    fn told(described: Vec<Described>, name: &str) -> DescribeConfigsResourceResult {
        described.into_iter().find(|d| d.name == name).expect(name).told(true, true)
    }

    #[test]
    fn a_topics_value_comes_with_where_it_is_from() {
        let retention = told(ask(TOPIC, "t").unwrap(), "retention.bytes");
        assert_eq!((retention.value.as_deref(), retention.config_source), (Some("-1"), 5));
        assert_eq!((retention.synonyms.len(), retention.synonyms[0].name.as_str()), (1, "log.retention.bytes"));
        // A broker has the default of this one under another name, which is no synonym.
        let retention = told(ask(TOPIC, "t").unwrap(), "retention.ms");
        assert_eq!((retention.value.as_deref(), retention.synonyms.len()), (Some("604800000"), 0));
        let size = told(ask(TOPIC, "t").unwrap(), "max.message.bytes");
        assert_eq!((size.value.as_deref(), size.config_source, size.config_type), (Some("5000"), 4, 3));
        let sources: Vec<i8> = size.synonyms.iter().map(|synonym| synonym.source).collect();
        assert_eq!((sources, size.read_only), (vec![4, 5], false));
        assert!(size.documentation.is_some());
    }

    #[test]
    fn a_broker_tells_of_itself_only() {
        let size = told(ask(BROKER, "1").unwrap(), "message.max.bytes");
        assert_eq!((size.value.as_deref(), size.read_only), (Some("5000"), false));
        let rack = told(ask(BROKER, "1").unwrap(), "broker.rack");
        assert_eq!((rack.value.as_deref(), rack.read_only, rack.config_source), (Some("b"), true, 4));
        assert_eq!(told(ask(BROKER, "1").unwrap(), "log.retention.ms").value, None);
        assert_eq!(ask(BROKER, "").unwrap().len(), 0);
        for name in ["0", "x"] {
            assert_eq!(ask(BROKER, name).err().unwrap().code(), ErrorCode::InvalidRequest);
        }
    }

    #[test]
    fn what_is_set_for_all_brokers_is_each_ones_and_its_topics() {
        let mut view = view();
        let after = [("log.retention.bytes", "7"), ("some.plugin", "secret")];
        let after = after.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        view.apply(RootEntry::AlterConfigs { resource: Resource::AllBrokers, before: Configs::new(), after });
        assert_eq!(ask_of(&view, BROKER, "").unwrap().len(), 2);
        let hidden = told(ask_of(&view, BROKER, "").unwrap(), "some.plugin");
        assert_eq!((hidden.value, hidden.is_sensitive, hidden.synonyms[0].value.as_deref()), (None, true, None));
        for (kind, thing, name) in [(BROKER, "1", "log.retention.bytes"), (TOPIC, "t", "retention.bytes")] {
            let of = told(ask_of(&view, kind, thing).unwrap(), name);
            assert_eq!((of.value.as_deref(), of.config_source, of.synonyms.len()), (Some("7"), 3, 2));
        }
    }

    #[test]
    fn unknown_things_have_kafkas_codes() {
        assert_eq!(ask(TOPIC, "u").err().unwrap().code(), ErrorCode::UnknownTopicOrPartition);
        assert_eq!(ask(TOPIC, "a b").err().unwrap().code(), ErrorCode::InvalidTopic);
        assert_eq!(ask(1, "1").err().unwrap().code(), ErrorCode::InvalidRequest);
        // Groups and subscriptions are what is said of them.
        assert_eq!(ask(resource::GROUP, "g").unwrap().len(), GROUP_CONFIGS.len());
        assert_eq!(ask(resource::CLIENT_METRICS, "m").unwrap().len(), 3);
    }
}
