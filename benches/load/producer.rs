//! One idempotent or transactional producer on one connection.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use kafka_protocol::messages::{InitProducerIdRequest, ProduceResponse, ResponseHeader};
use kafka_protocol::protocol::{Decodable, HeaderVersion};
use milepost::types::Producer as ProducerId;
use tokio::time::sleep_until;

use crate::frame::{Frame, Shape, VERSION};
use crate::transactions::Transactions;
use crate::wire::Connection;

/// What idempotent clients keep on their way at most.
pub const IN_FLIGHT_MAX: usize = 5;

#[derive(Clone)]
pub struct Plan {
    pub address: String,
    pub client_id: String,
    pub topic: String,
    /// Each request carries one batch for each of them.
    pub partitions: Vec<i32>,
    pub shape: Shape,
    pub pace: Pace,
    /// A transactional id, and how long each transaction lasts.
    pub transactions: Option<(String, Duration)>,
}

#[derive(Clone, Copy)]
pub enum Pace {
    /// As fast as answers come, so many bytes.
    Closed { bytes: u64 },
    /// A request each interval whatever the broker does, for so long. Latency counts from when it was due.
    Open { interval: Duration, time: Duration },
}

#[derive(Default)]
pub struct Report {
    pub bytes: u64,
    /// From due (open) or sent (closed) to answered.
    pub latencies: Vec<Duration>,
    /// Committed.
    pub transactions: u64,
}

/// `epoch` is the clock that stamps are read against.
pub async fn run(plan: Plan, epoch: Instant) -> Result<Report> {
    let mut connection = Connection::open(&plan.address, &plan.client_id).await?;
    let (mut transactions, mut producer) = match &plan.transactions {
        Some((id, every)) => {
            let (begun, producer) = Transactions::begin(&plan.address, &plan.client_id, id, *every).await?;
            (Some(begun), producer)
        }
        None => (None, idempotent(&mut connection).await?),
    };
    let mut frame = Frame::new(&plan, producer);
    let mut schedule = Schedule::new(plan.pace, frame.batch_bytes() as u64);
    let mut in_flight = VecDeque::with_capacity(IN_FLIGHT_MAX);
    let (mut correlation, mut sequence) = (0i32, 0i32);
    let mut report = Report::default();
    loop {
        let ends = transactions.as_ref().is_some_and(|one| one.is_due() || schedule.due().is_none());
        if let Some(transactions) = transactions.as_mut().filter(|_| ends && in_flight.is_empty()) {
            let before = producer;
            producer = transactions.commit(producer).await?;
            report.transactions += u64::from(producer.epoch != before.epoch);
            (sequence, _) = (0, frame.set_producer(producer));
        }
        let due = schedule.due().filter(|_| in_flight.len() < IN_FLIGHT_MAX && (!ends || in_flight.is_empty()));
        match due {
            Some(due) if due <= Instant::now() => {
                let since = schedule.take(due);
                let stamp = since.duration_since(epoch).as_nanos() as u64;
                connection.send(frame.patched(correlation, sequence, stamp)).await?;
                transactions.as_mut().map(Transactions::sent);
                in_flight.push_back((correlation, since));
                correlation += 1;
                sequence += plan.shape.batch_records as i32;
                continue;
            }
            None if in_flight.is_empty() => return Ok(report),
            _ => {}
        }
        let wake = async {
            match due {
                Some(due) => sleep_until(due.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            answer = connection.receive(), if !in_flight.is_empty() => {
                let (expected, since) = in_flight.pop_front().expect("something is in flight");
                check(answer?, expected)?;
                report.latencies.push(since.elapsed());
                report.bytes += frame.batch_bytes() as u64;
            }
            () = wake => {}
        }
    }
}

async fn idempotent(connection: &mut Connection) -> Result<ProducerId> {
    let asked = InitProducerIdRequest::default()
        .with_transactional_id(None)
        .with_producer_id((-1).into())
        .with_producer_epoch(-1);
    let issued = connection.call(4, &asked).await?;
    ensure!(issued.error_code == 0, "InitProducerId: error {}", issued.error_code);
    Ok(ProducerId { id: issued.producer_id.0, epoch: issued.producer_epoch })
}

fn check(mut answer: bytes::Bytes, correlation: i32) -> Result<()> {
    let header = ResponseHeader::decode(&mut answer, ProduceResponse::header_version(VERSION))?;
    ensure!(header.correlation_id == correlation, "answers are out of order");
    let answer = ProduceResponse::decode(&mut answer, VERSION)?;
    for partition in answer.responses.iter().flat_map(|topic| &topic.partition_responses) {
        ensure!(partition.error_code == 0, "partition {}: error {}", partition.index, partition.error_code);
    }
    Ok(())
}

struct Schedule {
    pace: Pace,
    frame_bytes: u64,
    started: Instant,
    sent: u64,
}

impl Schedule {
    fn new(pace: Pace, frame_bytes: u64) -> Self {
        Schedule { pace, frame_bytes, started: Instant::now(), sent: 0 }
    }

    /// When the next request is due; None when there is none.
    fn due(&self) -> Option<Instant> {
        match self.pace {
            Pace::Closed { bytes } => (self.sent * self.frame_bytes < bytes).then_some(self.started),
            Pace::Open { interval, time } => {
                let offset = interval * self.sent as u32;
                (offset < time).then(|| self.started + offset)
            }
        }
    }

    /// Counts it as sent, and says from when its latency counts.
    fn take(&mut self, due: Instant) -> Instant {
        self.sent += 1;
        match self.pace {
            Pace::Closed { .. } => Instant::now(),
            Pace::Open { .. } => due,
        }
    }
}
