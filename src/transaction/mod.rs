//! Transactions: which producer holds a transactional id, what its transaction has reached, and that it ends everywhere.
//!
//! - **In**: the body of one request and its version; and what brokers ask who take transactional batches ([`Verifier`]).
//! - **Out**: the body of the answer. An `Err` means that the bytes do not follow the protocol: close the connection.
//! - **Promises**: the coordinator of an id is the leader of the shard that carries its partition of
//!   `__transaction_state`; what was answered is in the log of that shard, and no coordinator of another term can add to
//!   it. A transaction whose end was answered ends in every partition, whoever coordinates by then.
//! - **Never does**: look at records; decide what readers see (partitions do, by their markers).
//! - **Limits**: see [`machine::Settings`].
//!
//! ```text
//! client ─▶ one file per API ─▶ Coordinators ─▶ a task per shard, while this broker leads it ─▶ machine (pure)
//! broker that takes a batch ─▶ verify ─┘            │ changes            │ markers                  │ answers
//!                                                   ▼                    ▼                          ▼
//!                                     sequencer ─▶ apply      leaders of the partitions' shards   client
//! ```

mod add_offsets;
mod add_partitions;
mod coordinators;
mod describe;
mod end_txn;
mod init_producer_id;
mod list;
pub mod machine;
mod mark;
mod place;
mod reign;
mod verify;

#[cfg(test)]
mod served_test;
#[cfg(test)]
mod testing;

use std::sync::Arc;
use std::time::Duration;

pub use add_offsets::add_offsets_to_txn;
pub use add_partitions::add_partitions_to_txn;
pub use coordinators::Coordinators;
pub use describe::describe_transactions;
pub use end_txn::end_txn;
pub use init_producer_id::init_producer_id;
pub use list::list_transactions;
#[cfg(test)]
pub(crate) use verify::{Question, decode_results};
pub use verify::{Verifier, answer_verify};

use crate::admin::Admin;
use crate::cluster::Cluster;
use crate::config::Config;
use crate::index::Shards;
use crate::protocol::ErrorCode;
use crate::transaction::machine::{Ask, Reply};

/// Longer than it takes to end a transaction, shorter than any client's patience: what waits for longer waits for a
/// partition that has no leader.
const WAIT: Duration = Duration::from_secs(1);
/// A producer of version 2 asks once for each broker that it writes to and request on its way there.
const WAITING_MAX: usize = 256;
/// Transactions of one shard whose markers are written at a time.
const ENDINGS_MAX: usize = 1024;

#[derive(Debug, Clone)]
pub struct Settings {
    /// The longest that a producer may ask for (Kafka: `transaction.max.timeout.ms`).
    pub timeout_max: Duration,
    pub machine: machine::Settings,
}

impl From<&Config> for Settings {
    fn from(config: &Config) -> Settings {
        Settings {
            timeout_max: config.transaction_max_timeout,
            machine: machine::Settings {
                wait: WAIT,
                waiting_max: WAITING_MAX,
                endings_max: ENDINGS_MAX,
                id_expiration: config.transactional_id_expiration,
            },
        }
    }
}

/// The room's handle.
pub struct Transactions {
    cluster: Cluster,
    shards: Arc<Shards>,
    admin: Arc<Admin>,
    coordinators: Arc<Coordinators>,
    settings: Settings,
}

impl Transactions {
    pub fn new(
        cluster: Cluster,
        shards: Arc<Shards>,
        admin: Arc<Admin>,
        coordinators: Arc<Coordinators>,
        settings: Settings,
    ) -> Self {
        Transactions { cluster, shards, admin, coordinators, settings }
    }

    /// Asks the id's coordinator, if it is this broker.
    async fn ask(&self, id: &str, ask: Ask) -> Reply {
        match self.place(id) {
            Ok((shard, partition)) => self.coordinators.ask(shard, partition, id, ask).await,
            Err(error) => Reply::Failed(error),
        }
    }

    /// As [`Transactions::ask`], bringing a producer id that nobody has when the coordinator needs one.
    async fn ask_with_id(&self, id: &str, ask: impl Fn(Option<i64>) -> Ask) -> Reply {
        match self.ask(id, ask(None)).await {
            Reply::NeedsProducerId => match self.cluster.next_producer_id().await {
                Ok(fresh) => self.ask(id, ask(Some(fresh))).await,
                // Whatever kept the root from answering, the client is to ask again.
                Err(_) => Reply::Failed(ErrorCode::CoordinatorLoadInProgress),
            },
            reply => reply,
        }
    }
}

/// The error of a reply that brings nothing else.
fn error_of(reply: &Reply) -> ErrorCode {
    match reply {
        Reply::Failed(error) => *error,
        Reply::NeedsProducerId => ErrorCode::CoordinatorLoadInProgress,
        Reply::Producer(_) | Reply::Added { .. } | Reply::Verified(_) => ErrorCode::None,
    }
}

/// Older clients do not know that word.
fn for_version(error: ErrorCode, version: i16, fenced_since: i16) -> ErrorCode {
    match error {
        ErrorCode::ProducerFenced if version < fenced_since => ErrorCode::InvalidProducerEpoch,
        error => error,
    }
}
