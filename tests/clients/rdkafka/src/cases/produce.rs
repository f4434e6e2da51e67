//! Records that come back as they went in, and records that must be refused.

use anyhow::{Context as _, Result, ensure};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{Header, Headers, Message, OwnedHeaders, Timestamp};
use rdkafka::producer::FutureRecord;

use super::write;
use crate::client::{self, expect_refusal, read_spans, whole_topic};
use crate::payload::{self, Stamp};
use crate::suite::{Context, Run};

pub const CASES: &[(&str, Run)] = &[
    ("idempotent_records_come_back_uncompressed", |c| Box::pin(idempotent(c, "none"))),
    ("idempotent_records_come_back_with_gzip", |c| Box::pin(idempotent(c, "gzip"))),
    ("idempotent_records_come_back_with_snappy", |c| Box::pin(idempotent(c, "snappy"))),
    ("idempotent_records_come_back_with_lz4", |c| Box::pin(idempotent(c, "lz4"))),
    ("idempotent_records_come_back_with_zstd", |c| Box::pin(idempotent(c, "zstd"))),
    ("plain_producers_are_served_at_every_acks", |c| Box::pin(acks(c))),
    ("four_producers_keep_their_own_order_in_one_partition", |c| Box::pin(shared_partition(c))),
    ("single_records_get_offsets_one_by_one", |c| Box::pin(one_by_one(c))),
    ("keys_headers_nulls_and_timestamps_come_back", |c| Box::pin(every_field(c))),
    ("a_record_just_below_the_limit_comes_back", |c| Box::pin(large(c))),
    ("a_record_above_the_limit_is_refused", |c| Box::pin(too_large(c))),
    ("a_topic_may_lower_its_limit", |c| Box::pin(lower_limit(c))),
];

const PARTITIONS: i32 = 6;

async fn idempotent(context: &Context, codec: &str) -> Result<()> {
    let topic = context.topic(&format!("codec-{codec}"));
    client::create_topic(&context.admin()?, &topic, PARTITIONS).await?;
    let producer = context.producer(&[("compression.type", codec)])?;
    for partition in 0..PARTITIONS {
        write::stamped(&producer, &topic, partition, 1, 1000).await?;
    }
    write::holds(context, &topic, PARTITIONS, &[1], 1000)
}

async fn acks(context: &Context) -> Result<()> {
    for acks in ["0", "1", "-1"] {
        let topic = context.topic(&format!("acks{acks}"));
        client::create_topic(&context.admin()?, &topic, 1).await?;
        let producer = context.producer(&[("enable.idempotence", "false"), ("acks", acks)])?;
        let mut deliveries = Vec::new();
        for sequence in 0..500 {
            let value = payload::make(Stamp { writer: 1, sequence }, 1024);
            let record = FutureRecord::<[u8], [u8]>::to(&topic).partition(0).payload(&value);
            deliveries.push(producer.send_result(record).map_err(|(error, _)| error)?);
        }
        for delivery in deliveries {
            delivery.await?.map_err(|(error, _)| error)?;
        }
        // Only acks=-1 promises that the records can be read now; the others arrive in a moment.
        let (consumer, mut due) = (context.consumer()?, 0);
        read_spans(&consumer, &topic, &[client::Span { partition: 0, start: 0, end: 500 }], |message| {
            let stamp = payload::read(message.payload().context("a null value")?)?;
            ensure!(stamp.sequence == due, "{stamp:?} where {due} was due");
            due += 1;
            Ok(())
        })
        .with_context(|| format!("acks={acks}"))?;
    }
    Ok(())
}

async fn shared_partition(context: &Context) -> Result<()> {
    let topic = context.topic("shared");
    client::create_topic(&context.admin()?, &topic, 1).await?;
    let producers = (0..4).map(|_| context.producer(&[("batch.num.messages", "50")])).collect::<Result<Vec<_>>>()?;
    let writes = producers.iter().zip(1..).map(|(producer, writer)| write::stamped(producer, &topic, 0, writer, 2000));
    futures::future::try_join_all(writes).await?;
    write::holds(context, &topic, 1, &[1, 2, 3, 4], 2000)
}

async fn one_by_one(context: &Context) -> Result<()> {
    let topic = context.topic("single");
    client::create_topic(&context.admin()?, &topic, 1).await?;
    let producer = context.producer(&[("linger.ms", "0")])?;
    for due in 0..20 {
        let record = FutureRecord::to(&topic).partition(0).payload(&b"one"[..]).key(&b"k"[..]);
        let offset = write::one(&producer, record).await.map_err(|code| anyhow::anyhow!("{code}"))?;
        ensure!(offset == due, "offset {offset} where {due} was due");
    }
    Ok(())
}

