//! A producer with a transactional id. What became of a transaction is told as its client can know it:
//!
//! ```text
//! committed   the commit was answered
//! aborted     nobody was ever asked to commit it
//! refused     the first commit had a definite refusal: the producer was fenced, or there is no such transaction
//! unknown     a commit was asked for and not answered, also when the transaction was aborted after that
//! ```

use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use rdkafka::consumer::ConsumerGroupMetadata;
use rdkafka::error::{KafkaError, RDKafkaError, RDKafkaErrorCode as Code};
use rdkafka::producer::Producer as _;
use rdkafka::topic_partition_list::TopicPartitionList;

use crate::event::{End, Process, What};
use crate::sender::Sender;
use crate::workload::Workload;

const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// A call whose error says that it can be repeated is repeated for so long.
const TRY_TIME_MAX: Duration = Duration::from_secs(60);
const POLL_TIME: Duration = Duration::from_millis(5);
/// Less than a transaction may take: offsets that come later are in vain.
const OFFSETS_TIME_MAX: Duration = Duration::from_secs(10);
/// A client that was refused its id is not opened again at once.
const REFUSED_PAUSE: Duration = Duration::from_millis(200);
/// The coordinator aborts what takes longer; the client gives up its records no later.
const TRANSACTION_TIMEOUT_MS: &str = "15000";

/// What a client can do next.
pub enum After {
    Committed,
    Aborted,
    /// Only a fresh client can go on.
    GiveUp(String),
}

pub struct Producer {
    pub sender: Sender,
    workload: Arc<Workload>,
    id: String,
}

