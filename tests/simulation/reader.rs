//! Readers, one per broker, each through its own broker only; and those who ask where a log ends.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{
    ApiKey, BrokerId, FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse,
};
use kafka_protocol::protocol::StrBytes;
use milepost::batch::{self, Header, Rules, ValidBatch, records, validate};
use milepost::protocol::ErrorCode;
use rand::Rng;
use tokio::time::{Instant, sleep, timeout};

use crate::cluster::{PARTITIONS, Run, TOPIC};
use crate::wire::{Connection, Lost};

const PATIENCE: Duration = Duration::from_secs(12);
const PAUSE: Duration = Duration::from_millis(100);

pub struct Reader {
    run: Rc<Run>,
    broker: i32,
    connection: Option<Rc<Connection>>,
    /// Per partition: the records from 0 up to the position.
    logs: BTreeMap<i32, BTreeMap<i64, String>>,
    watermarks: BTreeMap<i32, (i64, i64)>,
}

impl Reader {
    /// Tails the log until writing has ended.
    pub async fn tail(run: Rc<Run>, broker: i32) {
        let mut reader = Reader::new(run.clone(), broker);
        run.topic_exists().await;
        while run.writing.get() {
            if reader.fetch().await.is_err() {
                sleep(PAUSE).await;
            }
        }
    }

    /// Reads everything from the beginning up to the highest offset anybody was told of, and checks it. Retries for as
    /// long as `within`.
    pub async fn scan(run: Rc<Run>, broker: i32, within: Duration) {
        let mut reader = Reader::new(run.clone(), broker);
        let complete = async {
            while (0..PARTITIONS).any(|partition| reader.position(partition) < run.ledger.end(partition)) {
                if reader.fetch().await.is_err() {
                    sleep(PAUSE).await;
                }
            }
        };
        if timeout(within, complete).await.is_err() {
            let behind = (0..PARTITIONS).map(|p| format!("{}/{}", reader.position(p), run.ledger.end(p)));
            let behind: Vec<String> = behind.collect();
            run.ledger.violation(format!("A5: broker {broker} does not serve everything in time: {behind:?}"));
            return;
        }
        for partition in 0..PARTITIONS {
            run.ledger.check_scan(broker, partition, reader.logs.entry(partition).or_default());
        }
    }

    fn new(run: Rc<Run>, broker: i32) -> Self {
        Reader { run, broker, connection: None, logs: BTreeMap::new(), watermarks: BTreeMap::new() }
    }

    fn position(&self, partition: i32) -> i64 {
        self.logs.get(&partition).and_then(|log| log.keys().next_back()).map_or(0, |last| last + 1)
    }

    async fn connection(&mut self) -> Result<Rc<Connection>, Lost> {
        if let Some(connection) = self.connection.as_ref().filter(|connection| !connection.is_closed()) {
            return Ok(connection.clone());
        }
        let connection = Connection::open(self.broker, "reader").await?;
        self.connection = Some(connection.clone());
        Ok(connection)
    }

    async fn fetch(&mut self) -> Result<(), Lost> {
        let connection = self.connection().await?;
        let partitions = (0..PARTITIONS).map(|partition| {
            FetchPartition::default()
                .with_partition(partition)
                .with_fetch_offset(self.position(partition))
                .with_partition_max_bytes(1 << 20)
        });
        let topic = FetchTopic::default()
            .with_topic(StrBytes::from_static_str(TOPIC).into())
            .with_partitions(partitions.collect());
        let request = FetchRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_max_wait_ms(500)
            .with_min_bytes(1)
            .with_max_bytes(8 << 20)
            .with_topics(vec![topic]);
        let response: FetchResponse = connection.ask(ApiKey::Fetch, 11, &request, PATIENCE).await?;
        let mut failed = response.error_code != 0;
        for partition in response.responses.into_iter().flat_map(|topic| topic.partitions) {
            let index = partition.partition_index;
            if partition.error_code != 0 {
                failed = true;
                if partition.error_code == ErrorCode::OffsetOutOfRange.code() {
                    let position = self.position(index);
                    self.violation(format!("partition {index}: offset {position} is out of range"));
                }
                continue;
            }
            self.take_watermarks(index, partition.high_watermark, partition.last_stable_offset);
            self.take_records(index, partition.records.unwrap_or_default());
        }
        if failed { Err(Lost) } else { Ok(()) }
    }

