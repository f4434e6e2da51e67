//! Milepost: a Kafka-protocol broker that keeps record bytes in object storage and replicates only pointers.
//!
//! The modules stand in the order of a record's way through the broker; imports point down to a floor or forward
//! along the path, never back. ARCHITECTURE.md walks one record along it.

pub mod node;

// floors below the rooms
pub mod batch;
pub mod config;
pub mod door;
pub mod peer;
pub mod protocol;
pub mod types;

// what Raft carries
pub mod shard;

// the rooms, in the order of the path
pub mod cache;
pub mod commit;
pub mod connection;
pub mod fetch;
pub mod index;
pub mod ingest;
pub mod object;
pub mod produce;
pub mod upload;

// side rooms
pub mod admin;
pub mod audit;
pub mod cluster;
pub mod console;
pub mod group;
pub mod inspect;
pub mod quota;
pub mod share;
pub mod survey;
pub mod transaction;
pub mod zone;

#[cfg(test)]
mod decoders_test;
#[cfg(test)]
mod hazards;
