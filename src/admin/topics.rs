//! What the APIs that change topics share: a plan is checked here, decided by the root, and waited for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use crate::admin::assignments;
use crate::admin::configs::STORAGE_CLASS;
use crate::admin::{Admin, CONCURRENT_MAX, Error, PARTITIONS_MAX, Settings, WAIT_MAX, configs, internal, names};
use crate::cluster::{NewTopic, RootAnswer, RootEntry, RootRefusal, RootState, Topic};
use crate::types::TopicId;

/// Clients that give no time to speak of still want it done.
const WAIT_MIN: Duration = Duration::from_secs(1);
const REPLICAS_WANTED: usize = 3;

pub(super) fn deadline(timeout_ms: i32) -> Instant {
    let wanted = Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0));
    Instant::now() + wanted.clamp(WAIT_MIN, WAIT_MAX)
}

/// Works on the parts of a request at once, a bounded number at a time. Results keep the order.
pub(super) async fn each<T, R, F: Future<Output = R>>(
    parts: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> F,
) -> Vec<R> {
    stream::iter(parts).map(work).buffered(CONCURRENT_MAX).collect().await
}

/// A request that names a part twice contradicts itself.
pub(super) fn refuse_repeated(repeated: bool) -> Result<(), Error> {
    match repeated {
        true => Err(Error::InvalidRequest("Duplicate topic name.".into())),
        false => Ok(()),
    }
}

/// The topic as it would be created.
///
/// # Errors
/// What Kafka would refuse, each with its reason.
pub(super) fn plan(view: &RootState, settings: &Settings, asked: &CreatableTopic) -> Result<NewTopic, Error> {
    names::validate(&asked.name)?;
    internal::refuse_reserved(&asked.name)?;
    if view.topic_named(&asked.name).is_some() {
        return Err(RootRefusal::TopicExists.into());
    }
    names::refuse_collision(view, &asked.name)?;
    let assigned = match asked.assignments.is_empty() {
        true => Vec::new(),
        false => assignments::of_topic(view, asked)?,
    };
    let (partitions, replication_factor) = match assigned.first() {
        Some(replicas) => (assigned.len() as i32, replicas.len() as u16),
        None => {
            if asked.replication_factor < -1 || asked.replication_factor == 0 {
                return Err(no_factor());
            }
            let partitions = match (asked.num_partitions, settings.partitions_of(&asked.name)) {
                (-1, Some(partitions)) => partitions,
                (asked, _) => partitions(settings, asked)?,
            };
            (partitions, replication_factor(view, settings, asked.replication_factor)?)
        }
    };
    Ok(NewTopic {
        id: Uuid::new_v4().into(),
        name: asked.name.to_string(),
        partitions,
        replication_factor,
        assigned,
        configs: configs(settings, asked)?,
    })
}

fn configs(settings: &Settings, asked: &CreatableTopic) -> Result<BTreeMap<String, String>, Error> {
    // Of a name that is said twice the last counts.
    let said: BTreeMap<&str, Option<&str>> =
        asked.configs.iter().map(|config| (config.name.as_str(), config.value.as_deref())).collect();
    let configs = configs::topic::validate(said.into_iter())?;
    match configs.get(STORAGE_CLASS) {
        Some(class) if settings.classes.iter().all(|has| has.name() != class) => {
            Err(Error::InvalidConfig(format!("{STORAGE_CLASS}: this cluster has no {class} store")))
        }
        _ => Ok(configs),
    }
}

fn partitions(settings: &Settings, asked: i32) -> Result<i32, Error> {
    match asked {
        -1 => Ok(settings.num_partitions),
        1..=PARTITIONS_MAX => Ok(asked),
        _ if asked > 0 => Err(Error::InvalidPartitions(format!("a topic has at most {PARTITIONS_MAX} partitions"))),
        _ => Err(Error::InvalidPartitions("Number of partitions was set to an invalid non-positive value.".into())),
    }
}

/// Brokers that are down count, as they do in Kafka: a topic made while one is down must not be short of a replica for
/// ever. It goes to shards that exist; the root refuses when there are none.
pub(super) fn replication_factor(view: &RootState, settings: &Settings, asked: i16) -> Result<u16, Error> {
    let brokers = view.brokers().count();
    let wanted = if asked == -1 { settings.default_replication_factor } else { asked };
    let wanted = if wanted == -1 { brokers.clamp(1, REPLICAS_WANTED) as i16 } else { wanted };
    match u16::try_from(wanted) {
        Ok(factor) if factor > 0 && usize::from(factor) <= brokers => Ok(factor),
        Ok(factor) if factor > 0 => {
            let why = format!(
                "Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be \
                 reached because only {brokers} broker(s) are registered."
            );
            Err(Error::InvalidReplicationFactor(why))
        }
        _ => Err(no_factor()),
    }
}

fn no_factor() -> Error {
    let why = "Replication factor must be larger than 0, or -1 to use the default value.";
    Error::InvalidReplicationFactor(why.into())
}

impl Admin {
    pub(super) async fn propose(&self, entry: RootEntry, deadline: Instant) -> Result<RootAnswer, Error> {
        let timeout = deadline.saturating_duration_since(Instant::now());
        Ok(self.cluster.propose(entry, timeout).await?)
    }

