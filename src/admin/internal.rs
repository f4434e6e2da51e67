//! Topics that belong to the cluster itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;
use uuid::Uuid;

use crate::admin::{Admin, Error, topics};
use crate::cluster::{self, NewTopic, RootRefusal, Topic};

/// Consumer groups live in its partitions. It has no records.
pub const CONSUMER_OFFSETS: &str = "__consumer_offsets";
/// Transactional ids live in its partitions. It has no records either.
pub const TRANSACTION_STATE: &str = "__transaction_state";

/// What Kafka's brokers keep their own state in, under a name that tools know: the root shard here. No topic has it.
pub(super) const CLUSTER_METADATA: &str = "__cluster_metadata";

/// Clients neither write to it nor change it.
pub fn is_internal(name: &str) -> bool {
    matches!(name, CONSUMER_OFFSETS | TRANSACTION_STATE)
}

/// # Errors
/// For an internal topic: how it is spread says where groups are, so it stays as it is.
pub(super) fn refuse_internal(name: &str) -> Result<(), Error> {
    match is_internal(name) {
        true => Err(Error::InvalidRequest(format!("{name} is managed by the brokers"))),
        false => Ok(()),
    }
}

/// # Errors
/// For the name that no topic has.
pub(super) fn refuse_reserved(name: &str) -> Result<(), Error> {
    match name == CLUSTER_METADATA {
        true => Err(Error::InvalidRequest(format!("Creation of internal topic {name} is prohibited."))),
        false => Ok(()),
    }
}

impl Admin {
    /// The topic that groups live in, made when the first group comes.
    ///
    /// # Errors
    /// It is not there yet; asking again goes on with it.
    pub async fn consumer_offsets(&self, deadline: Instant) -> Result<Arc<Topic>, Error> {
        self.internal(CONSUMER_OFFSETS, deadline).await
    }

    /// The topic that transactional ids live in, made when the first of them comes.
    ///
    /// # Errors
    /// It is not there yet; asking again goes on with it.
    pub async fn transaction_state(&self, deadline: Instant) -> Result<Arc<Topic>, Error> {
        self.internal(TRANSACTION_STATE, deadline).await
    }

    async fn internal(&self, name: &str, deadline: Instant) -> Result<Arc<Topic>, Error> {
        let view = self.cluster.view();
        let id = match view.topic_named(name) {
            Some(topic) if topic.is_live() => return Ok(topic.clone()),
            Some(topic) => topic.id,
            None => {
                let new = NewTopic {
                    id: Uuid::new_v4().into(),
                    name: name.to_owned(),
                    partitions: self.settings.partitions_of(name).unwrap_or(self.settings.num_partitions),
                    replication_factor: topics::replication_factor(&view, &self.settings, -1)?,
                    configs: BTreeMap::from([("cleanup.policy".to_owned(), "compact".to_owned())]),
                    assigned: Vec::new(),
                };
                match self.create(new, deadline).await {
                    // Another broker was quicker.
                    Err(Error::Cluster(cluster::Error::Refused(RootRefusal::TopicExists))) => {
                        let view = self.cluster.view();
                        view.topic_named(name).map(|topic| topic.id).ok_or(RootRefusal::UnknownTopic)?
                    }
                    created => return created,
                }
            }
        };
        let partitions = self.cluster.view().topic(id).map_or(1, |topic| topic.placement.len() as i32);
        self.wait_live(id, partitions, deadline).await
    }
}
