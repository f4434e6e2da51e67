//! What a broker has written, in words: one JSON line per Raft entry, or the index of one object.
//!
//! Never writes; works beside a running broker.

mod raft_log;

use anyhow::Context;
use serde_json::to_string;

use crate::config::{Inspect, StoreUrls};
use crate::object::{self, Key};

/// Runs `milepost inspect …`.
pub async fn run(what: Inspect) -> anyhow::Result<()> {
    match what {
        Inspect::RaftLog { dir } => raft_log::print(&dir),
        Inspect::Object { store, key } => {
            let urls = StoreUrls::new(store).map_err(anyhow::Error::msg)?;
            let store = object::open_all(&urls, None).await?;
            let key = Key::parse(&key).context("this is no object key")?;
            println!("{}", to_string(&object::inspect(&*store, &key).await?)?);
            Ok(())
        }
    }
}
