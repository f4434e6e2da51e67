//! A producer's transactions, as Kafka's clients of version 2 (KIP-890) run them: partitions are added by producing, and
//! each end gives the next epoch.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use kafka_protocol::messages::{EndTxnRequest, FindCoordinatorRequest, InitProducerIdRequest};
use kafka_protocol::protocol::{Request, StrBytes};
use milepost::protocol::ErrorCode;
use milepost::types::Producer;
use tokio::time::sleep;

use crate::wire::Connection;

const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);
const TRANSACTIONAL_ID: i8 = 1;

/// Where an id's coordinator is asked; found again when it has moved, as clients do.
struct Coordinator {
    address: String,
    client_id: String,
    id: StrBytes,
    connection: Connection,
}

pub struct Transactions {
    coordinator: Coordinator,
    every: Duration,
    began: Option<Instant>,
}

impl Transactions {
    pub async fn begin(address: &str, client_id: &str, id: &str, every: Duration) -> Result<(Transactions, Producer)> {
        let id = StrBytes::from_string(id.to_owned());
        let mut coordinator = Coordinator {
            connection: Connection::open(address, client_id).await?,
            address: address.to_owned(),
            client_id: client_id.to_owned(),
            id: id.clone(),
        };
        let asked = InitProducerIdRequest::default()
            .with_transactional_id(Some(id.into()))
            .with_transaction_timeout_ms(60_000)
            .with_producer_id((-1).into())
            .with_producer_epoch(-1);
        let issued = coordinator.ask(5, &asked, |answer| answer.error_code).await?;
        let producer = Producer { id: issued.producer_id.0, epoch: issued.producer_epoch };
        Ok((Transactions { coordinator, every, began: None }, producer))
    }

    /// Something of the present transaction is sent.
    pub fn sent(&mut self) {
        self.began.get_or_insert_with(Instant::now);
    }

    /// Nothing more is to be sent before it is committed.
    pub fn is_due(&self) -> bool {
        self.began.is_some_and(|began| began.elapsed() >= self.every)
    }

    /// Commits what was sent, if anything was; the producer goes on as it says.
    pub async fn commit(&mut self, producer: Producer) -> Result<Producer> {
        if self.began.take().is_none() {
            return Ok(producer);
        }
        let asked = EndTxnRequest::default()
            .with_transactional_id(self.coordinator.id.clone().into())
            .with_producer_id(producer.id.into())
            .with_producer_epoch(producer.epoch)
            .with_committed(true);
        let ended = self.coordinator.ask(5, &asked, |answer| answer.error_code).await?;
        Ok(Producer { id: ended.producer_id.0, epoch: ended.producer_epoch })
    }
}

impl Coordinator {
    async fn ask<Q: Request>(
        &mut self,
        version: i16,
        request: &Q,
        error: impl Fn(&Q::Response) -> i16,
    ) -> Result<Q::Response> {
        let started = Instant::now();
        loop {
            let answer = self.connection.call(version, request).await?;
            match error(&answer) {
                0 => return Ok(answer),
                code if started.elapsed() > PATIENCE => bail!("the coordinator answers with error {code}"),
                code if code == ErrorCode::ConcurrentTransactions.code() => sleep(PAUSE).await,
                code if code == ErrorCode::NotCoordinator.code() => self.find().await?,
                code => bail!("the coordinator answers with error {code}"),
            }
        }
    }

    async fn find(&mut self) -> Result<()> {
        let asked = FindCoordinatorRequest::default()
            .with_key_type(TRANSACTIONAL_ID)
            .with_coordinator_keys(vec![self.id.clone()]);
        let mut connection = Connection::open(&self.address, &self.client_id).await?;
        let started = Instant::now();
        loop {
            sleep(PAUSE).await;
            let found = connection.call(4, &asked).await?;
            let found = found.coordinators.first().context("no coordinator in the answer")?;
            if found.error_code == 0 {
                let address = format!("{}:{}", found.host.as_str(), found.port);
                self.connection = Connection::open(&address, &self.client_id).await?;
                return Ok(());
            }
            ensure!(started.elapsed() < PATIENCE, "FindCoordinator: error {}", found.error_code);
        }
    }
}
