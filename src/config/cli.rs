use std::path::PathBuf;

use clap::{Parser, Subcommand};
use url::Url;

use super::{HostPort, ServeArgs};

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
    /// Compare what brokers reference with what is in the store
    Audit {
        /// Addresses of brokers, separated by commas
        #[arg(long, required = true, value_delimiter = ',')]
        bootstrap: Vec<HostPort>,
        /// The cluster's object store
        #[arg(long)]
        store: Option<Url>,
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
        /// The object store, as in `store`
        url: Url,
        key: String,
    },
}