    /// Has the topic created and waits until it is live.
    pub(super) async fn create(&self, new: NewTopic, deadline: Instant) -> Result<Arc<Topic>, Error> {
        let (id, partitions) = (new.id, new.partitions);
        if new.assigned.is_empty() {
            let shards = self.cluster.ensure_shards(new.replication_factor);
            timeout_at(deadline, shards).await.map_err(|_| Error::TimedOut)?;
        }
        self.propose(RootEntry::CreateTopic(new), deadline).await?;
        self.wait_live(id, partitions, deadline).await
    }

    /// Waits until that many partitions of the topic can be used.
    pub(super) async fn wait_live(&self, id: TopicId, partitions: i32, deadline: Instant) -> Result<Arc<Topic>, Error> {
        let mut applied = self.cluster.root().applied();
        loop {
            // Marked as seen before the look, so that what comes after the look is not missed.
            applied.borrow_and_update();
            match self.cluster.view().topic(id) {
                Some(topic) if topic.deleting => return Err(RootRefusal::UnknownTopic.into()),
                Some(topic) if topic.live >= partitions => return Ok(topic.clone()),
                Some(_) => {}
                None => return Err(RootRefusal::UnknownTopic.into()),
            }
            // The watch ends with the root replica, which ends with the process.
            let Ok(Ok(())) = timeout_at(deadline, applied.changed()).await else { return Err(Error::TimedOut) };
        }
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::create_topics_request::{CreatableReplicaAssignment, CreatableTopicConfig};
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::admin::sample;
    use crate::protocol::ErrorCode;

    fn asked(name: &'static str, partitions: i32, factor: i16) -> CreatableTopic {
        let name = StrBytes::from_static_str(name).into();
        CreatableTopic::default().with_name(name).with_num_partitions(partitions).with_replication_factor(factor)
    }

    fn code(view: &RootState, asked: &CreatableTopic) -> ErrorCode {
        plan(view, &sample::settings(), asked).unwrap_err().code()
    }

    #[test]
    fn takes_the_brokers_defaults_where_none_are_asked_for() {
        let two = plan(&sample::cluster(&["a", "b"]), &sample::settings(), &asked("t", -1, -1)).unwrap();
        assert_eq!((two.partitions, two.replication_factor), (4, 2));
        let five = plan(&sample::cluster(&["a"; 5]), &sample::settings(), &asked("t", 7, -1)).unwrap();
        assert_eq!((five.partitions, five.replication_factor), (7, 3));
        assert_ne!(two.id, five.id);
    }

    #[test]
    fn refuses_what_kafka_refuses_with_kafkas_code() {
        let mut view = sample::cluster(&["a", "b"]);
        sample::topic(&mut view, "there", 1, 1, 1);
        sample::topic(&mut view, "there_too", 2, 1, 1);
        assert_eq!(code(&view, &asked("there", 1, 1)), ErrorCode::TopicAlreadyExists);
        assert_eq!(code(&view, &asked("there.too", 1, 1)), ErrorCode::InvalidTopic);
        assert_eq!(code(&view, &asked("", 1, 1)), ErrorCode::InvalidTopic);
        for partitions in [0, -2, PARTITIONS_MAX + 1, i32::MIN] {
            assert_eq!(code(&view, &asked("t", partitions, 1)), ErrorCode::InvalidPartitions);
        }
        for factor in [0, -2, 3, i16::MIN] {
            assert_eq!(code(&view, &asked("t", 1, factor)), ErrorCode::InvalidReplicationFactor);
        }
        assert_eq!(code(&view, &asked("t", 0, 0)), ErrorCode::InvalidReplicationFactor);
        assert_eq!(code(&view, &asked("t", 0, 3)), ErrorCode::InvalidPartitions);
        assert_eq!(code(&view, &asked("__cluster_metadata", 1, 1)), ErrorCode::InvalidRequest);
        let by_hand = asked("t", -1, -1).with_assignments(vec![CreatableReplicaAssignment::default()]);
        assert_eq!(code(&view, &by_hand), ErrorCode::InvalidReplicaAssignment);
        assert_eq!(code(&view, &asked("t", 1, 1).with_configs(vec![retention(None)])), ErrorCode::InvalidConfig);
    }

    fn retention(value: Option<&'static str>) -> CreatableTopicConfig {
        let config = CreatableTopicConfig::default().with_name(StrBytes::from_static_str("retention.ms"));
        config.with_value(value.map(StrBytes::from_static_str))
    }

    #[test]
    fn of_a_setting_that_is_said_twice_the_last_counts() {
        let view = sample::cluster(&["a"]);
        let twice = |first, last| asked("t", 1, 1).with_configs(vec![retention(first), retention(last)]);
        let new = plan(&view, &sample::settings(), &twice(Some("x"), Some("5"))).unwrap();
        assert_eq!(new.configs["retention.ms"], "5");
        assert_eq!(code(&view, &twice(Some("5"), Some("x"))), ErrorCode::InvalidConfig);
    }

    #[test]
    fn a_broker_that_is_down_does_not_lower_the_replication_factor() {
        let mut view = sample::cluster(&["a", "b", "c"]);
        sample::set_dead(&mut view, 1);
        for factor in [-1, 3] {
            assert_eq!(plan(&view, &sample::settings(), &asked("t", 1, factor)).unwrap().replication_factor, 3);
        }
    }

    #[tokio::test]
    async fn parts_are_answered_in_the_order_they_were_asked_in() {
        let done = each(0..100u64, |i| async move {
            tokio::task::yield_now().await;
            i
        });
        assert_eq!(done.await, (0..100).collect::<Vec<_>>());
    }
}