impl Producer {
    /// A client that has the id to itself; none when it was refused, or the workload stopped meanwhile.
    pub fn open(workload: &Arc<Workload>, process: Process, zone: &str, id: &str) -> Result<Option<Producer>> {
        let settings = [
            ("transactional.id", id),
            ("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS),
            ("message.timeout.ms", TRANSACTION_TIMEOUT_MS),
        ];
        let sender = Sender::open(workload, process, zone, &settings)?;
        loop {
            match sender.producer.init_transactions(ANSWER_TIME_MAX) {
                Ok(()) => {
                    let (workload, id) = (workload.clone(), id.to_owned());
                    return Ok(Some(Producer { sender, workload, id }));
                }
                Err(KafkaError::Transaction(error))
                    if error.is_retriable() && !workload.stop.load(Ordering::Relaxed) => {}
                Err(error) => {
                    sender.close(Some(error.to_string()));
                    thread::sleep(REFUSED_PAUSE);
                    return Ok(None);
                }
            }
        }
    }

    /// The op that names the transaction.
    pub fn begin(&mut self) -> Result<u64, String> {
        let txn = self.workload.recorder.invoke(self.sender.process, What::Begin { id: self.id.clone() });
        self.sender.begin();
        match self.sender.producer.begin_transaction() {
            Ok(()) => Ok(txn),
            Err(error) => {
                self.told(txn, End::Aborted, 0, Some(error.to_string()));
                Err(error.to_string())
            }
        }
    }

    /// Offsets that count only if the transaction is committed; it has ended if they cannot be sent. The call is made on a
    /// thread of its own, for it may never return: librdkafka 2.12 lets it wait for a coordinator's connection that it has
    /// given up meanwhile, because the coordinator was away and Metadata did not name it. Such a client is left behind
    /// with its thread.
    pub fn send_offsets(
        &self,
        txn: u64,
        offsets: TopicPartitionList,
        group: Arc<ConsumerGroupMetadata>,
    ) -> Result<(), After> {
        let producer = self.sender.producer.clone();
        let (answer, answered) = mpsc::sync_channel(1);
        thread::spawn(move || {
            let call = || producer.send_offsets_to_transaction(&offsets, &group, ANSWER_TIME_MAX);
            // Nobody listens any more if it took too long.
            let _ = answer.send(retried(OFFSETS_TIME_MAX, call).1);
        });
        match answered.recv_timeout(OFFSETS_TIME_MAX + 2 * ANSWER_TIME_MAX) {
            Ok(answer) => answer.map_err(|error| self.abort(txn, Some(error.to_string()))),
            Err(_) => {
                let why = "the client never came back from sending offsets";
                self.told(txn, End::Aborted, 0, Some(why.to_owned()));
                Err(After::GiveUp(why.to_owned()))
            }
        }
    }

    pub fn commit(&self, txn: u64) -> After {
        // With a record missing the client would never ask for the commit.
        if let Err(error) = self.sender.producer.flush(TRY_TIME_MAX) {
            return self.abort(txn, Some(error.to_string()));
        }
        if self.sender.has_undelivered() {
            return self.abort(txn, None);
        }
        self.workload.recorder.write(self.sender.process, txn, What::Committing);
        let (attempts, answer) = retried(TRY_TIME_MAX, || self.sender.producer.commit_transaction(ANSWER_TIME_MAX));
        let Err(error) = answer else {
            self.sender.committed();
            self.told(txn, End::Committed, attempts, None);
            return After::Committed;
        };
        let (end, after) = match &error {
            KafkaError::Transaction(refusal) if attempts == 1 && is_definite(refusal) => {
                (End::Refused, After::GiveUp(error.to_string()))
            }
            KafkaError::Transaction(refusal) if refusal.txn_requires_abort() => (End::Unknown, self.try_abort()),
            _ => (End::Unknown, After::GiveUp(error.to_string())),
        };
        self.told(txn, end, attempts, Some(error.to_string()));
        after
    }

    pub fn abort(&self, txn: u64, why: Option<String>) -> After {
        let after = self.try_abort();
        self.told(txn, End::Aborted, 0, why);
        after
    }

    /// The client will be dropped with the transaction open.
    pub fn leave(&self, txn: u64) {
        self.told(txn, End::Aborted, 0, None);
    }

    /// The call throws away what is queued and waits for what is on its way, whose reports only a poll takes: so it is
    /// made on another thread.
    fn try_abort(&self) -> After {
        let producer = self.sender.producer.clone();
        let (answer, answered) = mpsc::sync_channel(1);
        thread::spawn(move || {
            let call = || producer.abort_transaction(ANSWER_TIME_MAX);
            // Nobody listens any more if it took too long.
            let _ = answer.send(retried(TRY_TIME_MAX, call).1);
        });
        let began = Instant::now();
        while began.elapsed() < TRY_TIME_MAX + 2 * ANSWER_TIME_MAX {
            self.sender.producer.poll(POLL_TIME);
            match answered.try_recv() {
                Ok(Ok(())) => return After::Aborted,
                Ok(Err(error)) => return After::GiveUp(error.to_string()),
                Err(_) => {}
            }
        }
        After::GiveUp("the client never came back from aborting".to_owned())
    }

    fn told(&self, txn: u64, end: End, attempts: u32, error: Option<String>) {
        self.workload.recorder.write(self.sender.process, txn, What::Ended { end, attempts, error });
    }
}

/// The answer to the last of so many calls.
fn retried(time_max: Duration, call: impl Fn() -> Result<(), KafkaError>) -> (u32, Result<(), KafkaError>) {
    let (began, mut attempts) = (Instant::now(), 1);
    loop {
        match call() {
            Err(KafkaError::Transaction(error)) if error.is_retriable() && began.elapsed() < time_max => attempts += 1,
            answer => return (attempts, answer),
        }
    }
}

/// The coordinator answered that it will never commit this.
fn is_definite(error: &RDKafkaError) -> bool {
    matches!(
        error.code(),
        Code::Fenced
            | Code::ProducerFenced
            | Code::InvalidProducerEpoch
            | Code::InvalidTransactionalState
            | Code::InvalidProducerIdMapping
            | Code::TransactionalIdAuthorizationFailed
    )
}
