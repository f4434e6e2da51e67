//! An idempotent producer that does as librdkafka: up to five batches in flight for a partition, the same sequence
//! at every try, retries in order, another broker whenever metadata would say so.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::LocalBoxFuture;
use futures::stream::FuturesUnordered;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    ApiKey, InitProducerIdRequest, InitProducerIdResponse, ProduceRequest, ProduceResponse,
};
use kafka_protocol::protocol::StrBytes;
use milepost::batch::build::{NewRecord, Spec, batch};
use milepost::protocol::ErrorCode;
use milepost::types::Producer;
use rand::Rng;
use tokio::time::{Instant, sleep, sleep_until};

use crate::cluster::{BROKERS, Mutant, PARTITIONS, Run, TOPIC};
use crate::wire::{Connection, Lost};

const IN_FLIGHT_MAX: usize = 5;
const UNSENT_MAX: usize = 20;
const PATIENCE: Duration = Duration::from_secs(12);
/// What a producer repeats without being told more, of what a broker of ours answers.
const RETRIABLE: [ErrorCode; 4] = [
    ErrorCode::RequestTimedOut,
    ErrorCode::NotLeaderOrFollower,
    ErrorCode::NotEnoughReplicas,
    ErrorCode::UnknownTopicOrPartition,
];
const BACKOFF: Duration = Duration::from_millis(100);

enum State {
    Waiting { not_before: Instant },
    InFlight { attempt: u64 },
    Acked,
}

struct Outgoing {
    sequence: i32,
    values: Vec<String>,
    bytes: Bytes,
    state: State,
}

/// Answer to one attempt at one batch.
struct Answered {
    partition: usize,
    sequence: i32,
    attempt: u64,
    outcome: Result<(i16, i64), Lost>,
}

pub struct Writer {
    run: Rc<Run>,
    name: String,
    producer: Producer,
    broker: i32,
    connection: Option<Rc<Connection>>,
    queues: Vec<VecDeque<Outgoing>>,
    next_sequences: Vec<i32>,
    attempts: u64,
    made: u64,
    answers: FuturesUnordered<LocalBoxFuture<'static, Answered>>,
}

impl Writer {
    /// Runs until everything is acknowledged and nothing new is wanted.
    pub async fn run(run: Rc<Run>, name: String) {
        let id = producer_id(&run, &name).await;
        let queues = (0..PARTITIONS).map(|_| VecDeque::new()).collect();
        let broker = rand::rng().random_range(1..=BROKERS);
        let mut writer = Writer {
            run,
            name,
            producer: Producer { id, epoch: 0 },
            broker,
            connection: None,
            queues,
            next_sequences: vec![0; PARTITIONS as usize],
            attempts: 0,
            made: 0,
            answers: FuturesUnordered::new(),
        };
        writer.write().await;
    }

    async fn write(&mut self) {
        let mut next_batch = Instant::now();
        while self.run.writing.get() || self.queues.iter().any(|queue| !queue.is_empty()) {
            if self.connection.as_ref().is_none_or(|connection| connection.is_closed()) {
                self.connect().await;
            }
            if Instant::now() >= next_batch && self.run.writing.get() {
                self.make_batch();
                next_batch = Instant::now() + Duration::from_millis(rand::rng().random_range(10..200));
                // Metadata names another broker; what is in flight stays so.
                if rand::rng().random_bool(0.01) {
                    self.move_on();
                }
            }
            self.send();
            tokio::select! {
                Some(answer) = self.answers.next() => self.take(answer),
                () = sleep_until(next_batch.max(Instant::now() + Duration::from_millis(5))) => {}
            }
        }
    }

    fn move_on(&mut self) {
        self.broker = self.broker % BROKERS + 1;
        self.connection = None;
    }

    async fn connect(&mut self) {
        match Connection::open(self.broker, &self.name).await {
            Ok(connection) => self.connection = Some(connection),
            Err(Lost) => {
                self.broker = rand::rng().random_range(1..=BROKERS);
                sleep(BACKOFF).await;
            }
        }
    }

    fn make_batch(&mut self) {
        let partition = rand::rng().random_range(0..PARTITIONS) as usize;
        if self.queues[partition].len() >= UNSENT_MAX {
            return;
        }
        let count = rand::rng().random_range(1..=4);
        let values: Vec<String> = (0..count)
            .map(|_| {
                self.made += 1;
                format!("{}.{}", self.name, self.made)
            })
            .collect();
        let sequence = self.next_sequences[partition];
        self.next_sequences[partition] += count;
        let records: Vec<NewRecord> = values.iter().map(|value| NewRecord::value(value.as_bytes(), 1)).collect();
        let spec = match self.run.mutant {
            Some(Mutant::Producer) => Spec::default(),
            _ => Spec { producer: self.producer, base_sequence: sequence, ..Spec::default() },
        };
        let bytes = batch(&records, &spec);
        let state = State::Waiting { not_before: Instant::now() };
        self.queues[partition].push_back(Outgoing { sequence, values, bytes, state });
    }

