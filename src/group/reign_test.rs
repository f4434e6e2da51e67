use kafka_protocol::messages::{ApiKey, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};

use super::*;
use crate::admin::CONSUMER_OFFSETS;
use crate::cluster::{NewTopic, RootEntry};
use crate::group::consumer;
use crate::group::consumer_served_test::{FEW, coordinator, create};
use crate::group::place::place_in;
use crate::group::{Ask, Settings};
use crate::node::testing::{broker_in, config, text};

#[test]
fn only_topics_that_come_grow_or_go_have_subscriptions_looked_up_again() {
    let mut known = Known { root: Arc::default(), version: 1 };
    let mut root = RootState::default();
    let mut after = |entry: RootEntry| {
        root.apply(entry);
        known.refresh(Arc::new(root.clone()));
        let mut names = Vec::new();
        known.each_topic(&mut |name| names.push(name.to_owned()));
        (known.version(), names)
    };
    let id = TopicId::from_bytes([1; 16]);
    after(RootEntry::CreateShard { replication_factor: 1, voters: vec![1], preferred: 1 });
    after(RootEntry::IssueProducerIds { count: 1000 });
    let new = NewTopic {
        id,
        name: "t".into(),
        replication_factor: 1,
        partitions: 3,
        configs: Default::default(),
        assigned: Vec::new(),
    };
    assert_eq!(after(RootEntry::CreateTopic(new)), (1, vec![]), "it has no partition yet");
    assert_eq!(after(RootEntry::SetLive { topic: id, partitions: 2 }), (2, vec!["t".to_owned()]));
    assert_eq!(after(RootEntry::IssueProducerIds { count: 1000 }).0, 2);
    assert_eq!(after(RootEntry::SetLive { topic: id, partitions: 3 }).0, 3);
    assert_eq!(after(RootEntry::DeleteTopic { topic: id, epoch: 1 }), (4, vec![]));
    assert_eq!(after(RootEntry::Gone { topic: id }), (4, vec![]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_member_has_asked_is_taken_before_it_expires() {
    let dir = tempfile::tempdir().unwrap();
    let (node, mut client) = broker_in(dir.path(), FEW).await;
    create(&mut client, "t", 1).await;
    coordinator(&mut client).await;
    let joins = ConsumerGroupHeartbeatRequest::default().with_group_id(text("g").into()).with_member_id(text("m"));
    let joins = joins.with_rebalance_timeout_ms(60_000).with_topic_partitions(Some(Vec::new()));
    let joins = joins.with_subscribed_topic_names(Some(vec![text("t").into()]));
    let joined: ConsumerGroupHeartbeatResponse = client.ask(ApiKey::ConsumerGroupHeartbeat, 1, &joins).await;
    assert_eq!(joined.error_code, 0);

    let (shard, partition) = place_in(node.cluster().view().topic_named(CONSUMER_OFFSETS).unwrap(), "g").unwrap();
    let shard = node.shards().get(shard).unwrap();
    let mut settings = Settings::from(&config(dir.path(), FEW));
    settings.consumer.session_timeout = Duration::ZERO;
    let (cluster, metrics) = (node.cluster().clone(), Arc::default());
    let with = Coordination { cluster, sequencers: Arc::default(), settings, metrics };
    let mut reign = Reign::begin(&with, &shard, 1);
    assert!(reign.groups.deadline().is_some_and(|at| at <= Instant::now()), "the member is late");
    let (queue, mut requests) = mpsc::channel(1);
    let (answer, mut told) = oneshot::channel();
    let ask = consumer::Ask::MayFetch { member: "m".into(), epoch: joined.member_epoch };
    let ask = Box::new(Ask::from(ask));
    assert!(queue.try_send(Request::Ask { partition, group: "g".into(), ask, answer }).is_ok());
    let mut sweep_at = reign.began + SWEEP_INTERVAL;
    reign.late(&mut sweep_at, &mut requests);
    let told = told.try_recv();
    assert!(matches!(told, Ok(Reply::Consumer(consumer::Reply::Done))), "{told:?}");
    node.shut_down().await;
}