async fn every_field(context: &Context) -> Result<()> {
    let topic = context.topic("fields");
    client::create_topic(&context.admin()?, &topic, 1).await?;
    let producer = context.producer(&[("compression.type", "lz4"), ("linger.ms", "50")])?;
    type Fields<'a> = (Option<&'a [u8]>, Option<&'a [u8]>, i64, Vec<(&'a str, Option<&'a [u8]>)>);
    let rows: [Fields<'_>; 5] = [
        (Some(b"key"), Some(b"value"), 1_600_000_000_000, vec![("trace", Some(b"\x00\xff".as_slice()))]),
        (None, Some(b"no key"), 1_500_000_000_000, vec![]),
        (Some(b"no value"), None, 1_700_000_000_123, vec![("null", None), ("empty", Some(b"".as_slice()))]),
        (
            Some(b""),
            Some(b""),
            1_600_000_000_001,
            vec![("twice", Some(b"1".as_slice())), ("twice", Some(b"2".as_slice()))],
        ),
        (Some(b"\xf0\x9f\x8d\x8f"), Some(&[0; 300]), 1, vec![("", Some(b"unnamed".as_slice()))]),
    ];
    let mut deliveries = Vec::new();
    for (key, value, timestamp, headers) in &rows {
        let headers =
            headers.iter().fold(OwnedHeaders::new(), |all, (key, value)| all.insert(Header { key, value: *value }));
        let mut record = FutureRecord::<[u8], [u8]>::to(&topic).partition(0).timestamp(*timestamp).headers(headers);
        (record.key, record.payload) = (*key, *value);
        deliveries.push(producer.send_result(record).map_err(|(error, _)| error)?);
    }
    for delivery in deliveries {
        delivery.await?.map_err(|(error, _)| error)?;
    }
    let consumer = context.consumer()?;
    let mut rows = rows.iter();
    read_spans(&consumer, &topic, &whole_topic(&consumer, &topic, 1)?, |message| {
        let (key, value, timestamp, headers) = rows.next().context("too many records")?;
        ensure!(message.key() == *key, "key {:?} where {key:?} was due", message.key());
        ensure!(message.payload() == *value, "value {:?}", message.payload());
        ensure!(message.timestamp() == Timestamp::CreateTime(*timestamp), "{:?}", message.timestamp());
        let shown: Vec<_> = message.headers().map_or(Vec::new(), |all| all.iter().map(|h| (h.key, h.value)).collect());
        ensure!(shown == *headers, "headers {shown:?}");
        Ok(())
    })?;
    ensure!(rows.next().is_none(), "too few records");
    Ok(())
}

async fn large(context: &Context) -> Result<()> {
    let topic = context.topic("large");
    client::create_topic(&context.admin()?, &topic, 1).await?;
    let producer = context.producer(&[("message.max.bytes", "2000000")])?;
    // 1,048,588 bytes is the largest batch; its header and the record's own take less than 200.
    let sizes = [1_048_388, 20, 1_000_000];
    for (sequence, value_bytes) in (0..).zip(sizes) {
        let value = payload::make(Stamp { writer: 1, sequence }, value_bytes);
        let record = FutureRecord::to(&topic).partition(0).payload(&value[..]).key(&b"large"[..]);
        write::one(&producer, record).await.map_err(|code| anyhow::anyhow!("{value_bytes} bytes: {code}"))?;
    }
    let consumer = context.consumer()?;
    let mut due = sizes.into_iter();
    read_spans(&consumer, &topic, &whole_topic(&consumer, &topic, 1)?, |message| {
        let value = message.payload().context("a null value")?;
        ensure!(Some(value.len()) == due.next(), "a value of {} bytes", value.len());
        payload::read(value).map(drop)
    })
}

async fn too_large(context: &Context) -> Result<()> {
    let topic = context.topic("too-large");
    client::create_topic(&context.admin()?, &topic, 1).await?;
    let producer = context.producer(&[("message.max.bytes", "4000000"), ("enable.idempotence", "false")])?;
    let value = payload::make(Stamp { writer: 1, sequence: 0 }, 1_100_000);
    let record = FutureRecord::to(&topic).partition(0).payload(&value[..]).key(&b"large"[..]);
    expect_refusal(write::one(&producer, record).await, RDKafkaErrorCode::MessageSizeTooLarge)?;
    let small = FutureRecord::to(&topic).partition(0).payload(&b"small"[..]).key(&b"after"[..]);
    let offset = write::one(&producer, small).await.map_err(|code| anyhow::anyhow!("the next record: {code}"))?;
    ensure!(offset == 0, "the refused record took an offset");
    Ok(())
}

async fn lower_limit(context: &Context) -> Result<()> {
    use rdkafka::admin::{NewTopic, TopicReplication};
    let topic = context.topic("lower-limit");
    let new = NewTopic::new(&topic, 1, TopicReplication::Fixed(-1)).set("max.message.bytes", "10000");
    client::create_topic_with(&context.admin()?, new).await?;
    let producer = context.producer(&[("enable.idempotence", "false")])?;
    for (value_bytes, fits) in [(9_000, true), (11_000, false)] {
        let value = payload::make(Stamp { writer: 1, sequence: 0 }, value_bytes);
        let record = FutureRecord::to(&topic).partition(0).payload(&value[..]).key(&b""[..]);
        match write::one(&producer, record).await {
            Ok(_) if fits => {}
            answer => expect_refusal(answer, RDKafkaErrorCode::MessageSizeTooLarge)?,
        }
    }
    Ok(())
}
