//! Clients that name their zone, and the broker that each zone must be led to.

use anyhow::{Context as _, Result, bail, ensure};
use rdkafka::metadata::Metadata;

use crate::client;

/// A zone and the only broker in it.
#[derive(Clone, Debug)]
pub struct Zone {
    pub name: String,
    pub broker: String,
}

impl Zone {
    /// From `az1=127.0.0.1:9092`.
    pub fn parse(text: &str) -> Result<Zone> {
        let Some((name, broker)) = text.split_once('=') else { bail!("{text} is not ZONE=HOST:PORT") };
        Ok(Zone { name: name.to_owned(), broker: broker.to_owned() })
    }

    /// A broker reads the zone from a token in the client id.
    pub fn client_id(&self, program: &str) -> String {
        format!("{program},zone={}", self.name)
    }

    /// Holds that a client of this zone is led to this zone's broker for every partition.
    pub fn leads(&self, metadata: &Metadata, topic: &str) -> Result<()> {
        for leader in client::leaders(metadata, topic)? {
            let broker = metadata.brokers().iter().find(|broker| broker.id() == leader);
            let broker = broker.with_context(|| format!("leader {leader} is not among the brokers"))?;
            let address = format!("{}:{}", broker.host(), broker.port());
            ensure!(address == self.broker, "a client of {} is led to {address}, not to {}", self.name, self.broker);
        }
        Ok(())
    }
}