    /// Of the oldest five of each partition, in order, up to the first that has to wait.
    fn send(&mut self) {
        let Some(connection) = self.connection.clone() else { return };
        for partition in 0..self.queues.len() {
            for outgoing in self.queues[partition].iter_mut().take(IN_FLIGHT_MAX) {
                match outgoing.state {
                    State::Waiting { not_before } if not_before > Instant::now() => break,
                    State::Waiting { .. } => {}
                    _ => continue,
                }
                self.attempts += 1;
                let (sequence, attempt) = (outgoing.sequence, self.attempts);
                outgoing.state = State::InFlight { attempt };
                let request = request(partition as i32, &outgoing.bytes);
                let asked = connection.ask::<_, ProduceResponse>(ApiKey::Produce, 9, &request, PATIENCE);
                self.answers.push(Box::pin(async move {
                    let outcome = asked.await.map(|response| {
                        let answer = &response.responses[0].partition_responses[0];
                        (answer.error_code, answer.base_offset)
                    });
                    Answered { partition, sequence, attempt, outcome }
                }));
            }
        }
    }

    fn take(&mut self, answer: Answered) {
        let Answered { partition, sequence, attempt, outcome } = answer;
        let queue = &mut self.queues[partition];
        let Some(at) = queue.iter().position(|outgoing| outgoing.sequence == sequence) else { return };
        let State::InFlight { attempt: current } = queue[at].state else { return };
        if current != attempt {
            return;
        }
        let oldest = queue.iter().take(at).all(|before| matches!(before.state, State::Acked));
        let error = |code: i16, of: &[ErrorCode]| of.iter().any(|error| error.code() == code);
        match outcome {
            Ok((0, base)) => {
                for (value, offset) in queue[at].values.iter().zip(base..) {
                    self.run.ledger.acked(partition as i32, value, (base >= 0).then_some(offset));
                }
                queue[at].state = State::Acked;
            }
            Ok((code, _)) if error(code, &[ErrorCode::DuplicateSequenceNumber]) => {
                queue[at].values.iter().for_each(|value| self.run.ledger.acked(partition as i32, value, None));
                queue[at].state = State::Acked;
            }
            // Behind another in flight it is only the consequence; for the oldest it is fatal in librdkafka.
            Ok((code, _)) if error(code, &[ErrorCode::OutOfOrderSequenceNumber]) && !oldest => {
                queue[at].state = retry();
            }
            Ok((code, _)) if error(code, &RETRIABLE) => queue[at].state = retry(),
            Ok((code, _)) => {
                let what = format!("{} partition {partition} sequence {sequence}: error {code} is fatal", self.name);
                self.run.ledger.violation(what);
                queue[at].state = State::Acked;
            }
            Err(Lost) => queue[at].state = retry(),
        }
        while queue.front().is_some_and(|front| matches!(front.state, State::Acked)) {
            queue.pop_front();
        }
    }
}

fn retry() -> State {
    State::Waiting { not_before: Instant::now() + BACKOFF }
}

fn request(partition: i32, bytes: &Bytes) -> ProduceRequest {
    let data = PartitionProduceData::default().with_index(partition).with_records(Some(bytes.clone()));
    let topic =
        TopicProduceData::default().with_name(StrBytes::from_static_str(TOPIC).into()).with_partition_data(vec![data]);
    ProduceRequest::default()
        .with_transactional_id(None)
        .with_acks(-1)
        .with_timeout_ms(10_000)
        .with_topic_data(vec![topic])
}

async fn producer_id(run: &Run, name: &str) -> i64 {
    loop {
        run.topic_exists().await;
        let broker = rand::rng().random_range(1..=BROKERS);
        if let Ok(connection) = Connection::open(broker, name).await {
            let request = InitProducerIdRequest::default().with_transactional_id(None).with_producer_id((-1).into());
            let asked = connection.ask::<_, InitProducerIdResponse>(ApiKey::InitProducerId, 4, &request, PATIENCE);
            if let Ok(answer) = asked.await
                && answer.error_code == 0
            {
                return answer.producer_id.0;
            }
        }
        sleep(BACKOFF).await;
    }
}
