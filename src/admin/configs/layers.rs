use std::collections::BTreeMap;
use std::sync::Arc;

use crate::admin::configs::{Config, Source};
use crate::cluster::{Configs, Resource, RootState};
use crate::types::BrokerId;

static NONE: Configs = Configs::new();

/// What this broker was started with, under Kafka's names for brokers' settings. A cheap clone.
#[derive(Debug, Clone, Default)]
pub struct Defaults {
    set: Arc<BTreeMap<&'static str, String>>,
}

/// Where a setting may come from on one broker, now.
#[derive(Debug, Clone, Copy)]
pub struct Layers<'a> {
    broker: &'a Configs,
    all_brokers: &'a Configs,
    set: &'a BTreeMap<&'static str, String>,
}

impl Defaults {
    pub fn new(set: impl IntoIterator<Item = (&'static str, String)>) -> Defaults {
        Defaults { set: Arc::new(set.into_iter().collect()) }
    }

    pub fn layers<'a>(&'a self, view: &'a RootState, me: BrokerId) -> Layers<'a> {
        let of = |resource| view.configs(&resource).unwrap_or(&NONE);
        Layers { broker: of(Resource::Broker(me)), all_brokers: of(Resource::AllBrokers), set: &self.set }
    }
}

impl<'a> Layers<'a> {
    /// The values of a setting, the one in force first: (the name it is set under, value, source). `own` are those of the
    /// topic or group, which has the setting under its own name.
    pub fn values(
        self,
        own: Option<(&'a Configs, Source)>,
        config: &'static Config,
    ) -> impl Iterator<Item = (&'static str, &'a str, Source)> {
        let own = own.and_then(|(own, source)| Some((config.name, own.get(config.name)?.as_str(), source)));
        let default_name = if config.broker_unset { "" } else { config.broker_name };
        own.into_iter().chain(self.of_brokers(config.broker_name)).chain([(
            default_name,
            config.default,
            Source::Default,
        )])
    }

    /// Those of brokers alone, under a broker's name for it.
    pub fn of_brokers(self, name: &'static str) -> impl Iterator<Item = (&'static str, &'a str, Source)> {
        let dynamic = [(self.broker, Source::DynamicBroker), (self.all_brokers, Source::DynamicAllBrokers)];
        let dynamic = dynamic.into_iter().filter_map(move |(set, source)| Some((set.get(name)?.as_str(), source)));
        let fixed = self.set.get(name).map(|value| (value.as_str(), Source::Broker));
        dynamic.chain(fixed).map(move |(value, source)| (name, value, source))
    }

    /// What is in force for a topic that has these settings of its own.
    ///
    /// # Panics
    /// For a name that topics do not have.
    pub fn topic(self, own: &'a Configs, name: &str) -> &'a str {
        let config = Config::of_topic(name).expect("a setting of topics");
        self.values(Some((own, Source::Topic)), config).next().expect("there is a default").1
    }

    /// As [`Layers::topic`], of a setting that is a whole number.
    pub fn topic_number(self, own: &'a Configs, name: &str) -> i64 {
        self.topic(own, name).trim().parse().expect("validated when it was set")
    }

    /// What is in force for a group that has these settings of its own.
    ///
    /// # Panics
    /// For a name that groups do not have.
    pub fn group(self, own: &'a Configs, name: &str) -> &'a str {
        let config = Config::of_group(name).expect("a setting of groups");
        self.values(Some((own, Source::Group)), config).next().expect("there is a default").1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::RootEntry;

    #[test]
    fn the_nearest_value_is_in_force() {
        let defaults = Defaults::new([("message.max.bytes", "5".to_owned())]);
        let mut view = RootState::default();
        let mut own = Configs::new();
        let name = "max.message.bytes";
        let in_force = |view: &RootState, own: &Configs| defaults.layers(view, 1).topic_number(own, name);
        assert_eq!(Defaults::default().layers(&view, 1).topic_number(&own, name), 1_048_588);
        assert_eq!(in_force(&view, &own), 5);
        for (resource, value) in [(Resource::AllBrokers, 6), (Resource::Broker(2), 7), (Resource::Broker(1), 8)] {
            let after = Configs::from([("message.max.bytes".to_owned(), value.to_string())]);
            view.apply(RootEntry::AlterConfigs { resource, before: Configs::new(), after });
            assert_eq!(in_force(&view, &own), if value == 7 { 6 } else { value });
        }
        own.insert(name.to_owned(), "9".to_owned());
        assert_eq!(in_force(&view, &own), 9);
        let config = Config::of_topic(name).unwrap();
        let sources =
            defaults.layers(&view, 1).values(Some((&own, Source::Topic)), config).map(|(.., source)| source as i8);
        assert_eq!(sources.collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert_eq!(defaults.layers(&view, 1).group(&Configs::new(), "consumer.session.timeout.ms"), "45000");
    }
}
