//! Which transaction a batch is part of: asked of the transaction's coordinator before the bytes are taken in.

use std::collections::HashMap;

use async_trait::async_trait;

use crate::produce::take::Accepted;
use crate::produce::{Produce, error};
use crate::protocol::ErrorCode;
use crate::types::{Partition, Producer};

/// Produce requests from here on add their partitions to the transaction themselves (KIP-890, transaction version 2).
const ADDS: i16 = 12;

/// The coordinators of transactions, as far as produce needs them.
#[async_trait]
pub trait Verify: Send + Sync {
    /// The number of the transaction that `producer` has open under this id, for each of the partitions that is part of
    /// it, in their order. With `add` those that are not yet become part of it, and a transaction is opened if none is.
    ///
    /// The number counts the transactions of one producer id, upwards from 1. Errors are those of Kafka's coordinator;
    /// produce translates them for its clients. A transaction that is about to end may be waited for a short time.
    async fn verify(
        &self,
        transactional_id: &str,
        producer: Producer,
        partitions: &[Partition],
        add: bool,
    ) -> Vec<Result<u64, ErrorCode>>;
}

/// Which transaction a producer's batches for a partition are part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Membership {
    pub number: u64,
    /// Seen in the partition's own state here, which may be a little behind: if the partition says otherwise, the
    /// coordinator is asked when the producer comes again.
    pub assumed: bool,
}

pub(super) type Memberships = HashMap<(Producer, Partition), Result<Membership, ErrorCode>>;

impl Produce {
    /// Asks once for all partitions of a producer. A partition that shows the producer's transaction open here need not
    /// be asked about (Kafka: `hasOngoingTransaction`): if that is over, the batch is refused when it is applied.
    pub(super) async fn memberships<'a>(
        &self,
        version: i16,
        transactional_id: Option<&str>,
        accepted: impl Iterator<Item = &'a Accepted>,
    ) -> Memberships {
        let mut found = Memberships::new();
        let mut asked: HashMap<Producer, Vec<Partition>> = HashMap::new();
        for one in accepted {
            for batch in one.batches.iter().filter(|batch| batch.header().attributes.is_transactional()) {
                let producer = batch.header().producer;
                let key = (producer, one.partition);
                if found.contains_key(&key) {
                    continue;
                }
                // Who names no transaction is part of none, open or not.
                let open = transactional_id.and_then(|_| self.open_here(one, producer));
                let assumed = open.map(|number| Membership { number, assumed: true });
                found.insert(key, assumed.ok_or(ErrorCode::UnknownServerError));
                if assumed.is_none() {
                    asked.entry(producer).or_default().push(one.partition);
                }
            }
        }
        for (producer, partitions) in asked {
            let answers = match transactional_id {
                Some(id) => self.verify.verify(id, producer, &partitions, version >= ADDS).await,
                None => vec![Err(ErrorCode::TransactionalIdAuthorizationFailed); partitions.len()],
            };
            for (partition, answer) in partitions.into_iter().zip(answers) {
                let membership = answer.map(|number| Membership { number, assumed: false });
                found.insert((producer, partition), membership.map_err(|e| error::of_verification(e, version)));
            }
        }
        found
    }

    fn open_here(&self, one: &Accepted, producer: Producer) -> Option<u64> {
        let open = self.shards.get(one.shard)?;
        open.replica().read(|state| {
            let known = state.slot(one.slot)?.producer(producer.id)?;
            Some(known.open.filter(|_| known.epoch == producer.epoch)?.number)
        })
    }
}
