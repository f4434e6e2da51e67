use std::path::PathBuf;

use clap::{Parser, Subcommand};

use super::{HostPort, ServeArgs, StoreUrl};

/// A Kafka-protocol broker that keeps record bytes in object storage and replicates only pointers
#[derive(Debug, Parser)]
#[command(name = "milepost", version, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a broker
    #[command(after_help = "Every flag can also be set by a variable (--data-dir by MILEPOST_DATA_DIR) \
                            or by a key of the file (data_dir). Flags win over variables, variables over the file.")]
    Serve(Box<ServeArgs>),
    /// Print what a broker has written, in words
    #[command(subcommand)]
    Inspect(Inspect),
    /// Show brokers, zones and shards: who leads, who lags
    Cluster {
        /// Addresses of brokers, separated by commas
        #[arg(long, required = true, value_delimiter = ',')]
        bootstrap: Vec<HostPort>,
        /// Print JSON instead of tables
        #[arg(long)]
        json: bool,
    },
    /// Show a topic's partitions: pointers, objects, bytes
    Topic {
        name: String,
        /// Addresses of brokers, separated by commas
        #[arg(long, required = true, value_delimiter = ',')]
        bootstrap: Vec<HostPort>,
        /// Print JSON instead of tables
        #[arg(long)]
        json: bool,
    },
    /// Compare what brokers reference with what is in the store
    Audit {
        /// Addresses of brokers, separated by commas
        #[arg(long, required = true, value_delimiter = ',')]
        bootstrap: Vec<HostPort>,
        /// The cluster's object store, or stores, as in `store` [default: what the brokers say]
        #[arg(long, value_delimiter = ',')]
        store: Option<Vec<StoreUrl>>,
        /// Print the copies of every object that has not one in each zone
        #[arg(long)]
        copies: bool,
    },
}

#[derive(Debug, Subcommand)]
pub enum Inspect {
    /// The entries of a Raft log
    RaftLog {
        /// The data directory of a broker
        dir: PathBuf,
    },
    /// The index of an object
    Object {
        /// The object store, or stores separated by commas, as in `store`
        #[arg(value_delimiter = ',', num_args = 1, required = true)]
        store: Vec<StoreUrl>,
        key: String,
    },
}