    /// D3: neither steps back, over all lives of the broker.
    fn take_watermarks(&mut self, partition: i32, high: i64, stable: i64) {
        let (high_before, stable_before) = self.watermarks.insert(partition, (high, stable)).unwrap_or((0, 0));
        if high < high_before || stable < stable_before || stable > high {
            let before = (high_before, stable_before);
            self.violation(format!("D3: partition {partition}: watermarks {before:?}, then {:?}", (high, stable)));
        }
    }

    fn take_records(&mut self, partition: i32, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        let batches = match as_produced(bytes) {
            Ok(batches) => batches,
            Err(why) => return self.violation(format!("A14: partition {partition}: {why}")),
        };
        for (header, batch) in batches {
            for record in records::iter(batch.bytes(), 1 << 20).expect("validated").map_while(Result::ok) {
                let offset = header.base_offset + i64::from(record.offset_delta);
                let position = self.position(partition);
                if offset < position {
                    continue;
                }
                if offset > position {
                    self.violation(format!("A6: partition {partition}: {offset} follows {position}"));
                }
                let value = String::from_utf8_lossy(&record.value.unwrap_or_default()).into_owned();
                self.run.ledger.read(partition, offset, &value, header.leader_epoch);
                self.logs.entry(partition).or_default().insert(offset, value);
            }
        }
    }

    fn violation(&self, what: String) {
        self.run.ledger.violation(format!("reader of broker {}: {what}", self.broker));
    }
}

/// D1: what was acknowledged before the question is below every answer, from whichever broker.
pub async fn list(run: Rc<Run>) {
    run.topic_exists().await;
    while run.writing.get() {
        let broker = rand::rng().random_range(1..=crate::cluster::BROKERS);
        let partition = rand::rng().random_range(0..PARTITIONS);
        let began = Instant::now();
        if let Ok(connection) = Connection::open(broker, "lister").await {
            let acked = run.ledger.acked_last(partition);
            let wanted = ListOffsetsPartition::default().with_partition_index(partition).with_timestamp(-1);
            let topic = ListOffsetsTopic::default()
                .with_name(StrBytes::from_static_str(TOPIC).into())
                .with_partitions(vec![wanted]);
            let request = ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic]);
            let asked = connection.ask::<_, ListOffsetsResponse>(ApiKey::ListOffsets, 6, &request, PATIENCE);
            if let Ok(response) = asked.await {
                let answer = &response.topics[0].partitions[0];
                if answer.error_code == 0 && acked.is_some_and(|acked| answer.offset <= acked) {
                    let what = format!("broker {broker} ends partition {partition} at {}", answer.offset);
                    run.ledger.violation(format!("D1: {what}, {acked:?} was acknowledged"));
                }
            }
        }
        sleep(Duration::from_millis(200).saturating_sub(began.elapsed())).await;
    }
}

/// The batches with the headers that the broker wrote. A14: each is what its producer sent, but for the base offset, which
/// lies outside of the checksum.
fn as_produced(mut bytes: Bytes) -> Result<Vec<(Header, ValidBatch)>, batch::Error> {
    let rules = Rules { message_bytes_max: usize::MAX, ..Rules::default() };
    let mut batches = Vec::new();
    while !bytes.is_empty() {
        let header = Header::peek(&bytes)?;
        let mut produced = BytesMut::from(&bytes.split_to(header.total_len)[..]);
        produced[..size_of::<i64>()].fill(0);
        batches.extend(validate(produced.freeze(), &rules)?.into_iter().map(|batch| (header, batch)));
    }
    Ok(batches)
}
