//! What clients see of a log whose start was moved, at the broker that leads it.

use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::delete_records_response::DeleteRecordsPartitionResult;
use kafka_protocol::messages::*;

use crate::batch::build::{NewRecord, Spec, batch};
use crate::node::testing::{Client, T0, TOPIC, Topic, batches, broker_in, records_of, text};
use crate::protocol::ErrorCode;

async fn delete(client: &mut Client, version: i16, partitions: &[(i32, i64)]) -> Vec<DeleteRecordsPartitionResult> {
    let wanted = partitions
        .iter()
        .map(|(index, offset)| DeleteRecordsPartition::default().with_partition_index(*index).with_offset(*offset));
    let topic = DeleteRecordsTopic::default().with_name(text(TOPIC).into()).with_partitions(wanted.collect());
    let request = DeleteRecordsRequest::default().with_topics(vec![topic]).with_timeout_ms(10_000);
    let answer: DeleteRecordsResponse = client.ask(ApiKey::DeleteRecords, version, &request).await;
    answer.topics[0].partitions.clone()
}

fn told(partitions: &[DeleteRecordsPartitionResult]) -> Vec<(i64, i16)> {
    partitions.iter().map(|p| (p.low_watermark, p.error_code)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_below_the_new_start_is_gone_for_every_kind_of_reader() {
    let dir = tempfile::tempdir().unwrap();
    let (node, mut client) = broker_in(dir.path(), &[]).await;
    let topic = Topic::create(&mut client, 2, &[]).await;
    for base in [0, 10, 20] {
        let produced = topic.produced(&mut client, 9, &[records_of(10, &Spec::default())]).await;
        assert_eq!((produced.error_code, produced.base_offset), (0, base));
    }
    let out_of_range = ErrorCode::OffsetOutOfRange.code();
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    let deleted = delete(&mut client, 2, &[(0, 15), (1, 1), (2, 0), (1, -1)]).await;
    assert_eq!(told(&deleted), [(15, 0), (-1, out_of_range), (-1, unknown), (0, 0)]);
    for (offset, due) in [(3, (15, 0)), (31, (-1, out_of_range)), (-2, (-1, out_of_range)), (15, (15, 0))] {
        assert_eq!(told(&delete(&mut client, 0, &[(0, offset)]).await), [due], "{offset}");
    }

    assert_eq!(topic.fetched(&mut client, 12, 14, 1 << 20).await.error_code, out_of_range);
    let rest = topic.fetched(&mut client, 12, 15, 1 << 20).await;
    assert_eq!((rest.error_code, rest.log_start_offset, rest.high_watermark), (0, 15, 30));
    assert_eq!(batches(&rest).iter().map(|b| b.0).collect::<Vec<_>>(), [10, 20], "a batch is whole or gone");
    assert_eq!(topic.offset_of(&mut client, -2).await.0, 15);
    assert_eq!(topic.offset_of(&mut client, T0).await, (15, T0 + 5), "inside the batch that the log begins in");
    assert_eq!(topic.offset_of(&mut client, T0 + 9).await, (19, T0 + 9));

    node.shut_down().await;
    let (node, mut client) = broker_in(dir.path(), &[]).await;
    assert_eq!(topic.offset_of(&mut client, -2).await.0, 15);
    assert_eq!(told(&delete(&mut client, 1, &[(0, -1)]).await), [(30, 0)]);
    let empty = topic.fetched(&mut client, 12, 30, 1 << 20).await;
    assert_eq!((empty.error_code, empty.log_start_offset, batches(&empty).len()), (0, 30, 0));
    assert_eq!(topic.offset_of(&mut client, T0).await.0, -1);
    assert_eq!(topic.offset_of(&mut client, -3).await.0, -1);
    assert_eq!(topic.produced(&mut client, 9, &[records_of(1, &Spec::default())]).await.base_offset, 30);
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_timestamp_is_looked_for_among_the_records_that_are_left() {
    let dir = tempfile::tempdir().unwrap();
    let (node, mut client) = broker_in(dir.path(), &[]).await;
    let topic = Topic::create(&mut client, 1, &[]).await;
    for times in [[50, 10, 20], [5, 15, 15]] {
        let records = times.map(|time| NewRecord::value(b"v", T0 + time));
        assert_eq!(topic.produced(&mut client, 9, &[batch(&records, &Spec::default())]).await.error_code, 0);
    }
    assert_eq!(topic.offset_of(&mut client, -3).await, (0, T0 + 50));
    for (start, largest) in [(1, (2, T0 + 20)), (2, (2, T0 + 20)), (3, (4, T0 + 15)), (5, (5, T0 + 15))] {
        assert_eq!(told(&delete(&mut client, 2, &[(0, start)]).await), [(start, 0)]);
        assert_eq!(topic.offset_of(&mut client, -3).await, largest, "from {start} on");
    }
    node.shut_down().await;
}
