//! Milepost: a Kafka-protocol broker that keeps record bytes in object storage and replicates only pointers.
#![doc = "The modules below stand in the order of a record's way through the broker."]

// floors
pub mod types;
pub mod batch;
pub mod config;
pub mod connection;
pub mod protocol;
