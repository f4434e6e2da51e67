//! The cluster itself: who is in it, which topics there are, where their partitions live.
//!
//! - **In**: root entries from any broker (proposed at the root leader wherever it is), liveness from Raft's own beats.
//! - **Out**: [`Cluster::view`], the applied root state, on every broker; [`Cluster::propose`].
//! - **Promises**: a proposal that was answered is visible in this broker's own view; a topic that is live exists in
//!   every shard that carries it; a data directory's node id is never reused.
//! - **Never does**: carry records or pointers; answer a Kafka request.
//! - **Limits**: one root shard, three voters at most, every other broker a learner of it.
//!
//! ```text
//! directory ──join──▶ node id ──register──▶ broker epoch        topic: creating ─▶ shard entries ─▶ live ─▶ answered
//! ```

mod addresses;
mod controller;
mod election;
pub mod entry;
mod guess;
mod handle;
mod identity;
mod join;
mod leading;
mod machine;
mod placement;
mod quorum;
mod reconcile;
mod seat;
mod state;

pub use controller::control;
pub use election::{Elected, answer_election, elect_preferred, is_led};
pub use entry::{
    Configs, Limit, NewTopic, QuotaEntity, QuotaName, Registration, Resource, RootAnswer, RootEntry, RootRefusal,
    ZoneAddress,
};
pub use guess::LeaderGuess;
pub(crate) use handle::now_ms;
pub use handle::{Cluster, Error};
pub use identity::{Identity, IdentityError};
pub use join::{JoinAnswer, JoinError, Start, raft_dir};
pub use machine::RootMachine;
pub use quorum::{Quorum, QuorumMember};
pub use reconcile::{announce, reconcile};
pub use seat::SeatError;
pub use state::{Broker, RootState, STAMPING, Shard, Topic};
