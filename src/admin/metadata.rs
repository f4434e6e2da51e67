use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{MetadataRequest, MetadataResponse};
use kafka_protocol::protocol::StrBytes;
use tokio::time::Instant;

use crate::admin::describe_cluster::rack;
use crate::admin::epochs::{self, Epochs};
use crate::admin::leaders::{self, Placed};
use crate::admin::{Admin, Context, Error, internal, is_internal, names, operations, topics};
use crate::batch::Segments;
use crate::cluster::{self, Broker, RootRefusal, RootState, Topic};
use crate::protocol::{self, ErrorCode, TopicRef, decode, encode};
use crate::types::{BrokerId, LeaderEpoch, Partition, ShardId};

/// How long a topic in the making is waited for. Clients ask again at once, so waiting here is the shorter way.
const CREATION_WAIT: Duration = Duration::from_secs(5);
/// Before this version an empty list stands for all topics, and null cannot be said.
const EMPTY_IS_NONE_SINCE: i16 = 1;
/// 10 and 11 have the field, and all of a request that uses it is refused, as by Kafka.
const IDS_SINCE: i16 = 12;

/// # Errors
/// The body does not follow the protocol.
pub async fn metadata(
    admin: &Admin,
    context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: MetadataRequest = decode(version, body)?;
    if let Some(topics) = request.topics.as_deref().filter(|topics| names_by_id_too_early(version, topics)) {
        let refused = topics.iter().map(|topic| {
            let told = MetadataResponseTopic::default().with_error_code(ErrorCode::InvalidRequest.code());
            told.with_name(Some(topic.name.clone().unwrap_or_default())).with_topic_id(topic.topic_id)
        });
        return encode(version, &MetadataResponse::default().with_topics(refused.collect()));
    }
    let asked = asked(version, request.topics);
    let create = request.allow_auto_topic_creation && admin.settings.auto_create_topics;
    let failed = prepare(admin, asked.as_deref().unwrap_or_default(), create).await;

    let view = admin.cluster.view();
    let shown: Vec<&Arc<Topic>> = match &asked {
        None => view.live_topics().collect(),
        Some(asked) => asked.iter().filter_map(|wanted| view.find(wanted)).collect(),
    };
    let epochs = Epochs::gather(admin, shown.into_iter().flat_map(|topic| epochs::live(topic))).await;
    let told = Told {
        view: &view,
        placed: leaders::place(&view, context.zone(&view, &admin.settings.zones), |shard| epochs.leader(shard)),
        epoch: |shard, partition: &_| epochs.of(shard, partition),
    };
    let mut topics: Vec<MetadataResponseTopic> = match asked {
        None => view.live_topics().map(|topic| told.topic(topic)).collect(),
        Some(asked) => asked.iter().map(|wanted| told.answer(wanted, &failed)).collect(),
    };
    if request.include_topic_authorized_operations {
        let found = topics.iter_mut().filter(|topic| topic.error_code == ErrorCode::None.code());
        found.for_each(|topic| topic.topic_authorized_operations = operations::ON_A_TOPIC);
    }
    let answer = MetadataResponse::default()
        .with_brokers(told_brokers(&admin.named.brokers(&view, Instant::now()), context.listener.as_deref()))
        .with_cluster_id(Some(StrBytes::from_string(admin.cluster.cluster_id().to_string())))
        .with_controller_id(admin.controller(&view).into())
        .with_topics(topics);
    let answer = match request.include_cluster_authorized_operations {
        true => answer.with_cluster_authorized_operations(operations::ON_THE_CLUSTER),
        false => answer,
    };
    encode(version, &answer)
}

fn names_by_id_too_early(version: i16, topics: &[MetadataRequestTopic]) -> bool {
    version < IDS_SINCE && topics.iter().any(|topic| topic.name.is_none() || !topic.topic_id.is_nil())
}

/// `None` for all topics. What is asked twice is answered once.
pub(super) fn asked(version: i16, topics: Option<Vec<MetadataRequestTopic>>) -> Option<Vec<TopicRef>> {
    let topics = topics.filter(|topics| version >= EMPTY_IS_NONE_SINCE || !topics.is_empty())?;
    let mut seen = HashSet::new();
    let wanted = topics.into_iter().map(|topic| match topic.name {
        _ if version >= IDS_SINCE && !topic.topic_id.is_nil() => TopicRef::Id(topic.topic_id.into()),
        name => TopicRef::Name(name.unwrap_or_default().0),
    });
    Some(wanted.filter(|topic| seen.insert(topic.clone())).collect())
}

