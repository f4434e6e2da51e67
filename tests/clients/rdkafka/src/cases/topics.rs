//! Topics as the admin client and metadata show them.

use anyhow::{Context as _, Result, bail, ensure};
use rdkafka::admin::{NewPartitions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::consumer::Consumer;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::producer::FutureRecord;

use super::write;
use crate::client::{self, ANSWER_TIMEOUT, admin_options, expect_refusal, leaders, wait_metadata};
use crate::suite::{Context, Run};

pub const CASES: &[(&str, Run)] = &[
    ("metadata_shows_brokers_and_a_cluster_id", |c| Box::pin(cluster(c))),
    ("created_topic_shows_every_partition_with_a_leader", |c| Box::pin(created(c))),
    ("creating_a_topic_twice_is_refused", |c| Box::pin(created_twice(c))),
    ("wrong_names_and_counts_are_refused", |c| Box::pin(wrong(c))),
    ("validate_only_creates_nothing", |c| Box::pin(validate_only(c))),
    ("unknown_topic_is_unknown_to_everybody", |c| Box::pin(unknown(c))),
    ("a_producer_may_make_its_topic", |c| Box::pin(made_by_producer(c))),
    ("deleted_topic_disappears", |c| Box::pin(deleted(c))),
    ("recreated_topic_starts_empty", |c| Box::pin(recreated(c))),
    ("new_partitions_take_records_and_old_ones_keep_theirs", |c| Box::pin(grown(c))),
    ("topic_config_shows_defaults_and_overrides", |c| Box::pin(configs(c))),
];

async fn cluster(context: &Context) -> Result<()> {
    let admin = context.admin()?;
    let metadata = admin.inner().fetch_metadata(None, ANSWER_TIMEOUT)?;
    ensure!(!metadata.brokers().is_empty(), "no brokers");
    for broker in metadata.brokers() {
        ensure!(broker.id() >= 0 && broker.port() > 0 && !broker.host().is_empty(), "{broker:?}");
    }
    let id = admin.inner().fetch_cluster_id(ANSWER_TIMEOUT).context("no cluster id")?;
    ensure!(!id.is_empty(), "an empty cluster id");
    Ok(())
}

async fn created(context: &Context) -> Result<()> {
    let (admin, topic) = (context.admin()?, context.topic("created"));
    client::create_topic(&admin, &topic, 12).await?;
    let metadata = admin.inner().fetch_metadata(Some(&topic), ANSWER_TIMEOUT)?;
    let leaders = leaders(&metadata, &topic)?;
    ensure!(leaders.len() == 12, "{} partitions", leaders.len());
    for leader in leaders {
        ensure!(metadata.brokers().iter().any(|broker| broker.id() == leader), "leader {leader} is no broker");
    }
    let shown = metadata.topics().iter().find(|shown| shown.name() == topic).context("not shown")?;
    for partition in shown.partitions() {
        ensure!(!partition.replicas().is_empty() && !partition.isr().is_empty(), "{partition:?}");
    }
    Ok(())
}

async fn refusal(context: &Context, topic: NewTopic<'_>) -> Result<Result<String, RDKafkaErrorCode>> {
    let mut answers = context.admin()?.create_topics([&topic], &admin_options()).await?;
    Ok(answers.pop().context("no answer")?.map_err(|(_, code)| code))
}

async fn created_twice(context: &Context) -> Result<()> {
    let topic = context.topic("twice");
    client::create_topic(&context.admin()?, &topic, 1).await?;
    let again = NewTopic::new(&topic, 1, TopicReplication::Fixed(-1));
    expect_refusal(refusal(context, again).await?, RDKafkaErrorCode::TopicAlreadyExists)
}

async fn wrong(context: &Context) -> Result<()> {
    let bad_name = NewTopic::new("not/a/name", 1, TopicReplication::Fixed(-1));
    expect_refusal(refusal(context, bad_name).await?, RDKafkaErrorCode::InvalidTopic)?;
    let topic = context.topic("replication");
    let too_many_replicas = NewTopic::new(&topic, 1, TopicReplication::Fixed(100));
    expect_refusal(refusal(context, too_many_replicas).await?, RDKafkaErrorCode::InvalidReplicationFactor)?;
    let bad_config = NewTopic::new(&topic, 1, TopicReplication::Fixed(-1)).set("retention.ms", "soon");
    expect_refusal(refusal(context, bad_config).await?, RDKafkaErrorCode::InvalidConfig)
}

async fn validate_only(context: &Context) -> Result<()> {
    let (admin, topic) = (context.admin()?, context.topic("validated"));
    let new = NewTopic::new(&topic, 1, TopicReplication::Fixed(-1));
    let answers = admin.create_topics([&new], &admin_options().validate_only(true)).await?;
    ensure!(answers.iter().all(Result::is_ok), "{answers:?}");
    let all = admin.inner().fetch_metadata(None, ANSWER_TIMEOUT)?;
    ensure!(all.topics().iter().all(|shown| shown.name() != topic), "the topic exists");
    Ok(())
}

async fn unknown(context: &Context) -> Result<()> {
    let topic = context.topic("never-made");
    let metadata = context.consumer()?.fetch_metadata(Some(&topic), ANSWER_TIMEOUT)?;
    let shown = metadata.topics().first().context("the topic asked for is not in the answer")?;
    let code = shown.error().map(RDKafkaErrorCode::from);
    ensure!(code == Some(RDKafkaErrorCode::UnknownTopicOrPartition), "metadata says {code:?}");

    let producer = context.producer(&[("topic.metadata.propagation.max.ms", "500")])?;
    let record = FutureRecord::to(&topic).partition(0).payload(&b"lost"[..]).key(&b""[..]);
    match write::one(&producer, record).await {
        Err(RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::UnknownTopicOrPartition) => {}
        other => bail!("producing answered {other:?}"),
    }
    expect_refusal(client::delete_topic(&context.admin()?, &topic).await, RDKafkaErrorCode::UnknownTopicOrPartition)
}

async fn made_by_producer(context: &Context) -> Result<()> {
    let topic = context.topic("made-by-producer");
    let producer = context.producer(&[("allow.auto.create.topics", "true")])?;
    write::stamped(&producer, &topic, 0, 1, 10).await?;
    write::holds(context, &topic, 1, &[1], 10)
}

async fn deleted(context: &Context) -> Result<()> {
    let (admin, topic) = (context.admin()?, context.topic("deleted"));
    client::create_topic(&admin, &topic, 3).await?;
    write::stamped(&context.producer(&[])?, &topic, 0, 1, 10).await?;
    client::delete_topic(&admin, &topic).await?;
    gone(&admin, &topic).await
}

async fn gone(admin: &client::Admin, topic: &str) -> Result<()> {
    wait_metadata(admin, topic, |_| {
        let all = admin.inner().fetch_metadata(None, ANSWER_TIMEOUT);
        all.is_ok_and(|all| all.topics().iter().all(|shown| shown.name() != topic))
    })
    .await
}

async fn recreated(context: &Context) -> Result<()> {
    let (admin, topic) = (context.admin()?, context.topic("recreated"));
    for (partitions, records) in [(3, 40), (2, 15), (4, 25)] {
        client::create_topic(&admin, &topic, partitions).await?;
        for partition in 0..partitions {
            // A new client each time: an old one may keep the old topic's id and answers.
            write::stamped(&context.producer(&[])?, &topic, partition, 1, records).await?;
        }
        write::holds(context, &topic, partitions, &[1], records)?;
        client::delete_topic(&admin, &topic).await?;
        gone(&admin, &topic).await?;
    }
    Ok(())
}

async fn grown(context: &Context) -> Result<()> {
    let (admin, topic) = (context.admin()?, context.topic("grown"));
    client::create_topic(&admin, &topic, 2).await?;
    for partition in 0..2 {
        write::stamped(&context.producer(&[])?, &topic, partition, 1, 30).await?;
    }
    let grow = |count| {
        let (admin, topic) = (&admin, &topic);
        async move {
            let answers = admin.create_partitions([&NewPartitions::new(topic, count)], &admin_options()).await?;
            let answer = answers.into_iter().next().context("no answer")?;
            anyhow::Ok(answer.map_err(|(_, code)| code))
        }
    };
    grow(5).await?.map_err(|code| anyhow::anyhow!("growing: {code}"))?;
    wait_metadata(&admin, &topic, |metadata| leaders(metadata, &topic).is_ok_and(|found| found.len() == 5)).await?;
    for partition in 2..5 {
        write::stamped(&context.producer(&[])?, &topic, partition, 1, 30).await?;
    }
    write::holds(context, &topic, 5, &[1], 30)?;
    expect_refusal(grow(3).await?, RDKafkaErrorCode::InvalidPartitions)
}

async fn configs(context: &Context) -> Result<()> {
    let (admin, topic) = (context.admin()?, context.topic("configured"));
    let new = NewTopic::new(&topic, 1, TopicReplication::Fixed(-1)).set("retention.ms", "3600000");
    client::create_topic_with(&admin, new).await?;
    let answers = admin.describe_configs(&[ResourceSpecifier::Topic(&topic)], &admin_options()).await?;
    let shown = answers.into_iter().next().context("no answer")?.map_err(|code| anyhow::anyhow!("{code}"))?;
    let value = |name: &str| shown.get(name).and_then(|entry| entry.value.clone());
    ensure!(value("retention.ms").as_deref() == Some("3600000"), "retention.ms is {:?}", value("retention.ms"));
    for name in ["cleanup.policy", "max.message.bytes", "retention.bytes"] {
        ensure!(value(name).is_some_and(|text| !text.is_empty()), "{name} is not shown");
    }
    Ok(())
}