/// Creates what is to be created and waits for what is being created, in so far as that is quick. Returns why it was not.
async fn prepare(admin: &Admin, asked: &[TopicRef], create: bool) -> HashMap<TopicRef, ErrorCode> {
    let view = admin.cluster.view();
    let deadline = Instant::now() + CREATION_WAIT;
    let unready = asked.iter().filter(|wanted| match view.find(wanted) {
        Some(topic) => topic.live == 0,
        None => create && matches!(wanted, TopicRef::Name(name) if internal::refuse_reserved(name).is_ok()),
    });
    let unready: Vec<TopicRef> = unready.cloned().collect();
    let results = topics::each(unready, async |wanted: TopicRef| {
        let ready = match (&wanted, view.find(&wanted)) {
            (_, Some(topic)) => admin.wait_live(topic.id, 1, deadline).await,
            (TopicRef::Name(name), None) => auto_create(admin, name, deadline).await,
            (TopicRef::Id(_), None) => return None,
        };
        Some((wanted, failure(&ready.err()?)))
    });
    results.await.into_iter().flatten().collect()
}

async fn auto_create(admin: &Admin, name: &StrBytes, deadline: Instant) -> Result<Arc<Topic>, Error> {
    let by_default = CreatableTopic::default().with_name(name.clone().into());
    let by_default = by_default.with_num_partitions(-1).with_replication_factor(-1);
    let created = match topics::plan(&admin.cluster.view(), &admin.settings, &by_default) {
        Ok(new) => admin.create(new, deadline).await,
        Err(e) => Err(e),
    };
    match created {
        // Another client was quicker: its topic is as good.
        Err(Error::Cluster(cluster::Error::Refused(RootRefusal::TopicExists))) => {
            let id = admin.cluster.view().topic_named(name).map(|topic| topic.id).ok_or(RootRefusal::UnknownTopic)?;
            admin.wait_live(id, 1, deadline).await
        }
        created => created,
    }
}

/// What cannot be created is said so; what takes longer is asked for again.
fn failure(e: &Error) -> ErrorCode {
    match e.code() {
        ErrorCode::NotController | ErrorCode::RequestTimedOut => ErrorCode::LeaderNotAvailable,
        code => code,
    }
}

/// What one client is told of topics. `epoch` is the partition's, if this broker has a replica of it.
pub(super) struct Told<'a, E> {
    pub view: &'a RootState,
    pub placed: HashMap<ShardId, Placed>,
    pub epoch: E,
}

impl<E: Fn(ShardId, &Partition) -> Option<LeaderEpoch>> Told<'_, E> {
    pub fn answer(&self, wanted: &TopicRef, failed: &HashMap<TopicRef, ErrorCode>) -> MetadataResponseTopic {
        let code = match (self.view.find(wanted), wanted) {
            (Some(topic), _) if topic.live > 0 => return self.topic(topic),
            (Some(_), _) => ErrorCode::LeaderNotAvailable,
            (None, _) if failed.contains_key(wanted) => failed[wanted],
            (None, TopicRef::Name(name)) if names::validate(name).is_err() => ErrorCode::InvalidTopic,
            (None, _) => wanted.unknown(),
        };
        let topic = MetadataResponseTopic::default().with_error_code(code.code());
        match wanted {
            TopicRef::Name(name) => topic.with_name(Some(name.clone().into())),
            TopicRef::Id(id) => topic.with_topic_id((*id).into()).with_name(None),
        }
    }

    /// The partitions that can be used; those still being created are not shown.
    pub fn topic(&self, topic: &Topic) -> MetadataResponseTopic {
        let partitions = epochs::live(topic).map(|(shard, partition)| self.partition(shard, &partition));
        MetadataResponseTopic::default()
            .with_name(Some(StrBytes::from_string(topic.name.clone()).into()))
            .with_topic_id(topic.id.into())
            .with_is_internal(is_internal(&topic.name))
            .with_partitions(partitions.collect())
    }

    pub fn partition(&self, shard: ShardId, partition: &Partition) -> MetadataResponsePartition {
        let told = MetadataResponsePartition::default().with_partition_index(partition.index);
        let placed = self.placed.get(&shard);
        let told = match placed.and_then(|placed| placed.leader_of(partition)) {
            Some(leader) => told.with_leader_id(leader.into()),
            None => told.with_leader_id((-1).into()).with_error_code(ErrorCode::LeaderNotAvailable.code()),
        };
        let Some(placed) = placed else { return told };
        let ids = |brokers: &[BrokerId]| brokers.iter().map(|id| (*id).into()).collect();
        told.with_leader_epoch((self.epoch)(shard, partition).unwrap_or(-1))
            .with_replica_nodes(ids(&placed.replicas))
            .with_isr_nodes(ids(&placed.live))
            .with_offline_replicas(ids(&placed.dead))
    }
}

fn told_brokers(named: &[&Arc<Broker>], listener: Option<&str>) -> Vec<MetadataResponseBroker> {
    let told = named.iter().map(|broker| {
        let (host, port) = broker.address_for(listener);
        MetadataResponseBroker::default()
            .with_node_id(broker.id.into())
            .with_host(StrBytes::from_string(host.to_owned()))
            .with_port(port.into())
            .with_rack(rack(broker))
    });
    told.collect()
}
